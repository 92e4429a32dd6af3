// A predicted step as a report's record holds it (reports/records/step_record.h): what `step`
// prints, the picture of one micro-batch, and what was assumed.
//
//   write_run(session, {.kind = reports::kStepKind, .header = header,
//                       .result = step_record_json(subject, prediction, topology, assumed)});
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runner/steps/predicted_step.h"
#include "strategies/select/stack.h"
#include "strategies/training/step_terms.h"

namespace shardlab {

struct StepAssumptions {
  const Stack& stack;
  RunTraits traits;  // by which the stack's terms were taken
  std::vector<std::pair<std::string, std::string>> settings;  // "recipe", "fsdp"
  std::vector<std::string> blocks = {};  // by span of the timeline; empty: not known
};
// What a built-in model's run assumes.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> settings_of(const TrainingRun& run);

[[nodiscard]] nlohmann::json step_record_json(const StepSubject& subject,
                                              const StepPrediction& prediction,
                                              const Topology& topology,
                                              const StepAssumptions& assumed);

struct PicturedSpan {
  std::string stream;
  std::string name;
  int tasks = 1;
  double start_us = 0.0;
  double end_us = 0.0;
};
// The timeline with fewer spans. Those of a stream that follow each other without a gap become one
// while it is shorter than a 250th of the whole, or while they are kernels of one block (`blocks`
// has one name for each span, or none at all). Gaps shorter than a 1,000th of the whole do not
// count.
[[nodiscard]] std::vector<PicturedSpan> pictured_spans(std::span<const StepSpan> timeline,
                                                       std::span<const std::string> blocks);

}  // namespace shardlab

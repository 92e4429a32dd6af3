// What `shardlab step` says of one training step.
//
//   const StepSubject subject = subject_of(run);
//   session.print(step_json(subject, prediction, topology));
//   session.print(step_text(subject, prediction, topology, style));
//   write_step_trace(out, subject, prediction);   // Trace Event Format, for ui.perfetto.dev
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/topology.h"
#include "runner/base/text_style.h"
#include "strategies/training/step_prediction.h"

namespace shardlab {

// What a step is of.
struct StepSubject {
  std::string name;  // name of a model or of a program
  std::string mesh;  // "fsdp=32,tp=8"
  std::int64_t ranks = 1;
  double tokens_per_step = 0.0;  // sum over all ranks
  bool has_samples = false;      // images or videos, which count as one token each
};
[[nodiscard]] StepSubject subject_of(const TrainingRun& run);

[[nodiscard]] nlohmann::json step_json(const StepSubject& subject, const StepPrediction& prediction,
                                       const Topology& topology);
[[nodiscard]] std::string step_text(const StepSubject& subject, const StepPrediction& prediction,
                                    const Topology& topology, const TextStyle& style);
// The pictured micro-batch, one thread a stream.
void write_step_trace(std::ostream& out, const StepSubject& subject,
                      const StepPrediction& prediction);

}  // namespace shardlab

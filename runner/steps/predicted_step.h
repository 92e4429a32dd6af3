// What `shardlab step` says of one training step.
//
//   session.print(step_json(run, prediction, topology));
//   session.print(step_text(run, prediction, topology));
//   write_step_trace(out, prediction);      // Trace Event Format, for ui.perfetto.dev
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/topology.h"
#include "strategies/training/step_prediction.h"

namespace shardlab {

[[nodiscard]] nlohmann::json step_json(const TrainingRun& run, const StepPrediction& prediction,
                                       const Topology& topology);
[[nodiscard]] std::string step_text(const TrainingRun& run, const StepPrediction& prediction,
                                    const Topology& topology);
// The pictured micro-batch, one thread a stream.
void write_step_trace(std::ostream& out, const TrainingRun& run, const StepPrediction& prediction);

}  // namespace shardlab

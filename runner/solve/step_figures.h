// What a plan is as a training step: how long the step takes with streams that overlap, how much
// memory it needs and when, and which collectives it runs.
//
//   StepPlanner planner(priced, evaluator.on(mesh), std::nullopt);
//   const StepFigures figures = planner.figures(assignment, step_options);
//   figures.step_us, figures.memory.peak_bytes, figures.fits()
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runner/simulate/device_memory.h"
#include "runner/solve/solution.h"
#include "sim/price_interval.h"
#include "sim/redistribute.h"
#include "strategies/steps/step_memory.h"
#include "strategies/steps/training_step.h"

namespace shardlab {

struct CollectiveCount {
  std::int64_t count = 0;
  double bytes = 0.0;  // the larger of one rank's two buffers, summed
};

struct StepFigures {
  double executed_us = 0.0;  // the sum of kernels and of the steps of all moves, each by itself
  double step_us = 0.0;      // simulated; streams overlap
  DeviceMemory memory;
  std::map<std::string, CollectiveCount> collectives;

  [[nodiscard]] bool fits() const { return memory.fits(); }
};

// A line each for the step's time and for its memory. `interval` is that of the step's time.
[[nodiscard]] std::string step_text(const StepFigures& figures,
                                    const std::optional<PriceInterval>& interval,
                                    const StepOptions& options, const TextStyle& style);

class StepPlanner {
 public:
  // Keeps references. `most_bytes` replaces the memory of the topology's device.
  StepPlanner(const PricedProgram& priced, Redistributor& redistributor,
              std::optional<double> most_bytes);

  [[nodiscard]] const ModelBlocks& blocks() const { return blocks_; }
  [[nodiscard]] double most_bytes() const { return most_bytes_; }
  // The rule of each node, which is null for a node without a kernel.
  [[nodiscard]] const std::vector<const OpRule*>& rules() const { return rules_; }
  // Throw InputError for a plan that can't run.
  [[nodiscard]] PlannedProgram planned(const Assignment& assignment);
  [[nodiscard]] TrainingStep step(const Assignment& assignment, const StepOptions& options);
  [[nodiscard]] StepFigures figures(const Assignment& assignment, const StepOptions& options);
  // The simulated time of the step on the fastest and on the slowest of the clusters that are like
  // those to which `model` was fitted, which prices the moves. Nothing if it does not know its
  // error.
  [[nodiscard]] std::optional<PriceInterval> interval_of_step(const Assignment& assignment,
                                                              const StepOptions& options,
                                                              const CostModel& model);

 private:
  const PricedProgram& priced_;
  Redistributor& redistributor_;
  ModelBlocks blocks_;
  std::vector<const OpRule*> rules_;  // by node
  double most_bytes_;
};

// Whether the first input is a batch of images or videos, floating point numbers in four dims or
// more. Such a program has samples, which count as one token each.
[[nodiscard]] bool has_samples(const Program& program);
// How many tokens a step of the program processes: the elements of its first input if these are
// integers, the samples if it has samples, otherwise the product of all its dims but the last.
[[nodiscard]] double tokens_of(const Program& program);

}  // namespace shardlab

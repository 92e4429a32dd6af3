#include "runner/solve/step_figures.h"

#include <algorithm>
#include <utility>

#include "costmodel/base/index.h"
#include "runner/evaluation/interval_text.h"

namespace shardlab {
std::string step_text(const StepFigures& figures, const std::optional<PriceInterval>& interval,
                      const StepOptions& options, const TextStyle& style) {
  const Recomputation& policy = options.recomputation;
  std::string how;
  if (policy.kind != Recomputation::Kind::kNone) how += ", recomputation " + policy.text();
  if (policy.reshards_weights) how += ", weights resharded after the forward pass";
  return "  step " + style.figure(figures.step_us) +
         " us as simulated, where communication overlaps with kernels" + how +
         interval_text(interval, style) + "\n" + figures.memory.text(style);
}

StepPlanner::StepPlanner(const PricedProgram& priced, Redistributor& redistributor,
                         std::optional<double> most_bytes)
    : priced_(priced),
      redistributor_(redistributor),
      blocks_(blocks_of(priced.program)),
      most_bytes_(most_bytes.value_or(memory_of_device(priced.topology))) {
  for (std::size_t n = 0; n < priced.program.nodes.size(); ++n) {
    rules_.push_back(priced.strategies.of(n).rule);
  }
}

PlannedProgram StepPlanner::planned(const Assignment& assignment) {
  std::vector<double> compute_us;
  for (std::size_t n = 0; n < assignment.size(); ++n) {
    compute_us.push_back(
        priced_.prices.compute_us(priced_.strategies.class_of[n])[to_index(assignment[n])]);
  }
  return planned_program(priced_.program, placements_of(priced_.strategies, assignment),
                         std::move(compute_us), rules_, redistributor_);
}

TrainingStep StepPlanner::step(const Assignment& assignment, const StepOptions& options) {
  return make_step(planned(assignment), blocks_, redistributor_, options);
}

StepFigures StepPlanner::figures(const Assignment& assignment, const StepOptions& options) {
  const PlannedProgram program = planned(assignment);
  const TrainingStep made = make_step(program, blocks_, redistributor_, options);
  StepFigures figures{.executed_us = executed_us(program, blocks_, options.recomputation),
                      .step_us = simulated_us(made, priced_.mesh, priced_.topology),
                      .memory = device_memory(made, priced_.program, most_bytes_),
                      .collectives = {}};
  for (const StepTask& task : made.tasks) {
    if (task.kernel.mesh_dims.empty()) continue;
    CollectiveCount& count = figures.collectives[task.kernel.name];
    ++count.count;
    count.bytes += task.kernel.full_bytes;
  }
  return figures;
}

std::optional<PriceInterval> StepPlanner::interval_of_step(const Assignment& assignment,
                                                           const StepOptions& options,
                                                           const CostModel& model) {
  const TrainingStep made = step(assignment, options);
  bool has_error = false;
  const auto us_at = [&](PriceBound bound) {
    TrainingStep bounded = made;
    for (StepTask& task : bounded.tasks) {
      const Micros price = task.kernel.price;
      task.kernel = at_bound(std::move(task.kernel), bound, redistributor_, model);
      has_error = has_error || task.kernel.price != price;
    }
    return has_error ? simulated_us(bounded, priced_.mesh, priced_.topology) : 0.0;
  };
  const PriceInterval interval{us_at(PriceBound::kLow), us_at(PriceBound::kHigh)};
  return has_error ? std::optional(interval) : std::nullopt;
}

namespace {

// Null if the program has no input, or a scalar as its first one.
const TensorMeta* first_input(const Program& program) {
  for (const ProgramNode& node : program.nodes) {
    if (node.kind == NodeKind::kInput && !node.outputs[0].shape.empty()) return &node.outputs[0];
  }
  return nullptr;
}

}  // namespace

bool has_samples(const Program& program) {
  const TensorMeta* input = first_input(program);
  return input != nullptr && is_floating_point(input->dtype) && input->ndim() >= 4;
}

double tokens_of(const Program& program) {
  const TensorMeta* input = first_input(program);
  if (input == nullptr) return 0.0;
  if (has_samples(program)) return static_cast<double>(input->shape[0]);
  Shape shape = input->shape;
  if (is_floating_point(input->dtype) && shape.size() > 1) shape.pop_back();
  return element_count(shape);
}

}  // namespace shardlab

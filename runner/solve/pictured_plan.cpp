#include "runner/solve/pictured_plan.h"

#include <algorithm>
#include <numeric>

#include "costmodel/base/index.h"
#include "sim/simulator.h"
#include "sim/tensor_spec.h"
#include "sim/traffic.h"

namespace shardlab {
namespace {

// The most moments that the picture of the memory shows.
constexpr std::size_t kMostMoments = 400;

double bytes_of(const Plan& plan, const DeviceMesh& mesh) {
  double bytes = 0.0;
  Layout before = plan.start;
  for (const PlanStep& step : plan.steps) {
    bytes += static_cast<double>(bytes_moved(step, before, plan.meta, mesh));
    before = step.after;
  }
  return bytes;
}

double sum_of(const MemoryParts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

// The memory during each task, from the time at which the task starts. The host issues tasks in
// order and allocates as it does, so no moment is before the one of an earlier task.
nlohmann::json memory_over_step(const TrainingStep& step, const DeviceMesh& mesh,
                                const Topology& topology) {
  Schedule schedule;
  for (const StepTask& task : step.tasks) schedule.add(task.kernel);
  const SimulationResult run = Simulator(mesh, topology, {.shown_ranks = {0}}).run(schedule);
  std::vector<double> starts(step.tasks.size(), 0.0);
  for (const TimelineSpan& span : run.timeline.spans) {
    starts[to_index(span.kernel)] = to_micros(span.started);
  }
  if (!starts.empty()) starts[0] = 0.0;  // what the step begins with is there before its first task
  for (std::size_t t = 1; t < starts.size(); ++t) starts[t] = std::max(starts[t], starts[t - 1]);
  const std::vector<MemoryParts> by_task = memory_by_task(step);
  std::vector<std::size_t> shown;  // tasks; of those that are close together, the fullest
  const double slot = run.time_us.p50 / static_cast<double>(kMostMoments);
  double slot_end = 0.0;
  for (std::size_t t = 0; t < by_task.size(); ++t) {
    if (shown.empty() || starts[t] >= slot_end) {
      shown.push_back(t);
      slot_end = starts[t] + slot;
    } else if (sum_of(by_task[t]) > sum_of(by_task[shown.back()])) {
      shown.back() = t;
    }
  }
  nlohmann::json json = {{"end_us", run.time_us.p50}, {"start_us", nlohmann::json::array()}};
  for (const std::size_t t : shown) json["start_us"].push_back(starts[t]);
  for (std::size_t p = 0; p < kMemoryParts; ++p) {
    nlohmann::json bytes = nlohmann::json::array();
    for (const std::size_t t : shown) bytes.push_back(by_task[t][p]);
    json[std::string(to_string(static_cast<MemoryPart>(p)))] = std::move(bytes);
  }
  return json;
}

}  // namespace

PicturedPlan::PicturedPlan(const PricedProgram& priced, const Assignment& assignment)
    : priced_(priced),
      assignment_(assignment),
      placements_(placements_of(priced.strategies, assignment)) {}

void PicturedPlan::note_step(StepPlanner& planner, const StepOptions& options) {
  planned_ = planner.planned(assignment_);
  for (const Plan& plan : planned_->plans) moved_.push_back(bytes_of(plan, priced_.mesh));
  memory_ = memory_over_step(planner.step(assignment_, options), priced_.mesh, priced_.topology);
}

nlohmann::json PicturedPlan::given_json(std::size_t node) const {
  const ProgramNode& given = priced_.program.nodes[node];
  if (!given.is_source() || given.outputs.size() != 1) return nullptr;
  const TensorMeta& meta = given.outputs[0];
  const Shape local =
      largest_local_shape(meta.shape, placements_[node].outputs.at(0), priced_.mesh);
  return {{"label", given.label},
          {"tensor", meta.text()},
          {"bytes", element_count(meta.shape) * itemsize(meta.dtype)},
          {"bytes_per_rank", element_count(local) * itemsize(meta.dtype)}};
}

std::optional<double> PicturedPlan::bytes_moved(std::size_t node, std::size_t input) const {
  if (!planned_) return std::nullopt;
  return moved_[planned_->moves[node].at(input)];
}

}  // namespace shardlab

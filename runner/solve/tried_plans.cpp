#include "runner/solve/tried_plans.h"

#include <algorithm>

#include "costmodel/base/error.h"

namespace shardlab {

const TriedPlan& TriedPlans::add(const Assignment& assignment) {
  const auto known = std::ranges::find(plans_, assignment, &TriedPlan::assignment);
  if (known != plans_.end()) return *known;
  const TriedPlan& plan =
      plans_.emplace_back(TriedPlan{.assignment = assignment,
                                    .objective = network_.cost(assignment),
                                    .step = figures_if_it_runs(planner_, assignment, options_)});
  if (plan.step) least_peak_bytes_ = std::min(least_peak_bytes_, plan.step->memory.peak_bytes);
  if (plan.fits() && (!best_ || plan.objective < plans_[*best_].objective)) {
    best_ = plans_.size() - 1;
  }
  return plan;
}

std::optional<StepFigures> figures_if_it_runs(StepPlanner& planner, const Assignment& assignment,
                                              const StepOptions& options) {
  try {
    return planner.figures(assignment, options);
  } catch (const LimitError&) {
    throw;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace shardlab

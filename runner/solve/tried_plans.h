// The plans that a search for one that fits has tried: the cheapest of those that fit, and the
// smallest peak.
//
//   TriedPlans tried(network, planner, step_options);
//   tried.add(assignment);                // simulates the step, unless the plan was tried before
//   tried.best(), tried.least_peak_bytes(), tried.all()
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "runner/solve/step_figures.h"
#include "strategies/solvers/network.h"

namespace shardlab {

struct TriedPlan {
  Assignment assignment;
  double objective = 0.0;           // microseconds; the cost in the network, without charges
  std::optional<StepFigures> step;  // nothing for a plan that can't run
  [[nodiscard]] bool fits() const { return step && step->fits(); }
};

class TriedPlans {
 public:
  // Keeps references.
  TriedPlans(const CostNetwork& network, StepPlanner& planner, const StepOptions& options)
      : network_(network), planner_(planner), options_(options) {}

  // Assumes that the network allows the assignment. The reference holds until the next add().
  const TriedPlan& add(const Assignment& assignment);
  [[nodiscard]] const CostNetwork& network() const { return network_; }
  [[nodiscard]] const std::vector<TriedPlan>& all() const { return plans_; }
  // The cheapest plan that fits; null if none does.
  [[nodiscard]] const TriedPlan* best() const { return best_ ? &plans_[*best_] : nullptr; }
  // Bytes; infinite if no plan can run.
  [[nodiscard]] double least_peak_bytes() const { return least_peak_bytes_; }

 private:
  const CostNetwork& network_;
  StepPlanner& planner_;
  StepOptions options_;
  std::vector<TriedPlan> plans_;
  std::optional<std::size_t> best_;  // index of a plan
  double least_peak_bytes_ = std::numeric_limits<double>::infinity();
};

// The figures of a plan's step; nothing for a plan that can't run: a move to P(product), or one of
// AutoParallel's that nothing runs. Throws LimitError.
[[nodiscard]] std::optional<StepFigures> figures_if_it_runs(StepPlanner& planner,
                                                            const Assignment& assignment,
                                                            const StepOptions& options);

}  // namespace shardlab

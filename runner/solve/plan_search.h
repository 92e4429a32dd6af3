// Finds the plan that `solve` prints: the optimum, or the best plan whose step fits into a device.
//
//   PlanSearch search(priced, planner, {.jobs = 2});
//   FoundPlan found = search.best(options, step_options);          // the optimum
//   FoundPlan fitting = search.best_that_fits(options, step_options);
//
// Fitting. An optimum that fits is also the best plan that fits. Otherwise the optimum is found
// whose parameters, gradients and optimizer state alone fit: if its whole step fits, it is the best
// plan that does. Otherwise recipes' plans are tried, one whose parameters are cut as far as they
// go, and one that decides operator by operator; and a program of few nodes is searched exactly
// (fit_branching.h). What is too large for that, or not finished, goes on with charges: the bytes
// that each value of a node holds at the peak are charged to the node's cost, at a price of lambda
// microseconds a byte. Each lambda gives a plan, and a bound: the least charged cost minus lambda
// times the memory there is, which no plan that fits can undercut, as a plan holds at least these
// bytes at that point of its step. The search raises lambda until the plan fits, then narrows it
// down; it ends with the best plan that fits and the highest bound. Each solve starts from the plan
// that is cheapest with the charges of all that were tried, so that one that is too entangled ends
// with a plan and a bound too. Bytes are counted once for each buffer, however many views it has.
// Source: Everett 1963, "Generalized Lagrange multiplier method".
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/solve/tried_plans.h"
#include "strategies/programs/sharding_problem.h"
#include "strategies/solvers/exact.h"

namespace shardlab {

// A problem, its network and what was found for it. The network stays where it is, since solvers
// refer to it.
struct FoundPlan {
  std::unique_ptr<ShardingProblem> problem;
  std::unique_ptr<CostNetwork> network;
  ExactSolution solution;
  StepOptions step_options;
  std::optional<StepFigures> step;  // nothing if there is no plan, or if the plan can't run
  // Why there is no plan although assignments satisfy all constraints: none was found that fits.
  std::string misfit;
  bool is_misfit_proved = false;  // whether it is known that none fits
  // Whether the plan is an optimum of the network. One that was found by charges for memory, or by
  // the time of its step, is not.
  bool is_optimum_of_network = true;

  [[nodiscard]] bool fits() const { return step && step->fits(); }
};

struct PlanSearchOptions {
  int jobs = 1;
  // False if strategies were left out with which no plan is better than the optimum: then it is not
  // known whether no plan fits.
  bool has_all_strategies = true;
  Patience patience = {.takes_gap = true};
  Assignment known = {};  // a plan to start from; may be empty
  // The masks of recipes, whose plans are tried where the optimum does not fit; may be empty.
  std::function<std::vector<std::vector<LayoutMask>>()> recipes = {};
};

class PlanSearch {
 public:
  // Keeps references.
  PlanSearch(const PricedProgram& priced, StepPlanner& planner, const PlanSearchOptions& options)
      : priced_(priced), planner_(planner), options_(options) {}

  // The optimum under the recomputation of `step_options`, whether or not it fits.
  [[nodiscard]] FoundPlan best(ProblemOptions options, const StepOptions& step_options) const;
  // The best plan that was found to fit.
  [[nodiscard]] FoundPlan best_that_fits(const ProblemOptions& options,
                                         const StepOptions& step_options);
  // The cheapest plan that fits over the ways of recomputation: nothing, the first blocks by
  // operator or fully, with weights kept or resharded.
  [[nodiscard]] FoundPlan best_recomputation(const ProblemOptions& options,
                                             const StepOptions& step_options);
  // Searches for a plan whose simulated step is shorter than that of `start`: among the next best
  // sums, under each of `masks`, and by giving all alike sources (parameters whose names differ by
  // numbers only, for instance) each other layout they may have. The sum is solved to optimality
  // around each. Plans that do not fit are left out if `fits` is set. Ends when no change of one
  // layout helps.
  struct StepSearch {
    FoundPlan found;
    std::size_t plans = 0;  // how many were simulated
  };
  [[nodiscard]] StepSearch shortest_step(FoundPlan start, const ProblemOptions& options,
                                         const std::vector<std::vector<LayoutMask>>& masks,
                                         bool fits);

 private:
  // Tries the recipes' plans, one whose parameters are cut as far as they go, and one that decides
  // operator by operator.
  void try_small_plans(const ProblemOptions& options, const StepOptions& step_options,
                       TriedPlans& tried) const;
  // Whether an exact search ended: `optimum` then has the best plan that fits, or says that none
  // does. Raises its bound otherwise.
  [[nodiscard]] bool ends_by_branching(FoundPlan& optimum, TriedPlans& tried) const;
  [[nodiscard]] FoundPlan by_charges(FoundPlan optimum, TriedPlans& tried) const;
  [[nodiscard]] FoundPlan with_fewest_blocks(const ProblemOptions& options, StepOptions step,
                                             Recomputation::Kind kind);
  [[nodiscard]] bool is_time_up() const;

  const PricedProgram& priced_;
  StepPlanner& planner_;
  PlanSearchOptions options_;
  // Whether other ways of recomputation are tried too, under which a plan may fit where none does.
  bool tries_recomputation_ = false;
};

}  // namespace shardlab

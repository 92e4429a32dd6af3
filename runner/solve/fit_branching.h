// Finds the cheapest plan whose step fits into a device, by branch and bound: exact, but only quick
// enough for programs of few nodes.
//
//   FitBranching branching(priced, planner, network, step_options,
//                          {.jobs = 2, .most_solves = 500});
//   const FitBranching::Result result = branching.run(tried);
//   result.is_complete   // tried.best() is the cheapest plan that fits; without one, none fits
//   result.lower_bound   // microseconds; no plan that fits costs less
//
// The cheapest plan of a part of all plans is a lower bound on every plan of this part. The part
// with the least bound is split first: where its cheapest plan does not fit, the value that can
// save the most bytes at the plan's peak is left to the values that hold fewer bytes there, or to
// those that hold as many or more. A part is dropped if what its lightest values hold at one of the
// peaks is more than the device has (held_bytes.h), or if its bound is no lower than the cost of a
// plan that fits. Source: Land and Doig, "An automatic method of solving discrete programming
// problems", Econometrica 28 (1960).
#pragma once

#include <vector>

#include "runner/solve/held_bytes.h"
#include "runner/solve/tried_plans.h"
#include "strategies/solvers/exact.h"

namespace shardlab {

struct FitBranchingOptions {
  int jobs = 1;
  int most_solves = 0;  // how many parts may be solved
  Patience patience = {};
};

class FitBranching {
 public:
  struct Result {
    bool is_complete = false;
    double lower_bound = 0.0;  // infinite if it is proved that no plan fits
  };

  // Keeps references.
  FitBranching(const PricedProgram& priced, StepPlanner& planner, const CostNetwork& network,
               const StepOptions& step_options, const FitBranchingOptions& options)
      : priced_(priced),
        planner_(planner),
        network_(network),
        step_options_(step_options),
        options_(options) {}

  // Adds the plans that it finds to `tried`, and starts from the best one there. Throws LimitError.
  [[nodiscard]] Result run(TriedPlans& tried);

 private:
  // Some of all plans: those with these values, by node. `cheapest` is one of them.
  struct Part {
    double bound = 0.0;
    bool is_solved = false;  // whether `cheapest` costs no more than the bound
    std::vector<std::vector<int>> values;
    Assignment cheapest;
  };
  struct Split {
    std::size_t node = 0;
    std::vector<int> lighter;
    std::vector<int> others;
  };

  [[nodiscard]] std::optional<Part> solve(std::vector<std::vector<int>> values);
  [[nodiscard]] bool may_fit(const Part& part) const;
  // Nothing if the part has one plan.
  [[nodiscard]] std::optional<Split> split_of(const Part& part, const TriedPlan& plan);

  const PricedProgram& priced_;
  StepPlanner& planner_;
  const CostNetwork& network_;
  StepOptions step_options_;
  FitBranchingOptions options_;
  ExactSolver solver_{network_};
  std::vector<BytesByValue> held_;  // at the peaks of plans that did not fit
};

}  // namespace shardlab

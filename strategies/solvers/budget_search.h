// Finds the exact minimum within budgets. A charge for each unit of weight turns each budget into
// costs. The minimum with these charges is a lower bound for every assignment that keeps to the
// budgets. The search then goes through what this bound leaves, with the weights as part of the
// state.
//
// A caller that is content with a gap gets, where time is up or too much is left, the best
// assignment that was found, with the charged bound as its proof. An assignment that keeps to the
// budgets is found first, whatever the time.
//
// The charges are found by walking along the lower hull of (weight, cost), one budget at a time:
// the two corners on either side of the limit give the charge with the best bound.
//
// Source: Everett, "Generalized Lagrange multiplier method for solving problems of optimum
// allocation of resources", Operations Research 11 (1963).
#pragma once

#include <optional>
#include <vector>

#include "strategies/solvers/bound_search.h"

namespace shardlab {

struct BudgetResult {
  bool feasible = false;
  std::vector<int> best;            // positions in the cut network's value sets
  std::vector<double> multipliers;  // by budget: what a unit of weight is charged
  // Bounds the minimum of costs with charges; it may end with a gap.
  BoundProof proof;
  int sweeps = 0;
};

// The search starts from `messages`, which may be empty. It does not end for a gap that
// `patience.gap` would allow. Throws LimitError.
[[nodiscard]] BudgetResult search_within_budgets(const CostNetwork& network, const CutNetwork& cut,
                                                 std::vector<double> messages,
                                                 const Patience& patience = {});

// The sum of every variable's lightest allowed value. Edges are ignored, so even the lightest
// assignment may weigh more.
[[nodiscard]] std::int64_t least_weight(const CostNetwork& network, const Budget& budget,
                                        const std::vector<Restriction>& restrictions);

// The first budget whose limit is below least_weight(). If there is one, nothing is feasible, and
// no search is needed.
[[nodiscard]] std::optional<int> budget_out_of_reach(const CostNetwork& network,
                                                     const std::vector<Restriction>& restrictions);

}  // namespace shardlab

// The exact minimum within budgets: a charge per unit of weight turns each budget into costs, whose minimum
// bounds every assignment that keeps to the budgets; what the bound leaves is gone through with the weights
// as part of the state.
//
// Charges come from walking the lower hull of (weight, cost), one budget at a time: its two corners on either
// side of the limit give the charge with the best bound.
//
// Source: Everett, "Generalized Lagrange multiplier method for solving problems of optimum allocation of
// resources", Operations Research 11 (1963).
#pragma once

#include <optional>
#include <vector>

#include "strategies/solvers/bound_search.h"

namespace shardlab {

struct BudgetResult {
  bool feasible = false;
  std::vector<int> best;  // positions in the cut network's sets
  std::vector<double> multipliers;
  BoundProof proof;  // of costs with charges
  int sweeps = 0;
};

// `messages`: to start from, may be empty. Throws LimitError.
[[nodiscard]] BudgetResult search_within_budgets(const CostNetwork& network, const CutNetwork& cut,
                                                 std::vector<double> messages);

// What the lightest values alone sum to, edges not looked at.
[[nodiscard]] std::int64_t least_weight(const CostNetwork& network, const Budget& budget,
                                        const std::vector<Restriction>& restrictions);

// The first budget that the lightest values alone exceed, edges not looked at: no search is needed.
[[nodiscard]] std::optional<int> budget_out_of_reach(const CostNetwork& network,
                                                     const std::vector<Restriction>& restrictions);

}  // namespace shardlab

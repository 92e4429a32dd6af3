// Checks a proof of a minimum against the original tables. Shares no code with the solver.
//
// Every stage of a proof consists of messages, which may be any numbers. Messages move costs
// without changing their sum, so the sum of the least remaining costs of all nodes and edges is a
// lower bound for every assignment. The check computes that bound anew from the original tables,
// drops what the bound proves too expensive, and finally goes through what is left. It is simple
// rather than fast.
//
//   const double lower = proven_bound(network, restrictions, proof, {});
//   // no assignment within the restrictions and budgets costs less, but for rounding
#pragma once

#include <array>
#include <span>

#include "strategies/solvers/bound_search.h"
#include "strategies/solvers/list_elimination.h"

namespace shardlab {

// `multipliers` has one number for each budget, at least zero: what the proof charges for each unit
// of weight. The charge for a weight equal to the limit is subtracted from the bound. It is
// infinite when there is no assignment at all.
[[nodiscard]] double proven_bound(const CostNetwork& network,
                                  std::span<const Restriction> restrictions,
                                  const BoundProof& proof, std::span<const double> multipliers);

}  // namespace shardlab

// Checks a proof of a minimum against the tables as they were given, with code of its own.
//
// Every stage of a proof is messages, which may be any numbers: costs that messages move still sum
// up to the same, so the least costs that are left of all nodes and edges bound every assignment.
// The check works that bound out anew from the original tables, drops what it proves too dear, and
// at the end goes through what is left. It is slow and plain.
//
//   const double lower = proven_bound(network, restrictions, proof, {});
//   // no assignment within the restrictions and budgets costs less, but for rounding
#pragma once

#include <array>
#include <span>

#include "strategies/solvers/bound_search.h"
#include "strategies/solvers/list_elimination.h"

namespace shardlab {

// `multipliers` has one figure for each budget, at least zero: what the proof charges for each unit
// of weight. The charge for as much as the limit is given back. Infinite when there is no
// assignment at all.
[[nodiscard]] double proven_bound(const CostNetwork& network,
                                  std::span<const Restriction> restrictions,
                                  const BoundProof& proof, std::span<const double> multipliers);

}  // namespace shardlab

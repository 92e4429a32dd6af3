// Checks a proof of a minimum against the tables as they were given, with code of its own.
//
// Every stage of a proof is messages, which may be any numbers: moved costs sum up to the same, so what is
// left of nodes and edges at least bounds every assignment. The check works that out anew from the
// original tables, drops what the bounds prove too dear, and at the end goes through what is left. Slow and plain.
//
//   const double lower = proven_bound(network, restrictions, proof, {});
//   // no assignment within the restrictions and budgets costs less, but for rounding
#pragma once

#include <array>
#include <span>

#include "strategies/solvers/bound_search.h"
#include "strategies/solvers/list_elimination.h"

namespace shardlab {

// `multipliers`: one per budget, at least zero: what the proof charges for each unit of weight; a charge for the
// limit itself is given back. Infinite: there is no assignment at all.
[[nodiscard]] double proven_bound(const CostNetwork& network,
                                  std::span<const Restriction> restrictions,
                                  const BoundProof& proof, std::span<const double> multipliers);

}  // namespace shardlab

// Checks properties that a cost of redistribution should have, on seeded random layouts.
//
//   triangle             cost(A,C) <= cost(A,B) + cost(B,C)
//   monotone             twice the tensor costs no less
//   monotone_bandwidth   twice the bandwidth of every link costs no more
//   zero_same_layout     cost(A,A) == 0
//   reduce_scatter_le_all_reduce   P->S(d) costs no more than P->R on one mesh dim
//   priced_plan_runs     what has a finite cost has a plan that runs
//   price_is_executed    and its steps cost as much
//   running_plan_is_priced   a plan whose steps run, some only on request, has a finite cost
// Comparisons allow 1e-9 relative, since the order of a sum's terms may differ. Source:
// pytorch/pytorch#169439; of the last three, pytorch/pytorch#191828.
#pragma once

#include <cstdint>
#include <vector>

#include "reports/records/invariant_result.h"
#include "strategies/select/stack.h"

namespace shardlab {

// Draws `samples` cases for each invariant. Cases with impossible prices are skipped and not
// counted. The worst case is the one that exceeds the allowed price by the largest percentage;
// cases whose allowed price is 0 rank above all others, by their absolute excess.
[[nodiscard]] std::vector<reports::InvariantResult> check_invariants(const Stack& stack,
                                                                     const Topology& topology,
                                                                     std::uint64_t seed,
                                                                     int samples);

}  // namespace shardlab

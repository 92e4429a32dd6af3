// Chooses the lowest one among equally cheap solutions. Solutions are compared by the ranks of
// their values, beginning with the first node.
#pragma once

#include <vector>

#include "strategies/solvers/bucket_tree.h"

namespace shardlab {

// The solution that costs at most `limit` and has the lowest ranks. `ranks` has one rank for each
// value, in the order of SmallNetwork::costs; the lower rank is chosen first. Assumes that there is
// such a solution. Takes one elimination for each node that still has a choice, over the part that
// the node is still connected to.
[[nodiscard]] std::vector<int> lowest_solution(const SmallNetwork& network, double limit,
                                               const std::vector<int>& ranks);

}  // namespace shardlab

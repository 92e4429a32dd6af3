// Chooses among equally cheap solutions: the lowest one in the order of the nodes, where ranks of
// values are compared, first node first.
#pragma once

#include <vector>

#include "strategies/solvers/bucket_tree.h"

namespace shardlab {

// The solution that costs at most `limit` and has the lowest ranks. `ranks` has one for each value,
// in the order of SmallNetwork::costs; lower is chosen first. Assumes that there is such a
// solution. Takes one elimination for each node that still has a choice, over what it is still
// connected to.
[[nodiscard]] std::vector<int> lowest_solution(const SmallNetwork& network, double limit,
                                               const std::vector<int>& ranks);

}  // namespace shardlab

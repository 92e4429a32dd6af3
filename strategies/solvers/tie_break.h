// Which of several equally cheap solutions: the lowest in the order of the nodes, ranks of values
// compared first node first.
#pragma once

#include <vector>

#include "strategies/solvers/bucket_tree.h"

namespace shardlab {

// The solution of at most `limit` with the lowest ranks; `ranks`: per value (as in costs), lower is
// chosen first. Assumes that there is one. Work: an elimination per node that has a choice left, of
// what it is still connected to.
[[nodiscard]] std::vector<int> lowest_solution(const SmallNetwork& network, double limit,
                                               const std::vector<int>& ranks);

}  // namespace shardlab

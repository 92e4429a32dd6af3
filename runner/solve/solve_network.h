// `shardlab solve-network FILE`, and `shardlab solve --problem FILE`: finds the cheapest assignment
// of a cost-function network, with a proof. Such a network has only variables, their values and
// costs; it knows nothing of programs, meshes or layouts.
#pragma once

#include <cstdint>
#include <string>

#include "runner/session/session.h"

namespace shardlab {

struct SolveNetworkArguments {
  std::string file;  // toulbar2's JSON format (.cfn)
  // Whether to compute for each variable how much dearer the best assignment with another value is.
  bool margins = false;
  std::uint64_t best = 1;  // how many different assignments to find
};

// Prints the answer. The exit code is 1 if no assignment satisfies all constraints.
void solve_network(const SolveNetworkArguments& arguments, Session& session);

}  // namespace shardlab

// `shardlab solve-network FILE`, and `shardlab solve --problem FILE`: the cheapest assignment of a
// cost-function network, with its proof. A network has variables, their values and costs; nothing
// of programs, meshes or layouts.
#pragma once

#include <cstdint>
#include <string>

#include "runner/session/session.h"

namespace shardlab {

struct SolveNetworkArguments {
  std::string file;  // toulbar2's JSON format (.cfn)
  // Whether to say, for each variable, how much dearer the best assignment with another value is.
  bool margins = false;
  std::uint64_t best = 1;  // how many different assignments to find
};

// Prints the answer; exit code 1 when no assignment heeds all constraints.
void solve_network(const SolveNetworkArguments& arguments, Session& session);

}  // namespace shardlab

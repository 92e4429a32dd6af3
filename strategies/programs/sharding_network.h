// Turns a sharding problem into the network that the exact solver takes.
//
//   const CostNetwork network = network_of(problem);
//   ExactSolver(network).solve().assignment     // a strategy for each node
#pragma once

#include "strategies/programs/sharding_problem.h"
#include "strategies/solvers/network.h"

namespace shardlab {

// Variables, values, tables, edges and budgets keep the problem's order. Copies the tables.
[[nodiscard]] CostNetwork network_of(const ShardingProblem& problem);

}  // namespace shardlab

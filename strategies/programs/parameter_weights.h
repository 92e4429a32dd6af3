// What a device keeps of a program's parameters in each of their layouts: the weights of budgets.
//
//   ProblemBudget memory = memory_weights(program, mesh, strategies);
//   memory.amount(assignment)        // bytes
//
// Shards are those of the rank with the largest ones. Limits are left at 0.
#pragma once

#include <span>

#include "strategies/programs/sharding_problem.h"

namespace shardlab {

// Fractions of the parameters that are not left out. Whole multiples of one over the mesh's ranks where all
// shards are even; else they are counted in 2^-40.
[[nodiscard]] ProblemBudget fraction_weights(const Program& program, const DeviceMesh& mesh,
                                             const ProgramStrategies& strategies,
                                             std::span<const std::size_t> left_out = {});

// Bytes of parameters, their gradients and their optimizer state.
[[nodiscard]] ProblemBudget memory_weights(const Program& program, const DeviceMesh& mesh,
                                           const ProgramStrategies& strategies);

}  // namespace shardlab

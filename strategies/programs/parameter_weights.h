// How much of a program's parameters one device keeps in each of their layouts, written as the
// weights of budgets.
//
//   ProblemBudget memory = memory_weights(program, mesh, strategies);
//   memory.amount(assignment)        // bytes
//
// Shards are counted on the rank that has the largest ones. The limits of the budgets are left at
// 0.
#pragma once

#include <span>

#include "strategies/programs/sharding_problem.h"

namespace shardlab {

// Weighs the fractions that are kept of the parameters that are not left out. Where all shards are
// even the weights are whole multiples of 1 / ranks; elsewhere they are counted in units of 2^-40.
[[nodiscard]] ProblemBudget fraction_weights(const Program& program, const DeviceMesh& mesh,
                                             const ProgramStrategies& strategies,
                                             std::span<const std::size_t> left_out = {});

// Weighs the bytes of the parameters, their gradients and their optimizer state.
[[nodiscard]] ProblemBudget memory_weights(const Program& program, const DeviceMesh& mesh,
                                           const ProgramStrategies& strategies);

}  // namespace shardlab

// How much of each parameter of a program one device keeps, for every layout that the parameter may
// have. The amounts are the weights of a ProblemBudget.
//
//   ProblemBudget memory = memory_weights(program, mesh, strategies);
//   memory.amount(assignment)        // bytes
//
// Shards are counted on the rank that has the largest ones. The budget's limit is left at 0.
#pragma once

#include <span>

#include "strategies/programs/sharding_problem.h"

namespace shardlab {

// The weights are the fractions of the parameters that a device keeps; parameters in `left_out`
// have none. If all shards are even, they are whole multiples of 1 / ranks; otherwise they are
// counted in units of 2^-40.
[[nodiscard]] ProblemBudget fraction_weights(const Program& program, const DeviceMesh& mesh,
                                             const ProgramStrategies& strategies,
                                             std::span<const std::size_t> left_out = {});

// What AutoParallel's parameter budget leaves of these fractions, in units of the budget: for each
// parameter the larger one of `fraction` and the least that a device can keep of it.
struct FractionLimit {
  std::int64_t limit = 0;
  std::int64_t least = 0;  // the limit with each parameter at its least
};
[[nodiscard]] FractionLimit fraction_limit(const ProblemBudget& fractions, double fraction);

// The weights are the bytes of the parameters and, for those that have a gradient, of the gradient
// and the optimizer's state.
[[nodiscard]] ProblemBudget memory_weights(const Program& program, const DeviceMesh& mesh,
                                           const ProgramStrategies& strategies);

}  // namespace shardlab

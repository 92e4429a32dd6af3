// `shardlab solve PROGRAM --budget-curve`: the cost of the optimum against the share of the
// parameters that a device may keep.
#pragma once

#include "runner/solve/solution.h"

namespace shardlab {

// Makes two curves: over fractions (AutoParallel's rule, which ignores parameters that have only
// one layout), and over bytes of parameters, gradients and optimizer state. Assumes a problem
// without budgets.
[[nodiscard]] SolveAnswer budget_curve_answer(const ProgramSolution& solved, const DeviceMesh& mesh,
                                              std::size_t points, const TextStyle& style);

}  // namespace shardlab

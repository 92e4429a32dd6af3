// `shardlab solve PROGRAM --budget-curve`: the optimum's cost against what a device may keep of the parameters.
#pragma once

#include "runner/solve/solution.h"

namespace shardlab {

// Two curves: over fractions (AutoParallel's rule, parameters with one layout left out) and over bytes of
// parameters, gradients and optimizer state. Assumes a problem without budgets.
[[nodiscard]] SolveAnswer budget_curve_answer(const ProgramSolution& solved, const DeviceMesh& mesh,
                                              std::size_t points);

}  // namespace shardlab

// `shardlab solve PROGRAM --sensitivity`: how far a stack's parameters may change before the plan
// changes.
#pragma once

#include "runner/solve/solution.h"

namespace shardlab {

[[nodiscard]] SolveAnswer sensitivity_answer(const ProgramSolution& solved,
                                             const PricedProgram& priced,
                                             const ProblemOptions& options, const TextStyle& style);

}  // namespace shardlab

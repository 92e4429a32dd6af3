// `shardlab solve PROGRAM --sensitivity`: how far a stack's parameters may move before the plan changes.
#pragma once

#include "runner/solve/solved_program.h"

namespace shardlab {

[[nodiscard]] SolveAnswer sensitivity_answer(const SolvedProgram& solved,
                                             const PricedProgram& priced,
                                             const ProblemOptions& options);

}  // namespace shardlab

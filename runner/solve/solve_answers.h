// What `shardlab solve PROGRAM` answers besides the plan: why nodes do not have another layout, how
// good another plan is, and what a walk that never looks ahead would cost.
#pragma once

#include <string>

#include "runner/session/session.h"
#include "runner/solve/solution.h"

namespace shardlab {

// Lists the nodes where a layout (a text such as "S(0)R") is available, what it would cost there if
// all other nodes stay as chosen, and the best total with it.
[[nodiscard]] SolveAnswer explain_answer(const ProgramSolution& solved, const std::string& layout,
                                         ExactSolver& solver, const Session& session);
// Prices the plan in a file (saved_plan.h). Throws ConfigError if the plan is of another program or
// was made for another mesh.
[[nodiscard]] SolveAnswer diff_answer(const ProgramSolution& solved, const DeviceMesh& mesh,
                                      const std::string& file, const TextStyle& style);
// The plan of the greedy walk (strategies/solvers/greedy_walk.h), which starts from the optimum's
// layouts of the sources, and the choices that it regrets most.
[[nodiscard]] SolveAnswer greedy_answer(const ProgramSolution& solved, ExactSolver& solver,
                                        const TextStyle& style);

}  // namespace shardlab

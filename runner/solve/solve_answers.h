// What `shardlab solve PROGRAM` answers beside the plan: why a node has no other layout, how good
// another plan is, and what a walk that never looks ahead would cost.
#pragma once

#include <string>

#include "runner/session/session.h"
#include "runner/solve/solution.h"

namespace shardlab {

// Says where a layout (a text such as "S(0)R") is available, what it would cost there with all else
// as chosen, and the best total with it.
[[nodiscard]] SolveAnswer explain_answer(const ProgramSolution& solved, const std::string& layout,
                                         ExactSolver& solver, const Session& session);
// The plan in the file (saved_plan.h), priced here. Throws ConfigError where it is not the
// program's or was made for another mesh.
[[nodiscard]] SolveAnswer diff_answer(const ProgramSolution& solved, const DeviceMesh& mesh,
                                      const std::string& file);
// The greedy walk (strategies/solvers/greedy_walk.h) from the sources' layouts in the optimum, and
// the choices that it regrets most.
[[nodiscard]] SolveAnswer greedy_answer(const ProgramSolution& solved, ExactSolver& solver);

}  // namespace shardlab

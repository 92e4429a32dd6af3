// What a solved program costs if its moves run step by step. A stack may price a move as a whole;
// the objective then differs from the sum of the steps.
//
//   const ExecutedPlan executed = executed_plan(solved, evaluator.on(mesh));
//   executed.us, executed.unexecutable
#pragma once

#include <optional>
#include <string>

#include "runner/solve/solution.h"
#include "sim/redistribute.h"

namespace shardlab {

struct ExecutedPlan {
  // Kernels, and the steps of all moves (moves that are merged count once), without transition
  // charges. Empty if a move can't run.
  std::optional<double> us;
  std::string unexecutable;  // the first move that can't run, and why
};

// Plans each kind of move once. Assumes that the solution is feasible.
[[nodiscard]] ExecutedPlan executed_plan(const ProgramSolution& solved,
                                         Redistributor& redistributor);
// A line with the executed cost if it differs from the objective; otherwise "".
[[nodiscard]] std::string executed_text(const ExecutedPlan& executed, const Breakdown& objective);

}  // namespace shardlab

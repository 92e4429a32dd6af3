// What a solved program costs step by step, as its moves run. A stack may price a move as a whole:
// then its objective is another sum.
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
  // Kernels, and the steps of all moves (merged ones once). Transitions are no steps. Empty if a
  // move can't run.
  std::optional<double> us;
  std::string unexecutable;  // the first such move, and why
};

// Plans each kind of move once. Assumes a feasible solution.
[[nodiscard]] ExecutedPlan executed_plan(const ProgramSolution& solved,
                                         Redistributor& redistributor);
// A line that states the executed cost if it differs from the objective; otherwise an empty text.
[[nodiscard]] std::string executed_text(const ExecutedPlan& executed, const Breakdown& objective);

}  // namespace shardlab

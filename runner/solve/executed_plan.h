// What a solved program costs if its moves run step by step. A stack whose prices follow its plans
// has this very figure as its objective. AutoParallel's stacks price a move by its two ends, and so
// choose by another figure than the one that runs.
//
//   const ExecutedPlan executed = executed_plan(solved, evaluator.on(mesh));
//   executed.us, executed.unexecutable
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/measured_ranges.h"
#include "runner/evaluation/doubted_prices.h"
#include "runner/solve/solution.h"
#include "sim/redistribute.h"

namespace shardlab {

struct ExecutedPlan {
  // Kernels, and the steps of all moves (moves that are merged count once), without transition
  // charges. Empty if a move can't run.
  std::optional<double> us;
  std::string unexecutable;  // the first move that can't run, and why
  // What the rows of the stack's collective model lack for the steps of the moves, each once.
  std::vector<std::string> not_measured;
};

// Plans each kind of move once. Assumes that the solution is feasible. `measured` is what the stack's
// collective model has rows for; `doubted` is given the collectives of all moves.
[[nodiscard]] ExecutedPlan executed_plan(const ProgramSolution& solved,
                                         Redistributor& redistributor,
                                         const MeasuredRanges& measured, DoubtedPrices& doubted);
// A line with the executed cost if it differs from the objective; otherwise "".
[[nodiscard]] std::string executed_text(const ExecutedPlan& executed, const Breakdown& objective,
                                        const Stack& stack, const TextStyle& style);
// "AutoParallel's objective" for a stack of AutoParallel's models, "objective" for all others.
[[nodiscard]] std::string objective_name(const Stack& stack);

}  // namespace shardlab

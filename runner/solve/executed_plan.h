// What a solved program costs if its moves run step by step. A stack whose prices follow its plans
// has this very figure as its objective. AutoParallel's stacks price a move by its two ends, and so
// choose by another figure than the one that runs.
//
//   const ExecutedPlan executed = executed_plan(solved, evaluator, mesh, doubted, gate);
//   executed.us, executed.unexecutable
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/evaluation/doubted_prices.h"
#include "runner/evaluation/replica_gate.h"
#include "runner/solve/solution.h"
#include "sim/price_interval.h"
#include "strategies/select/evaluator.h"

namespace shardlab {

struct ExecutedPlan {
  // Kernels, and the steps of all moves (moves that are merged count once), without transition
  // charges. Empty if a move can't run.
  std::optional<double> us;
  // The 95 % interval of `us`; nothing if the stack's model of collectives does not know its error.
  std::optional<PriceInterval> interval;
  std::string unexecutable;  // the first move that can't run, and why
  // What the rows of the stack's collective model lack for the steps of the moves, each once.
  std::vector<std::string> not_measured;

  // Whether the plan takes what its objective says, so that the interval is that of the objective
  // too.
  [[nodiscard]] bool is(const Breakdown& objective) const;
};

// Plans each kind of move once. Assumes that the solution is feasible. `doubted` is given the
// collectives of all moves, and `gate` their plans.
[[nodiscard]] ExecutedPlan executed_plan(const ProgramSolution& solved, StackEvaluator& evaluator,
                                         const DeviceMesh& mesh, DoubtedPrices& doubted,
                                         ReplicaGate& gate);
// A line with the executed cost if it differs from the objective; otherwise "".
[[nodiscard]] std::string executed_text(const ExecutedPlan& executed, const Breakdown& objective,
                                        const Stack& stack, const TextStyle& style);
// "AutoParallel's objective" for a stack of AutoParallel's models, "objective" for all others.
[[nodiscard]] std::string objective_name(const Stack& stack);

}  // namespace shardlab

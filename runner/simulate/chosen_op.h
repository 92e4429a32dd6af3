// One op as a stack runs it: the strategy that the stack chooses, and the plans that bring each
// input into the layout that it wants. `simulate` runs an op this way, and each op of a program
// that has no plan.
#pragma once

#include <string>
#include <vector>

#include "strategies/select/evaluator.h"

namespace shardlab {

struct ChosenOp {
  OpCall call;
  const OpRule& rule;
  Candidate choice;
  std::vector<Plan> plans;
  std::string refused;
};

// Chooses by this rule, which must be that of the call's op. Throws InputError for an op that
// stands for many ops, and for inputs that the op can't take.
[[nodiscard]] ChosenOp choose(StackEvaluator& evaluator, const DeviceMesh& mesh, const OpCall& call,
                              const OpRule& rule);
[[nodiscard]] double kernel_us(const StackEvaluator& evaluator, const DeviceMesh& mesh,
                               const ChosenOp& op);
// Why a plan does not run; empty if it does.
[[nodiscard]] const std::string& reason_against(const Plan& plan);

}  // namespace shardlab

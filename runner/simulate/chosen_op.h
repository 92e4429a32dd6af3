// One op as a stack runs it: its choice, and what brings each input into it. What `simulate` makes
// of an
// op, and of each op of a program that has no plan.
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
// Why a plan does not run, empty where it does.
[[nodiscard]] const std::string& reason_against(const Plan& plan);

}  // namespace shardlab

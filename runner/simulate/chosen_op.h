// One op as a stack runs it: the strategy that the stack chooses, and the plans that bring each
// input into the layout that the strategy needs. `simulate` runs a single op this way, and also
// each op of a program if no plan is given.
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

// Chooses by this rule, which must be the rule of the call's op. Throws InputError for an op that
// is applied to each element of a list, and for inputs that the op can't take.
[[nodiscard]] ChosenOp choose(StackEvaluator& evaluator, const DeviceMesh& mesh, const OpCall& call,
                              const OpRule& rule);
[[nodiscard]] double kernel_us(const StackEvaluator& evaluator, const DeviceMesh& mesh,
                               const ChosenOp& op);

}  // namespace shardlab

#include "runner/simulate/chosen_op.h"

#include "costmodel/base/error.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

ChosenOp choose(StackEvaluator& evaluator, const DeviceMesh& mesh, const OpCall& call,
                const OpRule& rule) {
  if (is_foreach(rule.op)) {
    throw InputError(
        call.op +
        " is applied to each element of a list, and its elements are selected one by one; valid: "
        "the op of one element");
  }
  ChosenOp op{.call = call,
              .rule = rule,
              .choice = evaluator.select(call, mesh, {.rule = &rule}).choice,
              .plans = {},
              .refused = {}};
  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout& from = tensors[i]->layout;
    const Layout to = asked_layout(call, op.choice.inputs[i]);
    // Layouts with equal placements may still disagree on what strided shards mean. No data moves
    // then, so the plan goes to the source's own layout.
    const bool stays = from.placements == to.placements && from.order == to.order;
    op.plans.push_back(evaluator.plan(mesh, tensors[i]->meta, from, stays ? from : to));
    const std::string& reason = op.plans.back().refusal();
    if (!reason.empty() && op.refused.empty()) {
      op.refused =
          "input " + std::to_string(i) + ", " + from.text() + " to " + to.text() + ": " + reason;
    }
  }
  return op;
}

double kernel_us(const StackEvaluator& evaluator, const DeviceMesh& mesh, const ChosenOp& op) {
  if (evaluator.stack().compute_model.entry->name == "none") return 0.0;
  return evaluator.compute_us(op.rule, op.call, mesh, op.choice.inputs, op.choice.outputs);
}

}  // namespace shardlab

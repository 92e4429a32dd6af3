#include "strategies/select/decision_cache.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace decision_cache_test {

using namespace testing_support;

std::string choice_of(const Decision& decision) {
  return layouts_text(decision.choice.outputs, decision.choice.inputs);
}

TEST(DecisionCache, ARepeatedQuestionIsOneEntry) {
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(1));
  DecisionCache decisions(evaluator);
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const OpCall call = call_of("aten.mm.default", {"f32[64,64] S(0)R", "f32[64,64] RS(0)"}, 2);
  const std::string first = choice_of(decisions.of(call, mesh));
  const Selection selection = evaluator.select(call, mesh);
  EXPECT_EQ(first, layouts_text(selection.choice.outputs, selection.choice.inputs));
  const OpCall again = call_of("aten.mm.default", {"f32[64,64] S(0)R", "f32[64,64] RS(0)"}, 2);
  EXPECT_EQ(choice_of(decisions.of(again, mesh)), first);
  EXPECT_EQ(decisions.size(), 1U);
}

// Two questions that differ in one thing only never share an answer (regression R33).
TEST(DecisionCache, WhateverDiffersIsAnotherQuestion) {
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(1));
  DecisionCache decisions(evaluator);
  const auto ask = [&](const char* mesh, const std::string& op, std::vector<std::string> inputs,
                       const std::string& args = "[]") {
    const DeviceMesh on = DeviceMesh::parse(mesh);
    const OpCall call = call_of(op, inputs, on.ndim(), args);
    const Decision& decision = decisions.of(call, on);
    const Selection selection = evaluator.select(call, on);
    EXPECT_EQ(choice_of(decision), layouts_text(selection.choice.outputs, selection.choice.inputs));
    EXPECT_EQ(decision.choice.total_us, selection.choice.total_us);
  };
  const std::string sum = "aten.sum.dim_IntList";
  ask("2x2", sum, {"f32[64,64] S(0)R"}, "[[0]]");
  ask("2x2", sum, {"f32[64,64] S(0)R"}, "[[1]]");       // another argument
  ask("2x2", sum, {"f32[64,64] S(0)R"}, "[[1],true]");  // one more
  ask("2x2", sum, {"f32[64,64] RS(0)"}, "[[0]]");       // another layout
  ask("2x2", sum, {"f32[64,64] S(0)[1]S(0)[0]"}, "[[1]]");
  ask("2x2", sum, {"f32[64,64] S(0)S(0)"}, "[[1]]");  // another shard order
  ask("2x2", sum, {"bf16[64,64] S(0)R"}, "[[0]]");    // another dtype
  ask("2x2", sum, {"f32[64,32] S(0)R"}, "[[0]]");     // another shape
  ask("2x4", sum, {"f32[64,64] S(0)R"}, "[[0]]");     // another mesh
  ask("2x2", "aten.mean.dim", {"f32[64,64] S(0)R"}, "[[0]]");
  EXPECT_EQ(decisions.size(), 10U);
}

TEST(DecisionCache, ARefusalIsNotKept) {
  StackEvaluator evaluator(stack_with("dtensor-2.13"), topology_with(1));
  DecisionCache decisions(evaluator);
  const DeviceMesh mesh = DeviceMesh::parse("2");
  const OpCall call = call_of("aten.clamp_.default", {"f32[] P(sum)"}, 1, "[0, 2]");
  EXPECT_THROW(static_cast<void>(decisions.of(call, mesh)), InputError);
  EXPECT_THROW(static_cast<void>(decisions.of(call, mesh)), InputError);
  EXPECT_EQ(decisions.size(), 0U);
}

}  // namespace decision_cache_test
}  // namespace shardlab

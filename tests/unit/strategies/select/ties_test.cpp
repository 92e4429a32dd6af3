// The audit of ties: how many answers share the minimum, how many come near, and whether the order
// of the candidates decides.
#include "strategies/select/ties.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace ties_test {

using testing_support::call_of;
using testing_support::stack_with;
using testing_support::topology_with;

Question select_question(const std::string& op, const std::string& mesh,
                         const std::vector<std::string>& inputs, const std::string& args = "[]") {
  Question question;
  question.id = op;
  question.mesh = DeviceMesh::parse(mesh);
  question.call = call_of(op, inputs, question.mesh.ndim(), args);
  return question;
}

Question plan_question(const std::string& mesh, const std::string& tensor, const std::string& from,
                       const std::string& to) {
  Question question;
  question.kind = Question::Kind::kPlan;
  question.mesh = DeviceMesh::parse(mesh);
  question.tensor = TensorMeta::parse(tensor);
  question.from = Layout::parse(from, question.mesh.ndim());
  question.to = Layout::parse(to, question.mesh.ndim());
  return question;
}

TieItem audit(const Question& question, const std::string& stack, double within_percent = 1.0,
              std::int64_t devices_per_host = 1) {
  StackEvaluator evaluator(stack_with(stack), topology_with(devices_per_host));
  return audit_ties(question, evaluator, within_percent);
}

// R03, https://github.com/pytorch/pytorch/pull/172282.
const Question kR03 = select_question("aten.mul.Tensor", "4", {"f32[8,8] P(max)", "f32[8,8] R"});

TEST(Ties, TheTieOfR03IsExactAndItsOrderDecides) {
  const TieItem item = audit(kR03, "dtensor-v3");
  EXPECT_EQ(item.total_us, 22.81853570377591);
  EXPECT_EQ(item.choice, "R, R -> R");
  EXPECT_EQ(item.exact, 3U);
  EXPECT_TRUE(item.order_dependent);
  EXPECT_EQ(item.tied.size(), item.exact);
  EXPECT_NE(std::find(item.tied.begin(), item.tied.end(), "R, P(sum) -> P(sum)"), item.tied.end());
  EXPECT_EQ(item.error, "");
}

TEST(Ties, ARedistributionSaysHowManyPathsItsPlannerWeighed) {
  const Question question = plan_question("2x4", "f32[64,64]", "S(0)S(0)", "RS(0)");
  const TieItem greedy = audit(question, "dtensor-v3");
  EXPECT_EQ(greedy.paths, 0U) << "the greedy planner makes one plan and weighs no other";
  EXPECT_EQ(greedy.exact, 1U);
  const TieItem graph = audit(question, "dtensor-v3g");
  ASSERT_TRUE(graph.paths.has_value());
  EXPECT_GE(*graph.paths, 1U);
  EXPECT_EQ(graph.exact, *graph.paths);
  EXPECT_FALSE(audit(kR03, "dtensor-v3").paths.has_value()) << "an op has candidates, not paths";
}

TEST(Ties, APriceForReplicateToPartialBreaksTheTieOfR03) {
  const TieItem item = audit(kR03, "dtensor-v3-rp");
  EXPECT_EQ(item.total_us, 22.81853570377591);
  EXPECT_EQ(item.exact, 1U);
  EXPECT_FALSE(item.order_dependent);
  ASSERT_TRUE(item.margin_us.has_value());
  EXPECT_NEAR(*item.margin_us, 0.001, 1e-9);
}

TEST(Ties, NearCandidatesLieWithinThePercentageAndAreNotExactTies) {
  EXPECT_EQ(audit(kR03, "dtensor-v3-rp", 0.0).near, 0U);
  EXPECT_EQ(audit(kR03, "dtensor-v3-rp", 1.0).near, 2U) << "0.001 us is 0.004 %";
  EXPECT_EQ(audit(kR03, "dtensor-v3", 1.0).near, 0U);
}

TEST(Ties, KeepingTheInputsIsATieThatNoOrderDecides) {
  const TieItem item =
      audit(select_question("aten.relu.default", "4", {"f32[8,8] R"}), "dtensor-v3");
  EXPECT_EQ(item.total_us, 0.0);
  EXPECT_EQ(item.choice, "R -> R");
  EXPECT_GT(item.exact, 1U) << "any partial of a replicated input is free too";
  EXPECT_FALSE(item.order_dependent);
}

TEST(Ties, AtMostEightTiesAreListed) {
  const TieItem item = audit(
      select_question("aten.add.Tensor", "2x2x2", {"f32[8,8] RRR", "f32[8,8] RRR"}), "dtensor-v3");
  EXPECT_GT(item.exact, kMaxListed);
  EXPECT_EQ(item.tied.size(), kMaxListed);
}

TEST(Ties, PathsOfOneRedistributionAreCountedByTheGraphPlannerOnly) {
  const Question question = plan_question("4x4", "f32[16,16]", "S(0)S(1)", "RR");
  const TieItem graph = audit(question, "dtensor-v3g");
  EXPECT_EQ(graph.exact, 2U) << "either mesh dim can go first: " << graph.choice;
  EXPECT_EQ(graph.candidates, 1U);
  EXPECT_FALSE(graph.order_dependent);
  EXPECT_EQ(audit(question, "dtensor-v3").exact, 1U);
}

TEST(Ties, AnImpossibleRedistributionHasNoPrice) {
  const TieItem item = audit(plan_question("4", "f32[8]", "S(0)", "P(sum)"), "dtensor-v3");
  EXPECT_EQ(item.total_us, std::numeric_limits<double>::infinity());
  EXPECT_EQ(item.exact, 1U);
}

TEST(Ties, TheElementsOfAForeachAreAddedUp) {
  const Question both = select_question("aten._foreach_add.List", "4",
                                        {"[f32[8] R; f32[8] P(max)]", "[f32[8] S(0); f32[8] R]"});
  const TieItem item = audit(both, "dtensor-v3");
  const TieItem first =
      audit(select_question("aten._foreach_add.List", "4", {"[f32[8] R]", "[f32[8] S(0)]"}),
            "dtensor-v3");
  const TieItem second =
      audit(select_question("aten._foreach_add.List", "4", {"[f32[8] P(max)]", "[f32[8] R]"}),
            "dtensor-v3");
  EXPECT_EQ(item.choice, first.choice + "; " + second.choice);
  EXPECT_DOUBLE_EQ(item.total_us, first.total_us + second.total_us);
  EXPECT_EQ(item.exact, std::max(first.exact, second.exact));
  EXPECT_EQ(item.order_dependent, first.order_dependent || second.order_dependent);
}

TEST(Ties, AQuestionThatMakesNoSenseKeepsItsReason) {
  const TieItem item =
      audit(select_question("aten.mm.default", "4", {"f32[8,8] R", "f32[9,8] R"}), "dtensor-v3");
  EXPECT_EQ(item.error, "aten.mm.default: shapes do not fit mk,kn->mn: found [8,8], [9,8]");
  EXPECT_EQ(item.total_us, 0.0);
  EXPECT_EQ(item.choice, "");
}

}  // namespace ties_test
}  // namespace shardlab

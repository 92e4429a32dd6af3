// An explanation agrees with the decision that it explains: it has the same choice, prices that are
// the sums of their parts, and the steps that the stack runs.
#include "strategies/select/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "strategies/select/questionnaire.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace {

using testing_support::call_of;
using testing_support::stack_with;
using testing_support::topology_with;

Question select_question(const std::string& op, const std::string& mesh,
                         const std::vector<std::string>& inputs) {
  Question question;
  question.id = op;
  question.mesh = DeviceMesh::parse(mesh);
  question.call = call_of(op, inputs, question.mesh.ndim(), "[]");
  return question;
}

Explanation explained(const Question& question, const std::string& stack,
                      const std::vector<std::string>& also = {}) {
  return Explainer(stack_with(stack), topology_with(8), stack_with("alpha-beta"))
      .explain(question, also);
}

const Question kMatmul =
    select_question("aten.mm.default", "2x4", {"bf16[512,256] S(0)R", "bf16[256,512] S(1)S(0)"});

TEST(Explanation, ListsTheChoiceFirstAmongTheCheapestAndItsPartsSumUp) {
  for (const char* stack : {"dtensor-v3", "dtensor-v4", "alpha-beta", "shardlab"}) {
    SCOPED_TRACE(stack);
    const Explanation why = explained(kMatmul, stack);
    Questionnaire questionnaire({stack_with(stack)}, stack_with("alpha-beta"), topology_with(8));
    const Answer answer = questionnaire.ask(kMatmul).answers[0];
    const auto chosen = std::find_if(why.candidates.begin(), why.candidates.end(),
                                     [](const ExplainedCandidate& c) { return c.is_chosen; });
    ASSERT_NE(chosen, why.candidates.end());
    EXPECT_EQ(chosen->choice, answer.choice);
    EXPECT_EQ(chosen->total_us, answer.price_us);
    double before = 0.0;
    for (const ExplainedCandidate& candidate : why.candidates) {
      EXPECT_GE(candidate.total_us, before);
      before = candidate.total_us;
      // These stacks charge for moves and kernels alone.
      EXPECT_NEAR(candidate.moves.total.value() + candidate.kernel_us, candidate.total_us,
                  1e-9 * candidate.total_us);
    }
    double steps_us = 0.0;
    for (const ExplainedStep& step : why.steps) steps_us += step.price.total.value();
    EXPECT_NEAR(steps_us, chosen->moves.total.value(), 1e-9 * steps_us);
  }
}

TEST(Explanation, ListsWhatAnotherStackChoosesHoweverDear) {
  const std::string dear = "RR, RR -> RR";
  const Explanation without = explained(kMatmul, "alpha-beta");
  const Explanation with = explained(kMatmul, "alpha-beta", {dear});
  const auto has = [&](const Explanation& why) {
    return std::any_of(why.candidates.begin(), why.candidates.end(),
                       [&](const ExplainedCandidate& c) { return c.choice == dear; });
  };
  ASSERT_FALSE(has(without)) << "the sample should be dear";
  EXPECT_TRUE(has(with));
  EXPECT_EQ(with.candidates.size(), without.candidates.size() + 1);
}

TEST(Explanation, NamesTheParameterOnlyWhereItIsAskedFor) {
  Explainer explainer(stack_with("alpha-beta"), topology_with(8), stack_with("alpha-beta"));
  PriceFlips flips(stack_with("alpha-beta"), topology_with(8));
  const std::optional<PriceFlip> first = flips.first_of(kMatmul.call, kMatmul.mesh);
  ASSERT_TRUE(first.has_value());
  const Explanation why = explainer.explain(kMatmul, {});
  ASSERT_TRUE(why.flip.has_value());
  EXPECT_EQ(why.flip->parameter, first->parameter);
  EXPECT_EQ(why.flip->factor, first->factor);
  EXPECT_FALSE(explainer.explain(kMatmul, {}, false).flip.has_value());
}

TEST(Explanation, ARedistributionHasItsPlanAlone) {
  Question question;
  question.kind = Question::Kind::kPlan;
  question.mesh = DeviceMesh::parse("2x4");
  question.tensor = TensorMeta::parse("bf16[64,64]");
  question.from = Layout::parse("S(0)R", 2);
  question.to = Layout::parse("RS(1)", 2);
  const Explanation why = explained(question, "dtensor-v3");
  ASSERT_EQ(why.candidates.size(), 1U);
  EXPECT_TRUE(why.candidates[0].is_chosen);
  EXPECT_EQ(why.candidates[0].choice.substr(0, 5), "S(0)R");
  EXPECT_EQ(why.steps.size(), 2U);
  EXPECT_FALSE(why.flip.has_value());
}

TEST(Explanation, TheElementsOfAListAreExplainedOneByOne) {
  const Question question = select_question(
      "aten._foreach_add.List", "4", {"[f32[8,8] S(0); f32[16] R]", "[f32[8,8] R; f32[16] R]"});
  const Explanation why = explained(question, "dtensor-v3");
  ASSERT_FALSE(why.candidates.empty());
  EXPECT_TRUE(why.candidates.front().choice.starts_with("element 0, "));
  EXPECT_TRUE(why.candidates.back().choice.starts_with("element 1, "));
}

}  // namespace
}  // namespace shardlab

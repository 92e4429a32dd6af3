// An explanation agrees with the decision that it explains: it has the same choice, prices that are
// the sums of their parts, and the steps that the stack runs.
#include "strategies/select/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "strategies/select/questionnaire.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace explanation_test {

using reports::AnswerDetail;
using reports::DetailCandidate;
using reports::DetailStep;
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

AnswerDetail explained(const Question& question, const std::string& stack,
                       const std::vector<std::string>& also = {}) {
  StackEvaluator reference(stack_with("alpha-beta"), topology_with(8));
  return Explainer(stack_with(stack), topology_with(8), reference).explain(question, also);
}

const Question kMatmul =
    select_question("aten.mm.default", "2x4", {"bf16[512,256] S(0)R", "bf16[256,512] S(1)S(0)"});

double sum_of(const std::optional<reports::PartsOfPrice>& parts) {
  const reports::PartsOfPrice& of = parts.value();
  return of.latency_us + of.transfer_us + of.compute_us + of.straggler_us;
}

TEST(Explanation, ListsTheChoiceFirstAmongTheCheapestAndItsPartsSumUp) {
  for (const char* stack : {"dtensor-v3", "dtensor-v4", "alpha-beta", "shardlab"}) {
    SCOPED_TRACE(stack);
    const AnswerDetail why = explained(kMatmul, stack);
    Questionnaire questionnaire({stack_with(stack)}, stack_with("alpha-beta"), topology_with(8));
    const Answer answer = questionnaire.ask(kMatmul).answers[0];
    const auto chosen = std::find_if(why.candidates.begin(), why.candidates.end(),
                                     [](const DetailCandidate& c) { return c.is_chosen; });
    ASSERT_NE(chosen, why.candidates.end());
    EXPECT_EQ(chosen->choice, answer.choice);
    EXPECT_EQ(chosen->total_us, answer.price_us);
    double before = 0.0;
    for (const DetailCandidate& candidate : why.candidates) {
      ASSERT_TRUE(candidate.total_us.has_value()) << candidate.choice;
      EXPECT_GE(*candidate.total_us, before);
      before = *candidate.total_us;
      // These stacks charge for moves and kernels only.
      EXPECT_NEAR(sum_of(candidate.parts) + candidate.kernel_us, *candidate.total_us,
                  1e-9 * *candidate.total_us);
    }
    double steps_us = 0.0;
    for (const DetailStep& step : why.steps) steps_us += step.price_us.value();
    EXPECT_NEAR(steps_us, sum_of(chosen->parts), 1e-9 * steps_us);
  }
}

TEST(Explanation, ListsWhatAnotherStackChoosesHoweverDear) {
  const std::string dear = "RR, RR -> RR";
  const AnswerDetail without = explained(kMatmul, "alpha-beta");
  const AnswerDetail with = explained(kMatmul, "alpha-beta", {dear});
  const auto has = [&](const AnswerDetail& why) {
    return std::any_of(why.candidates.begin(), why.candidates.end(),
                       [&](const DetailCandidate& c) { return c.choice == dear; });
  };
  ASSERT_FALSE(has(without)) << "the sample should be dear";
  EXPECT_TRUE(has(with));
  EXPECT_EQ(with.candidates.size(), without.candidates.size() + 1);
}

TEST(Explanation, NamesTheParameterOnlyWhereItIsAskedFor) {
  StackEvaluator reference(stack_with("alpha-beta"), topology_with(8));
  Explainer explainer(stack_with("alpha-beta"), topology_with(8), reference);
  PriceFlips flips(stack_with("alpha-beta"), topology_with(8));
  const std::optional<PriceFlip> first = flips.first_of(kMatmul.call, kMatmul.mesh);
  ASSERT_TRUE(first.has_value());
  const AnswerDetail why = explainer.explain(kMatmul, {});
  ASSERT_TRUE(why.flips_first.value().has_value());
  EXPECT_EQ((*why.flips_first)->parameter, first->parameter);
  EXPECT_EQ((*why.flips_first)->factor, first->factor);
  EXPECT_FALSE(explainer.explain(kMatmul, {}, false).flips_first.has_value());
}

TEST(Explanation, ARedistributionHasItsPlanAlone) {
  Question question;
  question.kind = Question::Kind::kPlan;
  question.mesh = DeviceMesh::parse("2x4");
  question.tensor = TensorMeta::parse("bf16[64,64]");
  question.from = Layout::parse("S(0)R", 2);
  question.to = Layout::parse("RS(1)", 2);
  const AnswerDetail why = explained(question, "dtensor-v3");
  ASSERT_EQ(why.candidates.size(), 1U);
  EXPECT_TRUE(why.candidates[0].is_chosen);
  EXPECT_EQ(why.candidates[0].choice.substr(0, 5), "S(0)R");
  EXPECT_EQ(why.steps.size(), 2U);
  EXPECT_FALSE(why.flips_first.value().has_value()) << "looked for, and there is none";
}

TEST(Explanation, TheElementsOfAListAreExplainedOneByOne) {
  const Question question = select_question(
      "aten._foreach_add.List", "4", {"[f32[8,8] S(0); f32[16] R]", "[f32[8,8] R; f32[16] R]"});
  const AnswerDetail why = explained(question, "dtensor-v3");
  ASSERT_FALSE(why.candidates.empty());
  EXPECT_TRUE(why.candidates.front().choice.starts_with("element 0, "));
  EXPECT_TRUE(why.candidates.back().choice.starts_with("element 1, "));
}

}  // namespace explanation_test
}  // namespace shardlab

// One question, several stacks and one judge: who is asked what, and how the answers are priced.
#include "strategies/select/questionnaire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace questionnaire_test {

using testing_support::call_of;
using testing_support::stack_with;
using testing_support::topology_with;

Question select_question(const std::string& op, const std::string& mesh,
                         const std::vector<std::string>& inputs, const std::string& args = "[]") {
  Question question;
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

std::vector<Stack> stacks_of(const std::vector<std::string>& names) {
  std::vector<Stack> stacks;
  for (const std::string& name : names) stacks.push_back(stack_with(name));
  return stacks;
}

QuestionResult ask(const Question& question, const std::vector<std::string>& names,
                   const std::string& reference = "alpha-beta", std::int64_t devices_per_host = 8) {
  return Questionnaire(stacks_of(names), stack_with(reference), topology_with(devices_per_host))
      .ask(question);
}

// -- redistributions -----------------------------------------------------------------------------

// R01: the two versions take different ways.
const Question kR01 = plan_question("2x2x2", "f32[8,16]", "S(1)S(0)S(0)", "S(1)[0]S(1)[2]S(1)[1]");

TEST(Questionnaire, AnswersInTheOrderOfTheStacks) {
  const QuestionResult result = ask(kR01, {"dtensor-v1", "dtensor-v4"});
  EXPECT_EQ(result.error, "");
  ASSERT_EQ(result.answers.size(), 2U);
  EXPECT_EQ(result.answers[0].choice,
            "S(1)S(0)[0]S(0)[1]->S(1)S(0)R->S(1)[0]S(0)S(1)[1]->S(1)[0]RS(1)[1]"
            "->S(1)[0]S(1)[2]S(1)[1]");
  EXPECT_EQ(result.answers[1].choice,
            "S(1)S(0)[0]S(0)[1]->S(1)[0]S(0)S(1)[1]->S(1)[0]S(1)[2]S(1)[1]");
  EXPECT_EQ(result.answers[1].path, (std::vector<std::string>{result.answers[1].choice}));
  EXPECT_EQ(result.answers[1].price_us, 14.400679642471783);
}

TEST(Questionnaire, TheReferencePricesTheStepsThatTheStackWouldRun) {
  const QuestionResult result = ask(kR01, {"dtensor-v1", "dtensor-v4"});
  StackEvaluator reference(stack_with("alpha-beta"), topology_with(8));
  const TransitionPricer& pricer = reference.on(kR01.mesh).pricer();
  std::size_t i = 0;
  for (const char* name : {"dtensor-v1", "dtensor-v4"}) {
    StackEvaluator own(stack_with(name), topology_with(8));
    const Plan plan = own.on(kR01.mesh).plan(kR01.tensor, kR01.from, kR01.to);
    // The steps are priced one by one, each with the bytes that the one before left: 512 B on 8
    // ranks to begin with.
    double bytes = kR01.tensor.bytes() / 8;
    double us = 0;
    for (const PlanStep& step : plan.steps) {
      const PricedTransition priced =
          pricer.price(step.from, step.to, step.mesh_dims.front(), bytes, kR01.tensor.dtype);
      bytes = priced.bytes_after;
      us += priced.price.total.value();
    }
    EXPECT_DOUBLE_EQ(result.answers[i++].reference_us.value(), us) << name;
  }
  // The detour is dearer, and the best choice is what the reference itself would do.
  EXPECT_GT(*result.answers[0].reference_us, *result.answers[1].reference_us);
  EXPECT_LE(result.best.us.value(), *result.answers[1].reference_us);
  EXPECT_NE(result.best.choice, "");
}

TEST(Questionnaire, TheReferencesOwnChoiceHasNoRegret) {
  const QuestionResult result = ask(kR01, {"alpha-beta"});
  EXPECT_EQ(result.answers[0].price_us, result.best.us);
  EXPECT_EQ(result.answers[0].reference_us, result.best.us);
  EXPECT_EQ(result.answers[0].choice, result.best.choice);
}

TEST(Questionnaire, AnImpossibleRedistributionHasAReasonAndNoPrice) {
  const QuestionResult result = ask(plan_question("4", "f32[8]", "S(0)", "P(sum)"),
                                    {"dtensor-v3", "dtensor-v4"}, "dtensor-v3");
  for (const Answer& answer : result.answers) {
    EXPECT_FALSE(answer.price_us.has_value());
    EXPECT_NE(answer.impossible, "");
    EXPECT_FALSE(answer.reference_us.has_value());
    EXPECT_NE(answer.reference_impossible, "");
  }
  EXPECT_FALSE(result.best.us.has_value());
  EXPECT_EQ(result.best.reason, "the reference finds no possible choice");
  EXPECT_EQ(result.error, "") << "it is an answer";
}

TEST(Questionnaire, TheSameLayoutIsFreeForEveryone) {
  const QuestionResult result =
      ask(plan_question("2x4", "f32[8,8]", "S(0)P(sum)", "S(0)P(sum)"), {"dtensor-v3"});
  EXPECT_EQ(result.answers[0].price_us, 0.0);
  EXPECT_EQ(result.answers[0].reference_us, 0.0);
  EXPECT_EQ(result.best.us, 0.0);
}

// -- ops -----------------------------------------------------------------------------------------

// R03: the tie that a price for R->P breaks.
const Question kR03 = select_question("aten.mul.Tensor", "4", {"f32[8,8] P(max)", "f32[8,8] R"});

// The queue takes S(1)R and S(0)P(avg), which the planner prices far above the cheapest candidate.
TEST(Questionnaire, AStackChoosesByItsOwnSearch) {
  const Question question = select_question(
      "aten.mm.default", "16x8", {"bf16[23170,23170] RS(0)", "bf16[23170,92680] RP(avg)"});
  Stack queue = stack_with("dtensor-2.13");
  queue.search = SearchKind::kDijkstra;
  Stack bounds = stack_with("dtensor-2.13");
  bounds.search = SearchKind::kExact;
  const std::vector<Stack> stacks = {stack_with("dtensor-2.13"), bounds, queue};
  const QuestionResult result =
      Questionnaire(stacks, stack_with("alpha-beta"), topology_with(8)).ask(question);
  ASSERT_EQ(result.error, "");
  ASSERT_EQ(result.answers.size(), 3U);
  EXPECT_EQ(result.answers[1].choice, result.answers[0].choice);
  EXPECT_EQ(result.answers[1].price_us, result.answers[0].price_us);
  EXPECT_EQ(result.answers[2].choice.rfind("S(1)R, S(0)P(avg) -> ", 0), 0U)
      << result.answers[2].choice;
}

TEST(Questionnaire, AChoiceIsItsInputsThenItsOutputs) {
  const QuestionResult result =
      ask(kR03, {"dtensor-v2", "dtensor-v3", "dtensor-v3-rp"}, "dtensor-v3-rp", 1);
  ASSERT_EQ(result.answers.size(), 3U);
  EXPECT_EQ(result.answers[0].choice, "P(sum), R -> P(sum)")
      << "P(max)->P(sum) was free, and wrong";
  EXPECT_EQ(result.answers[1].choice, "R, R -> R");
  EXPECT_EQ(result.answers[2].choice, "R, R -> R");
  EXPECT_EQ(result.answers[1].price_us, 22.81853570377591);
  EXPECT_EQ(result.answers[1].ties, 3);
  EXPECT_TRUE(result.answers[1].flips_with_order);
  EXPECT_FALSE(result.answers[2].flips_with_order);
  EXPECT_NEAR(result.answers[2].margin_us.value(), 0.001, 1e-9);
}

TEST(Questionnaire, AChoiceThatTheReferenceCanNotPriceKeepsTheReason) {
  const QuestionResult result = ask(kR03, {"dtensor-v2"}, "dtensor-v3", 1);
  EXPECT_EQ(result.answers[0].price_us, 0.0);
  EXPECT_FALSE(result.answers[0].reference_us.has_value());
  EXPECT_TRUE(result.answers[0].reference_impossible.starts_with("input 0: "))
      << result.answers[0].reference_impossible;
  EXPECT_EQ(result.best.us, 22.81853570377591);
}

// pytorch/pytorch#172042: the first versions price P(sum)->P(max) at zero, and the executor refuses
// it.
TEST(Questionnaire, AChoiceThatNoCollectiveDoesSaysSoAndIsNeverTheBest) {
  const QuestionResult result = ask(select_question("aten.relu.default", "2x4", {"f32[64,64] PR"}),
                                    {"dtensor-v0", "dtensor-v3"}, "dtensor-v0");
  ASSERT_EQ(result.answers.size(), 2U);
  EXPECT_EQ(result.answers[0].price_us, 0.0);
  EXPECT_EQ(result.answers[0].reference_us, 0.0);
  EXPECT_TRUE(result.answers[0].cannot_run.starts_with("input 0: P(sum)->P(max) is refused"))
      << result.answers[0].cannot_run;
  EXPECT_EQ(result.answers[1].cannot_run, "");
  EXPECT_EQ(result.best.choice, result.answers[1].choice);

  const QuestionResult plan =
      ask(plan_question("2x4", "f32[64,64]", "P(sum)R", "P(max)R"), {"dtensor-v0", "alpha-beta"});
  EXPECT_NE(plan.answers[0].cannot_run, "");
  EXPECT_EQ(plan.answers[1].cannot_run, "");
  EXPECT_EQ(plan.best.choice, plan.answers[1].choice);
}

TEST(Questionnaire, TheReferencePricesTheStacksOwnPlansAndKernel) {
  const Question question = select_question("aten.mm.default", "2x4",
                                            {"bf16[512,256] S(0)P(sum)", "bf16[256,512] RS(0)"});
  const QuestionResult result = ask(question, {"dtensor-v3"});
  StackEvaluator own(stack_with("dtensor-v3"), topology_with(8));
  StackEvaluator reference(stack_with("alpha-beta"), topology_with(8));
  const Selection selection = own.select(question.call, question.mesh);
  const auto tensors = question.call.tensors();
  double us =
      reference.compute_us(find_op_rule("aten.mm.default", Release::k2_13), question.call,
                           question.mesh, selection.choice.inputs, selection.choice.outputs);
  EXPECT_GT(us, 0.0);
  std::size_t moved = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout to(selection.choice.inputs[i]);
    const Plan plan = own.on(question.mesh).plan(tensors[i]->meta, tensors[i]->layout, to);
    us += reference.on(question.mesh).price_of(plan).total.value();
    moved += plan.steps.empty() ? 0U : 1U;
  }
  EXPECT_GT(moved, 0U);
  EXPECT_DOUBLE_EQ(result.answers[0].reference_us.value(), us);
  EXPECT_EQ(result.answers[0].path.size(), moved);
}

TEST(Questionnaire, BestIsNeverDearerThanAnyChoice) {
  std::ifstream in(SHARDLAB_SOURCE_DIR "/configs/suites/ops-small.json");
  const Suite suite = Suite::from_json(nlohmann::json::parse(in), {"ops-small.json", ""});
  Questionnaire questionnaire(
      stacks_of({"dtensor-v1", "dtensor-v3", "dtensor-v3g", "dtensor-v4", "shardlab"}),
      stack_with("alpha-beta"), topology_with(8));
  std::size_t judged = 0;
  for (const Question& question : suite.questions) {
    const QuestionResult result = questionnaire.ask(question);
    ASSERT_EQ(result.error, "") << question.id;
    ASSERT_EQ(result.answers.size(), 5U);
    for (const Answer& answer : result.answers) {
      EXPECT_GE(answer.price_us.value_or(kInfinity), 0.0) << question.id;
      EXPECT_EQ(answer.totals.size(), answer.reference_totals.size()) << question.id;
      if (!answer.reference_us) continue;
      ++judged;
      ASSERT_TRUE(result.best.us.has_value()) << question.id;
      EXPECT_LE(*result.best.us, *answer.reference_us) << question.id << ": " << answer.choice;
    }
  }
  EXPECT_GT(judged, 4 * suite.questions.size());
}

TEST(Questionnaire, TheElementsOfAForeachAreAskedApartAndAddedUp) {
  const auto foreach_of = [](const std::string& left, const std::string& right) {
    return select_question("aten._foreach_add.List", "4", {left, right});
  };
  const std::vector<std::string> names = {"dtensor-v3", "dtensor-v4"};
  const QuestionResult both =
      ask(foreach_of("[f32[64,64] S(0); f32[32,8] P(sum)]", "[f32[64,64] S(1); f32[32,8] S(0)]"),
          names);
  const QuestionResult first = ask(foreach_of("[f32[64,64] S(0)]", "[f32[64,64] S(1)]"), names);
  const QuestionResult second = ask(foreach_of("[f32[32,8] P(sum)]", "[f32[32,8] S(0)]"), names);
  for (std::size_t s = 0; s < names.size(); ++s) {
    const Answer& sum = both.answers.at(s);
    EXPECT_GT(sum.price_us.value(), 0.0);
    EXPECT_DOUBLE_EQ(*sum.price_us,
                     first.answers[s].price_us.value() + second.answers[s].price_us.value());
    EXPECT_DOUBLE_EQ(sum.reference_us.value(),
                     *first.answers[s].reference_us + *second.answers[s].reference_us);
    EXPECT_EQ(sum.choice, first.answers[s].choice + "; " + second.answers[s].choice);
    // Only a list of several elements has to say which of them a step moves.
    std::vector<std::string> steps;
    for (const std::string& step : first.answers[s].path) steps.push_back("element 0, " + step);
    for (const std::string& step : second.answers[s].path) steps.push_back("element 1, " + step);
    EXPECT_EQ(sum.path, steps);
    EXPECT_TRUE(steps.front().starts_with("element 0, input ")) << steps.front();
    EXPECT_TRUE(steps.back().starts_with("element 1, input ")) << steps.back();
  }
  EXPECT_DOUBLE_EQ(both.best.us.value(), *first.best.us + *second.best.us);
}

TEST(Questionnaire, AQuestionThatOneStackCanNotTakeIsNotAsked) {
  Question question =
      select_question("aten._foreach_add.List", "4", {"[f32[8] R]", "[f32[8] S(0)]"});
  const Stack legacy = stack_with("dtensor-v3", R"({"rules": "dtensor-legacy"})");
  const QuestionResult result =
      Questionnaire({stack_with("dtensor-v3"), legacy}, stack_with("alpha-beta"), topology_with(8))
          .ask(question);
  EXPECT_EQ(
      result.error,
      "aten._foreach_add.List: no sharding strategy registered in rule set dtensor-legacy; valid: "
      "dtensor-2.15, dtensor-2.14, dtensor-2.13, shardlab, autoparallel, autoparallel-2.15");
  EXPECT_TRUE(result.answers.empty());
}

TEST(Questionnaire, AnInPlaceOpThatWouldMoveIsNotAsked) {
  const QuestionResult result =
      ask(select_question("aten.relu_.default", "4", {"f32[8] P(sum)"}), {"dtensor-v3"});
  EXPECT_EQ(result.error,
            "aten.relu_.default: in-place operations that require placement changes are not "
            "supported (input P(sum))");
}

}  // namespace questionnaire_test
}  // namespace shardlab

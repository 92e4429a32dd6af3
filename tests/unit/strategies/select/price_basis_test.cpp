// What the reference's price of a choice rests on: each communication step of the very plans that
// are priced is looked up among the measured rows.
#include "strategies/select/price_basis.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "strategies/select/questionnaire.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace select_price_basis_test {

using testing_support::call_of;
using testing_support::stack_with;
using testing_support::topology_with;

// The measured rows are of all_gather among 8 ranks of one host, from 1 MiB to 64 MiB, and of
// nothing else.
Stack fitted() {
  return stack_with("alpha-beta", R"({"name": "fitted", "collective_model": {
      "name": "piecewise", "params": {}, "rows": [
        {"collective": "all_gather", "ranks": 8, "hosts": 1, "latency_us": 10, "sharpness": 0.7,
         "bandwidth_gb_per_s": 300, "kinks": [[1048576, 1.0], [67108864, 1.0]]}]}})");
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

Question select_question(const std::string& op, const std::string& mesh,
                         const std::vector<std::string>& inputs) {
  Question question;
  question.mesh = DeviceMesh::parse(mesh);
  question.call = call_of(op, inputs, question.mesh.ndim());
  return question;
}

QuestionResult ask(const Question& question, const Stack& reference = fitted()) {
  return Questionnaire({stack_with("dtensor-v3"), reference}, reference, topology_with(8))
      .ask(question);
}

// A basis as text: "2 measured; all_gather of 4 ranks on 1 host".
std::string text(const std::optional<reports::PriceBasis>& basis) {
  if (!basis) return "none";
  std::string text = std::to_string(basis->measured_steps) + " measured";
  for (const std::string& gap : basis->not_measured) text += "; " + gap;
  return text;
}

TEST(PriceBasis, EveryStepOfAPlanIsLookedUp) {
  struct Case {
    const char* mesh;
    const char* tensor;
    const char* from;
    const char* to;
    const char* basis;
  };
  const std::vector<Case> cases = {
      {"8", "f32[1024,1024]", "S(0)", "R", "1 measured"},  // 4 MiB
      {"8", "f32[8,8]", "S(0)", "R", "0 measured; all_gather of 8 ranks on 1 host below 1 MiB"},
      {"8", "f32[8192,8192]", "S(0)", "R",
       "0 measured; all_gather of 8 ranks on 1 host above 64 MiB"},
      {"4", "f32[1024,1024]", "S(0)", "R", "0 measured; all_gather of 4 ranks on 1 host"},
      {"8", "f32[1024,1024]", "P(sum)", "R", "0 measured; all_reduce of 8 ranks on 1 host"},
      {"16", "f32[1024,1024]", "S(0)", "R", "0 measured; all_gather of 16 ranks on 2 hosts"},
      // The steps go from the inside out: 8 ranks of one host, then 2 ranks of two hosts.
      {"2x8", "f32[1024,1024]", "S(0)S(0)", "RR", "1 measured; all_gather of 2 ranks on 2 hosts"},
      {"8", "f32[1024,1024]", "R", "S(0)", "0 measured"},     // a chunk is local
      {"8", "f32[1024,1024]", "S(0)", "S(0)", "0 measured"},  // nothing moves
      {"1x8", "f32[1024,1024]", "S(0)R", "RR", "0 measured"}  // a group of one rank moves nothing
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(std::string(one.mesh) + " " + one.from + " to " + one.to);
    const QuestionResult result = ask(plan_question(one.mesh, one.tensor, one.from, one.to));
    EXPECT_EQ(text(result.answers.at(0).basis), one.basis);
    EXPECT_EQ(text(result.best.basis), one.basis);
  }
}

TEST(PriceBasis, AGapOfTwoStepsIsToldOnce) {
  const QuestionResult result = ask(plan_question("4x4", "f32[1024,1024]", "S(0)S(1)", "RR"));
  // Four ranks of one host and then four of two hosts make two gaps; within one host the two would
  // be one.
  EXPECT_EQ(result.answers[0].basis->not_measured.size(), 2U);
  const QuestionResult inside = ask(plan_question("2x2", "f32[1024,1024]", "S(0)S(1)", "RR"));
  EXPECT_EQ(text(inside.answers[0].basis), "0 measured; all_gather of 2 ranks on 1 host");
}

TEST(PriceBasis, MergedStepsCountAsTheyRun) {
  const DeviceMesh mesh = DeviceMesh::parse("a=2,b=4").flatten(std::vector<std::string>{"a", "b"});
  Stack stack = fitted();
  stack.redistribution.merge = MergeMode::kExecute;
  StackEvaluator evaluator(stack, topology_with(8));
  Redistributor& redistributor = evaluator.on(mesh);
  const Plan plan = redistributor.plan(TensorMeta::parse("f32[1024,1024]"),
                                       Layout::parse("S(0)S(0)", 2), Layout::parse("RR", 2));
  ASSERT_EQ(plan.steps.size(), 1U);
  reports::PriceBasis basis;
  add_steps(basis, redistributor.repriced(plan), redistributor,
            MeasuredRanges(evaluator.collective_model().measured()));
  EXPECT_EQ(text(basis), "1 measured") << "one all-gather of 8 ranks, not two of 2 and 4";
}

TEST(PriceBasis, AnOpsBasisCountsTheMovesOfAllItsInputs) {
  // Neither stack can leave both inputs where they are.
  const Question question =
      select_question("aten.add.Tensor", "8", {"f32[1024,1024] S(0)", "f32[1024,1024] S(1)"});
  const QuestionResult result = ask(question);
  ASSERT_EQ(result.error, "");
  for (const Answer& answer : result.answers) {
    EXPECT_EQ(text(answer.basis), "0 measured; all_to_all of 8 ranks on 1 host") << answer.choice;
  }
  EXPECT_EQ(text(result.best.basis), "0 measured; all_to_all of 8 ranks on 1 host");
  const QuestionResult local =
      ask(select_question("aten.add.Tensor", "8", {"f32[1024,1024] S(0)", "f32[1024,1024] S(0)"}));
  EXPECT_EQ(text(local.answers[0].basis), "0 measured");
  EXPECT_EQ(text(local.best.basis), "0 measured");
}

TEST(PriceBasis, TheBestIsTheReferencesOwnOrAStacks) {
  // The reference plans mesh dim by mesh dim. The stack looks for the cheapest way, and may find
  // one that is cheaper by the reference's own prices.
  Stack reference = fitted();
  reference.redistribution.planner = PlannerKind::kGreedy;
  Stack stack = fitted();
  stack.name = "searching";
  stack.redistribution.planner = PlannerKind::kGraph;
  Questionnaire questionnaire({stack}, reference, topology_with(8));
  StackEvaluator own(reference, topology_with(8));
  const std::vector<std::string> placements = {"R", "S(0)", "S(1)", "P(sum)"};
  std::vector<std::string> layouts;
  for (const std::string& left : placements) {
    for (const std::string& right : placements) layouts.push_back(left + right);
  }
  int beaten = 0;
  int differ = 0;
  for (const std::string& from : layouts) {
    for (const std::string& to : layouts) {
      const Question question = plan_question("2x8", "f32[4096,1024]", from, to);
      const QuestionResult result = questionnaire.ask(question);
      const Answer& answer = result.answers.at(0);
      if (!result.best.us || !answer.reference_us) continue;
      SCOPED_TRACE(from + " to " + to);
      Redistributor& redistributor = own.on(question.mesh);
      const Plan plan = redistributor.plan(question.tensor, question.from, question.to);
      reports::PriceBasis basis;
      add_steps(basis, plan, redistributor, MeasuredRanges(own.collective_model().measured()));
      const bool beats = *answer.reference_us < plan.price.total.value();
      EXPECT_EQ(text(result.best.basis), text(beats ? answer.basis : basis));
      beaten += beats ? 1 : 0;
      differ += beats && answer.basis != basis ? 1 : 0;
    }
  }
  EXPECT_GT(beaten, 0);
  EXPECT_GT(differ, 0) << "else this tells nothing of whose basis is kept";
}

TEST(PriceBasis, ElementsOfAForeachAreAddedUp) {
  const QuestionResult both = ask(select_question(
      "aten._foreach_add.List", "8",
      {"[f32[64,64] S(0); f32[32,8] P(sum)]", "[f32[64,64] S(1); f32[32,8] S(0)]"}));
  ASSERT_EQ(both.error, "");
  const QuestionResult first = ask(
      select_question("aten._foreach_add.List", "8", {"[f32[64,64] S(0)]", "[f32[64,64] S(1)]"}));
  const QuestionResult second = ask(
      select_question("aten._foreach_add.List", "8", {"[f32[32,8] P(sum)]", "[f32[32,8] S(0)]"}));
  for (std::size_t s = 0; s < both.answers.size(); ++s) {
    reports::PriceBasis sum = first.answers[s].basis.value();
    add_basis(sum, second.answers[s].basis.value());
    EXPECT_EQ(both.answers[s].basis, sum);
    EXPECT_FALSE(sum.not_measured.empty());
  }
  reports::PriceBasis best = first.best.basis.value();
  add_basis(best, second.best.basis.value());
  EXPECT_EQ(both.best.basis, best);
}

TEST(PriceBasis, IsAbsentWithoutMeasuredRowsAndWithoutAPrice) {
  const Question question = plan_question("8", "f32[1024,1024]", "S(0)", "R");
  const QuestionResult formula = ask(question, stack_with("alpha-beta"));
  EXPECT_EQ(text(formula.answers[0].basis), "none");
  EXPECT_EQ(text(formula.best.basis), "none");
  Stack greedy = fitted();  // the graph planner would find a way over R
  greedy.redistribution.planner = PlannerKind::kGreedy;
  const QuestionResult impossible = ask(plan_question("8", "f32[8]", "S(0)", "P(sum)"), greedy);
  EXPECT_FALSE(impossible.answers[0].reference_us);
  EXPECT_EQ(text(impossible.answers[0].basis), "none");
  EXPECT_EQ(text(impossible.best.basis), "none");
}

}  // namespace select_price_basis_test
}  // namespace shardlab

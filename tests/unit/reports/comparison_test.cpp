#include "reports/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "reports/report.h"
#include "reports/summary.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace comparison_test {

std::vector<std::string> ids(const ComparisonRecord& record, const Comparison& comparison) {
  std::vector<std::string> ids;
  for (const Flip& flip : comparison.flips) ids.push_back(record.questions[flip.question].id);
  return ids;
}

const Flip& flip_of(const ComparisonRecord& record, const Comparison& comparison,
                    const std::string& id) {
  return *std::find_if(comparison.flips.begin(), comparison.flips.end(),
                       [&](const Flip& flip) { return record.questions[flip.question].id == id; });
}

TEST(Comparison, AFlipIsAnotherChoiceThanTheBaselines) {
  const ComparisonRecord record = small_record();
  const Comparison comparison = compare(record);
  EXPECT_EQ(ids(record, comparison), (std::vector<std::string>{"q1", "q4", "q3", "q5", "q7", "q6"}))
      << "by the time that they save or lose, then undecided, then equal";
  EXPECT_EQ(comparison.stacks[0].flips.total, 0);
  EXPECT_EQ(comparison.stacks[1].flips.total, 6);
  EXPECT_EQ(comparison.stacks[1].flips.questions, 7);
}

TEST(Comparison, TheReferenceJudgesEachFlip) {
  const ComparisonRecord record = small_record();
  const Comparison comparison = compare(record);
  const FlipCounts& counts = comparison.stacks[1].flips;
  EXPECT_EQ(counts[Verdict::kBetter], 1);
  EXPECT_EQ(counts[Verdict::kWorse], 2);
  EXPECT_EQ(counts[Verdict::kEqual], 1);
  EXPECT_EQ(counts[Verdict::kUndecided], 2);

  const Flip& better = flip_of(record, comparison, "q1");
  EXPECT_EQ(better.verdict, Verdict::kBetter);
  EXPECT_DOUBLE_EQ(*better.gain_us, 2.0);
  EXPECT_DOUBLE_EQ(*better.gain_percent, 20.0);

  const Flip& worse = flip_of(record, comparison, "q3");
  EXPECT_DOUBLE_EQ(*worse.gain_us, -1.0);
  EXPECT_DOUBLE_EQ(*worse.gain_percent, -25.0);

  const Flip& from_free = flip_of(record, comparison, "q4");
  EXPECT_EQ(from_free.verdict, Verdict::kWorse);
  EXPECT_DOUBLE_EQ(*from_free.gain_us, -2.0);
  EXPECT_EQ(from_free.gain_percent, std::nullopt) << "2 us of 0 us is no percentage";
}

// 2 us apart: half widths of 1 and 2 are 2.24 together, half widths of 1 and 1.5 are 1.80.
TEST(Comparison, AnErrorLargerThanTheDifferenceLeavesAFlipUndecided) {
  ComparisonRecord record = small_record();
  std::vector<StackAnswer>& answers = record.questions[0].answers;
  answers[0].reference_low_us = 9.0;
  answers[0].reference_high_us = 11.0;
  answers[1].reference_low_us = 6.5;
  answers[1].reference_high_us = 9.5;
  EXPECT_EQ(flip_of(record, compare(record), "q1").verdict, Verdict::kBetter);
  answers[1].reference_low_us = 6.0;
  answers[1].reference_high_us = 10.0;
  const Comparison comparison = compare(record);
  const Flip& flip = flip_of(record, comparison, "q1");
  EXPECT_EQ(flip.verdict, Verdict::kUndecided);
  EXPECT_DOUBLE_EQ(*flip.gain_us, 2.0);
  EXPECT_DOUBLE_EQ(gain_error_us(record, flip), std::sqrt(5.0));
  EXPECT_EQ(undecided_reason(record, flip),
            "the choices differ by 2.000 us, and ref knows their difference to 2.236 us (95 %)");
  EXPECT_EQ(comparison.stacks[1].flips[Verdict::kBetter], 0);
  EXPECT_EQ(comparison.stacks[1].flips[Verdict::kUndecided], 3);
  EXPECT_EQ(parse_record(record_text(record), "run.json"), record);
  // Both choices are off alike, so that their difference is surer than either.
  answers[1].reference_gain_error_us = 0.5;
  EXPECT_EQ(flip_of(record, compare(record), "q1").verdict, Verdict::kBetter);
  EXPECT_EQ(parse_record(record_text(record), "run.json"), record);
}

TEST(Comparison, AnUndecidedFlipSaysWhy) {
  const ComparisonRecord record = small_record();
  const Comparison comparison = compare(record);
  EXPECT_EQ(undecided_reason(record, flip_of(record, comparison, "q5")),
            "ref has no price for the choice of new: no table for it");
  EXPECT_EQ(undecided_reason(record, flip_of(record, comparison, "q7")),
            "ref has no price for the choice of old: no finite candidate");
  EXPECT_EQ(undecided_reason(record, flip_of(record, comparison, "q1")), "");
}

TEST(Comparison, ComparesRegretsOverTheDecisionsThatBothAreJudgedOn) {
  const RegretOfBoth both = regret_of_both(small_record(), 1);
  EXPECT_EQ(both.judged, 4);  // q1, q2, q3 and q6
  EXPECT_DOUBLE_EQ(*both.before, (0.25 + 0.5) / 4);
  EXPECT_DOUBLE_EQ(*both.after, (0.25 + 0.5) / 4);
}

TEST(Comparison, AChoiceThatComputesSomethingWrongIsNeitherBetterNorTheBest) {
  ComparisonRecord record = small_record();
  RecordQuestion& cheaper = record.questions[0];  // q1: from 10 us to 8 us
  cheaper.answers[1].computes_wrong = "mesh dim 0, S(0) | P(sum), P(sum): found f32[5,3]";
  cheaper.best.us = 9.0;
  Comparison comparison = compare(record);
  EXPECT_TRUE(comparison.has_wrong);
  EXPECT_EQ(comparison.stacks[1].flips[Verdict::kBetter], 0);
  EXPECT_EQ(comparison.stacks[1].flips[Verdict::kWrong], 1);
  const Flip& wrong = flip_of(record, comparison, "q1");
  EXPECT_EQ(wrong.verdict, Verdict::kWrong);
  EXPECT_FALSE(wrong.gain_us || wrong.delta_us);
  EXPECT_EQ(unusable_reason(record, wrong),
            "new's choice computes something wrong: mesh dim 0, S(0) | P(sum), P(sum): found "
            "f32[5,3]");
  EXPECT_EQ(comparison.stacks[1].regret.computes_wrong, 1);
  EXPECT_EQ(best_known_us(cheaper), 9.0) << "not the 8 us of what computes something else";
  EXPECT_DOUBLE_EQ(*regret(cheaper, 0), 1.0 / 9.0);
  EXPECT_EQ(regret(cheaper, 1), std::nullopt);
  EXPECT_NE(
      summary_sentence(record, comparison).find("1 takes a choice that computes something wrong"),
      std::string::npos)
      << summary_sentence(record, comparison);

  std::swap(cheaper.answers[0], cheaper.answers[1]);  // the candidate mends the baseline
  comparison = compare(record);
  EXPECT_FALSE(comparison.has_wrong);
  EXPECT_EQ(flip_of(record, comparison, "q1").verdict, Verdict::kBetter);
  EXPECT_TRUE(unusable_reason(record, flip_of(record, comparison, "q1"))
                  .starts_with("old's choice computes something wrong: "));
}

TEST(Comparison, AChoiceThatCannotRunIsWorseThanAnyThatRuns) {
  ComparisonRecord record = small_record();
  RecordQuestion& free_before = record.questions[3];  // q4: from 0 us to 2 us
  free_before.answers[0].cannot_run = "input 0: P(sum)->P(max) is refused";
  free_before.best.us = 2.0;
  Comparison comparison = compare(record);
  const Flip& mended = flip_of(record, comparison, "q4");
  EXPECT_EQ(mended.verdict, Verdict::kBetter);
  EXPECT_FALSE(mended.gain_us || mended.gain_percent);
  EXPECT_EQ(unusable_reason(record, mended),
            "old's choice cannot run: input 0: P(sum)->P(max) is refused");
  EXPECT_EQ(comparison.stacks[0].regret.cannot_run, 1);
  EXPECT_EQ(comparison.stacks[1].regret.cannot_run, 0);
  EXPECT_EQ(best_known_us(record.questions[3]), 2.0) << "not the 0 us of what cannot run";
  EXPECT_EQ(regret(record.questions[3], 0), std::nullopt);
  EXPECT_EQ(regret(record.questions[3], 1), 0.0);

  record.questions[3].answers[0].cannot_run.clear();
  record.questions[3].answers[1].cannot_run = "no collective";
  comparison = compare(record);
  EXPECT_EQ(flip_of(record, comparison, "q4").verdict, Verdict::kWorse);
  // If neither choice runs, the comparison prefers neither of them.
  record.questions[3].answers[0].cannot_run = "neither";
  comparison = compare(record);
  EXPECT_EQ(flip_of(record, comparison, "q4").gain_us, -2.0);
}

TEST(Comparison, PricesWithinRoundingAreEqual) {
  ComparisonRecord record = small_record();
  record.questions[0].answers[1].reference_us = 10.0 * (1.0 + 1e-12);
  EXPECT_EQ(flip_of(record, compare(record), "q1").verdict, Verdict::kEqual);
  record.questions[0].answers[1].reference_us = 10.0 * (1.0 + 1e-6);
  EXPECT_EQ(flip_of(record, compare(record), "q1").verdict, Verdict::kWorse);
}

TEST(Comparison, RegretIsTheShareAboveTheBest) {
  const ComparisonRecord record = small_record();
  EXPECT_DOUBLE_EQ(*regret(record.questions[0], 0), 0.25);
  EXPECT_DOUBLE_EQ(*regret(record.questions[0], 1), 0.0);
  EXPECT_DOUBLE_EQ(*regret(record.questions[5], 1), 0.5);
  EXPECT_DOUBLE_EQ(*regret(record.questions[3], 0), 0.0) << "free, and so is the best";
  EXPECT_EQ(regret(record.questions[3], 1), std::nullopt) << "2 us above 0 us has no ratio";
}

TEST(Comparison, AnAnswerBelowTheRecordedBestIsTheBest) {
  RecordQuestion question = small_record().questions[0];
  question.answers[1].reference_us =
      5.0;  // another rule set found what the list of candidates lacks
  EXPECT_DOUBLE_EQ(*best_known_us(question), 5.0);
  EXPECT_DOUBLE_EQ(*regret(question, 0), 1.0);
  EXPECT_DOUBLE_EQ(*regret(question, 1), 0.0);
}

TEST(Comparison, WithoutABestTheAnswersThemselvesAreAllThatIsKnown) {
  RecordQuestion question = small_record().questions[0];
  question.best = {"", std::nullopt, "no candidate has a price"};
  EXPECT_DOUBLE_EQ(*regret(question, 0), 0.25);
}

TEST(Comparison, SummarisesTheRegretOfEachStack) {
  const Comparison comparison = compare(small_record());
  const RegretSummary& before = comparison.stacks[0].regret;
  EXPECT_EQ(before.judged, 6);
  EXPECT_DOUBLE_EQ(*before.mean, 0.125);
  EXPECT_DOUBLE_EQ(*before.weighted_mean, 0.09375);
  EXPECT_DOUBLE_EQ(*before.p50, 0.0);
  EXPECT_DOUBLE_EQ(*before.p99, 0.4875);
  EXPECT_DOUBLE_EQ(*before.max, 0.5);
  EXPECT_EQ(before.impossible, 1);
  EXPECT_EQ(before.unbounded, 0);
  EXPECT_EQ(before.unpriced, 0);

  const RegretSummary& after = comparison.stacks[1].regret;
  EXPECT_EQ(after.judged, 5);
  EXPECT_DOUBLE_EQ(*after.mean, 0.15);
  EXPECT_DOUBLE_EQ(*after.weighted_mean, 0.75 / 7.0);
  EXPECT_DOUBLE_EQ(*after.p99, 0.49);
  EXPECT_EQ(after.impossible, 0);
  EXPECT_EQ(after.unbounded, 1);
  EXPECT_DOUBLE_EQ(*after.unbounded_max_us, 2.0);
  EXPECT_EQ(after.unpriced, 1);
}

TEST(Comparison, EveryAnswerIsCountedExactlyOnce) {
  const ComparisonRecord record = small_record();
  for (const StackSummary& stack : compare(record).stacks) {
    const RegretSummary& regret = stack.regret;
    EXPECT_EQ(
        regret.judged + regret.unbounded + regret.impossible + regret.cannot_run + regret.unpriced,
        7)
        << stack.name;
  }
}

TEST(Comparison, AveragesRankCorrelationWhereThereIsOne) {
  const Comparison comparison = compare(small_record());
  EXPECT_EQ(comparison.stacks[0].ranked, 2);
  EXPECT_DOUBLE_EQ(*comparison.stacks[0].kendall_tau, 0.75);
  EXPECT_DOUBLE_EQ(*comparison.stacks[0].weighted_kendall_tau, 0.625);
  EXPECT_EQ(comparison.stacks[1].ranked, 1);
  EXPECT_DOUBLE_EQ(*comparison.stacks[1].kendall_tau, 0.8);
  EXPECT_TRUE(comparison.is_weighted);
}

TEST(Comparison, CountsTiesNearTiesAndOrderDependence) {
  const Comparison comparison = compare(small_record());
  EXPECT_EQ(comparison.stacks[0].ties.exact, 1);
  EXPECT_EQ(comparison.stacks[0].ties.most_candidates, 2);
  EXPECT_EQ(comparison.stacks[0].ties.near, 1) << "a margin of 0.05 us at 9 us";
  EXPECT_EQ(comparison.stacks[0].ties.order_dependent, 1);
  EXPECT_EQ(comparison.stacks[1].ties.exact, 0);
}

TEST(Comparison, GroupsFlipsByOpSizeAndMesh) {
  const StackSummary stack = compare(small_record()).stacks[1];
  EXPECT_EQ(stack.by_op[0].label, "aten.mm.default");
  EXPECT_EQ(stack.by_op[0].counts.total, 2);
  EXPECT_EQ(stack.by_op.back().label, "aten.add.Tensor");
  EXPECT_EQ(stack.by_op.back().counts.total, 0);
  EXPECT_EQ(stack.by_size_band[0].counts.total, 5);
  EXPECT_EQ(stack.by_size_band[1].counts.total, 0) << "q2, 1 MB exactly, does not flip";
  EXPECT_EQ(stack.by_size_band[1].counts.questions, 1);
  EXPECT_EQ(stack.by_size_band[2].counts.total, 1) << "q3, 64 MB exactly";
  EXPECT_EQ(stack.by_mesh_dims[0].label, "1-D");
  EXPECT_EQ(stack.by_mesh_dims[0].counts.total, 1);
  EXPECT_EQ(stack.by_mesh_dims[1].counts.total, 5);
}

TEST(Comparison, SizeBandsAreDecimal) {
  EXPECT_EQ(kSizeBands[size_band(0)], "<1MB");
  EXPECT_EQ(kSizeBands[size_band(999999)], "<1MB");
  EXPECT_EQ(kSizeBands[size_band(1e6)], "1-64MB");
  EXPECT_EQ(kSizeBands[size_band(63999999)], "1-64MB");
  EXPECT_EQ(kSizeBands[size_band(64e6)], ">=64MB");
}

TEST(Comparison, AFlipThatCannotRunComesFirst) {
  ComparisonRecord record = small_record();
  record.questions[5].answers[1].cannot_run = "no collective";  // q6, which changed nothing
  const Comparison comparison = compare(record);
  EXPECT_EQ(ids(record, comparison).front(), "q6");
  EXPECT_EQ(comparison.flips.front().delta_us, std::nullopt);
}

TEST(Comparison, AFlipCountsAsOftenAsItsQuestionIsAsked) {
  ComparisonRecord record = small_record();
  record.questions[2].count = 4;  // q3 loses 1 us, four times, of 10 + 15 + 16 + 6 = 47
  const Comparison comparison = compare(record);
  EXPECT_EQ(ids(record, comparison).front(), "q3");
  EXPECT_DOUBLE_EQ(*comparison.flips.front().delta_us, 4.0);
  EXPECT_DOUBLE_EQ(*comparison.flips.front().share_percent, 400.0 / 47.0);
  EXPECT_DOUBLE_EQ(*comparison.flips.front().gain_us, -1.0) << "the gain is that of one question";
}

TEST(Comparison, ARecordedChoiceTellsNothingOfTies) {
  ComparisonRecord record = small_record();
  for (RecordQuestion& question : record.questions) {
    question.answers[0].ties = 2;
    question.answers[1].ties = 0;
  }
  const Comparison comparison = compare(record);
  const auto priced = std::ranges::count_if(record.questions, [](const RecordQuestion& question) {
    return question.answers[1].price_us.has_value();
  });
  EXPECT_EQ(comparison.stacks[0].ties.exact, std::ssize(record.questions));
  EXPECT_EQ(comparison.stacks[0].ties.unknown, 0);
  EXPECT_EQ(comparison.stacks[1].ties.exact, 0);
  EXPECT_EQ(comparison.stacks[1].ties.unknown, priced);
}

TEST(Comparison, TheLowestRegretLeavesAStackThatJudgesItselfAside) {
  ComparisonRecord record = small_record();
  EXPECT_EQ(lowest_regret(record, compare(record))->name, "old");
  // A reference that does not take what it prices lowest has a regret like any other stack.
  record.reference.name = "old";
  EXPECT_EQ(lowest_regret(record, compare(record))->name, "old");
  for (RecordQuestion& question : record.questions) {
    const std::optional<double>& own = question.answers[0].reference_us;
    if (!question.best.us || !own) continue;
    question.best.us = own;
    std::optional<double>& other = question.answers[1].reference_us;
    if (other) other = std::max(*other, *own);
  }
  EXPECT_EQ(lowest_regret(record, compare(record))->name, "new");
  record.questions.clear();
  EXPECT_EQ(lowest_regret(record, compare(record)), nullptr);
}

TEST(Comparison, NoQuestionsAreNoFlipsAndNoRegret) {
  ComparisonRecord record = small_record();
  record.questions.clear();
  const Comparison comparison = compare(record);
  EXPECT_TRUE(comparison.flips.empty());
  EXPECT_EQ(comparison.stacks[1].regret.mean, std::nullopt);
}

TEST(Comparison, ARecordThatContradictsItselfIsRefused) {
  ComparisonRecord record = small_record();
  record.questions[0].answers.pop_back();
  EXPECT_THROW(static_cast<void>(compare(record)), ContractError);
}

}  // namespace comparison_test
}  // namespace shardlab::reports

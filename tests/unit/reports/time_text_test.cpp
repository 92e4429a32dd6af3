// What a change does to time, in words: every case of the sentence reads well, and the tables and
// the terminal say the same.
#include "reports/time_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/report.h"
#include "reports/summary.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace time_text_test {

// A suite of one question that takes `before` microseconds under the baseline and `after[i]` under
// the i-th candidate. Each other price is another choice.
RecordQuestion one_question(const std::string& suite, double before, std::vector<double> after) {
  std::vector<StackAnswer> answers = {answer("RR", before, before)};
  for (const double us : after) answers.push_back(answer(us == before ? "RR" : "S(0)R", us, us));
  RecordQuestion made = question(suite + "/q", "aten.mm.default", 512, before, answers);
  made.suite = suite;
  return made;
}

ComparisonRecord record_of(std::vector<RecordQuestion> questions) {
  ComparisonRecord record = small_record();
  record.stacks = {"old"};
  for (std::size_t i = 1; i < questions.at(0).answers.size(); ++i) {
    record.stacks.push_back(i == 1 ? "new" : "new-" + std::to_string(i));
  }
  record.questions = std::move(questions);
  record.invariants.clear();
  record.curves.clear();
  return record;
}

std::string sentence(const ComparisonRecord& record) {
  return time_sentence(record, compare(record));
}

const std::string kBy = ", by the reference (`ref`: datasheet, not measured).";

TEST(TimeSentence, OneSuiteIsShortenedOrLengthened) {
  EXPECT_EQ(sentence(record_of({one_question("ops", 1000, {980})})),
            "Changing `old` to `new` shortens `ops` by 2.00 %: its choices take 20.00 us less than "
            "the 1.000 ms that they took before" +
                kBy);
  EXPECT_EQ(sentence(record_of({one_question("ops", 1000, {1200})})),
            "Changing `old` to `new` lengthens `ops` by 20.0 %: its choices take 200.0 us more "
            "than the 1.000 ms that they took before" +
                kBy);
}

TEST(TimeSentence, NamesTheFirstQuestionsThatWereNotAsked) {
  ComparisonRecord record = record_of({one_question("ops", 1000, {980})});
  const std::string asked = sentence(record);
  record.not_asked = {{"ops/a", "ops", "aten.a", "aten.a: no rule"}};
  EXPECT_EQ(sentence(record),
            asked + " 1 of 2 questions was not asked: `ops/a`, because aten.a: no rule.");
  for (const char* id : {"ops/b", "ops/c", "ops/d", "ops/e"}) {
    record.not_asked.push_back({id, "ops", "aten.b", "aten.b: no rule"});
  }
  EXPECT_EQ(sentence(record),
            asked +
                " 5 of 6 questions were not asked: `ops/a`, `ops/b`, `ops/c` and 2 more, the "
                "first because aten.a: no rule.");
}

TEST(TimeSentence, WhatChangesNothingSaysSoAndByHowMuch) {
  EXPECT_EQ(sentence(record_of({one_question("ops", 1e6, {1e6 - 11.2})})),
            "Changing `old` to `new` changes almost nothing in time: the choices of `ops` take "
            "1.000 s as before (-0.001 %, -11.20 us)" +
                kBy);
  EXPECT_EQ(sentence(record_of({one_question("ops", 1000, {1000})})),
            "Changing `old` to `new` changes nothing in time: the choices of `ops` take 1.000 ms "
            "as before" +
                kBy);
}

TEST(TimeSentence, WhereAStepIsToldTooNothingIsSaidOfItsTime) {
  ComparisonRecord record = record_of({one_question("llama", 1000, {1000})});
  StepComparison step;
  step.program = "llama";
  step.candidate = "new";
  step.step_us = {100.0, 90.0};
  step.peak_bytes = {1.0, 1.0};
  record.steps = {step};
  EXPECT_EQ(sentence(record),
            "Changing `old` to `new` changes nothing in the time of single operators: the choices "
            "of `llama` take 1.000 ms as before, each asked as under `old`" +
                kBy);
}

TEST(TimeSentence, OfSeveralSuitesItNamesTheOneThatChangesMost) {
  EXPECT_EQ(
      sentence(record_of({one_question("a", 1000, {999}), one_question("b", 1000, {1050}),
                          one_question("c", 1000, {1000})})),
      "Changing `old` to `new` lengthens `b` by 5.00 %, which is the largest change of 3 "
      "suites: its choices take 50.00 us more than the 1.000 ms that they took before, by the "
      "reference (`ref`: datasheet, not measured); the other 2 suites change by -0.10 % to "
      "0 %.");
  EXPECT_EQ(
      sentence(record_of({one_question("a", 1000, {1000}), one_question("b", 1000, {950})})),
      "Changing `old` to `new` shortens `b` by 5.00 %, which is the largest change of 2 "
      "suites: its choices take 50.00 us less than the 1.000 ms that they took before, by the "
      "reference (`ref`: datasheet, not measured); the other suite, `a`, does not change.");
  EXPECT_EQ(
      sentence(record_of({one_question("a", 1e6, {1e6 - 30}), one_question("b", 1e6, {1e6})})),
      "Changing `old` to `new` changes almost nothing in time: of 2 suites, `a` changes most, by "
      "-0.003 % (-30.00 us of 1.000 s)" +
          kBy);
  EXPECT_EQ(sentence(record_of({one_question("a", 10, {10}), one_question("b", 10, {10})})),
            "Changing `old` to `new` changes nothing in time: the choices of both suites take as "
            "long as before" +
                kBy);
  EXPECT_EQ(sentence(record_of({one_question("a", 10, {10}), one_question("b", 10, {10}),
                                one_question("c", 10, {10})})),
            "Changing `old` to `new` changes nothing in time: the choices of all 3 suites take as "
            "long as before" +
                kBy);
}

TEST(TimeSentence, FromNoTimeThereIsNoPercentage) {
  EXPECT_EQ(sentence(record_of({one_question("ops", 0, {2})})),
            "Changing `old` to `new` lengthens `ops` by 2.000 us: its choices take 2.000 us, where "
            "they took no time before" +
                kBy);
}

TEST(TimeSentence, NothingJudgedIsNotCalledNoChange) {
  ComparisonRecord record = record_of({one_question("ops", 1000, {980})});
  record.questions[0].answers[1] = impossible_answer("a partial can't become another partial");
  EXPECT_EQ(sentence(record),
            "Changing `old` to `new` has no known effect on time, because every decision has a "
            "choice that the reference (`ref`: datasheet, not measured) does not price or that "
            "cannot run: a partial can't become another partial.");
  // The whole summary goes on with the flips, and has no regret to tell of.
  record.questions[0].answers[0] = impossible_answer("nothing fits");
  record.questions[0].best = {"", std::nullopt, "nothing fits"};
  EXPECT_TRUE(summary_sentence(record, compare(record))
                  .ends_with(": nothing fits. It does not flip the only decision."))
      << summary_sentence(record, compare(record));
}

TEST(TimeSentence, SaysHowManyQuestionsAreLeftOut) {
  EXPECT_TRUE(sentence(small_record())
                  .ends_with("measured). 2 of 7 questions are left out of the times, because a "
                             "choice has no price or cannot run."))
      << sentence(small_record());
  ComparisonRecord record =
      record_of({one_question("ops", 10, {10}), one_question("ops", 10, {10})});
  record.questions[1].id = "ops/q2";
  record.questions[1].answers[0].cannot_run = "no collective";
  EXPECT_TRUE(
      sentence(record).ends_with(" 1 of 2 questions is left out of the times, because a "
                                 "choice has no price or cannot run."));
  // A suite without any time is left out as a whole.
  record.questions[1].suite = "other";
  EXPECT_TRUE(
      sentence(record).starts_with("Changing `old` to `new` changes nothing in time: the "
                                   "choices of `ops` take 10.00 us as before"));
  EXPECT_NE(sentence(record).find(" 1 of 2 questions is left out"), std::string::npos);
}

TEST(TimeSentence, SaysThatAFlipWithoutATimeIsNotKnown) {
  ComparisonRecord record =
      record_of({one_question("ops", 10, {10}), one_question("ops", 10, {10})});
  record.questions[1].id = "ops/q2";
  StackAnswer& flipped = record.questions[1].answers[1];
  flipped.choice = "RP(sum)";
  flipped.reference_us.reset();
  flipped.reference_impossible = "no table";
  EXPECT_TRUE(sentence(record).starts_with(
      "Changing `old` to `new` changes nothing in the time that is known: the choices of `ops` "
      "take 10.00 us as before"))
      << sentence(record);
}

TEST(TimeSentence, SeveralCandidatesAreToldInTurn) {
  EXPECT_EQ(
      sentence(record_of({one_question("ops", 1e6, {9e5, 1e6, 1e6 + 20})})),
      "Against `old` and by the reference (`ref`: datasheet, not measured), `new` shortens "
      "`ops` by 10.0 %, `new-2` changes nothing in time and `new-3` changes almost nothing in "
      "time (`ops`: +0.002 %).");
  EXPECT_EQ(
      sentence(record_of({one_question("a", 100, {90, 100}), one_question("b", 100, {100, 103})})),
      "Against `old` and by the reference (`ref`: datasheet, not measured), `new` changes "
      "`a` most (-10.0 %) and `new-2` changes `b` most (+3.00 %).");
}

TEST(TimeSentence, ACandidatesQuestionsWithoutATimeAreCounted) {
  ComparisonRecord record =
      record_of({one_question("ops", 10, {10, 10}), one_question("ops", 10, {10, 10})});
  record.questions[1].id = "ops/q2";
  record.questions[1].answers[2].cannot_run = "no collective";
  EXPECT_EQ(sentence(record),
            "Against `old` and by the reference (`ref`: datasheet, not measured), `new` changes "
            "nothing in time and `new-2` changes nothing in time. Up to 1 of 2 questions are left "
            "out of a candidate's times, because a choice has no price or cannot run.");
}

TEST(TimeSentence, OfManyCandidatesOnlyTheLargestChangeIsTold) {
  EXPECT_EQ(sentence(record_of({one_question("ops", 100, {99, 98, 103, 100})})),
            "Against `old` and by the reference (`ref`: datasheet, not measured), `new-3` changes "
            "`ops` by +3.00 %, which is the largest change of the 4 candidates.");
  EXPECT_EQ(sentence(record_of({one_question("ops", 100, {100, 100, 100, 100})})),
            "Against `old` and by the reference (`ref`: datasheet, not measured), none of the 4 "
            "candidates changes anything in time.");
  EXPECT_EQ(sentence(record_of({one_question("ops", 1e6, {1e6, 1e6 - 10, 1e6, 1e6})})),
            "Against `old` and by the reference (`ref`: datasheet, not measured), none of the 4 "
            "candidates changes anything in time (at most, `new-2` changes `ops` by -0.001 %).");
}

TEST(TimeTables, HoldTheTimesAndTheCollectives) {
  ComparisonRecord record = record_of({one_question("ops", 1000, {980})});
  record.questions[0].answers[0].traffic = {{"all_gather", {2, 8192}}};
  record.questions[0].answers[1].traffic = {{"all_gather", {1, 4096}}};
  const std::vector<Table> tables = time_tables(record, compare(record));
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(std::get<double>(tables[0].rows[0][2].value), 1000.0);
  EXPECT_EQ(std::get<double>(tables[0].rows[0][3].value), 980.0);
  EXPECT_EQ(std::get<double>(tables[0].rows[0][5].value), -2.0);
  EXPECT_EQ(std::get<std::string>(tables[1].rows[0][1].value), "all_gather");
  EXPECT_EQ(std::get<double>(tables[1].rows[0][3].value), 1.0);
  EXPECT_EQ(std::get<double>(tables[1].rows[0][6].value), -50.0);
  for (const Table& table : time_tables(small_record(), compare(small_record()))) {
    for (const Row& row : table.rows) EXPECT_EQ(row.size(), table.columns.size());
  }
}

TEST(ComparisonText, ShowsSuitesCollectivesAndTheLargestFlips) {
  ComparisonRecord record = record_of({one_question("ops", 1000, {980})});
  record.questions[0].count = 3;
  record.questions[0].answers[0].traffic = {{"all_gather", {2, 8192}}};
  record.questions[0].answers[1].traffic = {{"all_gather", {1, 4096}}};
  const ComparisonText text = comparison_text(record, compare(record));
  EXPECT_THAT(text.suites,
              testing::ElementsAre(
                  testing::ElementsAre("suite", "", "before", "after", "change", "bytes before",
                                       "bytes after"),
                  testing::ElementsAre("ops", "time", "3.000 ms", "2.940 ms", "-2.00 %"),
                  testing::ElementsAre("", "all_gather", "6", "3", "-3", "24.6 kB", "12.3 kB")));
  EXPECT_EQ(text.flips_title,
            "flips that save or lose most, with their share of the suite's time:");
  EXPECT_THAT(text.flips,
              testing::ElementsAre(testing::ElementsAre(
                  "-60.00 us", "-2.00 %", "aten.mm.default on 2x4, 512 B, asked 3 times (ops/q)")));
  EXPECT_EQ(text.hidden_flips, "");
  const ComparisonText hidden =
      comparison_text(record, compare(record, {.min_share_percent = 2.5}));
  EXPECT_THAT(hidden.flips, testing::IsEmpty());
  EXPECT_EQ(hidden.flips_title, "");
  EXPECT_EQ(hidden.hidden_flips, "1 flip below 2.50 % of the suite's time is not shown");
}

TEST(ChangePercent, ShowsAsManyDigitsAsItTakes) {
  EXPECT_EQ(change_percent(-2.094), "-2.09 %");
  EXPECT_EQ(change_percent(12.34), "+12.3 %");
  EXPECT_EQ(change_percent(-0.0011175), "-0.001 %");
  EXPECT_EQ(change_percent(-0.04), "-0.04 %");
  EXPECT_EQ(change_percent(0.0), "0 %");
  EXPECT_EQ(change_percent(-1e-9), "-<0.000001 %");
  EXPECT_EQ(size_percent(-150.0), "150.0 %");
  EXPECT_EQ(change_duration(-3663.6), "-3.664 ms");
  EXPECT_EQ(change_duration(0.0), "0 us");
}

}  // namespace time_text_test
}  // namespace shardlab::reports

// What a candidate does to whole suites: sums that are worked out by hand, and sums over large
// records that are taken again here, from the JSON of the record and in another order.
#include "reports/suite_change.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/comparison.h"
#include "reports/report.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace suite_change_test {

using nlohmann::json;

// Of the small record (sample_record.h), q5 and q7 have no time under both stacks. The others take
//   old  10 + 3 x 5 + 4 + 0 + 6 = 35 us        new  8 + 3 x 5 + 5 + 2 + 6 = 36 us.
TEST(SuiteChange, AddsWhatTheChoicesTakeAsOftenAsTheyAreAsked) {
  const std::vector<SuiteChange> changes = change_by_suite(small_record());
  ASSERT_EQ(changes.size(), 1U);
  const SuiteChange& change = changes[0];
  EXPECT_EQ(change.name, "small");
  EXPECT_EQ(change.questions, 7);
  EXPECT_EQ(change.timed, 5);
  EXPECT_DOUBLE_EQ(change.baseline_us, 35.0);
  EXPECT_DOUBLE_EQ(change.candidate_us, 36.0);
  EXPECT_DOUBLE_EQ(change.delta_us, 1.0);
  EXPECT_DOUBLE_EQ(*change.percent(), 100.0 / 35.0);
  EXPECT_FALSE(change.is_nothing());
  EXPECT_EQ(change.other_steps, 0);
}

TEST(SuiteChange, AChoiceThatCannotRunHasNoTime) {
  ComparisonRecord record = small_record();
  record.questions[0].answers[1].cannot_run = "no collective";
  const SuiteChange change = change_by_suite(record)[0];
  EXPECT_EQ(change.timed, 4);
  EXPECT_DOUBLE_EQ(change.baseline_us, 25.0);
  EXPECT_DOUBLE_EQ(change.candidate_us, 28.0);
}

TEST(SuiteChange, TheSameChoiceAtAnotherPriceIsReachedByOtherSteps) {
  ComparisonRecord record = small_record();
  record.questions[1].answers[1].reference_us = 4.5;  // q2, asked 3 times
  const SuiteChange change = change_by_suite(record)[0];
  EXPECT_EQ(change.other_steps, 1);
  EXPECT_DOUBLE_EQ(change.other_steps_us, -1.5);
  EXPECT_DOUBLE_EQ(change.delta_us, -0.5);
}

TEST(SuiteChange, DecisionsByOtherStepsComeInTheOrderOfWhatTheyChange) {
  ComparisonRecord record = small_record();
  EXPECT_TRUE(decisions_by_other_steps(record).empty());
  record.questions[1].answers[1].reference_us = 4.5;  // q2, asked 3 times, 5 before
  const std::vector<OtherSteps> one = decisions_by_other_steps(record);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].question, 1U);
  EXPECT_EQ(one[0].stack, 1U);
  EXPECT_DOUBLE_EQ(one[0].delta_us, -1.5);
  RecordQuestion larger = record.questions[1];
  larger.id = "larger";
  larger.answers[1].reference_us = 9.0;
  record.questions.push_back(larger);
  const std::vector<OtherSteps> two = decisions_by_other_steps(record);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(record.questions[two[0].question].id, "larger");
  EXPECT_DOUBLE_EQ(two[0].delta_us, 12.0);
  // A choice that cannot run has no time.
  record.questions.back().answers[1].cannot_run = "no collective";
  EXPECT_EQ(decisions_by_other_steps(record).size(), 1U);
}

// q1: old gathers twice, 4096 B each; new gathers once and reduces 512 B. q2, asked 3 times: both
// reduce 1 MB. The others communicate nothing.
ComparisonRecord with_collectives() {
  ComparisonRecord record = small_record();
  for (RecordQuestion& question : record.questions) {
    for (StackAnswer& answer : question.answers) {
      if (answer.reference_us) answer.traffic.emplace();
    }
  }
  record.questions[0].answers[0].traffic = {{"all_gather", {2, 8192}}};
  record.questions[0].answers[1].traffic = {{"all_gather", {1, 4096}}, {"all_reduce", {1, 512}}};
  record.questions[1].answers[0].traffic = {{"all_reduce", {1, 1e6}}};
  record.questions[1].answers[1].traffic = {{"all_reduce", {1, 1e6}}};
  // q7 has no time under the baseline, so that what the candidate runs there does not count.
  record.questions[6].answers[1].traffic = {{"all_to_all", {9, 9e9}}};
  return record;
}

TEST(SuiteChange, CountsTheCollectivesOfTimedQuestionsByKind) {
  const SuiteChange change = change_by_suite(with_collectives())[0];
  ASSERT_TRUE(change.tells_collectives);
  ASSERT_EQ(change.collectives.size(), 2U);
  EXPECT_EQ(change.collectives[0].kind, "all_gather");
  EXPECT_EQ(change.collectives[0].baseline, (CollectiveTraffic{2, 8192}));
  EXPECT_EQ(change.collectives[0].candidate, (CollectiveTraffic{1, 4096}));
  EXPECT_EQ(change.collectives[1].kind, "all_reduce");
  EXPECT_EQ(change.collectives[1].baseline, (CollectiveTraffic{3, 3e6}));
  EXPECT_EQ(change.collectives[1].candidate, (CollectiveTraffic{4, 3e6 + 512}));
  EXPECT_EQ(change.all_collectives().candidate, (CollectiveTraffic{5, 3e6 + 4608}));
}

TEST(SuiteChange, RecordsKeepTheCollectivesAndOlderOnesDoWithout) {
  const ComparisonRecord record = with_collectives();
  EXPECT_EQ(parse_record(record_text(record), "run.json"), record);
  const json of_new = json::parse(report_json(record))["suites"][0];
  EXPECT_EQ(of_new["collectives"]["all_gather"],
            json({{"baseline", {{"count", 2}, {"bytes", 8192.0}}},
                  {"candidate", {{"count", 1}, {"bytes", 4096.0}}}}));
  const json of_old = json::parse(report_json(small_record()))["suites"][0];
  EXPECT_TRUE(of_old["collectives"].is_null());
  EXPECT_EQ(of_old["collectives_reason"],
            "the record does not hold the collectives of its choices");
  EXPECT_EQ(of_old["total_us"], json({{"baseline", 35.0}, {"candidate", 36.0}}));
}

std::string error_after(const json& answer) {
  json value = to_json(with_collectives());
  value["questions"][0]["answers"][0]["collectives"] = answer;
  try {
    static_cast<void>(from_json(value, "run.json"));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(SuiteChange, DamagedCollectivesAreNamed) {
  const std::string place = "run.json:/questions/0/answers/0";
  EXPECT_EQ(error_after({{"all_gather", {{"count", 0}, {"bytes", 1.0}}}}),
            place + "/collectives/all_gather/count: found 0; valid: an integer, at least 1");
  EXPECT_EQ(error_after({{"all_gather", {{"count", 1}, {"bytes", -1.0}}}}),
            place +
                "/collectives/all_gather/bytes: found -1.0; valid: 0, or a number from 1e-60 to "
                "1e+60");
  EXPECT_NE(error_after({{"all_gather", {{"count", 1}}}}).find("bytes"), std::string::npos);
  EXPECT_EQ(error_after(json::object()), "");
}

TEST(SuiteChange, SuitesStandInTheirOrderWithEachCandidateInTurn) {
  ComparisonRecord record = small_record();
  record.stacks.emplace_back("newer");
  for (RecordQuestion& question : record.questions) question.answers.push_back(question.answers[0]);
  record.questions[0].suite = "first";
  const std::vector<SuiteChange> changes = change_by_suite(record);
  std::vector<std::pair<std::string, std::size_t>> order;
  for (const SuiteChange& change : changes) order.emplace_back(change.name, change.stack);
  EXPECT_EQ(order, (std::vector<std::pair<std::string, std::size_t>>{
                       {"first", 1}, {"first", 2}, {"small", 1}, {"small", 2}}));
  EXPECT_EQ(largest_change(changes, 1), &changes[0]) << "-2 of 10 us against 3 of 25 us";
  EXPECT_EQ(largest_change(changes), &changes[0]);
  EXPECT_DOUBLE_EQ(changes[1].delta_us, 0.0);
}

TEST(SuiteChange, SuitesOfOneProgramAddUp) {
  ComparisonRecord record = with_collectives();
  record.questions[0].suite = "first";
  record.questions[5].suite = "by hand";
  record.configuration.suites = {{"first", 1, "recorded", "llama"},
                                 {"small", 5, "recorded", "llama"},
                                 {"by hand", 1, "by hand"}};
  const std::vector<SuiteChange> programs = change_by_program(record);
  ASSERT_EQ(programs.size(), 1U);
  EXPECT_EQ(programs[0].name, "llama");
  EXPECT_EQ(programs[0].suites, (std::vector<std::string>{"first", "small"}));
  EXPECT_DOUBLE_EQ(programs[0].baseline_us, 29.0);
  EXPECT_DOUBLE_EQ(programs[0].candidate_us, 30.0);
  const json report = json::parse(report_json(record));
  EXPECT_EQ(report["programs"][0]["total_us"], json({{"baseline", 29.0}, {"candidate", 30.0}}));
  EXPECT_EQ(report["suites"][0]["program"], "llama");
  EXPECT_FALSE(report["suites"][2].contains("program"));
  EXPECT_EQ(parse_record(record_text(record), "run.json"), record);
}

TEST(SuiteChange, FromNoTimeThereIsNoPercentage) {
  ComparisonRecord record = small_record();
  record.questions = {record.questions[3]};  // q4: from 0 to 2 us
  const SuiteChange change = change_by_suite(record)[0];
  EXPECT_EQ(change.percent(), std::nullopt);
  EXPECT_DOUBLE_EQ(change.delta_us, 2.0);
  record.questions[0].answers[1].reference_us = 0.0;
  EXPECT_EQ(change_by_suite(record)[0].percent(), 0.0);
}

TEST(SuiteChange, FlipsComeInTheOrderOfTheirTime) {
  const ComparisonRecord record = large_record(500, 2, 0.8);
  const Comparison comparison = compare(record);
  ASSERT_FALSE(comparison.flips.empty());
  for (std::size_t i = 1; i < comparison.flips.size(); ++i) {
    EXPECT_GE(std::abs(*comparison.flips[i - 1].delta_us), std::abs(*comparison.flips[i].delta_us));
  }
  // Every change of a time is a flip here, so that the flips add up to the change of the suite.
  ComparisonRecord same = record;
  for (RecordQuestion& question : same.questions) {
    for (StackAnswer& answer : question.answers) {
      if (answer.choice == question.answers[0].choice) {
        answer.reference_us = question.answers[0].reference_us;
      }
    }
  }
  const Comparison whole = compare(same);
  for (const SuiteChange& change : whole.suites) {
    double sum = 0.0;
    double shares = 0.0;
    for (const Flip& flip : whole.flips) {
      if (flip.stack != change.stack) continue;
      sum += *flip.delta_us;
      shares += *flip.share_percent;
    }
    EXPECT_NEAR(sum, change.delta_us, 1e-6 * change.baseline_us);
    EXPECT_NEAR(shares, *change.percent(), 1e-6);
  }
}

TEST(SuiteChange, SmallFlipsAreHiddenAndThoseWithoutAShareAreNot) {
  const ComparisonRecord record = small_record();
  // q1 saves 2 of 35 us, q3 loses 1, q4 loses 2, q6 changes nothing; q5 and q7 are undecided.
  const Comparison all = compare(record);
  EXPECT_EQ(hidden_flips(all), 0U);
  const Comparison large = compare(record, {.min_share_percent = 5.0});
  EXPECT_EQ(hidden_flips(large), 2U) << "q3 (2.9 %) and q6 (0 %)";
  EXPECT_EQ(large.stacks[1].flips.total, 6) << "hiding changes no figure";
  const std::string shown = write_report(record, {.min_share_percent = 5.0}).markdown;
  EXPECT_NE(shown.find("2 flips below 5.00 % of the suite's time are hidden here"),
            std::string::npos);
  EXPECT_EQ(shown.find("(q3)"), std::string::npos);
  EXPECT_NE(shown.find("(q5)"), std::string::npos);
  EXPECT_EQ(write_report(record, {.min_share_percent = 5.0}).json, write_report(record).json);
}

// The sums again, by another hand: from the text of the record, backwards, in long double.
TEST(SuiteChange, AgreesWithAnIndependentSumOverTheRecord) {
  ComparisonRecord record = large_record(3000, 2, 0.5);
  for (std::size_t i = 0; i < record.questions.size(); ++i) {
    record.questions[i].suite = i % 3 == 0 ? "thirds" : "rest";
    record.questions[i].count = static_cast<std::int64_t>(1 + i % 7);
    if (i % 11 == 0) {
      record.questions[i].answers[i % 3].reference_us.reset();
      record.questions[i].answers[i % 3].reference_impossible = "no price";
    }
  }
  const json read = json::parse(record_text(record));
  const json report = json::parse(report_json(record));
  ASSERT_EQ(report["suites"].size(), 4U);
  for (const json& suite : report["suites"]) {
    const std::size_t stack = suite["stack"] == "candidate-1" ? 1 : 2;
    long double before = 0.0;
    long double after = 0.0;
    for (std::size_t i = read["questions"].size(); i-- > 0;) {
      const json& question = read["questions"][i];
      const json& old_us = question["answers"][0]["reference_us"];
      const json& new_us = question["answers"][stack]["reference_us"];
      if (question["suite"] != suite["name"] || old_us.is_null() || new_us.is_null()) continue;
      const auto count = static_cast<long double>(question["count"].get<int>());
      before += count * static_cast<long double>(old_us.get<double>());
      after += count * static_cast<long double>(new_us.get<double>());
    }
    const double total = suite["total_us"]["baseline"];
    EXPECT_NEAR(total, static_cast<double>(before), 1e-12 * total);
    EXPECT_NEAR(suite["total_us"]["candidate"], static_cast<double>(after), 1e-12 * total);
    EXPECT_NEAR(suite["delta_us"], static_cast<double>(after - before), 1e-12 * total);
  }
}

}  // namespace suite_change_test
}  // namespace shardlab::reports

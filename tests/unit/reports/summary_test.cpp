#include "reports/summary.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reports/time_text.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace summary_test {

// A record of `decisions` questions of which the first better + worse + equal + undecided flip, in
// that order. Best is 10 us everywhere; the baseline pays 11 where a flip is better, 10 elsewhere.
ComparisonRecord record_of(int decisions, int better, int worse, int equal, int undecided = 0) {
  ComparisonRecord record = small_record();
  record.questions.clear();
  for (int i = 0; i < decisions; ++i) {
    const bool is_better = i < better;
    const bool is_worse = !is_better && i < better + worse;
    const bool is_undecided = i >= better + worse + equal && i < better + worse + equal + undecided;
    const bool is_flip = i < better + worse + equal + undecided;
    RecordQuestion one = question("q" + std::to_string(i), "aten.mm.default", 512, 10,
                                  {answer("RR", 10, is_better ? 11 : 10),
                                   answer(is_flip ? "S(0)R" : "RR", 10, is_worse ? 12 : 10)});
    if (is_undecided) {
      one.answers[1].reference_us.reset();
      one.answers[1].reference_impossible = "no table";
    }
    record.questions.push_back(one);
  }
  return record;
}

// What the summary says after the time (time_text_test.cpp), with which it begins.
std::string sentence(const ComparisonRecord& record) {
  const Comparison comparison = compare(record);
  const std::string whole = summary_sentence(record, comparison);
  if (record.questions.empty()) return whole;
  const std::string time = time_sentence(record, comparison) + " ";
  EXPECT_TRUE(whole.starts_with(time)) << whole;
  return whole.substr(time.size());
}

TEST(SummarySentence, TellsTheFlipsTheVerdictsAndTheRegret) {
  // Regret before: 120 x 10 % over 1204 = 1.0 %; after: 4 x 20 % over 1204 = 0.07 %, shown as 0.1
  // %.
  EXPECT_EQ(sentence(record_of(1204, 120, 4, 8)),
            "It flips 132 of 1,204 decisions (11.0 %): 120 of them are improvements, 4 are "
            "regressions and 8 cost as much as before; mean regret falls from 1.0 % to 0.1 %.");
}

TEST(SummarySentence, TellsTheSmallRecord) {
  EXPECT_EQ(sentence(small_record()),
            "It flips 6 of 7 decisions (85.7 %): 1 of them is an improvement, 2 are regressions, 1 "
            "costs as much as before and 2 cannot be judged; mean regret stays at 18.8 % (over "
            "the 4 decisions that are judged before and after).");
}

TEST(SummarySentence, CountsTheChoicesThatCannotRun) {
  ComparisonRecord record = record_of(1204, 120, 4, 8);
  for (std::size_t i = 0; i < 3; ++i) record.questions[i].answers[0].cannot_run = "no collective";
  EXPECT_NE(sentence(record).find("; 3 choices of `old` cannot run and have no regret."),
            std::string::npos)
      << sentence(record);
}

TEST(SummarySentence, WithoutFlipsItSaysSo) {
  EXPECT_EQ(sentence(record_of(1204, 0, 0, 0)),
            "It flips none of 1,204 decisions; mean regret stays at 0.0 %.");
}

TEST(SummarySentence, WithoutFlipsItCountsTheDecisionsThatLeaveNoChoice) {
  ComparisonRecord record = record_of(1204, 0, 0, 0);
  record.questions[7].candidates = 1;
  EXPECT_EQ(sentence(record),
            "It flips none of 1,204 decisions, 1 of which has one candidate; mean regret stays at "
            "0.0 %.");
  record.questions[8].candidates = 1;
  EXPECT_NE(sentence(record).find(", 2 of which have one candidate;"), std::string::npos);
  record.questions.resize(1);
  record.questions[0].candidates = 1;
  EXPECT_NE(sentence(record).find("decision, which has one candidate;"), std::string::npos)
      << sentence(record);
}

TEST(SummarySentence, WithoutFlipsItNamesTheCollectivesWhosePriceChangesButThatNothingRuns) {
  ComparisonRecord record = record_of(10, 0, 0, 0);
  const auto curve = [](const char* stack, const char* collective, double price_us) {
    return PriceCurve{.stack = stack,
                      .collective = collective,
                      .mesh = "8",
                      .group = "8 ranks",
                      .bytes = {1024.0},
                      .price_us = {price_us}};
  };
  record.curves = {curve("old", "all_gather", 5.0), curve("new", "all_gather", 5.0),
                   curve("old", "all_to_all", 6.0), curve("new", "all_to_all", 5.0)};
  for (RecordQuestion& question : record.questions) {
    for (auto& answer : question.answers) answer.traffic.emplace();
  }
  EXPECT_NE(sentence(record).find(
                "; it changes the price of all_to_all, which no choice runs; mean regret"),
            std::string::npos)
      << sentence(record);
  record.questions[3].answers[0].traffic->emplace("all_to_all",
                                                  CollectiveTraffic{.count = 1, .bytes = 8.0});
  EXPECT_EQ(sentence(record).find("which no choice runs"), std::string::npos);
  record.curves.push_back(curve("old", "all_reduce", 6.0));
  record.curves.push_back(curve("new", "all_reduce", 5.0));
  EXPECT_NE(sentence(record).find("; it changes the prices of all_to_all, which its choices run, "
                                  "and of all_reduce, which no choice runs; mean regret"),
            std::string::npos)
      << sentence(record);
}

TEST(SummarySentence, CountsTheDecisionsThatAreReachedByOtherSteps) {
  ComparisonRecord record = record_of(1204, 0, 0, 0);
  record.questions[7].answers[1].reference_us = 10.5;
  EXPECT_EQ(sentence(record),
            "It flips none of 1,204 decisions; 1 decision keeps its choice and reaches it by other "
            "steps, which take 0.500 us more; mean regret rises from 0.0 % to <0.1 %.");
  record.questions[8].answers[1].reference_us = 9.0;
  EXPECT_NE(sentence(record).find("; 2 decisions keep their choice and reach it by other steps, "
                                  "which take 0.500 us less;"),
            std::string::npos);
  record.questions[8].answers[1].reference_us = 9.5;
  EXPECT_NE(sentence(record).find(", which take as long in all;"), std::string::npos);
}

TEST(SummarySentence, OneFlipIsNamedAsOne) {
  EXPECT_EQ(sentence(record_of(10, 1, 0, 0)),
            "It flips 1 of 10 decisions (10.0 %): the flip is an improvement; mean regret falls "
            "from 1.0 % to 0.0 %.");
  EXPECT_EQ(sentence(record_of(10, 0, 0, 0, 1)),
            "It flips 1 of 10 decisions (10.0 %): the flip cannot be judged; mean regret stays at "
            "0.0 % (over the 9 decisions that are judged before and after).");
}

TEST(SummarySentence, FlipsOfOneVerdictAreAllOrBoth) {
  EXPECT_NE(sentence(record_of(10, 0, 2, 0))
                .find(": both are regressions; mean regret rises from 0.0 % to 4.0 %."),
            std::string::npos);
  EXPECT_NE(sentence(record_of(10, 0, 0, 3))
                .find(": all of them cost as much as before; mean regret stays at 0.0 %."),
            std::string::npos);
  EXPECT_NE(sentence(record_of(10, 0, 0, 0, 2)).find(": neither can be judged;"),
            std::string::npos);
  EXPECT_NE(sentence(record_of(10, 0, 0, 0, 3)).find(": none of them can be judged;"),
            std::string::npos);
}

TEST(SummarySentence, AllDecisionsAndTheOnlyDecisionReadAsSuch) {
  EXPECT_TRUE(sentence(record_of(3, 3, 0, 0)).starts_with("It flips all 3 decisions: all of "));
  EXPECT_TRUE(sentence(record_of(1, 1, 0, 0)).starts_with("It flips the only decision: the flip "));
  EXPECT_TRUE(sentence(record_of(1, 0, 0, 0)).starts_with("It does not flip the only decision;"));
}

TEST(SummarySentence, AShareThatRoundsToNothingIsNotNothing) {
  EXPECT_NE(sentence(record_of(5000, 0, 1, 0)).find("flips 1 of 5,000 decisions (<0.1 %)"),
            std::string::npos);
}

TEST(SummarySentence, SeveralCandidatesAreToldInTurn) {
  ComparisonRecord record = record_of(10, 1, 0, 0);
  record.stacks.push_back("newer");
  for (RecordQuestion& one : record.questions) one.answers.push_back(one.answers[0]);
  EXPECT_EQ(
      sentence(record),
      "Of 10 decisions of `old` (mean regret 1.0 %), `new` flips 1 (10.0 %; 1 better; mean regret "
      "0.0 %) and `newer` flips none (mean regret 1.0 %).");
}

TEST(SummarySentence, ManyCandidatesAreToldByTheirExtremes) {
  ComparisonRecord record = record_of(10, 2, 0, 0);
  for (int i = 0; i < 3; ++i) {
    record.stacks.push_back("also-" + std::to_string(i));
    for (RecordQuestion& one : record.questions) one.answers.push_back(one.answers[0]);
  }
  EXPECT_EQ(
      sentence(record),
      "Of 10 decisions of `old` (mean regret 2.0 %), the 4 candidates flip between 0 (`also-0`) "
      "and 2 (`new`); the lowest mean regret is 0.0 % (`new`).");
}

TEST(SummarySentence, AStackThatIsItsOwnReferenceIsCalledThat) {
  ComparisonRecord record = record_of(10, 1, 0, 0);
  record.reference.name = "new";
  EXPECT_EQ(sentence(record),
            "It flips 1 of 10 decisions (10.0 %): the flip is an improvement; by the prices of "
            "`new`, which is itself the reference, `old` has a mean regret of 1.0 %.");
  // A reference that does not take what it prices lowest loses by its own prices.
  record.reference.name = "old";
  EXPECT_EQ(sentence(record),
            "It flips 1 of 10 decisions (10.0 %): the flip is an improvement; mean regret falls "
            "from 1.0 % to 0.0 %.");
  // Without flips nothing is said to stay, either.
  ComparisonRecord same = record_of(10, 0, 0, 0);
  same.reference.name = "new";
  EXPECT_EQ(sentence(same),
            "It flips none of 10 decisions; by the prices of `new`, which is itself the reference, "
            "`old` has a mean regret of 0.0 %.");
  record.reference.name = "new";
  record.stacks.push_back("newer");
  for (RecordQuestion& one : record.questions) one.answers.push_back(one.answers[0]);
  EXPECT_NE(
      sentence(record).find("`new` flips 1 (10.0 %; 1 better; the reference itself) and `newer`"),
      std::string::npos);
}

TEST(SummarySentence, WithoutQuestionsItSaysSo) {
  EXPECT_EQ(sentence(record_of(0, 0, 0, 0)),
            "No decision was compared: the suites hold no questions.");
  ComparisonRecord record = record_of(0, 0, 0, 0);
  record.not_asked = {
      {.id = "s/a", .suite = "s", .op = "aten.mm.default", .reason = "it is wrong"}};
  EXPECT_EQ(sentence(record),
            "No decision was compared: 1 of 1 question was not asked: `s/a`, because it is wrong.");
}

TEST(SummarySentence, AReferenceWithoutALabelStandsAlone) {
  ComparisonRecord record = record_of(10, 1, 0, 0);
  record.reference.label = "";
  EXPECT_NE(summary_sentence(record, compare(record)).find(", by the reference (`ref`). It flips"),
            std::string::npos);
}

TEST(SummarySentence, RegretThatOneSideLacksIsUnknown) {
  ComparisonRecord record = record_of(2, 0, 0, 0, 2);
  EXPECT_NE(sentence(record).find("mean regret is 0.0 % before and unknown after."),
            std::string::npos);
}

TEST(ReportTitle, NamesThePairOrCountsTheCandidates) {
  ComparisonRecord record = small_record();
  EXPECT_EQ(report_title(record), "`old` to `new`");
  record.stacks.push_back("newer");
  EXPECT_EQ(report_title(record), "`old` against 2 candidates");
}

TEST(Text, ListsJoinWithCommasAndAnAnd) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"a"}), "a");
  EXPECT_EQ(listed({"a", "b"}), "a and b");
  EXPECT_EQ(listed({"a", "b", "c"}), "a, b and c");
}

TEST(Text, CodeNeverHoldsABacktick) { EXPECT_EQ(code("a`b"), "`a'b`"); }

}  // namespace summary_test
}  // namespace shardlab::reports

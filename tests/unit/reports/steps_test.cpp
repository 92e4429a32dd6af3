// Training steps in the record, the sentence, the JSON and the section of a comparison.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "reports/report.h"
#include "reports/summary.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace steps_test {

ComparisonRecord with_step(double after_us, double after_bytes) {
  ComparisonRecord record = small_record();
  record.steps.push_back({.program = "llama",
                          .mesh = "2x4",
                          .sources = "the plan plan.json",
                          .candidate = record.stacks[1],
                          .cannot_run = {},
                          .step_us = {100e3, after_us},
                          .peak_bytes = {20e9, after_bytes},
                          .device_bytes = {},
                          .flips = {{.node = "mm_3",
                                     .count = 32,
                                     .op = "aten.mm.default",
                                     .inputs = {"bf16[8,8] S(0)"},
                                     .baseline = "R -> R",
                                     .candidate = "S(0) -> S(0)",
                                     .delta_step_us = 40.0,
                                     .delta_peak_bytes = -1.5e9}}});
  return record;
}

TEST(StepsOfAComparison, AreTheFirstWordOfTheSummary) {
  EXPECT_EQ(steps_sentence(small_record()), "");
  EXPECT_EQ(steps_sentence(with_step(100.04e3, 18.5e9)),
            "Under `new`, a step of `llama` on `2x4` takes 100.0 ms, which is 40.00 us (0.04 %) "
            "longer than under `old`, and 18.5 GB of memory at its peak, 1.50 GB less.");
  EXPECT_EQ(steps_sentence(with_step(75e3, 20e9)),
            "Under `new`, a step of `llama` on `2x4` takes 75.00 ms, which is 25.00 ms (25.00 %) "
            "shorter than under `old`, and as much memory at its peak, 20.0 GB.");
  EXPECT_EQ(steps_sentence(with_step(100e3, 21e9)),
            "Under `new`, a step of `llama` on `2x4` takes as long as under `old`, 100.0 ms, and "
            "21.0 GB of memory at its peak, 1.00 GB more.");
  const ComparisonRecord record = with_step(75e3, 20e9);
  const std::string sentence = summary_sentence(record, compare(record));
  EXPECT_TRUE(sentence.starts_with("Under `new`, a step of `llama` on `2x4` takes 75.00 ms"));
  const ComparisonRecord without = small_record();
  std::string of_operators = summary_sentence(without, compare(without));
  const std::size_t judge = of_operators.find(", by the reference");
  ASSERT_NE(judge, std::string::npos);
  of_operators.insert(judge, ", each asked as under `old`");
  EXPECT_TRUE(sentence.ends_with(of_operators)) << sentence;
  EXPECT_TRUE(summary_text(record).sentence.starts_with("Under new, a step of llama"));
}

TEST(StepsOfAComparison, SayWhichStepsExceedADevice) {
  ComparisonRecord record = with_step(75e3, 20e9);
  record.steps[0].device_bytes = 80e9;
  EXPECT_EQ(steps_sentence(record), steps_sentence(with_step(75e3, 20e9)));
  record.steps[0].device_bytes = 16e9;
  EXPECT_TRUE(steps_sentence(record).ends_with(
      " Neither fits into the 16.0 GB of a device, so neither can run."));
  record.steps[0].device_bytes = 20e9;
  record.steps[0].peak_bytes.candidate = 21e9;
  EXPECT_TRUE(steps_sentence(record).ends_with(
      " The step under `new` does not fit into the 20.0 GB of a device, so it cannot run."));
  record.steps[0].peak_bytes.candidate = 19e9;
  record.steps[0].device_bytes = 19.5e9;
  EXPECT_TRUE(steps_sentence(record).ends_with(
      " The step under `old` does not fit into the 19.5 GB of a device, so it cannot run."));
  EXPECT_EQ(parse_record(record_text(record), "run.json"), record);
}

TEST(StepsOfAComparison, MayNotRunUnderTheCandidate) {
  ComparisonRecord record = with_step(75e3, 20e9);
  record.steps[0].step_us.candidate.reset();
  record.steps[0].peak_bytes.candidate.reset();
  record.steps[0].cannot_run = "node exp: P(sum)->P(max) is refused";
  EXPECT_EQ(steps_sentence(record),
            "Under `new`, a step of `llama` on `2x4` cannot run: node exp: P(sum)->P(max) is "
            "refused.");
  EXPECT_EQ(parse_record(record_text(record), "run.json"), record);
  const nlohmann::json step = nlohmann::json::parse(report_json(record))["steps"][0];
  EXPECT_TRUE(step["step_us"]["candidate"].is_null());
  const std::string markdown = write_report(record).markdown;
  EXPECT_NE(markdown.find("- Training step: **cannot run** (`llama` under `new`)"),
            std::string::npos)
      << markdown.substr(0, 2000);
}

TEST(StepsOfAComparison, AreTheFirstFigure) {
  const std::string markdown = write_report(with_step(75e3, 20e9)).markdown;
  EXPECT_NE(markdown.find("- Training step: **-25.0 %** (`llama` took 100.0 ms)"),
            std::string::npos)
      << markdown.substr(0, 2000);
}

TEST(StepsOfAComparison, AreReadBackFromTheRecord) {
  const ComparisonRecord record = with_step(100.04e3, 18.5e9);
  EXPECT_EQ(parse_record(record_text(record), "run.json"), record);
  EXPECT_EQ(record_text(small_record()).find("\"steps\""), std::string::npos);
}

TEST(StepsOfAComparison, StandInTheJsonAndOnThePage) {
  const ReportFiles files = write_report(with_step(100.04e3, 18.5e9));
  const nlohmann::json report = nlohmann::json::parse(files.json);
  EXPECT_EQ(report["steps"][0]["step_us"]["candidate"], 100.04e3);
  EXPECT_EQ(report["steps"][0]["peak_bytes"]["baseline"], 20e9);
  EXPECT_EQ(report["steps"][0]["flips"][0]["node"], "mm_3");
  EXPECT_EQ(report["steps"][0]["flips"][0]["delta_step_us"], 40.0);
  EXPECT_FALSE(nlohmann::json::parse(report_json(small_record())).contains("steps"));
  for (const std::string& text : {files.html, files.markdown}) {
    EXPECT_NE(text.find("What does the change cost in a training step?"), std::string::npos);
    EXPECT_NE(text.find("+40.00"), std::string::npos);
    EXPECT_NE(text.find("mm_3"), std::string::npos);
  }
}

TEST(StepsOfAComparison, DoNotContradictTheRecord) {
  const auto refused = [](ComparisonRecord record) {
    EXPECT_THROW(check_record(record), ContractError);
  };
  ComparisonRecord record = with_step(75e3, 20e9);
  record.steps[0].candidate = "old";
  refused(record);
  record = with_step(std::numeric_limits<double>::quiet_NaN(), 20e9);
  refused(record);
  record = with_step(75e3, -1.0);
  refused(record);
  record = with_step(75e3, 20e9);
  record.steps[0].cannot_run = "a reason, beside figures";
  refused(record);
  record = with_step(75e3, 20e9);
  record.steps[0].step_us.candidate.reset();
  refused(record);
  record = with_step(75e3, 20e9);
  record.steps[0].flips[0].count = 0;
  refused(record);
}

}  // namespace steps_test
}  // namespace shardlab::reports

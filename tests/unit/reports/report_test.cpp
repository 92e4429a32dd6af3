#include "reports/report.h"

#include <gtest/gtest.h>

#include <locale>
#include <string>

#include "costmodel/base/error.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace reports_report_test {

TEST(Report, TheSameRecordGivesTheSameBytes) {
  const ReportFiles first = write_report(large_record(300, 2, 0.4));
  const ReportFiles second =
      write_report(parse_record(record_text(large_record(300, 2, 0.4)), "run.json"));
  EXPECT_EQ(first.html, second.html);
  EXPECT_EQ(first.markdown, second.markdown);
  EXPECT_EQ(first.json, second.json);
}

TEST(Report, TheGlobalLocaleChangesNoByte) {
  struct German : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const ReportFiles expected = write_report(small_record());
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new German));
  const ReportFiles files = write_report(small_record());
  std::locale::global(before);
  EXPECT_EQ(files.html, expected.html);
  EXPECT_EQ(files.markdown, expected.markdown);
  EXPECT_EQ(files.json, expected.json);
}

TEST(Report, OnlyTimingDependsOnTheClock) {
  ComparisonRecord record = small_record();
  const ReportFiles without = write_report(record);
  record.timing = RunTiming{std::nullopt, {{"wall_ms", 8.0}}};
  const ReportFiles with = write_report(record);
  EXPECT_EQ(with.json.find(",\n  \"timing\": {\"wall_ms\":8.0}"), without.json.size() - 3)
      << "the last key, and the only difference";
  EXPECT_NE(with.markdown.find("| wall time, ms | 8.0 |"), std::string::npos);
}

TEST(Report, TheSummaryIsPlainForATerminalAndMarkdownForAComment) {
  EXPECT_EQ(summary_text(small_record()).sentence.substr(0, 42),
            "Changing old to new lengthens small by 2.8");
  EXPECT_LT(summary_markdown(small_record()).size(), 4000U);
  EXPECT_EQ(report_json(small_record()), write_report(small_record()).json);
}

TEST(Report, BytesThatAreNoUtf8AreReplacedInJsonAndHarmNothing) {
  ComparisonRecord record = small_record();
  record.context.command_line = {"shardlab", "\xff\xfe"};
  record.questions[0].answers[0].choice = "\xc3";
  const ReportFiles files = write_report(record);
  EXPECT_EQ(files.json.find('\xff'), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(files.json));
}

TEST(Report, ARecordThatContradictsItselfIsRefused) {
  ComparisonRecord record = small_record();
  record.stacks = {"old"};
  EXPECT_THROW(static_cast<void>(write_report(record)), ContractError);
}

}  // namespace reports_report_test
}  // namespace shardlab::reports

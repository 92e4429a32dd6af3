// report.md of the small record, word for word. The arithmetic behind every figure stands above
// small_record() in sample_record.h. UPDATE_GOLDEN=1 rewrites the file; read the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "reports/report.h"
#include "tests/unit/reports/sample_record.h"

#ifndef SHARDLAB_SOURCE_DIR
#error "the build defines SHARDLAB_SOURCE_DIR, the root of the tree"
#endif

namespace shardlab::reports {
namespace golden_report_test {

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(SHARDLAB_SOURCE_DIR) + "/tests/golden/reports/" + name;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path << " is absent; UPDATE_GOLDEN=1 writes it";
  std::ostringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << path;
}

TEST(GoldenReport, MarkdownOfTheSmallRecord) {
  expect_golden("small_comparison.md", write_report(small_record()).markdown);
}

TEST(GoldenReport, SummaryOfTheSmallRecord) {
  expect_golden("small_comparison.summary.md", summary_markdown(small_record()));
}

TEST(GoldenReport, JsonOfTheSmallRecord) {
  expect_golden("small_comparison.json", report_json(small_record()));
}

TEST(GoldenReport, TheSmallRecordItself) {
  expect_golden("small_comparison.record.json", record_text(small_record()));
}

TEST(GoldenReport, SaysHowAChoiceThatCannotRunIsJudged) {
  ComparisonRecord record = small_record();
  const std::string sentence = "is worse than any that can, whatever its price";
  EXPECT_EQ(write_report(record).markdown.find(sentence), std::string::npos);
  record.questions[0].answers[0].cannot_run = "P(sum)->P(max) is refused";
  const std::string markdown = write_report(record).markdown;
  EXPECT_NE(markdown.find(sentence), std::string::npos);
  EXPECT_NE(markdown.find("the baseline's cannot run"), std::string::npos);
}

}  // namespace golden_report_test
}  // namespace shardlab::reports

#include "reports/writers/markdown.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace markdown_test {

const ReportSection kSection = {"s", "Title", "Question?", 10, Render{}};

RenderedReport report_with(Block block) {
  RenderedReport report;
  report.title = "`a` to `b`";
  report.sentence = "A sentence.";
  report.sections.push_back({&kSection, {{std::move(block)}, "An answer."}});
  return report;
}

std::string body(const RenderedReport& report) {
  const std::string text = write_markdown(report);
  return text.substr(text.find("*Question?*\n\n") + 13);
}

TEST(Markdown, ASectionOpensWithItsQuestionAndEndsWithItsAnswer) {
  EXPECT_EQ(write_markdown(report_with(Paragraph{"Words."})),
            "# shardlab: `a` to `b`\n\n**A sentence.**\n\n## "
            "Title\n\n*Question?*\n\nWords.\n\n**Answer.** An answer.\n");
}

TEST(Markdown, TablesAlignNumbersAndEscapeBars) {
  Table table{"Caption",
              {{"name", ColumnKind::kCode},
               {"price, us", ColumnKind::kNumber, 2},
               {"verdict", ColumnKind::kVerdict}},
              {{Cell("P(sum)|R"), Cell(1234.5), Cell("worse")},
               {Cell(), Cell(std::nullopt, "no a|b"), Cell("equal")}}};
  EXPECT_EQ(body(report_with(table)),
            "Caption:\n\n"
            "| name | price, us | verdict |\n"
            "| --- | ---: | --- |\n"
            "| `P(sum)\\|R` | 1,234.50 | \u25bc worse |\n"
            "| - | - (no a\\|b) | = equal |\n\n"
            "**Answer.** An answer.\n");
}

TEST(Markdown, TextFromARecordCannotBecomeMarkup) {
  const std::string text =
      body(report_with(Paragraph{"<script>alert(1)</script> *bold* _it_ a_b a<1 `c|<b>`"}));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "\\<script>alert(1)\\</script> \\*bold\\* \\_it\\_ a_b a<1 `c|<b>`");
}

TEST(Markdown, TextFromARecordCannotBecomeALink) {
  const std::string text = body(report_with(Paragraph{
      "![i](http://e.org/i) [l](//e.org) [r][s] [d]: e www.e.org @someone a@b #12 # @ a & b &#64;x "
      "f32[8,8] S(0) a: b ` \x1b\u202e"}));
  EXPECT_EQ(
      text.substr(0, text.find('\n')),
      "![i\\](http\\://e.org/i) [l\\](//e.org) [r\\][s] [d\\]: e www\\.e.org @&#8203;someone "
      "a@&#8203;b #&#8203;12 # @ a & b \\&#&#8203;64;x f32[8,8] S(0) a: b \\` \\\\x1b\\\\u{202e}");
}

TEST(Markdown, TheTitleOfAListingIsNeitherMarkupNorAMention) {
  const std::string text =
      body(report_with(Listing{"Stack <b> `@someone` http://e\n", "a ```` b"}));
  EXPECT_EQ(text.substr(0, text.find("\n\n</details>")),
            "<details><summary>Stack &lt;b&gt; &#96;@&#8203;someone&#96; http:&#8203;//e "
            "</summary>\n\n`````\na ```` b\n`````");
}

TEST(Markdown, CodeIsWithinMoreBackticksThanItHolds) {
  Table table{"C", {{"name", ColumnKind::kCode}}, {{Cell("a`b")}, {Cell("a``` `b")}}};
  EXPECT_NE(body(report_with(table)).find("| `` a`b `` |"), std::string::npos);
  EXPECT_NE(body(report_with(table)).find("| ```` a``` `b ```` |"), std::string::npos);
}

TEST(Markdown, ABrowserShowsItsFirstRowsAndCountsTheRest) {
  Browser browser;
  browser.caption = "Rows";
  browser.order_text = "first first";
  browser.cut_text = "the first";
  browser.noun_one = "flip";
  browser.noun_many = "flips";
  browser.columns = {{"place", ColumnKind::kCount}};
  browser.total = 1000;
  for (std::size_t i = 0; i < 500; ++i) {
    BrowserRow row;
    row.place = 499 - i;  // kept in one order, shown in another
    row.cells = {Cell(static_cast<std::int64_t>(row.place))};
    browser.rows.push_back(row);
  }
  const std::string text = body(report_with(browser));
  EXPECT_EQ(text.substr(0, 53), "Rows, first first:\n\n| place |\n| ---: |\n| 440 |\n| 441 ");
  EXPECT_NE(text.find("| 499 |\n\nand 940 more flips in report.json\n(shown: the first)\n"),
            std::string::npos);
}

TEST(Markdown, ALineChartBecomesATableOfEvenlyChosenPoints) {
  Chart chart;
  chart.title = "Price";
  chart.x_title = "bytes";
  chart.y_title = "price, us";
  for (int i = 0; i <= 14; ++i) chart.x.push_back(1000.0 * i);
  chart.series = {{"a", std::vector<std::optional<double>>(15, 2.5)},
                  {"b", std::vector<std::optional<double>>(15)}};
  const std::string text = body(report_with(Charts{{chart}}));
  EXPECT_NE(
      text.find(
          "Price, price, us:\n\n| bytes | a | b |\n| ---: | ---: | ---: |\n| 0 B | 2.50 | - |\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("| 14.0 kB | 2.50 | - |\n"), std::string::npos)
      << "the last point is always there";
}

TEST(Markdown, MoreSeriesThanColumnsMakeMoreTables) {
  Chart chart;
  chart.x = {1000};
  for (int i = 0; i < 8; ++i) chart.series.push_back({"s" + std::to_string(i), {1.0}});
  const std::string text = body(report_with(Charts{{chart}}));
  EXPECT_NE(text.find("| s6 |\n"), std::string::npos);
  EXPECT_NE(text.find("|  | s7 |\n"), std::string::npos);
}

TEST(Markdown, StaysBelowItsLimitWhateverTheRecordHolds) {
  ComparisonRecord record = large_record(3000, 7, 0.9);
  for (RecordQuestion& one : record.questions) {
    for (StackAnswer& each : one.answers) each.choice += std::string(400, 'x');
  }
  const RenderedReport report = render_report(record, compare(record));
  EXPECT_LT(write_markdown(report).size(), kMarkdownLimit);
  EXPECT_LT(write_markdown_summary(report).size(), kMarkdownSummaryLimit);
}

TEST(Markdown, EvenAnEndlessSentenceIsCut) {
  RenderedReport report = report_with(Paragraph{std::string(100000, 'w')});
  report.sentence = std::string(100000, 's');
  const std::string text = write_markdown(report);
  EXPECT_LT(text.size(), kMarkdownLimit);
  EXPECT_NE(text.find("(cut here; the rest is in report.json)"), std::string::npos);
  EXPECT_LT(write_markdown_summary(report).size(), kMarkdownSummaryLimit);
}

TEST(Markdown, TheSummaryHoldsTheSentenceTheSuitesTheStacksAndTheFirstFlips) {
  const ComparisonRecord record = small_record();
  const std::string text = write_markdown_summary(render_report(record, compare(record)));
  EXPECT_NE(text.find("**Changing `old` to `new` lengthens `small` by 2.86 %"), std::string::npos);
  EXPECT_NE(text.find("It flips 6 of 7 decisions"), std::string::npos);
  EXPECT_NE(text.find("| `small` | 7 (2 without a time) | 35.0 | 36.0 | +1.000 | +2.857 |"),
            std::string::npos);
  EXPECT_NE(text.find("| `new` | 6 | 1 | 2 | 1 | 2 | 15.00 | 0.800 |"), std::string::npos);
  EXPECT_NE(text.find("| \u25bc worse | +1.00 (share +2.86 %) | `redistribute` (q3) |"),
            std::string::npos);
}

}  // namespace markdown_test
}  // namespace shardlab::reports

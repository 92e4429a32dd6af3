#include "reports/writers/html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace html_test {

using nlohmann::json;

std::string page_of(const ComparisonRecord& record) {
  return write_html(render_report(record, compare(record)));
}

json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"report-data\">";
  const std::size_t start = page.find(open) + open.size();
  return json::parse(page.substr(start, page.find("</script>", start) - start));
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++found;
  return found;
}

// A record in which every text tries to break out of the place where it is written.
ComparisonRecord hostile_record() {
  const std::string evil =
      "</script><script>alert('x')</script><!--<img src=x onerror=alert(1)>\"'&";
  ComparisonRecord record = small_record();
  record.reference.label = evil;
  record.context.commit = evil;
  record.context.command_line = {evil};
  record.configuration.topology["name"] = evil;
  record.configuration.stacks[0]["note"] = evil;
  record.invariants[0].worst->witness = evil;
  record.curves[0].group = evil;
  for (RecordQuestion& one : record.questions) {
    one.id += evil;
    one.op += evil;
    one.mesh += evil;
    one.inputs = {evil};
    for (StackAnswer& each : one.answers) {
      if (!each.choice.empty()) each.choice += evil;
      each.path = {evil};
    }
  }
  return record;
}

TEST(Html, EscapesWhatMarkupIsMadeOf) {
  EXPECT_EQ(html_escape("<a href=\"x\">&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(html_escape(std::string_view("a\0b\n", 4)), "a\\x00b\n");
  EXPECT_EQ(html_escape("a\u202eb"), "a\\u{202e}b");
}

TEST(Html, IsOneFileThatNeedsNoNetwork) {
  const std::string page = page_of(small_record());
  EXPECT_EQ(page.substr(0, 15), "<!doctype html>");
  EXPECT_EQ(count(page, " src="), 0U);
  EXPECT_EQ(count(page, "<link"), 0U);
  EXPECT_EQ(count(page, "@import"), 0U);
  EXPECT_EQ(count(page, "url("), 0U);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(Html, CarriesChartJsWithItsLicence) {
  const std::string page = page_of(small_record());
  EXPECT_NE(page.find("Chart.js Contributors"), std::string::npos);
  EXPECT_NE(page.find("Permission is hereby granted, free of charge"), std::string::npos);
}

TEST(Html, TextFromARecordCannotLeaveItsPlace) {
  const std::string page = page_of(hostile_record());
  // There are three scripts, as in a friendly report: the data, Chart.js and the page's own.
  EXPECT_EQ(count(page, "<script"), count(page_of(small_record()), "<script"));
  EXPECT_EQ(count(page, "</script"), 3U);
  EXPECT_EQ(count(page, "<img"), 0U);
  EXPECT_EQ(count(page, "<!--"), 0U);
  EXPECT_NE(data_of(page)["browsers"][0]["texts"].dump().find("</script><script>alert"),
            std::string::npos)
      << "the data still says it";
}

TEST(Html, OpensWithTheSentenceAndLinksEverySection) {
  const std::string page = page_of(small_record());
  const std::size_t sentence = page.find(
      "<p class=\"lede\">Changing <code>old</code> to <code>new</code> lengthens <code>small");
  EXPECT_NE(sentence, std::string::npos);
  EXPECT_LT(sentence, page.find("<section"));
  const ComparisonRecord record = small_record();
  for (const RenderedSection& one : render_report(record, compare(record)).sections) {
    const ReportSection* section = one.section;
    EXPECT_NE(page.find("<a href=\"#" + std::string(section->id) + "\">"), std::string::npos)
        << section->id;
    EXPECT_NE(page.find("<section id=\"" + std::string(section->id) + "\""), std::string::npos)
        << section->id;
  }
}

TEST(Html, TheDataHoldsEveryFlipInReadingOrder) {
  const json browser = data_of(page_of(small_record()))["browsers"][0];
  EXPECT_EQ(browser["id"], "flips");
  EXPECT_EQ(browser["total"], 6);
  ASSERT_EQ(browser["rows"].size(), 6U);
  const json& texts = browser["texts"];
  const auto verdict = [&](std::size_t row) {
    return texts[browser["rows"][row][0][0].get<std::size_t>()].get<std::string>();
  };
  EXPECT_EQ(verdict(0), "better");
  EXPECT_EQ(verdict(1), "worse");
  EXPECT_EQ(verdict(3), "undecided");
  EXPECT_EQ(verdict(5), "equal");
  // q1 saves 2 of the suite's 35 us.
  EXPECT_EQ(browser["rows"][0][0][1][0], -2.0);
  EXPECT_EQ(texts[browser["rows"][0][0][1][1].get<std::size_t>()], "share -5.71 %");
  EXPECT_EQ(browser["sizes"]["4096"], "4.10 kB");
}

TEST(Html, FacetsAreOpMeshSizeVerdictAndShare) {
  const json browser = data_of(page_of(small_record()))["browsers"][0];
  std::vector<std::string> titles;
  for (const json& facet : browser["facets"]) titles.push_back(facet["title"]);
  EXPECT_EQ(titles,
            (std::vector<std::string>{"op", "mesh", "size", "verdict", "share of its suite"}));
  EXPECT_EQ(browser["facets"][4]["keepsLater"], true);
  EXPECT_FALSE(browser["facets"][3].contains("keepsLater"));
  const json several = data_of(page_of(large_record(50, 2, 0.5)))["browsers"][0];
  EXPECT_EQ(several["facets"][5]["options"], json::array({"candidate-1", "candidate-2"}));
}

TEST(Html, EveryChartHasItsCanvasAndALabel) {
  const std::string page = page_of(small_record());
  const json charts = data_of(page)["charts"];
  EXPECT_EQ(charts.size(), 3U) << "by op, by size, and one curve";
  for (const json& chart : charts) {
    EXPECT_NE(page.find("<canvas id=\"chart-" + chart["id"].get<std::string>() +
                        "\" role=\"img\" aria-label=\""),
              std::string::npos);
  }
}

TEST(Html, TheFirstRowsAreThereWithoutJavaScript) {
  const std::string page = page_of(small_record());
  EXPECT_NE(
      page.find(
          "<span class=\"verdict worse\"><span aria-hidden=\"true\">\u25bc</span> worse</span>"),
      std::string::npos);
}

void expect_below_limit(std::size_t candidates) {
  const ComparisonRecord record = large_record(20000, candidates, 0.95);
  const std::string page = page_of(record);
  EXPECT_LT(page.size(), kHtmlLimit);
  const json browser = data_of(page)["browsers"][0];
  EXPECT_GT(browser["rows"].size(), 12000U);
  // Some flips have no row here, or some rows do not open, and the page says so.
  const bool is_cut = browser["rows"].size() < browser["total"].get<std::size_t>();
  EXPECT_EQ(page.find("<p class=\"cut\">This page holds ") != std::string::npos, is_cut);
  EXPECT_NE(page.find(" can be opened here; the details of the others are in report.json."),
            std::string::npos);
}

TEST(Html, StaysBelowFiveMegabytesFor20000QuestionsAndSaysWhatItLeavesOut) {
  expect_below_limit(1);
}

TEST(HtmlSlow, StaysBelowFiveMegabytesFor20000QuestionsOnEightStacks) { expect_below_limit(7); }

TEST(Html, LongCurvesAndListingsAreLeftOutRatherThanPassTheLimit) {
  ComparisonRecord record = small_record();
  PriceCurve curve = record.curves[0];
  curve.bytes.clear();
  curve.price_us.clear();
  for (int i = 1; i <= 1000; ++i) {
    curve.bytes.push_back(i);
    curve.price_us.emplace_back(i / 3.0);
  }
  record.curves.clear();
  for (int i = 0; i < 60; ++i) {
    curve.group = "group " + std::to_string(i);
    record.curves.push_back(curve);
  }
  record.configuration.topology["note"] = std::string(3'000'000, '"');
  const std::string page = page_of(record);
  EXPECT_LT(page.size(), kHtmlLimit);
  EXPECT_NE(page.find(" more charts in report.json</p>"), std::string::npos);
  EXPECT_NE(page.find("Cut here; the rest is in report.json."), std::string::npos);
}

TEST(Html, ARecordOfEndlessNamesIsToldMoreTersely) {
  ComparisonRecord record = large_record(2000, 7, 0.9);
  for (RecordQuestion& one : record.questions) one.id += std::string(20'000, 'x');
  EXPECT_LT(page_of(record).size(), kHtmlLimit);
}

}  // namespace html_test
}  // namespace shardlab::reports

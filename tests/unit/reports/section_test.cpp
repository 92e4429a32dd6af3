// Every section keeps its contract, whatever the record holds; and some sections are compared with
// what they should say.
#include "reports/section.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace section_test {

struct NamedRecord {
  std::string name;
  ComparisonRecord record;
};

std::vector<NamedRecord> records() {
  ComparisonRecord empty = small_record();
  empty.questions.clear();
  empty.invariants.clear();
  empty.curves.clear();
  empty.configuration = {};
  ComparisonRecord all_impossible = small_record();
  for (RecordQuestion& one : all_impossible.questions) {
    one.best = {"", std::nullopt, "nothing is possible"};
    for (StackAnswer& each : one.answers) each = impossible_answer("nothing is possible");
  }
  ComparisonRecord same = small_record();
  for (RecordQuestion& one : same.questions) one.answers[1] = one.answers[0];
  ComparisonRecord timed = small_record();
  timed.timing = RunTiming{"2025-01-17T09:30:00Z", {{"wall_ms", 8.0}}};
  ComparisonRecord own_reference = small_record();
  own_reference.reference.name = "new";
  return {{"small", small_record()},
          {"empty", empty},
          {"all impossible", all_impossible},
          {"no flips", same},
          {"timed", timed},
          {"own reference", own_reference},
          {"eight stacks", large_record(60, 7, 0.5)}};
}

const SectionContent& content_of(const RenderedReport& report, std::string_view id) {
  for (const RenderedSection& section : report.sections) {
    if (section.section->id == id) return section.content;
  }
  throw std::runtime_error("no section " + std::string(id));
}

RenderedReport rendered(const ComparisonRecord& record) {
  return render_report(record, compare(record));
}

// The first table whose caption begins so.
const Table& table_of(const SectionContent& content, std::string_view caption) {
  for (const Block& block : content.blocks) {
    const auto* table = std::get_if<Table>(&block);
    if (table != nullptr && table->caption.starts_with(caption)) return *table;
  }
  throw std::runtime_error("no table " + std::string(caption));
}

double number_at(const Table& table, std::size_t row, std::size_t column) {
  return std::get<double>(table.rows.at(row).at(column).value);
}

TEST(Sections, IdsAndOrdersAreUnique) {
  std::set<std::string_view> ids;
  std::set<int> orders;
  for (const ReportSection* section : all_report_sections()) {
    EXPECT_TRUE(ids.insert(section->id).second) << section->id;
    EXPECT_TRUE(orders.insert(section->order).second) << section->id;
  }
  EXPECT_GE(ids.size(), 8U);
}

TEST(Sections, StandInTheirOrder) {
  std::vector<std::string_view> ids;
  for (const RenderedSection& section : rendered(small_record()).sections)
    ids.push_back(section.section->id);
  EXPECT_EQ(ids,
            (std::vector<std::string_view>{"glance", "flips", "breakdown", "regret", "ties",
                                           "invariants", "curves", "provenance", "configuration"}));
}

TEST(Sections, OpenWithAQuestionAndEndWithAnAnswer) {
  for (const NamedRecord& one : records()) {
    for (const RenderedSection& section : rendered(one.record).sections) {
      SCOPED_TRACE(one.name + ", " + std::string(section.section->id));
      EXPECT_TRUE(section.section->question.ends_with("?"));
      EXPECT_FALSE(section.section->title.empty());
      EXPECT_TRUE(section.content.answer.ends_with(".")) << section.content.answer;
      EXPECT_EQ(section.content.answer.find('\n'), std::string::npos);
    }
  }
}

TEST(Sections, TablesHaveAtMostEightColumnsAndACellForEach) {
  for (const NamedRecord& one : records()) {
    for (const RenderedSection& section : rendered(one.record).sections) {
      SCOPED_TRACE(one.name + ", " + std::string(section.section->id));
      for (const Block& block : section.content.blocks) {
        if (const auto* table = std::get_if<Table>(&block)) {
          EXPECT_LE(table->columns.size(), kMaxColumns) << table->caption;
          EXPECT_FALSE(table->caption.empty());
          for (const Row& row : table->rows)
            EXPECT_EQ(row.size(), table->columns.size()) << table->caption;
        }
        if (const auto* browser = std::get_if<Browser>(&block)) {
          EXPECT_LE(browser->columns.size(), kMaxColumns);
          for (const DetailTable& table : browser->details) {
            EXPECT_LE(table.columns.size(), kMaxColumns) << table.caption;
          }
          for (const BrowserRow& row : browser->rows) {
            EXPECT_EQ(row.cells.size(), browser->columns.size());
            ASSERT_EQ(row.facets.size(), browser->facets.size());
            for (std::size_t i = 0; i < row.facets.size(); ++i) {
              EXPECT_LT(row.facets[i], browser->facets[i].options.size());
            }
            if (!row.detail) continue;
            ASSERT_EQ(row.detail->tables.size(), browser->details.size());
            for (std::size_t i = 0; i < row.detail->tables.size(); ++i) {
              for (const Row& detail : row.detail->tables[i])
                EXPECT_EQ(detail.size(), browser->details[i].columns.size());
            }
          }
        }
        if (const auto* charts = std::get_if<Charts>(&block)) {
          for (const Chart& chart : charts->charts) {
            const std::size_t points =
                chart.kind == ChartKind::kLines || chart.kind == ChartKind::kSteps
                    ? chart.x.size()
                    : chart.labels.size();
            for (const Series& series : chart.series)
              EXPECT_EQ(series.values.size(), points) << chart.title;
          }
        }
      }
    }
  }
}

TEST(Sections, ChartIdsAreUnique) {
  std::set<std::string> ids;
  for (const RenderedSection& section : rendered(large_record(60, 7, 0.5)).sections) {
    for (const Block& block : section.content.blocks) {
      const auto* charts = std::get_if<Charts>(&block);
      if (charts == nullptr) continue;
      for (const Chart& chart : charts->charts)
        EXPECT_TRUE(ids.insert(chart.id).second) << chart.id;
    }
  }
  EXPECT_GE(ids.size(), 3U);
}

TEST(Sections, FlipsShowBothChoicesBothPricesAndTheVerdict) {
  const SectionContent content = content_of(rendered(small_record()), "flips");
  const auto& browser = std::get<Browser>(content.blocks.at(1));
  EXPECT_EQ(browser.total, 6U);
  const auto first = std::find_if(browser.rows.begin(), browser.rows.end(),
                                  [](const BrowserRow& row) { return row.place == 0; });
  ASSERT_NE(first, browser.rows.end());
  EXPECT_EQ(std::get<std::string>(first->cells[0].value), "better");
  EXPECT_EQ(std::get<double>(first->cells[1].value), -2.0);
  EXPECT_EQ(first->cells[1].note, "share -5.71 %");
  EXPECT_EQ(first->cells[2].note, "q1");
  EXPECT_EQ(std::get<std::string>(first->cells[5].value), "P(sum)|S(0)R,RR");
  EXPECT_EQ(first->cells[5].note, "9.00 us");
  EXPECT_EQ(std::get<std::string>(first->cells[6].value), "RR");
  EXPECT_EQ(first->cells[7].note, "was 10.00, -20.0 %");
  EXPECT_EQ(content.answer, "6 flips: 1 better, 2 worse, 1 equal and 2 undecided.");
}

TEST(Sections, AnImpossibleChoiceIsADashWithItsWord) {
  const SectionContent content = content_of(rendered(small_record()), "flips");
  const auto& browser = std::get<Browser>(content.blocks.at(1));
  for (const BrowserRow& row : browser.rows) {
    if (row.cells[2].note != "q7") continue;
    EXPECT_TRUE(std::holds_alternative<std::monostate>(row.cells[5].value));
    EXPECT_EQ(row.cells[5].note, "impossible");
    return;
  }
  FAIL() << "q7 is missing";
}

TEST(Sections, RegretShowsWeightedMeansOnlyWhereWeightsDiffer) {
  ComparisonRecord record = small_record();
  const SectionContent weighted = content_of(rendered(record), "regret");
  EXPECT_EQ(table_of(weighted, "Regret and rank").columns[3].title, "weighted mean, %");
  EXPECT_DOUBLE_EQ(number_at(table_of(weighted, "Regret and rank"), 0, 3), 9.375);
  record.questions[1].count = 1;
  const SectionContent plain = content_of(rendered(record), "regret");
  EXPECT_EQ(table_of(plain, "Regret and rank").columns[3].title, "median, %");
}

// Only q1 and q2 have kernels; q2 is asked 3 times. Old: 10 + 3 x 5 = 25 us, of which 4 + 3 x 5 =
// 19 are kernels and 6, 24 %, communication. New: 8 + 15 = 23 us, 19 and 4.
TEST(Sections, RegretTellsKernelsFromCommunication) {
  ComparisonRecord record = small_record();
  for (const std::size_t question : {std::size_t{0}, std::size_t{1}}) {
    for (StackAnswer& answer : record.questions[question].answers) {
      answer.reference_kernel_us = question == 0 ? 4.0 : 5.0;
    }
  }
  const SectionContent content = content_of(rendered(record), "regret");
  const Table& table = table_of(content, "What the choices take");
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(number_at(table, 0, 2), 25.0);
  EXPECT_EQ(number_at(table, 0, 3), 19.0);
  EXPECT_EQ(number_at(table, 0, 4), 6.0);
  EXPECT_DOUBLE_EQ(number_at(table, 0, 5), 24.0);
  EXPECT_EQ(number_at(table, 1, 2), 23.0);
  EXPECT_EQ(number_at(table, 1, 4), 4.0);
  EXPECT_EQ(parse_record(record_text(record), "run.json"), record);
  const SectionContent older = content_of(rendered(small_record()), "regret");
  EXPECT_THROW(static_cast<void>(table_of(older, "What the choices take")), std::runtime_error);
}

TEST(Sections, RegretNamesTheStackThatLosesLeast) {
  EXPECT_EQ(content_of(rendered(small_record()), "regret").answer,
            "`old` loses least, 12.5 % on average.");
}

TEST(Sections, BreakdownKeepsEveryFlip) {
  const ComparisonRecord record = large_record(300, 1, 0.5);
  const Comparison comparison = compare(record);
  const RenderedReport report = render_report(record, comparison);
  const SectionContent& content = content_of(report, "breakdown");
  for (const std::string_view caption : {"Flips by op", "Flips by size", "Flips by mesh"}) {
    const Table& table = table_of(content, caption);
    double decisions = 0;
    double flips = 0;
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      decisions += number_at(table, row, 1);
      flips += number_at(table, row, 2);
    }
    EXPECT_EQ(decisions, 300) << caption;
    EXPECT_EQ(flips, static_cast<double>(comparison.flips.size())) << caption;
  }
}

TEST(Sections, InvariantsNameTheBrokenOnesAndTheirWitness) {
  const SectionContent content = content_of(rendered(small_record()), "invariants");
  EXPECT_EQ(content.answer, "`old` breaks `triangle` and `zero_same_layout`; `new` breaks none.");
  const Table& table = table_of(content, "Invariants");
  EXPECT_EQ(std::get<std::string>(table.rows[0][7].value), "S(0)R to RS(1) by way of RR");
}

TEST(Sections, CurvesTellWhereTheStacksDifferMost) {
  EXPECT_EQ(content_of(rendered(small_record()), "curves").answer,
            "The stacks differ most for all_gather over 8 ranks at 1.00 kB: `new` prices it at "
            "3.00 us and `old` at 6.60 us, a ratio of 0.45.");
}

TEST(Sections, ConfigurationShowsOnlyWhatDiffers) {
  const SectionContent content = content_of(rendered(small_record()), "configuration");
  const Table& table = table_of(content, "What the stacks differ in");
  ASSERT_EQ(table.rows.size(), 1U) << "`rules` is the same in all of them";
  EXPECT_EQ(std::get<std::string>(table.rows[0][0].value), "model.latency_us");
  EXPECT_EQ(std::get<std::string>(table.rows[0][1].value), "6.6");
  EXPECT_EQ(std::get<std::string>(table.rows[0][2].value), "3.0");
}

TEST(Sections, ConfigurationBeginsWithWhatTheCandidateChanges) {
  ComparisonRecord record = small_record();
  record.configuration.stacks.push_back(record.configuration.stacks[0]);
  record.configuration.stacks.back()["name"] = "ref";
  record.configuration.stacks.back()["a_row_of_the_reference"] = 1;
  const RenderedReport report = rendered(record);
  const Table& table = table_of(content_of(report, "configuration"), "What the stacks differ in");
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(std::get<std::string>(table.rows[0][0].value), "model.latency_us");
  EXPECT_EQ(std::get<std::string>(table.rows[1][0].value), "a_row_of_the_reference");
}

TEST(Sections, TheGlanceNamesTheKindsOfCollectivesThatReplaceEachOther) {
  ComparisonRecord record = small_record();
  for (RecordQuestion& question : record.questions) {
    for (StackAnswer& answer : question.answers) {
      if (answer.reference_us) answer.traffic.emplace();
    }
  }
  record.questions[0].answers[0].traffic->emplace("all_gather", CollectiveTraffic{5, 1e6});
  record.questions[0].answers[1].traffic->emplace("all_to_all", CollectiveTraffic{5, 1e6});
  const RenderedReport report = rendered(record);
  const auto* figures = std::get_if<Figures>(&content_of(report, "glance").blocks.front());
  ASSERT_NE(figures, nullptr);
  EXPECT_EQ(figures->figures[1].value, "0");
  EXPECT_TRUE(figures->figures[1].note.starts_with("all_to_all +5, all_gather -5; `"))
      << figures->figures[1].note;
}

TEST(Sections, TheCommandLineCanBePastedIntoAShell) {
  const SectionContent content = content_of(rendered(small_record()), "configuration");
  for (const Block& block : content.blocks) {
    const auto* listing = std::get_if<Listing>(&block);
    if (listing == nullptr || listing->title != "Command line") continue;
    EXPECT_EQ(listing->text, "shardlab compare --set 'a b=1'");
    return;
  }
  FAIL() << "no command line";
}

}  // namespace section_test
}  // namespace shardlab::reports

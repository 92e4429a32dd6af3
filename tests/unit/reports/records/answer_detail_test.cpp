// What a record keeps of a decision that flips reads back as it was written, and damage is named.
#include "reports/records/answer_detail.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "costmodel/base/fields_json.h"
#include "reports/section.h"
#include "reports/writers/html.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace answer_detail_test {

using nlohmann::json;

AnswerDetail sample() {
  AnswerDetail detail;
  // The latency is 6 us, the transfer 1.5 us, the kernel 0.25 us, and the total 8 us, so 0.25 us
  // are none of these.
  detail.candidates = {{.choice = "R, R -> R",
                        .total_us = 8.0,
                        .parts = PartsOfPrice{6.0, 1.5, 0.125, 0.125},
                        .kernel_us = 0.25,
                        .reference_us = 9.0,
                        .is_chosen = true},
                       {.choice = "S(0), R -> S(0)",
                        .total_us = {},
                        .parts = {},
                        .kernel_us = 0.0,
                        .reference_us = {},
                        .is_chosen = false}};
  detail.steps = {{.of = "input 0",
                   .what = "all_gather on mesh dim 0, S(0) to R",
                   .full_bytes = 4096.0,
                   .price_us = 7.75,
                   .parts = PartsOfPrice{6.0, 1.5, 0.25, 0.0}}};
  detail.flips_first = DetailFlip{.parameter = "latency", .factor = 0.5, .to = "S(0), R -> S(0)"};
  return detail;
}

AnswerDetail read_back(const AnswerDetail& detail) {
  return read_as<AnswerDetail>(json(json_of(detail)), {"run.json", "/detail"});
}

TEST(AnswerDetail, ReadsBackWhatItWrote) {
  EXPECT_EQ(read_back(sample()), sample());
  AnswerDetail none = sample();
  none.flips_first.emplace();
  EXPECT_EQ(read_back(none), none) << "looked for, and not found";
  none.flips_first.reset();
  EXPECT_EQ(read_back(none), none) << "not looked for";
  EXPECT_EQ(json_of(none).count("flips_first"), 0);
  EXPECT_EQ(read_back({}), AnswerDetail());
}

std::string error_after(const std::function<void(json&)>& change) {
  json value = json_of(sample());
  change(value);
  try {
    static_cast<void>(read_as<AnswerDetail>(value, {"run.json", "/questions/3/answers/1/detail"}));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AnswerDetail, DamageIsNamedByItsPointer) {
  EXPECT_EQ(error_after([](json& value) { value["candidates"][1].erase("chosen"); }),
            "run.json:/questions/3/answers/1/detail/candidates/1: missing key \"chosen\"");
  EXPECT_EQ(error_after([](json& value) { value["steps"][0]["parts_us"]["latency"] = "6"; }),
            "run.json:/questions/3/answers/1/detail/steps/0/parts_us/latency: found \"6\"; "
            "valid: a number");
  EXPECT_EQ(error_after([](json& value) { value["flips_first"]["unheard_of"] = 1; }),
            "run.json:/questions/3/answers/1/detail/flips_first/unheard_of: unknown key; valid: "
            "parameter, "
            "factor, to");
}

// The first flip of the small record in reading order is that of q1: its answers get details.
ComparisonRecord explained_record() {
  ComparisonRecord record = small_record();
  for (StackAnswer& answer : record.questions[0].answers) answer.detail = sample();
  return record;
}

TEST(AnswerDetail, AFlipOpensItsCandidatesStepsAndWhatFlipsItFirst) {
  const ComparisonRecord record = explained_record();
  const RenderedReport report = render_report(record, compare(record));
  const auto& browser = std::get<Browser>(report.sections[1].content.blocks[1]);
  ASSERT_TRUE(browser.rows[0].detail.has_value());
  const RowDetail& detail = *browser.rows[0].detail;
  const std::vector<Row>& candidates = detail.tables[1];
  ASSERT_EQ(candidates.size(), 4U) << "two of either stack";
  EXPECT_EQ(candidates[0][1].note, "chosen");
  EXPECT_EQ(std::get<double>(candidates[0][2].value), 8.0);
  EXPECT_EQ(std::get<double>(candidates[0][6].value), 0.25) << "what is no part of the others";
  EXPECT_EQ(candidates[1][2].note, "impossible");
  ASSERT_EQ(detail.tables[2].size(), 2U);
  EXPECT_EQ(detail.tables[2][0][1].note, "input 0");
  const auto is_flip = [](const Fact& fact) { return fact.label == "flips new first"; };
  const auto flip = std::find_if(detail.facts.begin(), detail.facts.end(), is_flip);
  ASSERT_NE(flip, detail.facts.end());
  EXPECT_EQ(flip->text, "latency x 0.5000, then cheaper: S(0), R -> S(0)");
  EXPECT_NE(write_html(report).find("all_gather on mesh dim 0, S(0) to R"), std::string::npos);
}

}  // namespace answer_detail_test
}  // namespace shardlab::reports

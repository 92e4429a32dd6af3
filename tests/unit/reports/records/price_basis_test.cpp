// What a price rests on reads back as it was written. Decisions are counted by what their prices
// rest on, and every part of a report gives the same counts.
#include "reports/records/price_basis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/fields_json.h"
#include "reports/report.h"
#include "reports/section.h"
#include "reports/summary.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace price_basis_test {

using nlohmann::json;

const std::string kTwoHosts = "all_gather of 16 ranks on 2 hosts";
const std::string kSmall = "all_reduce of 8 ranks on 1 host below 32 MiB";

PriceBasis measured(std::int64_t steps) { return {steps, {}}; }
PriceBasis carried(std::vector<std::string> what, std::int64_t steps = 0) {
  return {steps, std::move(what)};
}
const PriceBasis kLocal{};

void set_bases(RecordQuestion& question, const std::vector<PriceBasis>& answers,
               const PriceBasis& best) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (question.answers[i].reference_us) question.answers[i].basis = answers[i];
  }
  question.best.basis = best;
}

// The small record (sample_record.h), its reference fitted to rows:
//
//   q1 mm   flip, better     old measured, new measured, best measured   measured
//   q2 add  none             local, local, best carried                  carried over
//   q3 plan flip, worse      measured, carried with a measured step      carried over
//   q4 relu flip, worse, 8   local, local, local                         local work
//   q5 sum  flip, undecided                                              not judged
//   q6 cat  flip, equal      carried twice, local, local                 carried over
//   q7 mm   flip, undecided                                              not judged
//
// Judged: 5 decisions, 4 flips of them; measured 1 and 1; carried over 3 and 2; local work 1 and 1.
ComparisonRecord record() {
  ComparisonRecord record = small_record();
  std::vector<RecordQuestion>& q = record.questions;
  set_bases(q[0], {measured(2), measured(1)}, measured(1));
  set_bases(q[1], {kLocal, kLocal}, carried({kTwoHosts}));
  set_bases(q[2], {measured(1), carried({kTwoHosts}, 1)}, measured(1));
  set_bases(q[3], {kLocal, kLocal}, kLocal);
  set_bases(q[4], {measured(1), kLocal}, measured(1));
  set_bases(q[5], {carried({kTwoHosts, kSmall}), kLocal}, kLocal);
  set_bases(q[6], {kLocal, measured(1)}, measured(1));
  return record;
}

BasisCounts counts(std::int64_t is_measured, std::int64_t is_carried, std::int64_t is_local) {
  return {{is_measured, is_carried, is_local}};
}

const ReportSection* section_of(const std::string& id) {
  for (const ReportSection* section : all_report_sections()) {
    if (section->id == id) return section;
  }
  return nullptr;
}

TEST(PriceBasis, RecordsReadBackAsTheyWereWritten) {
  const ComparisonRecord before = record();
  EXPECT_EQ(parse_record(record_text(before), "run.json"), before);
  const json value = to_json(before);
  EXPECT_EQ(value["questions"][2]["answers"][1]["rests_on"],
            json({{"measured_steps", 1}, {"not_measured", {kTwoHosts}}}));
  EXPECT_EQ(value["questions"][1]["best"]["rests_on"],
            json({{"measured_steps", 0}, {"not_measured", {kTwoHosts}}}));
  EXPECT_FALSE(value["questions"][6]["answers"][0].contains("rests_on"));
  EXPECT_EQ(to_json(small_record()).dump().find("rests_on"), std::string::npos)
      << "without measured rows there is nothing to say";
}

std::string error_after(const std::function<void(json&)>& change) {
  json value = to_json(record());
  change(value);
  try {
    static_cast<void>(from_json(value, "run.json"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(PriceBasis, DamageIsNamed) {
  EXPECT_EQ(error_after([](json& record) {
              record["questions"][0]["answers"][1]["rests_on"]["measured_steps"] = -1;
            }),
            "run.json:/questions/0/answers/1/rests_on/measured_steps: found -1; valid: an integer, "
            "at least 0");
  EXPECT_EQ(error_after([](json& record) {
              record["questions"][0]["best"]["rests_on"]["not_measured"] = "x";
            }),
            "run.json:/questions/0/best/rests_on/not_measured: found \"x\"; valid: an array");
  EXPECT_EQ(
      error_after(
          [](json& record) { record["questions"][6]["answers"][0]["rests_on"] = json_of(kLocal); }),
      "run.json:/questions/6/answers/0: rests_on describes a price, but reference_us is null");
  EXPECT_EQ(error_after([](json& record) {
              json& best = record["questions"][0]["best"];
              best["us"] = nullptr;
              best["reason"] = "none";
            }),
            "run.json:/questions/0/best/rests_on: rests_on describes a price, but us is null");
}

TEST(PriceBasis, ADecisionRestsOnTheLeastMeasuredOfItsChoices) {
  const Comparison comparison = compare(record());
  EXPECT_TRUE(comparison.tells_basis);
  const StackSummary& candidate = comparison.stacks[1];
  EXPECT_EQ(candidate.basis.decisions, counts(1, 3, 1));
  EXPECT_EQ(candidate.basis.flips, counts(1, 2, 1));
  EXPECT_EQ(candidate.basis.decisions.total(), 5);
  EXPECT_EQ(comparison.stacks[0].basis.decisions.total(), 0) << "the baseline is the candidates'";
  for (const Flip& flip : comparison.flips) {
    EXPECT_EQ(flip.basis.has_value(), flip.verdict != Verdict::kUndecided);
  }
}

TEST(PriceBasis, CountsBySuiteAndMeshAddUp) {
  ComparisonRecord two = record();
  two.questions[0].suite = "other";
  const Comparison comparison = compare(two);
  const StackSummary& candidate = comparison.stacks[1];
  ASSERT_EQ(candidate.basis_by_suite.size(), 2U);
  EXPECT_EQ(candidate.basis_by_suite[0].label, "other");
  EXPECT_EQ(candidate.basis_by_suite[0].decisions, counts(1, 0, 0));
  EXPECT_EQ(candidate.basis_by_suite[1].decisions, counts(0, 3, 1));
  ASSERT_EQ(candidate.basis_by_mesh.size(), 2U);
  EXPECT_EQ(candidate.basis_by_mesh[0].label, "8");
  EXPECT_EQ(candidate.basis_by_mesh[0].decisions, counts(0, 0, 1));
  EXPECT_EQ(candidate.basis_by_mesh[1].label, "2x4");
  EXPECT_EQ(candidate.basis_by_mesh[1].flips, counts(1, 2, 0));
}

TEST(PriceBasis, WhatWasNotMeasuredCountsOnceADecision) {
  const Comparison comparison = compare(record());
  ASSERT_EQ(comparison.not_measured.size(), 2U);
  EXPECT_EQ(comparison.not_measured[0].what, kTwoHosts);
  EXPECT_EQ(comparison.not_measured[0].decisions, 3);
  EXPECT_EQ(comparison.not_measured[0].flips, 2);
  EXPECT_EQ(comparison.not_measured[1].what, kSmall);
  EXPECT_EQ(comparison.not_measured[1].decisions, 1);
  EXPECT_EQ(comparison.not_measured[1].flips, 1);
}

TEST(PriceBasis, AnAnswerBelowTheRecordedBestIsWhatIsComparedWith) {
  ComparisonRecord below = record();
  below.stacks.emplace_back("third");
  for (RecordQuestion& question : below.questions) question.answers.push_back(question.answers[1]);
  below.questions[0].answers[2].reference_us = 1.0;
  below.questions[0].answers[2].basis = carried({kSmall});
  EXPECT_EQ(joint_basis(bases_of(below.questions[0], 1)), Basis::kCarriedOver);
  below.questions[0].answers[2].cannot_run = "no collective does it";
  EXPECT_EQ(joint_basis(bases_of(below.questions[0], 1)), Basis::kMeasured);
  below.questions[0].answers[2].cannot_run.clear();
  below.questions[0].answers[2].reference_us = 9.0;
  EXPECT_EQ(joint_basis(bases_of(below.questions[0], 1)), Basis::kMeasured);
}

TEST(PriceBasis, ADecisionOfWhichAPartIsUnknownIsNotCounted) {
  ComparisonRecord partly = record();
  partly.questions[0].best.basis.reset();
  EXPECT_EQ(joint_basis(bases_of(partly.questions[0], 1)), std::nullopt);
  EXPECT_EQ(compare(partly).stacks[1].basis.decisions, counts(0, 3, 1));
}

TEST(PriceBasis, TheSentenceTellsIt) {
  const ComparisonRecord told = record();
  EXPECT_TRUE(
      summary_sentence(told, compare(told))
          .ends_with("; 1 of 4 priced flips and 1 of 5 priced decisions rest on measured groups; "
                     "1 flip and 1 decision rest on local work alone; the prices of the others "
                     "are carried over from other groups or sizes."))
      << summary_sentence(told, compare(told));
  BasisGroup all;
  all.decisions = counts(7, 0, 0);
  EXPECT_EQ(basis_sentence(all), "7 of 7 priced decisions rest on measured groups");
  ComparisonRecord two = told;
  two.stacks.emplace_back("third");
  for (RecordQuestion& question : two.questions) question.answers.push_back(question.answers[0]);
  const std::string sentence = summary_sentence(two, compare(two));
  EXPECT_NE(sentence.find("1 of 4 priced flips on measured groups"), std::string::npos) << sentence;
  // The third decides as the baseline does: q1 to q6 are judged; q1, q3 and q5 are measured.
  EXPECT_TRUE(sentence.ends_with(
      "; over all candidates, 1 of 4 priced flips and 4 of 11 priced decisions rest on measured "
      "groups; 1 flip and 2 decisions rest on local work alone; the prices of the others are "
      "carried over from other groups or sizes."))
      << sentence;
  EXPECT_EQ(summary_sentence(small_record(), compare(small_record())).find("rest"),
            std::string::npos);
}

TEST(PriceBasis, TheSectionDefinesAndCountsAndIsLeftOutOtherwise) {
  const ComparisonRecord told = record();
  const auto render = std::get<SectionContent (*)(const ComparisonRecord&, const Comparison&)>(
      section_of("basis")->render);
  const SectionContent content = render(told, compare(told));
  EXPECT_EQ(content.answer,
            "1 of 4 priced flips and 1 of 5 priced decisions rest on measured groups; 1 flip and 1 "
            "decision rest on local work alone; the prices of the others are carried over from "
            "other groups or sizes.");
  ASSERT_EQ(content.blocks.size(), 4U) << "definition, candidates, meshes, what was not measured";
  EXPECT_NE(std::get<Paragraph>(content.blocks[0]).text.find("`ref` has measured rows of"),
            std::string::npos);
  const Table& candidates = std::get<Table>(content.blocks[1]);
  std::vector<double> figures;
  for (std::size_t i = 1; i < candidates.columns.size(); ++i) {
    figures.push_back(std::get<double>(candidates.rows.at(0).at(i).value));
  }
  EXPECT_EQ(figures, (std::vector<double>{5, 1, 3, 1, 4, 1, 2}));
  EXPECT_EQ(std::get<Table>(content.blocks[2]).rows.size(), 2U);
  EXPECT_EQ(std::get<Table>(content.blocks[3]).rows.size(), 2U);
  const SectionContent without = render(small_record(), compare(small_record()));
  EXPECT_TRUE(without.blocks.empty() && without.answer.empty());
}

TEST(PriceBasis, EachFlipSaysItAndCanBeFilteredByIt) {
  const ComparisonRecord told = record();
  const auto render = std::get<SectionContent (*)(const ComparisonRecord&, const Comparison&)>(
      section_of("flips")->render);
  const SectionContent content = render(told, compare(told));
  const Browser* browser = nullptr;
  for (const Block& block : content.blocks) {
    if (std::holds_alternative<Browser>(block)) browser = &std::get<Browser>(block);
  }
  ASSERT_NE(browser, nullptr);
  const Facet& facet = browser->facets.back();
  EXPECT_EQ(facet.title, "rests on");
  EXPECT_EQ(facet.options,
            (std::vector<std::string>{"measured", "carried over", "local work", "not judged"}));
  std::vector<std::int64_t> rows(facet.options.size());
  for (const BrowserRow& row : browser->rows) {
    ++rows.at(row.facets.back());
    const std::string& note = row.cells[0].note;
    EXPECT_EQ(note.empty() ? "not judged" : note, facet.options[row.facets.back()]);
    const bool is_told = std::any_of(row.detail->facts.begin(), row.detail->facts.end(),
                                     [](const Fact& fact) { return fact.label == "rests on"; });
    EXPECT_EQ(is_told, !note.empty());
  }
  EXPECT_EQ(rows, (std::vector<std::int64_t>{1, 2, 1, 2}));
}

TEST(PriceBasis, ReportJsonTellsTheSame) {
  const json report = json::parse(report_json(record()));
  const json decisions = {{"measured", 1}, {"carried_over", 3}, {"local_work", 1}};
  const json flips = {{"measured", 1}, {"carried_over", 2}, {"local_work", 1}};
  EXPECT_EQ(report["stacks"][1]["rests_on"], json({{"decisions", decisions}, {"flips", flips}}));
  EXPECT_EQ(report["stacks"][1]["rests_on_by_suite"]["small"], report["stacks"][1]["rests_on"]);
  EXPECT_EQ(report["stacks"][1]["rests_on_by_mesh"].size(), 2U);
  EXPECT_FALSE(report["stacks"][0].contains("rests_on"));
  EXPECT_EQ(report["not_measured"][0], json({{"what", kTwoHosts}, {"decisions", 3}, {"flips", 2}}));
  std::map<std::string, int> by_basis;
  for (const json& flip : report["flips"]) {
    ++by_basis[flip.contains("rests_on") ? flip["rests_on"].get<std::string>() : ""];
    if (flip["question"] == "q6") {
      EXPECT_EQ(flip["not_measured"], json({kTwoHosts, kSmall}));
    }
  }
  EXPECT_EQ(by_basis, (std::map<std::string, int>{
                          {"", 2}, {"carried_over", 2}, {"local_work", 1}, {"measured", 1}}));
  const json without = json::parse(report_json(small_record()));
  EXPECT_FALSE(without.contains("not_measured"));
  EXPECT_EQ(without.dump().find("rests_on"), std::string::npos);
}

}  // namespace price_basis_test
}  // namespace shardlab::reports

// What a record of `solve` holds beside the plan reads back, has a section for each part, and is
// refused where it is damaged.
#include "reports/records/solution_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "reports/run_record.h"
#include "reports/section.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace solution_answers_test {

using nlohmann::json;

json changes(const char* what, const char* from, const char* to) {
  return json::array({{{what, "w"}, {from, "RR"}, {to, "S(0)R"}}});
}

// Every part, as `solve` writes it for a plan of 100 us.
json all_answers() {
  const json breakdown = {{"compute", 90.0}, {"communication", 30.0}, {"transition", 5.0}};
  const json one_choice = {{"node", "n1"},           {"to_node", "n1"},
                           {"regret_us", 20.0},      {"op", "a"},
                           {"chosen", "RR<-RR"},     {"instead", "S(0)R<-S(0)R"},
                           {"dearer_there_us", 2.0}, {"cheaper_later_us", 22.0}};
  const json stretch = {{"node", "n2"}, {"to_node", "n3"}, {"regret_us", 4.0}};
  const auto point = [](double kept, double bytes, double us, bool is_known, const json& changed) {
    return json{{"kept", kept},       {"kept_bytes", bytes},       {"objective_us", us},
                {"found_by", "hull"}, {"next_is_known", is_known}, {"changes", changed}};
  };
  const json curve = {{"parameters", 2},
                      {"complete", true},
                      {"given_up", false},
                      {"points",
                       {point(2.0, 2e6, 100.0, false, json::array()),
                        point(1.0, 1e6, 150.0, true, changes("parameter", "from", "to"))}}};
  const json flip = {
      {"factor", 0.5}, {"objective_us", 60.0}, {"nodes", changes("node", "here", "there")}};
  const auto recipe = [](const char* name, double us, const json& percent) {
    return json{
        {"recipe", name},
        {"title", "a title"},
        {"misfit", nullptr},
        {"objective_us", us},
        {"above_optimum_percent", percent},
        {"kernels_us", us / 2},
        {"moves_us", {{"parameters", us / 4}, {"gradients", us / 8}, {"activations", us / 8}}},
        {"kept_bytes", 1e6},
        {"greedy_us", nullptr}};
  };
  return {{"explain",
           {{"layout", "RR"},
            {"nodes",
             {{{"node", "n0"},
               {"chosen", "S(0)R"},
               {"chosen_us", 1.0},
               {"local_us", nullptr},
               {"global_us", 103.0}},
              {{"node", "n1"},
               {"chosen", "RR"},
               {"chosen_us", 1.0},
               {"local_us", 1.0},
               {"global_us", 100.0}},
              {{"node", "n2"},
               {"chosen", "S(0)R"},
               {"chosen_us", 1.0},
               {"local_us", 2.0},
               {"global_us", nullptr}}}}}},
          {"diff",
           {{"file", "other.json"},
            {"objective_us", 120.0},
            {"gap_us", 20.0},
            {"gap_percent", 20.0},
            {"nodes", changes("node", "here", "there")}}},
          {"best",
           {{{"objective_us", 100.0}, {"changes", ""}},
            {{"objective_us", 101.5}, {"changes", "w RR"}}}},
          {"then",
           {{{"pin", "w=RR"},
             {"tried", true},
             {"objective_us", 110.0},
             {"lower_bound_us", 110.0},
             {"dearer_us", 10.0},
             {"optimal", true},
             {"changed", {"n0", "n1", "n2", "n3"}},
             {"conflict", json::array()}},
            {{"pin", "x=RR"},
             {"tried", true},
             {"objective_us", nullptr},
             {"lower_bound_us", nullptr},
             {"dearer_us", nullptr},
             {"optimal", false},
             {"changed", json::array()},
             {"conflict", {"a pin", "the budget"}}}}},
          {"greedy",
           {{"objective_us", 125.0},
            {"gap_us", 25.0},
            {"gap_percent", 25.0},
            {"stuck_at", nullptr},
            {"breakdown_us", breakdown},
            {"regret", {one_choice, stretch}},
            {"other_regret_us", 1.0}}},
          {"sensitivity",
           {{{"parameter", "latency"}, {"below", nullptr}, {"above", flip}},
            {{"parameter", "bandwidth"}, {"below", flip}, {"above", nullptr}}}},
          {"budget_curves", {{"fractions", curve}, {"bytes", curve}}},
          {"recipes",
           {recipe("optimum", 100.0, 0.0),
            recipe("fsdp", 104.0, 4.0),
            recipe("tp", 130.0, 30.0),
            {{"recipe", "dp"},
             {"title", "a title"},
             {"objective_us", nullptr},
             {"misfit", "16 does not divide by 64"}}}}};
}

RunRecord record_with(const json& answers) {
  ResultRecord record;
  static_cast<RunHeader&>(record) = small_record();
  const auto move = [](const char* from, const char* to, double us) {
    return json{{"input", 0},   {"of", "n0"}, {"tensor", "f32[8,8]"},
                {"from", from}, {"to", to},   {"us", us}};
  };
  const auto node = [](const char* name, const json& moves, double us) {
    return json{{"node", name},       {"kind", "op"},           {"phase", "forward"},
                {"op", "a"},          {"layout_in", {"RR"}},    {"layout_out", "RR"},
                {"compute_us", 10.0}, {"communication_us", us}, {"margin_us", nullptr},
                {"moves", moves}};
  };
  record.result = {
      {"stack", "old"},
      {"program", "net"},
      {"mesh", "2x4"},
      {"nodes", 3},
      {"edges", 2},
      {"strategies", 9},
      {"objective_us", 100.0},
      {"lower_bound_us", 100.0},
      {"optimal", true},
      {"optima", nullptr},
      {"infeasible", nullptr},
      {"notes", json::array()},
      {"breakdown_us", {{"compute", 30.0}, {"communication", 70.0}, {"transition", 0.0}}},
      {"assignment",
       {node("n0", json::array(), 0.0),
        node("n1", {move("S(0)R", "RR", 30.0), move("RS(0)", "RR", 10.0)}, 40.0),
        node("n2", {move("S(0)R", "RR", 30.0), move("RR", "S(0)R", 0.0)}, 30.0)}}};
  if (!answers.is_null()) record.result["answers"] = answers;
  return make_run_record(kSolveKind, std::move(record), "run.json");
}

const RenderedSection* find_section(const RenderedReport& report, std::string_view id) {
  for (const RenderedSection& section : report.sections) {
    if (section.section->id == id) return &section;
  }
  return nullptr;
}

RenderedReport report_of(const json& answers) {
  return render_report(std::get<SolutionRecord>(record_with(answers)));
}

TEST(SolutionAnswers, HaveASectionEach) {
  const RenderedReport report = report_of(all_answers());
  const std::vector<std::pair<std::string_view, std::string_view>> wanted = {
      {"recipes",
       "The best recipe is `fsdp`, 4.0 % above the best plan by the sum of kernels and moves."},
      {"moves",
       "3 redistributions cost 70.00 us; the largest part, 85.7 %, is `f32[8,8]` from `S(0)R` to "
       "`RR` in the "
       "forward pass."},
      {"explained", "3 nodes can have `RR`; for 1 of them the whole plan then costs no more."},
      {"other_plan",
       "The plan of `other.json` differs in 1 node and takes 120.0 us, 20.000 us (20.00 %) above "
       "the best."},
      {"further_plans", "The plan of rank 2 is 1.500 us above the best."},
      {"further_pins", "`x=RR` can't be heeded: it contradicts a pin and the budget."},
      {"greedy", "Without looking ahead the program takes 125.0 us, 25.00 % above the best plan."},
      {"sensitivity",
       "The plan changes first where `latency` is 0.5000 times its value: it then differs in 1 "
       "node."},
      {"budget_curve",
       "From 2.00 MB kept down to 1.00 MB the best plan grows from 100.0 us to 150.0 us."}};
  for (const auto& [id, answer] : wanted) {
    const RenderedSection* section = find_section(report, id);
    ASSERT_NE(section, nullptr) << id;
    EXPECT_EQ(section->content.answer, answer);
    EXPECT_FALSE(section->content.blocks.empty()) << id;
    for (const Block& block : section->content.blocks) {
      const auto* table = std::get_if<Table>(&block);
      if (table == nullptr) continue;
      EXPECT_FALSE(table->rows.empty()) << table->caption;
      for (const Row& row : table->rows) EXPECT_EQ(row.size(), table->columns.size()) << id;
    }
  }
}

TEST(SolutionAnswers, ARecipeThatTakesFarLongerHasNoBar) {
  json answers = all_answers();
  const auto labels_and_note = [&] {
    std::string text;
    const RenderedReport report = report_of(answers);
    for (const Block& block : find_section(report, "recipes")->content.blocks) {
      if (const auto* charts = std::get_if<Charts>(&block)) {
        for (const std::string& label : charts->charts.front().labels) text += label + " ";
      } else if (const auto* paragraph = std::get_if<Paragraph>(&block)) {
        if (paragraph->text.starts_with("Beyond")) text += paragraph->text;
      }
    }
    return text;
  };
  EXPECT_EQ(labels_and_note(), "optimum fsdp tp ");
  json longer = answers["recipes"][2];
  longer["recipe"] = "greedy";
  longer["objective_us"] = 400.0;
  answers["recipes"].push_back(longer);
  EXPECT_EQ(labels_and_note(), "optimum fsdp tp greedy ");
  answers["recipes"].back()["objective_us"] = 401.0;
  EXPECT_EQ(labels_and_note(), "optimum fsdp tp Beyond the picture: `greedy` with 401.0 us.");
}

TEST(SolutionAnswers, ACurveThatWasGivenUpSaysSo) {
  const auto paragraphs = [](const json& answers) {
    const RenderedReport report = report_of(answers);
    const std::vector<Block>& blocks = find_section(report, "budget_curve")->content.blocks;
    return std::count_if(blocks.begin(), blocks.end(), [](const Block& block) {
      return std::holds_alternative<Paragraph>(block);
    });
  };
  json answers = all_answers();
  EXPECT_EQ(paragraphs(answers), 1);
  answers["budget_curves"]["bytes"]["given_up"] = true;
  EXPECT_EQ(paragraphs(answers), 2);
}

TEST(SolutionAnswers, WhatWasNotAskedHasNoSection) {
  const RenderedReport report = report_of(nullptr);
  for (const char* id : {"recipes", "explained", "other_plan", "further_plans", "further_pins",
                         "greedy", "sensitivity", "budget_curve"}) {
    EXPECT_EQ(find_section(report, id), nullptr) << id;
  }
  EXPECT_NE(find_section(report, "moves"), nullptr);
}

TEST(SolutionAnswers, SayWhenThereIsNone) {
  json answers = all_answers();
  answers["explain"]["nodes"] = json::array();
  answers["diff"]["objective_us"] = nullptr;
  for (const char* key : {"objective_us", "gap_us", "gap_percent", "breakdown_us"}) {
    answers["greedy"][key] = nullptr;
  }
  answers["greedy"]["stuck_at"] = "n1";
  for (json& range : answers["sensitivity"]) range["above"] = range["below"] = nullptr;
  const RenderedReport report = report_of(answers);
  EXPECT_EQ(find_section(report, "explained")->content.answer, "No node can have `RR`.");
  EXPECT_EQ(find_section(report, "other_plan")->content.answer,
            "The plan of `other.json` differs in 1 node and breaks a constraint.");
  EXPECT_EQ(find_section(report, "greedy")->content.answer,
            "The walk is stuck at `n1`, where the constraints leave nothing to take.");
  EXPECT_EQ(find_section(report, "sensitivity")->content.answer,
            "No parameter changes the plan within a factor of 16.");
}

TEST(SolutionAnswers, ReadBackToTheSameReport) {
  const RunRecord record = record_with(all_answers());
  const RunRecord again = parse_run_record(run_record_text(record), "run.json");
  const ReportFiles first = write_report(record);
  const ReportFiles second = write_report(again);
  EXPECT_EQ(first.html, second.html);
  EXPECT_EQ(first.markdown, second.markdown);
  EXPECT_LT(summary_markdown(record).size(), 4000U);
}

TEST(SolutionAnswers, DamageIsNamed) {
  const auto error_of = [](const json::json_pointer& place, const json& value) -> std::string {
    json answers = all_answers();
    if (value.is_discarded()) {
      answers[place.parent_pointer()].erase(place.back());
    } else {
      answers[place] = value;
    }
    try {
      static_cast<void>(record_with(answers));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  using Pointer = json::json_pointer;
  const json gone = json::value_t::discarded;
  const std::string file = "run.json:/result/answers";
  EXPECT_TRUE(error_of(Pointer("/then/0/pin"), 3).starts_with(file + "/then/0/pin: "));
  EXPECT_TRUE(error_of(Pointer("/explain/nodes/1/chosen_us"), gone)
                  .starts_with(file + "/explain/nodes/1: missing key \"chosen_us\""));
  EXPECT_TRUE(
      error_of(Pointer("/greedy/stuck_at"), "n1").starts_with(file + "/greedy/objective_us: "));
  EXPECT_TRUE(error_of(Pointer("/recipes/3/misfit"), nullptr)
                  .starts_with(file + "/recipes/3/objective_us: "));
  EXPECT_TRUE(error_of(Pointer("/budget_curves/bytes/points/1/more"), 1)
                  .starts_with(file + "/budget_curves/bytes/points/1/more: "));
  EXPECT_TRUE(error_of(Pointer("/other"), 1).starts_with(file + "/other: "));
}

}  // namespace solution_answers_test
}  // namespace shardlab::reports

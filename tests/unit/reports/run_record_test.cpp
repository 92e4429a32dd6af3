// Records of every kind read back as they were written, their sections keep the contract of
// sections, and errors are computed as they are defined.
#include "reports/run_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "reports/errors.h"
#include "reports/section.h"
#include "tests/unit/reports/sample_record.h"

namespace shardlab::reports {
namespace run_record_test {

using nlohmann::json;

json ties_result() {
  const json item = {{"question", "q1"},
                     {"op", "aten.mm.default"},
                     {"mesh", "2x4"},
                     {"bytes", 4096.0},
                     {"inputs", {"f32[32,32] S(0)R"}},
                     {"choice", "RR -> RR"},
                     {"total_us", 8.5},
                     {"candidates", 5},
                     {"exact_ties", 2},
                     {"near_ties", 0},
                     {"margin_us", nullptr},
                     {"order_dependent", true},
                     {"flip", {{"parameter", "latency"}, {"factor", 1.25}, {"to", "S(0)R"}}},
                     {"tied", {"RR -> RR", "S(0)R -> S(0)R"}}};
  json near = item;
  near["question"] = "q2";
  near["exact_ties"] = 1;
  near["near_ties"] = 3;
  near["flip"] = nullptr;
  near["order_dependent"] = false;
  return {{"stack", "old"},       {"within_percent", 1.0}, {"questions", 10},
          {"exact_ties", 1},      {"near_ties", 1},        {"order_dependent", 1},
          {"impossible", 1},      {"not_asked", 2},        {"flipped_first_by", {{"latency", 1}}},
          {"items", {item, near}}};
}

// Errors of +100 %, -50 %, +10 % and one that is not priced: the median of 10, 50, 100 is 50, the
// 90th percentile at place 1.8 is 50 + .8 x 50 = 90, the signed median 10.
json validation_result() {
  const auto row = [](int set, const char* file, const char* collective, double bytes,
                      double measured, double predicted) -> json {
    return {{"set", set},
            {"file", file},
            {"collective", collective},
            {"bytes", bytes},
            {"measured_us", measured},
            {"predicted_us", predicted},
            {"error_percent", 100.0 * (predicted - measured) / measured}};
  };
  json rows = {row(0, "a", "all_reduce", 1e3, 10.0, 20.0),
               row(0, "a", "all_gather", 2e6, 10.0, 5.0),
               row(1, "b", "all_reduce", 1e9, 10.0, 11.0)};
  rows.push_back({{"set", 1},
                  {"file", "b"},
                  {"collective", "broadcast"},
                  {"bytes", 1e9},
                  {"measured_us", 10.0},
                  {"predicted_us", nullptr},
                  {"impossible", "no row for it"}});
  const auto set = [](const char* name, const char* gpu) -> json {
    return {{"name", name},
            {"gpu", gpu},
            {"scale", "2x8"},
            {"date", nullptr},
            {"nccl_version", "2.27"},
            {"health", "healthy"},
            {"source", "https://example.org"}};
  };
  return {{"stack", "old"},
          {"measurement_sets", {set("a", "H100"), set("b", "A100")}},
          {"rows", rows},
          {"warnings", {"a warning"}},
          {"points", 3},
          {"unpriced", 1},
          {"median_ape_percent", 50.0},
          {"p90_ape_percent", 90.0},
          {"mean_ape_percent", 53.0},
          {"bias_percent", 20.0},
          {"sets", 2},
          {"by", json::object()},
          {"worst", json::array()}};
}

// Two layers of four ops forward and backward, and a loss between them.
json solution_result() {
  json assignment = json::array();
  const auto add = [&](const std::string& phase, const std::string& op, double us) {
    assignment.push_back({{"node", "n" + std::to_string(assignment.size())},
                          {"kind", "op"},
                          {"phase", phase},
                          {"op", op},
                          {"layout_in", {"RR"}},
                          {"layout_out", "S(0)R"},
                          {"compute_us", us},
                          {"communication_us", us / 2},
                          {"transition_us", 0.25},
                          {"margin_us", nullptr}});
  };
  for (const char* op : {"a", "b", "c", "d", "a", "b", "c", "d", "loss"}) add("forward", op, 2.0);
  for (const char* op : {"loss_", "d_", "c_", "b_", "a_", "d_", "c_", "b_", "a_"}) {
    add("backward", op, 4.0);
  }
  return {{"stack", "old"},
          {"program", "net"},
          {"mesh", "2x4"},
          {"nodes", 18},
          {"edges", 17},
          {"strategies", 90},
          {"objective_us", 81.0},
          {"lower_bound_us", 81.0},
          {"optimal", true},
          {"optima", nullptr},
          {"infeasible", nullptr},
          {"notes", {"a note"}},
          {"breakdown_us", {{"compute", 54.0}, {"communication", 20.0}, {"transition", 7.0}}},
          {"assignment", assignment}};
}

json simulation_result() {
  const json times = {{"p50", 7.5}, {"p95", 8.0}, {"max", 9.0}};
  const json step = {{"node", ""},         {"name", "all_gather"}, {"change", "S(0)->R"},
                     {"price_us", 7.5},    {"end_us", times},      {"wait_us", 0.0},
                     {"bytes_moved", 416}, {"max_abs_error", 0.0}};
  return {{"what", "f32[8] S(0)->R"},
          {"mesh", "4"},
          {"stack", "old"},
          {"ranks", 4},
          {"data", true},
          {"verified", true},
          {"mismatch", nullptr},
          {"replicas_bitwise_equal", true},
          {"refused", nullptr},
          {"straggler", "none"},
          {"time_us", times},
          {"bytes_moved", 416},
          {"notes", json::array()},
          {"steps", {step}}};
}

json step_result() {
  const auto bar = [](const char* stream, const char* name, double start, double end) -> json {
    return {{"stream", stream}, {"name", name}, {"tasks", 2}, {"start_ms", start}, {"end_ms", end}};
  };
  return {
      {"model", "llama3-8b"},
      {"topology", "h100"},
      {"mesh", "fsdp=8"},
      {"ranks", 8},
      {"tokens_per_s_per_gpu", 6667.0},
      {"step_ms", 2457.0},
      {"mfu_percent", 43.2},
      {"tokens_per_step", 131072.0},
      {"recompute", "selective"},
      {"memory",
       {{"peak_bytes", 6e10},
        {"device_bytes", 8e10},
        {"fits", true},
        {"parts",
         {{"parameters", 1e10},
          {"gradients", 1e10},
          {"optimizer", 2e10},
          {"activations", 1.5e10},
          {"gathered", 4e9},
          {"temporary", 1e9}}}}},
      {"breakdown_ms",
       {{"gemm", 1500.0},
        {"attention", 400.0},
        {"other", 500.0},
        {"exposed", {{"all_gather", 40.0}, {"contention", 17.0}}},
        {"bubble", 0.0},
        {"host", 0.0}}},
      {"timeline",
       {bar("compute", "layers.0", 10.0, 60.0), bar("gathers of weights", "all_gather", 0.0, 10.0),
        bar("compute", "<layers.1>", 60.0, 100.0)}},
      {"assumed",
       {{"stack", "steps"},
        {"title", "training steps"},
        {"source", "public figures"},
        {"settings", {{{"name", "sequence"}, {"value", "8192 tokens"}}}},
        {"terms",
         {{{"factor", "gemm"},
           {"help", "GEMMs in bf16"},
           {"when", "gpu h100"},
           {"value", 0.93},
           {"low", 0.92},
           {"high", nullptr}}}}}}};
}

// A vector of 8 elements on 2 x 2 ranks: summands become shards along dim 1, which are then
// gathered.
json plan_result() {
  const json parts = {{"latency", 1.0}, {"transfer", 2.0}, {"compute", 0.0}, {"straggler", 0.0}};
  const auto step = [&](const char* collective, const char* from, const char* to) -> json {
    return {
        {"collective", collective}, {"mesh_dims", {1}},   {"from", from},    {"to", to},
        {"logical_shape", {8}},     {"full_bytes", 32.0}, {"price_us", 3.0}, {"parts_us", parts}};
  };
  const auto device = [](int rank, int part, int of, const char* partial, int begin,
                         int end) -> json {
    return {
        {"rank", rank},
        {"part", part},
        {"parts", of},
        {"label", of == 1 ? "all" : std::to_string(part + 1) + "/" + std::to_string(of)},
        {"partial", partial},
        {"slice", of == 1 ? "[:]" : "[" + std::to_string(begin) + ":" + std::to_string(end) + "]"},
        {"ranges", {{{"dim", 0}, {"begin", begin}, {"end", end}}}}};
  };
  const json summands = {device(0, 0, 1, "sum 1/2", 0, 8), device(1, 0, 1, "sum 2/2", 0, 8),
                         device(2, 0, 1, "sum 1/2", 0, 8), device(3, 0, 1, "sum 2/2", 0, 8)};
  const json shards = {device(0, 0, 2, "", 0, 4), device(1, 1, 2, "", 4, 8),
                       device(2, 0, 2, "", 0, 4), device(3, 1, 2, "", 4, 8)};
  const json all = {device(0, 0, 1, "", 0, 8), device(1, 0, 1, "", 0, 8), device(2, 0, 1, "", 0, 8),
                    device(3, 0, 1, "", 0, 8)};
  const auto move = [](int bytes) -> json {
    return {{"along", "mesh dim 1"}, {"along_row_dim", false}, {"along_column_dim", true},
            {"groups", 2},           {"group_size", 2},        {"first_group", {0, 1}},
            {"bytes_moved", bytes}};
  };
  return {
      {"stack", "old"},
      {"topology", "h100"},
      {"mesh", "2x2"},
      {"tensor", "f32[8]"},
      {"from", "RP(sum)"},
      {"to", "RR"},
      {"path", "RP(sum)->RS(0)->RR"},
      {"steps", {step("reduce_scatter", "P(sum)", "S(0)"), step("all_gather", "S(0)", "R")}},
      {"price_us", 6.0},
      {"parts_us", parts},
      {"transition_us", 0.0},
      {"executed_us", 6.0},
      {"impossible", nullptr},
      {"unexecutable", nullptr},
      {"optimal_paths", 0.0},
      {"warnings", json::array()},
      {"bounds", {{"volume_ratio", 1.0}, {"time_ratio", 2.5}, {"memory_ratio", nullptr}}},
      {"drawing",
       {{"shape", {8}},
        {"rows", 2},
        {"columns", 2},
        {"row_name", "mesh dim 0"},
        {"column_name", "mesh dim 1"},
        {"left_out", ""},
        {"layouts",
         {{{"layout", "RP(sum)"},
           {"holds", "2 partial sums of the whole tensor, each held by 2 devices"},
           {"devices", summands}},
          {{"layout", "RS(0)"}, {"holds", "2 parts, each held by 2 devices"}, {"devices", shards}},
          {{"layout", "RR"}, {"holds", "every device holds all of it"}, {"devices", all}}}},
        {"moves", {move(64), move(64)}}}}};
}

// The record of a plan beside that of another stack, which reduces in one step.
json compared_plan_result() {
  json result = plan_result();
  result["against"] = {
      {{"name", "new"},
       {"path", "RP(sum)->RR"},
       {"price_us", 4.0},
       {"here_us", 4.5},
       {"collectives", 1},
       {"bytes_moved", 128},
       {"impossible", nullptr},
       {"unexecutable", nullptr},
       {"steps",
        {{{"collective", "all_reduce"}, {"from", "P(sum)"}, {"to", "R"}, {"price_us", 4.5}}}}}};
  return result;
}

json impossible_plan_result() {
  json result = plan_result();
  result["impossible"] = "no step makes summands";
  result["price_us"] = nullptr;
  result["executed_us"] = 0.0;
  result["steps"] = json::array();
  result["drawing"]["moves"] = json::array();
  result["drawing"]["layouts"] = json::array({result["drawing"]["layouts"][0]});
  return result;
}

// The stack has no price for the plan, whose steps run all the same.
json unpriced_plan_result() {
  json result = plan_result();
  result["impossible"] = "the order is unknown";
  result["price_us"] = nullptr;
  result["runs_unpriced"] = true;
  return result;
}

RunRecord record_of(std::string_view kind, const json& result) {
  ResultRecord record;
  static_cast<RunHeader&>(record) = small_record();
  record.result = result;
  return make_run_record(kind, std::move(record), "run.json");
}

std::vector<RunRecord> records() {
  json no_ties = ties_result();
  no_ties["items"] = json::array();
  no_ties["flipped_first_by"] = json::object();
  json no_rows = validation_result();
  no_rows["rows"] = json::array();
  json unpriced = validation_result();
  unpriced["rows"] = json::array({unpriced["rows"][3]});
  json refused = simulation_result();
  refused["refused"] = "no plan";
  refused["steps"] = json::array();
  refused["verified"] = false;
  for (const char* key : {"p50", "p95", "max"}) refused["time_us"][key] = nullptr;
  json empty_step = step_result();
  empty_step["timeline"] = json::array();
  empty_step["assumed"]["terms"] = json::array();
  empty_step["memory"]["fits"] = false;
  json infeasible = solution_result();
  for (const char* key : {"objective_us", "lower_bound_us", "breakdown_us"}) {
    infeasible[key] = nullptr;
  }
  infeasible["infeasible"] = "no assignment satisfies all of: the budget";
  infeasible["optimal"] = false;
  infeasible["assignment"] = json::array();
  return {small_record(),
          record_of(kTiesKind, ties_result()),
          record_of(kTiesKind, no_ties),
          record_of(kValidateKind, validation_result()),
          record_of(kValidateKind, no_rows),
          record_of(kValidateKind, unpriced),
          record_of(kSolveKind, solution_result()),
          record_of(kSolveKind, infeasible),
          record_of(kSimulateKind, simulation_result()),
          record_of(kSimulateKind, refused),
          record_of(kStepKind, step_result()),
          record_of(kStepKind, empty_step),
          record_of(kPlanKind, plan_result()),
          record_of(kPlanKind, compared_plan_result()),
          record_of(kPlanKind, impossible_plan_result()),
          record_of(kPlanKind, unpriced_plan_result())};
}

TEST(RunRecord, ReadsBackAndReportsTheSameBytes) {
  for (const RunRecord& record : records()) {
    const std::string text = run_record_text(record);
    const RunRecord again = parse_run_record(text, "run.json");
    EXPECT_EQ(again.index(), record.index());
    EXPECT_EQ(run_record_text(again), text);
    const ReportFiles first = write_report(record);
    const ReportFiles second = write_report(again);
    EXPECT_EQ(first.html, second.html);
    EXPECT_EQ(first.markdown, second.markdown);
    EXPECT_EQ(first.json, second.json);
    EXPECT_LT(summary_markdown(record).size(), 4000U);
    EXPECT_TRUE(json::accept(first.json));
  }
}

TEST(RunRecord, ARecordOfBeforeThereWereKindsIsAComparison) {
  json old = json::parse(record_text(small_record()));
  old.erase("kind");
  EXPECT_EQ(std::get<ComparisonRecord>(parse_run_record(old.dump(), "run.json")), small_record());
}

template <class Record>
RenderedReport rendered(const RunRecord& record) {
  return render_report(std::get<Record>(record));
}

TEST(RunRecord, SectionsKeepTheirContractInEveryKind) {
  for (const RunRecord& record : records()) {
    if (std::holds_alternative<ComparisonRecord>(record)) continue;  // section_test.cpp tests those
    const RenderedReport report = std::visit(
        [](const auto& one) -> RenderedReport {
          if constexpr (std::is_base_of_v<ResultRecord, std::decay_t<decltype(one)>>) {
            return render_report(one);
          } else {
            return {};
          }
        },
        record);
    EXPECT_TRUE(report.sentence.ends_with(".")) << report.sentence;
    EXPECT_GE(report.sections.size(), 3U);
    for (const RenderedSection& section : report.sections) {
      SCOPED_TRACE(section.section->id);
      EXPECT_TRUE(section.section->question.ends_with("?"));
      EXPECT_TRUE(section.content.answer.ends_with(".")) << section.content.answer;
      for (const Block& block : section.content.blocks) {
        if (const auto* table = std::get_if<Table>(&block)) {
          EXPECT_LE(table->columns.size(), kMaxColumns);
          for (const Row& row : table->rows) EXPECT_EQ(row.size(), table->columns.size());
        }
        if (const auto* browser = std::get_if<Browser>(&block)) {
          EXPECT_LE(browser->columns.size(), kMaxColumns);
          for (const BrowserRow& row : browser->rows) {
            EXPECT_EQ(row.cells.size(), browser->columns.size());
            ASSERT_EQ(row.facets.size(), browser->facets.size());
            for (std::size_t i = 0; i < row.facets.size(); ++i) {
              EXPECT_LT(row.facets[i], browser->facets[i].options.size());
            }
          }
        }
      }
    }
  }
}

// Four layers of two ops; all but layer 2 are alike, and each moves 1 MB.
TEST(RunRecord, LayersThatAreAlikeShareARowWithTheirCount) {
  json result = solution_result();
  result["assignment"] = json::array();
  for (int layer = 0; layer < 4; ++layer) {
    for (const char* op : {"a", "b"}) {
      const std::string node = op + std::to_string(layer);
      json moves = json::array();
      if (op[0] == 'b') {
        moves.push_back({{"input", 0},
                         {"of", "a"},
                         {"tensor", "f32[8]"},
                         {"from", "S(0)"},
                         {"to", "R"},
                         {"us", 2.0},
                         {"bytes_moved", 1e6}});
      }
      result["assignment"].push_back({{"node", node},
                                      {"kind", "op"},
                                      {"phase", "forward"},
                                      {"op", op},
                                      {"layer", layer},
                                      {"layout_in", {"R"}},
                                      {"layout_out", layer == 2 ? "R" : "S(0)"},
                                      {"compute_us", 5.0},
                                      {"communication_us", moves.empty() ? 0.0 : 2.0},
                                      {"transition_us", 0.0},
                                      {"moves", moves},
                                      {"margin_us", nullptr}});
    }
  }
  const std::string text = write_report(record_of(kSolveKind, result)).markdown;
  EXPECT_NE(
      text.find("| layers 0, 1 and 1 more, alike: 3 | 2 | 10.00 | 2.00 | 0.00 | 0.00 | 1.00 MB |"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("| layer 2 | 2 | 10.00 | 2.00 | 0.00 | 0.00 | 1.00 MB |"), std::string::npos);
  EXPECT_NE(text.find("| all of them | 8 | 40.00 | 8.00 | 0.00 | 0.00 | 4.00 MB |"),
            std::string::npos);
  for (json& node : result["assignment"]) node["layout_out"] = "S(0)";
  const std::string even = write_report(record_of(kSolveKind, result)).markdown;
  EXPECT_NE(even.find("| layers 0 to 3, alike: 4 | 2 | 10.00 |"), std::string::npos) << even;
}

TEST(RunRecord, ParametersComeByNameTheLargestFirst) {
  json result = solution_result();
  const auto parameter = [](const char* node, const char* label, double bytes, double per_rank) {
    return json{
        {"node", node},
        {"kind", "parameter"},
        {"phase", "forward"},
        {"op", ""},
        {"layout_in", json::array()},
        {"layout_out", per_rank < bytes ? "S(0)R" : "RR"},
        {"compute_us", 0.0},
        {"communication_us", 0.0},
        {"margin_us", nullptr},
        {"given",
         {{"label", label}, {"tensor", "f32[8]"}, {"bytes", bytes}, {"bytes_per_rank", per_rank}}}};
  };
  result["assignment"].push_back(parameter("p_small", "", 1e3, 1e3));
  result["assignment"].push_back(parameter("p_large", "layers.0.wq", 4e6, 2e6));
  const std::string text = write_report(record_of(kSolveKind, result)).markdown;
  const std::size_t large =
      text.find("| `layers.0.wq` | 1 | `f32[8]` | `S(0)R` | 4.00 MB | 2.00 MB |");
  const std::size_t small = text.find("| `p_small` | 1 | `f32[8]` | `RR` | 1.00 kB | 1.00 kB |");
  EXPECT_LT(large, small) << text;
  EXPECT_NE(small, std::string::npos) << text;
  EXPECT_NE(text.find("1 is held whole by every rank; the largest is `layers.0.wq`"),
            std::string::npos)
      << text;
  // The same weight of further layers shares its row; another layout or another name does not.
  result["assignment"].push_back(parameter("p1", "layers.1.wq", 4e6, 2e6));
  result["assignment"].push_back(parameter("p2", "layers.10.wq", 4e6, 2e6));
  result["assignment"].push_back(parameter("p3", "layers.11.wq", 4e6, 4e6));
  result["assignment"].push_back(parameter("p4", "layers.0.w1", 4e6, 2e6));
  result["assignment"].push_back(parameter("p5", "layers.0.w2", 4e6, 2e6));
  const std::string folded = write_report(record_of(kSolveKind, result)).markdown;
  for (const char* row : {"| `layers.*.wq` | 3 | `f32[8]` | `S(0)R` | 12.0 MB | 6.00 MB |",
                          "| `layers.11.wq` | 1 | `f32[8]` | `RR` | 4.00 MB | 4.00 MB |",
                          "| `layers.0.w1` | 1 |", "| `layers.0.w2` | 1 |"}) {
    EXPECT_NE(folded.find(row), std::string::npos) << row << folded;
  }
  EXPECT_NE(folded.find("7 parameters take 24.0 MB"), std::string::npos) << folded;
  const std::string html = write_report(record_of(kSolveKind, result)).html;
  EXPECT_NE(html.find("layers.0.wq\\nlayers.1.wq\\nlayers.10.wq"), std::string::npos);
}

TEST(RunRecord, TheMemoryOverAStepHasAValueOfEachPartForEachMoment) {
  json result = solution_result();
  json memory = {{"end_us", 2000.0}, {"start_us", {0.0, 500.0}}};
  for (const char* part :
       {"parameters", "gradients", "optimizer", "activations", "gathered", "temporary"}) {
    memory[part] = {0.0, 0.0};
  }
  memory["parameters"] = {3e6, 3e6};
  memory["activations"] = {0.0, 1e6};
  result["memory_over_step"] = memory;
  const ReportFiles files = write_report(record_of(kSolveKind, result));
  EXPECT_NE(
      files.markdown.find("The peak is 4.00 MB, after 0.50 of 2.00 ms; the largest part of it "
                          "is parameters and buffers, 3.00 MB."),
      std::string::npos)
      << files.markdown;
  EXPECT_EQ(files.html.find(">optimizer state</"), std::string::npos);
  result["memory_over_step"]["gathered"] = {0.0};
  EXPECT_THROW((void)rendered<SolutionRecord>(record_of(kSolveKind, result)), ConfigError);
}

TEST(RunRecord, MarginsAreADistributionWithExactTiesApart) {
  json result = ties_result();
  EXPECT_EQ(write_report(record_of(kTiesKind, result)).markdown.find("## Margins"),
            std::string::npos)
      << "an older record has none";
  result["margins"] = {{"exact", 3},
                       {"alone", 1},
                       {"free", 0},
                       {"bands",
                        {{{"from_percent", 0.0}, {"below_percent", 0.1}, {"choices", 1}},
                         {{"from_percent", 0.1}, {"below_percent", 1.0}, {"choices", 2}},
                         {{"from_percent", 1.0}, {"below_percent", nullptr}, {"choices", 3}}}}};
  const std::string text = write_report(record_of(kTiesKind, result)).markdown;
  for (const char* row :
       {"| exact tie | 3 | 30.0 |", "| below 0.1 % | 1 | 10.0 |", "| 0.1 to 1 % | 2 | 20.0 |",
        "| 1 % or more | 3 | 30.0 |", "| no other candidate is possible | 1 | 10.0 |"}) {
    EXPECT_NE(text.find(row), std::string::npos) << row << text;
  }
  EXPECT_EQ(text.find("the choice is free"), std::string::npos);
  EXPECT_EQ(text.find("redistribution"), std::string::npos);
  EXPECT_NE(text.find("Of 10 choices, 30.0 % are exact ties, and 30.0 % are cheaper than the next "
                      "candidate by less than 1 %."),
            std::string::npos)
      << text;
}

// Redistributions with one plan are no choices: they are named, and not counted among them.
TEST(RunRecord, RedistributionsWithOnePlanAreNotAmongTheChoices) {
  json result = ties_result();
  result["margins"] = {
      {"exact", 3},
      {"alone", 0},
      {"free", 0},
      {"one_plan", 7},
      {"one_path", 1},
      {"bands", {{{"from_percent", 0.0}, {"below_percent", nullptr}, {"choices", 6}}}}};
  const std::string text = write_report(record_of(kTiesKind, result)).markdown;
  for (const char* part :
       {"7 redistributions have one plan each, because the planner weighs no other: they have no "
        "tie "
        "to break, and are not counted below.",
        "| exact tie | 3 | 30.0 |", "| redistribution with one cheapest path | 1 | 10.0 |",
        "it does not say what the next path costs.", "Of 10 choices, 30.0 % are exact ties",
        "7 questions are redistributions with one plan, because the planner weighs no other, and "
        "cannot be a tie."}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  }
  EXPECT_EQ(text.find("no other candidate is possible"), std::string::npos);
  result["margins"]["exact"] = 0;
  result["margins"]["one_path"] = 0;
  result["margins"]["bands"] = json::array();
  const std::string none = write_report(record_of(kTiesKind, result)).markdown;
  EXPECT_NE(none.find("Nothing is chosen: every question is a redistribution with one plan."),
            std::string::npos)
      << none;
}

// A run of one time has no median, in no sentence, figure or table.
TEST(RunRecord, ARunWithOneTimeSaysNoMedian) {
  json once = simulation_result();
  once["time_us"] = {{"p50", 7.5}, {"p95", 7.5}, {"max", 7.5}};
  const ReportFiles files = write_report(record_of(kSimulateKind, once));
  EXPECT_EQ(rendered<SimulationRecord>(record_of(kSimulateKind, once)).sentence,
            "`f32[8] S(0)->R` on 4 ranks takes 7.500 us under `old`; its data is right.");
  EXPECT_EQ(files.markdown.find("median"), std::string::npos) << files.markdown;
  EXPECT_NE(files.markdown.find("1 step, 7.500 us."), std::string::npos) << files.markdown;
  const ReportFiles several = write_report(record_of(kSimulateKind, simulation_result()));
  EXPECT_NE(several.markdown.find("Time, median"), std::string::npos);
}

// The streams of two ranks: rank 0 waits 4 us for rank 8, which is on another host.
TEST(RunRecord, ASimulatedRunIsPicturedWithItsWaitsAndItsMesh) {
  json run = simulation_result();
  run["ranks"] = 16;
  const auto bar = [](double start, double end, const json& waits_for) -> json {
    return {{"stream", "communication"},
            {"name", waits_for.is_null() ? "all_gather" : ""},
            {"tasks", 1},
            {"start_us", start},
            {"end_us", end},
            {"busy_us", waits_for.is_null() ? end - start : 0.0},
            {"waits_for", waits_for}};
  };
  run["timeline"] = {
      {{"rank", 0},
       {"host", 0},
       {"role", "usual"},
       {"waits_us", 4.0},
       {"delays_us", 0.0},
       {"end_us", 9.0},
       {"bars", {bar(0.0, 4.0, "rank 8"), bar(4.0, 9.0, nullptr)}},
       {"waits",
        {{{"stream", "communication"}, {"waits_for", "rank 8"}, {"times", 1}, {"us", 4.0}}}}},
      {{"rank", 8},
       {"host", 1},
       {"role", "slowest"},
       {"waits_us", 0.0},
       {"delays_us", 4.0},
       {"end_us", 9.0},
       {"bars", {bar(4.0, 9.0, nullptr)}},
       {"waits", json::array()}}};
  const auto dim = [](int size, int stride, const char* link, double bandwidth) -> json {
    return {{"name", ""},   {"size", size},      {"stride", stride},
            {"link", link}, {"latency_us", 1.0}, {"bandwidth_gb_per_s", bandwidth}};
  };
  run["hosts"] = {{"topology", "h100"},
                  {"devices_per_host", 8},
                  {"dims", {dim(2, 8, "network", 50.0), dim(8, 1, "nvlink", 450.0)}}};
  const ReportFiles files = write_report(record_of(kSimulateKind, run));
  EXPECT_NE(files.html.find("<title>waits for rank 8, 0.00 to 4.00 us</title>"), std::string::npos);
  EXPECT_NE(files.html.find("rank 8 on host 1, the slowest: others wait for it, 4.000 us in sum"),
            std::string::npos);
  EXPECT_NE(
      files.markdown.find("The communication stream of rank 0 waits longest: 4.000 us (44.4 % "
                          "of the run) for `rank 8`, in 1 wait."),
      std::string::npos)
      << files.markdown;
  EXPECT_NE(files.markdown.find("| dim 0 | 8 groups of 2 ranks, over network at 50 GB/s and 1 us a "
                                "step | ranks 0, 8 |"),
            std::string::npos)
      << files.markdown;
  EXPECT_NE(files.markdown.find("16 ranks on 2 hosts of `h100`; dim 0 has the slowest links, "
                                "network at 50 GB/s."),
            std::string::npos);
  // A mesh on many hosts is drawn with one host and the number of the others.
  run["ranks"] = 1024;
  run["hosts"]["dims"][0]["size"] = 128;
  const ReportFiles large = write_report(record_of(kSimulateKind, run));
  EXPECT_NE(large.html.find("and 127 more hosts like this one"), std::string::npos);
  EXPECT_EQ(large.html.find(">host 1<"), std::string::npos);
}

TEST(RunRecord, AStepIsPicturedToScale) {
  const ReportFiles files = write_report(record_of(kStepKind, step_result()));
  EXPECT_NE(
      files.html.find("<svg x=\"10%\" y=\"18\" width=\"50%\" height=\"22\"><title>layers.0 (2 "
                      "tasks), 10.00 to 60.00 ms</title><rect class=\"series-1\""),
      std::string::npos);
  EXPECT_NE(files.html.find("<title>&lt;layers.1&gt; (2 tasks)"), std::string::npos);
  EXPECT_NE(files.html.find("<svg x=\"0%\" y=\"68\" width=\"10%\""), std::string::npos);
  EXPECT_NE(files.markdown.find("| compute | 2 | 90.00 | 90.0 |"), std::string::npos);
  EXPECT_NE(files.markdown.find("| GEMMs | 1,500.00 | 61.1 |"), std::string::npos);
  EXPECT_EQ(
      rendered<StepRecord>(record_of(kStepKind, step_result())).sentence,
      "`llama3-8b` on 8 ranks of `h100` (`fsdp=8`) is predicted to run at 6,667 tokens per second "
      "per GPU: a step takes 2.457 s, 43.2 % of the peak rate in bf16.");
}

TEST(RunRecord, APlanIsPicturedDeviceByDevice) {
  const ReportFiles files = write_report(record_of(kPlanKind, plan_result()));
  EXPECT_EQ(rendered<PlanRecord>(record_of(kPlanKind, plan_result())).sentence,
            "`f32[8]` on `2x2` goes from `RP(sum)` to `RR` in 6.000 us under `old`: 2 collectives "
            "move 128 B between devices.");
  EXPECT_EQ(rendered<PlanRecord>(record_of(kPlanKind, impossible_plan_result())).sentence,
            "`f32[8]` on `2x2` does not get from `RP(sum)` to `RR` under `old`: no step makes "
            "summands.");
  EXPECT_EQ(rendered<PlanRecord>(record_of(kPlanKind, unpriced_plan_result())).sentence,
            "`f32[8]` on `2x2` goes from `RP(sum)` to `RR` in 6.000 us, the sum of its steps; "
            "`old` has no price for it (the order is unknown): 2 collectives move 128 B between "
            "devices.");
  const std::string unpriced = write_report(record_of(kPlanKind, unpriced_plan_result())).markdown;
  EXPECT_NE(unpriced.find("The stack has no price for the redistribution: the order is unknown. "
                          "PyTorch runs its steps all the same."),
            std::string::npos);
  EXPECT_NE(unpriced.find("reduce_scatter; along mesh dim 1"), std::string::npos);
  EXPECT_NE(files.html.find("<title>rank 1 holds all, sum 2/2</title>"), std::string::npos);
  EXPECT_NE(files.html.find("<title>rank 3 holds 2/2</title>"), std::string::npos);
  EXPECT_NE(files.html.find("<strong>reduce_scatter</strong></p><p>along mesh dim 1</p><p>2 groups "
                            "of 2, the first: ranks 0, 1</p><p>64 B moved</p><p>3.000 us</p>"),
            std::string::npos);
  // The second half of a vector is the lower half of its box.
  EXPECT_NE(files.html.find("<rect class=\"series-2 held\" x=\"63.95\" y=\"33\" width=\"34\" "
                            "height=\"14\"/>"),
            std::string::npos);
  EXPECT_NE(
      files.markdown.find(
          "RP(sum): 2 partial sums of the whole tensor, each held by 2 devices\n"
          "  0: all      1: all\n"
          "     sum 1/2     sum 2/2\n"
          "  2: all      3: all\n"
          "     sum 1/2     sum 2/2\n"
          "    |\n"
          "    |  reduce_scatter; along mesh dim 1; 2 groups of 2, the first: ranks 0, 1; 64 B "
          "moved; 3.000 us\n"
          "    v\n"
          "RS(0): 2 parts, each held by 2 devices\n"
          "  0: 1/2  1: 2/2\n"
          "  2: 1/2  3: 2/2\n"
          "  1/2 is [0:4]\n"
          "  2/2 is [4:8]\n"),
      std::string::npos)
      << files.markdown;
  EXPECT_NE(files.markdown.find("| 1 | reduce_scatter (along mesh dim 1) | `P(sum) -> S(0)` | 32 B "
                                "| 64 B | 3.000 | 1.000 | 2.000 |"),
            std::string::npos)
      << files.markdown;
}

TEST(RunRecord, APlanSaysHowAnotherOneDiffers) {
  const ReportFiles files = write_report(record_of(kPlanKind, compared_plan_result()));
  EXPECT_NE(files.markdown.find(
                "The plan of `new` takes 1.500 us less (-25.0 %) with 1 collective instead of 2, "
                "which move as much."),
            std::string::npos)
      << files.markdown;
  json same = compared_plan_result();
  same["against"][0]["path"] = same["path"];
  EXPECT_NE(
      write_report(record_of(kPlanKind, same)).markdown.find("The plan of `new` is the same plan."),
      std::string::npos);
}

TEST(RunRecord, ADamagedDrawingIsRefused) {
  const auto error_of = [](const json& damaged) -> std::string {
    try {
      (void)record_of(kPlanKind, damaged);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  json damaged = plan_result();
  damaged["drawing"]["columns"] = 3;
  EXPECT_EQ(
      error_of(damaged),
      "run.json:/result/drawing/layouts/0/devices: found 4; valid: as many as rows x columns, "
      "6");
  damaged = plan_result();
  damaged["drawing"]["layouts"].erase(2);
  EXPECT_EQ(error_of(damaged),
            "run.json:/result/drawing/layouts: found 2; valid: one more than moves, 3");
  damaged = plan_result();
  damaged["steps"].erase(1);
  EXPECT_EQ(error_of(damaged),
            "run.json:/result/drawing/moves: found 2; valid: one for each step, 1");
}

TEST(RunRecord, SentencesTellTheWholeStory) {
  EXPECT_EQ(rendered<TiesRecord>(records()[1]).sentence,
            "`old` has exact ties in 1 of 8 decisions (12.5 %), and the order of the candidates "
            "decides 1 of its choices; 1 more come within 1 % of a tie.");
  EXPECT_EQ(rendered<ValidationRecord>(records()[3]).sentence,
            "`old` is off by 50.0 % in the median of 3 measured times (nine in ten are within 90.0 "
            "%), and predicts too much by 10.0 % in the median.");
  EXPECT_EQ(rendered<ValidationRecord>(records()[5]).sentence,
            "`old` has no price for any measured time.");
  EXPECT_EQ(rendered<SolutionRecord>(records()[6]).sentence,
            "`net` on `2x4` takes 81.00 us under `old`, proved optimal: 66.7 % are kernels, 24.7 % "
            "communication and 8.6 % transitions.");
  json bound = solution_result();
  bound["constraints"] = {{"recipe", "fsdp-tp"},          {"pins", 1},
                          {"pin_inputs", "S(0)R"},        {"pin_outputs", nullptr},
                          {"parameter_budget", 0.015625}, {"memory_budget_bytes", 8e10}};
  EXPECT_EQ(rendered<SolutionRecord>(record_of(kSolveKind, bound)).sentence,
            "`net` on `2x4` takes 81.00 us under `old`, proved optimal under recipe `fsdp-tp`, 1 "
            "pin, inputs as `S(0)R`, a parameter budget of 0.015625 and a memory budget of 80.0 "
            "GB: 66.7 % are kernels, 24.7 % communication and 8.6 % transitions.");
  bound["breakdown_us"]["transition"] = 0.0;
  const std::string without = rendered<SolutionRecord>(record_of(kSolveKind, bound)).sentence;
  EXPECT_NE(without.find("66.7 % are kernels and 24.7 % communication."), std::string::npos)
      << without;
  EXPECT_EQ(rendered<SolutionRecord>(records()[7]).sentence,
            "`net` on `2x4` got no plan under `old`: no assignment satisfies all of: the budget.");
  EXPECT_EQ(rendered<SimulationRecord>(records()[8]).sentence,
            "`f32[8] S(0)->R` on 4 ranks takes 7.500 us in the median under `old`; its data is "
            "right.");
  json uneven = simulation_result();
  uneven["replicas_bitwise_equal"] = false;
  EXPECT_EQ(rendered<SimulationRecord>(record_of(kSimulateKind, uneven)).sentence,
            "`f32[8] S(0)->R` on 4 ranks takes 7.500 us in the median under `old`; its data is "
            "right, but its replicas differ bit by bit.");
  EXPECT_EQ(rendered<SimulationRecord>(records()[9]).sentence,
            "`f32[8] S(0)->R` on 4 ranks does not run under `old`: no plan.");
}

TEST(RunRecord, HowNearTiesAreIsPrintedAsGiven) {
  for (const auto& [within, text] : {std::pair(1.5, "1.5"), {0.001, "0.001"}, {2.0, "2"}}) {
    json result = ties_result();
    result["within_percent"] = within;
    const RenderedReport report = rendered<TiesRecord>(record_of(kTiesKind, result));
    EXPECT_TRUE(report.sentence.ends_with("come within " + std::string(text) + " % of a tie."))
        << report.sentence;
    const auto& figures = std::get<Figures>(report.sections[0].content.blocks[0]);
    EXPECT_EQ(figures.figures[1].note, "within " + std::string(text) + " % of the choice");
  }
}

TEST(RunRecord, AFittedStackIsMeasured) {
  const auto answer_of = [](const char* source) {
    ResultRecord record;
    static_cast<RunHeader&>(record) = small_record();
    record.configuration.stacks = {{{"name", "old"}, {"source", source}}};
    record.result = ties_result();
    const RenderedReport report =
        rendered<TiesRecord>(make_run_record(kTiesKind, std::move(record), "run.json"));
    for (const RenderedSection& section : report.sections) {
      if (section.section->id == std::string("provenance")) return section.content.answer;
    }
    return std::string("no section");
  };
  for (const char* source : {"fitted:h100", "record:own"}) {
    EXPECT_TRUE(answer_of(source).starts_with("The prices of `old` are fitted to measured rows, "))
        << answer_of(source);
  }
  EXPECT_TRUE(answer_of("Hockney 1994").starts_with("No price of this run rests on"));
}

const Table* last_table(const RenderedReport& report) {
  const Table* table = nullptr;
  for (const Block& block : report.sections[0].content.blocks) {
    if (const auto* found = std::get_if<Table>(&block)) table = found;
  }
  return table;
}

// In the forward pass a layer of four ops takes 4 x 2 us and half of that to communicate; in the
// backward pass it takes twice as long.
TEST(RunRecord, APlanIsToldByLayer) {
  const RenderedReport report = rendered<SolutionRecord>(records()[6]);
  const Table* table = last_table(report);
  ASSERT_NE(table, nullptr);
  ASSERT_EQ(table->rows.size(), 3U);
  const auto text = [&](std::size_t row) {
    return std::get<std::string>(table->rows[row][0].value);
  };
  const auto number = [&](std::size_t row, std::size_t column) {
    return std::get<double>(table->rows[row][column].value);
  };
  EXPECT_EQ(text(0), "layers 0 and 1, alike: 2");
  EXPECT_EQ(number(0, 1), 8.0);
  EXPECT_EQ(number(0, 2), 8.0);
  EXPECT_EQ(number(0, 3), 4.0);
  EXPECT_EQ(number(0, 4), 16.0);
  EXPECT_EQ(number(0, 5), 8.0);
  EXPECT_EQ(text(1), "after the layers");
  EXPECT_EQ(number(1, 1), 2.0) << "the loss of either pass";
  EXPECT_EQ(number(1, 4), 4.0);
  EXPECT_EQ(text(2), "all of them");
  EXPECT_EQ(number(2, 1), 18.0);
  EXPECT_EQ(number(2, 4), 36.0);
}

// The ops of the plan above repeat from its first on; their names say otherwise.
TEST(RunRecord, NamedLayersComeBeforeRepeats) {
  json named = solution_result();
  for (const std::size_t forward : {1U, 2U, 3U}) named["assignment"][forward]["layer"] = 7;
  for (const std::size_t backward : {10U, 11U}) named["assignment"][backward]["layer"] = 7;
  named["assignment"][12]["layer"] = nullptr;
  const RenderedReport report = rendered<SolutionRecord>(record_of(kSolveKind, named));
  const Table* table = last_table(report);
  ASSERT_NE(table, nullptr);
  ASSERT_EQ(table->rows.size(), 3U);
  const auto row = [&](std::size_t i) {
    return std::pair(std::get<std::string>(table->rows[i][0].value),
                     std::pair(std::get<double>(table->rows[i][2].value),
                               std::get<double>(table->rows[i][4].value)));
  };
  EXPECT_EQ(row(0), std::pair(std::string("before the layers"), std::pair(2.0, 24.0)));
  EXPECT_EQ(row(1), std::pair(std::string("layer 7"), std::pair(6.0, 8.0)));
  EXPECT_EQ(row(2), std::pair(std::string("after the layers"), std::pair(10.0, 4.0)));
}

// Without layers there is neither a chart nor a sentence about them.
TEST(RunRecord, LayersThatThePassesDisagreeAboutAreNotShown) {
  json named = solution_result();
  named["assignment"][1]["layer"] = 0;
  named["assignment"][5]["layer"] = 1;
  named["assignment"][10]["layer"] = 1;
  json repeated = solution_result();
  for (const char* op : {"d_", "c_", "b_", "a_"}) {
    repeated["assignment"].push_back(repeated["assignment"][17]);
    repeated["assignment"].back()["op"] = op;
  }
  json none = solution_result();
  for (json& node : none["assignment"]) node["op"] = node["node"];
  for (const json& result : {named, repeated, none}) {
    const RenderedReport report = rendered<SolutionRecord>(record_of(kSolveKind, result));
    EXPECT_EQ(last_table(report), nullptr);
    for (const Block& block : report.sections[0].content.blocks) {
      EXPECT_FALSE(std::holds_alternative<Charts>(block));
      if (const auto* paragraph = std::get_if<Paragraph>(&block)) {
        EXPECT_EQ(paragraph->text, "a note");
      }
    }
  }
}

TEST(RunRecord, ErrorsAreThoseOfTheRowsThatCount) {
  const RunRecord run = record_of(kValidateKind, validation_result());
  const auto& record = std::get<ValidationRecord>(run);
  const ErrorFigures all = error_figures(record, [](const PredictedRow&) { return true; });
  EXPECT_EQ(all.points, 3);
  EXPECT_EQ(all.unpriced, 1);
  EXPECT_DOUBLE_EQ(*all.median_percent, 50.0);
  EXPECT_DOUBLE_EQ(*all.p90_percent, 90.0);
  EXPECT_DOUBLE_EQ(*all.median_signed_percent, 10.0);
  EXPECT_DOUBLE_EQ(*all.worst_percent, 100.0);
  const ErrorFigures none = error_figures(record, [](const PredictedRow&) { return false; });
  EXPECT_EQ(none.points, 0);
  EXPECT_FALSE(none.median_percent.has_value());
}

TEST(RunRecord, ContradictionsAreNamed) {
  const auto error_of = [](json result) -> std::string {
    try {
      static_cast<void>(record_of(kValidateKind, result));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  json result = validation_result();
  result["rows"][1]["set"] = 2;
  EXPECT_EQ(error_of(result), "run.json:/result/rows/1/set: found 2; there are 2 measurement_sets");
  result = validation_result();
  result["rows"][1]["file"] = "b";
  EXPECT_EQ(error_of(result), "run.json:/result/rows/1/file: expected \"a\", the name of its set");
  result = validation_result();
  result["rows"][0].erase("error_percent");
  EXPECT_EQ(error_of(result),
            "run.json:/result/rows/0/predicted_us: expected both predicted_us and "
            "error_percent, or neither");
}

}  // namespace run_record_test
}  // namespace shardlab::reports

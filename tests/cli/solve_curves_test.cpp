// shardlab solve --budget-curve and --sensitivity: AutoParallel's hull for LLaMA3-8B, keys,
// messages, and plans that change where the output says that they change.
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/base/index.h"
#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace solve_curves_test {

using nlohmann::json;
using Words = std::vector<std::string>;

ProcessResult solve(const TemporaryFolder& folder, Words words) {
  words.insert(words.begin(), "solve");
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (!has("--stack") && !has("--problem")) words.insert(words.end(), {"--stack", "ap-nccl"});
  return run_shardlab(words, folder.path());
}

// The hull that was measured on meta-pytorch/autoparallel's instance of 2 layers (a54c252, einsum):
// sum of the kept fractions of 21 parameters, and cost.
TEST(BudgetCurveCommand, HasAutoParallelsHull) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      run_shardlab({"program", "llama3-8b", "--layers", "2", "--out", "llama.json"}, folder.path())
          .exit_code,
      0);
  const Words words = {"llama.json",    "--mesh",   "8x8",      "--pin-inputs", "S(0)R",
                       "--pin-outputs", "S(0)S(2)", "--format", "json",         "--no-timing"};
  Words curve = words;
  curve.insert(curve.end(), {"--budget-curve", "20"});
  const ProcessResult result = solve(folder, curve);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json found = json::parse(result.out);
  const json& fractions = found["budget_curves"]["fractions"];
  EXPECT_EQ(fractions["parameters"], 21);
  EXPECT_EQ(fractions["complete"], true);
  EXPECT_EQ(fractions["given_up"], false);
  std::vector<std::pair<double, double>> hull;
  double last_us = 0.0;
  for (const json& point : fractions["points"]) {
    const auto us = point["objective_us"].get<double>();
    EXPECT_GT(us, last_us);
    last_us = us;
    if (point["found_by"] == "hull") hull.emplace_back(point["kept"].get<double>(), us);
  }
  const std::vector<std::pair<double, double>> wanted = {
      {5.25, 51901.1}, {0.875, 52051.1}, {0.328125, 52259.9}};
  ASSERT_EQ(hull.size(), wanted.size());
  for (std::size_t i = 0; i < hull.size(); ++i) {
    EXPECT_EQ(hull[i].first, wanted[i].first);
    EXPECT_NEAR(hull[i].second, wanted[i].second, 0.05);
  }
  // No corner is left out: there are eleven points, each the optimum under its budget, and a budget
  // of one unit less has the next point as its optimum.
  ASSERT_EQ(fractions["points"].size(), 11U);
  const double ninth = fractions["points"][8]["kept"];
  for (const auto& [kept, point] : {std::pair(ninth, 8), {ninth - 1.0 / 64, 9}}) {
    Words within = words;
    // 21 parameters with at least 1/64 each: the rule sums max(1/64, fraction).
    within.insert(within.end(), {"--parameter-budget", std::to_string(kept / 21)});
    const json plan = json::parse(solve(folder, within).out);
    EXPECT_NEAR(plan["objective_us"].get<double>(),
                fractions["points"][to_index(point)]["objective_us"].get<double>(), 1e-4);
  }
  EXPECT_EQ(fractions["points"][0]["changes"], json::array());
  EXPECT_EQ(fractions["points"][1]["changes"].size(), 1U);
  // A norm's weight cut 8 times: 4096 * 16 bytes less seven eighths of them.
  const json& bytes = found["budget_curves"]["bytes"];
  EXPECT_EQ(bytes["complete"], true);
  ASSERT_EQ(bytes["points"].size(), 11U);
  EXPECT_EQ(bytes["points"][0]["kept"].get<double>() - bytes["points"][1]["kept"].get<double>(),
            4096 * 16 * 7 / 8);
  for (const json& point : bytes["points"]) EXPECT_EQ(point["kept"], point["kept_bytes"]);
  for (std::size_t i = 1; i < 11; ++i) {
    EXPECT_LT(bytes["points"][i]["kept"], bytes["points"][i - 1]["kept"]);
    EXPECT_GT(bytes["points"][i]["objective_us"], bytes["points"][i - 1]["objective_us"]);
  }
}

TEST(BudgetCurveCommand, IsATable) {
  const TemporaryFolder folder;
  const ProcessResult result =
      solve(folder, {"mlp", "--mesh", "8", "--budget-curve", "20", "--no-timing"});
  EXPECT_EQ(result.out.substr(result.out.find("  cost against")),
            R"(  cost against the sum of the kept fractions of 2 parameters:
  kept fractions  objective us  kept MB  found by  changes
           2            379.95   234.88  hull
           1.125        531.99   132.12  search    up R -> S(1)
           0.25         582.28    29.36  hull      down R -> S(0)
  cost against bytes that a device keeps of 2 parameters, their gradients and Adam's state:
  kept bytes  objective us  kept MB  found by  changes
   234881024        379.95   234.88  hull
   132120576        531.99   132.12  search    up R -> S(1)
    29360128        582.28    29.36  hull      down R -> S(0)
)");
  const ProcessResult few =
      solve(folder, {"mlp", "--mesh", "8", "--budget-curve", "2", "--no-timing"});
  EXPECT_EQ(few.out.substr(few.out.find("  cost against")),
            R"(  cost against the sum of the kept fractions of 2 parameters:
  kept fractions  objective us  kept MB  found by  changes
            2           379.95   234.88  hull
             ...                                   more points may lie here
            0.25        582.28    29.36  hull      up R -> S(1), down R -> S(0)
  cost against bytes that a device keeps of 2 parameters, their gradients and Adam's state:
  kept bytes  objective us  kept MB  found by  changes
   234881024        379.95   234.88  hull
         ...                                   more points may lie here
    29360128        582.28    29.36  hull      up R -> S(1), down R -> S(0)
)");
}

TEST(BudgetCurveCommand, GoesThroughAllBudgets) {
  const TemporaryFolder folder;
  const auto error = [&](const Words& words) {
    const ProcessResult result = solve(folder, words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--budget-curve", "9", "--parameter-budget", "0.5"}),
            "shardlab: solve: found --budget-curve, which goes through all budgets, and "
            "--parameter-budget; valid: one of them\n");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--budget-curve", "9", "--memory-budget", "1e9"}),
            "shardlab: solve: found --budget-curve, which goes through all budgets, and "
            "--memory-budget; valid: one of them\n");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--budget-curve", "1"}),
            "shardlab: solve: --budget-curve: found \"1\"; valid: an integer from 2 to 1000\n");
  EXPECT_EQ(
      error({"--problem", "x.cfn", "--budget-curve", "9"}),
      "shardlab: solve: --budget-curve is for a PROGRAM, not for --problem; valid: without it\n");
}

// Without start-up costs the model's latency is exactly its parameter. When it is scaled as
// --sensitivity says, another plan is cheaper.
TEST(SensitivityCommand, PlansChangeWhereTheParameterIsScaledThatFar) {
  const TemporaryFolder folder;
  const auto solved = [&](double latency_us, const Words& more) {
    Words words = {"transformer-block",
                   "--mesh",
                   "8",
                   "--stack",
                   "alpha-beta",
                   "--set",
                   "stack.collective_model.params.launch_us=0",
                   "--set",
                   "stack.collective_model.params.latency_us=" + std::to_string(latency_us),
                   "--format",
                   "json",
                   "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = solve(folder, words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    folder.write("last.json", result.out);
    return json::parse(result.out);
  };
  constexpr double kLatencyUs = 4.0;
  const json found = solved(kLatencyUs, {"--sensitivity"});
  folder.write("plan.json", found.dump());
  ASSERT_EQ(found["sensitivity"].size(), 3U);
  const json& range = found["sensitivity"][0];
  EXPECT_EQ(range["parameter"], "latency");
  int flips = 0;
  for (const char* side : {"below", "above"}) {
    if (range[side].is_null()) continue;
    ++flips;
    const auto factor = range[side]["factor"].get<double>();
    EXPECT_EQ(factor > 1.0, side == std::string("above"));
    EXPECT_FALSE(range[side]["nodes"].empty());
    EXPECT_NE(range[side]["nodes"][0]["here"], range[side]["nodes"][0]["there"]);
    const auto gap_us = [&](double times) {
      return solved(kLatencyUs * times, {"--diff", "plan.json"})["diff"]["gap_us"].get<double>();
    };
    const double towards = factor > 1.0 ? 1.01 : 1.0 / 1.01;
    EXPECT_NEAR(gap_us(factor / towards), 0.0, 1e-4) << side;
    EXPECT_GT(gap_us(factor * towards), 1e-3) << side;
    EXPECT_NEAR(solved(kLatencyUs * factor, {})["objective_us"].get<double>(),
                range[side]["objective_us"].get<double>(), 1e-2);
  }
  EXPECT_GT(flips, 0);
}

TEST(SensitivityCommand, IsATable) {
  const TemporaryFolder folder;
  const ProcessResult holds = solve(folder, {"mlp", "--mesh", "8", "--sensitivity", "--no-timing"});
  EXPECT_EQ(holds.out.substr(holds.out.find("  parameter ")),
            R"(  parameter     side   plan changes          objective us  nodes  which
  latency       below  not down to x 0.0625
  latency       above  not up to x 16
  bandwidth     below  not down to x 0.0625
  bandwidth     above  not up to x 16
  launch_floor  below  not down to x 0.0625
  launch_floor  above  not up to x 16
)");
  const ProcessResult flips =
      solve(folder, {"transformer-block", "--mesh", "8", "--sensitivity", "--no-timing"});
  EXPECT_EQ(flips.out.substr(flips.out.find("  parameter ")),
            R"(  parameter     side   plan changes  objective us  nodes  which
  latency       below  x 0.61194           1159        7  primals_1 R to S(1), embedding R<-R,R to S(2)<-S(1),R, ...
  latency       above  x 1.6742            1354.5     73  alias_default_6 S(0)<-S(0) to R<-R, mm S(0)<-S(0),R to R<-R,R, ...
  bandwidth     below  x 0.46981           1398.1     73  alias_default_6 S(0)<-S(0) to R<-R, mm S(0)<-S(0),R to R<-R,R, ...
  bandwidth     above  x 2.2065            1149.2      7  primals_1 R to S(1), embedding R<-R,R to S(2)<-S(1),R, ...
  launch_floor  below  x 1                 1230.4      6  mm_15 R<-R,R to S(0)<-S(0),R, view_32 R<-R to S(0)<-S(0), ...
  launch_floor  above  x 1.626             1602.1     73  alias_default_6 S(0)<-S(0) to R<-R, mm S(0)<-S(0),R to R<-R,R, ...
)");
  const ProcessResult error = solve(folder, {"--problem", "x.cfn", "--sensitivity"});
  EXPECT_EQ(
      error.err,
      "shardlab: solve: --sensitivity is for a PROGRAM, not for --problem; valid: without it\n");
}

}  // namespace solve_curves_test
}  // namespace shardlab::testing_support

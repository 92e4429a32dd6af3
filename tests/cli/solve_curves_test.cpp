// shardlab solve --budget-curve: AutoParallel's hull for LLaMA3-8B, keys, messages.
#include <gtest/gtest.h>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

ProcessResult solve(const TemporaryFolder& folder, Words words) {
  words.insert(words.begin(), "solve");
  return run_shardlab(words, folder.path());
}

// The hull that was measured on meta-pytorch/autoparallel's instance of 2 layers (a54c252, einsum): sum of the
// kept fractions of 21 parameters, and cost.
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
  // Nothing between: eleven points, each the optimum with its budget, and of one unit less the next one.
  ASSERT_EQ(fractions["points"].size(), 11U);
  const double ninth = fractions["points"][8]["kept"];
  for (const auto& [kept, point] : {std::pair(ninth, 8), {ninth - 1.0 / 64, 9}}) {
    Words within = words;
    // 21 parameters with at least 1/64 each: the rule sums max(1/64, fraction).
    within.insert(within.end(), {"--parameter-budget", std::to_string(kept / 21)});
    const json plan = json::parse(solve(folder, within).out);
    EXPECT_NEAR(plan["objective_us"].get<double>(),
                fractions["points"][static_cast<std::size_t>(point)]["objective_us"].get<double>(),
                1e-4);
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
  Words within = words;
  within.insert(within.end(), {"--memory-budget", "371761151"});
  EXPECT_NEAR(json::parse(solve(folder, within).out)["objective_us"].get<double>(),
              bytes["points"][6]["objective_us"].get<double>(), 1e-4);
}

TEST(BudgetCurveCommand, IsATable) {
  const TemporaryFolder folder;
  const ProcessResult result =
      solve(folder, {"mlp", "--mesh", "8", "--budget-curve", "20", "--no-timing"});
  EXPECT_EQ(result.out.substr(result.out.find("  cost against")),
            R"(  cost against kept fractions of parameters, summed over 2:
  kept fractions  objective us  kept GB  found by  changes
               2       379.954    1.174  hull
           1.125       531.992    0.661  search    up R -> S(1)
            0.25       582.281    0.147  hull      down R -> S(0)
  cost against bytes that a device keeps of 2 parameters, their gradients and Adam's state:
  kept bytes  objective us  kept GB  found by  changes
  1174405120       379.954    1.174  hull
   660602880       531.992    0.661  search    up R -> S(1)
   146800640       582.281    0.147  hull      down R -> S(0)
)");
  const ProcessResult few =
      solve(folder, {"mlp", "--mesh", "8", "--budget-curve", "2", "--no-timing"});
  EXPECT_EQ(few.out.substr(few.out.find("  cost against")),
            R"(  cost against kept fractions of parameters, summed over 2:
  kept fractions  objective us  kept GB  found by  changes
               2       379.954    1.174  hull
             ...                                   more may lie here
            0.25       582.281    0.147  hull      up R -> S(1), down R -> S(0)
  cost against bytes that a device keeps of 2 parameters, their gradients and Adam's state:
  kept bytes  objective us  kept GB  found by  changes
  1174405120       379.954    1.174  hull
         ...                                   more may lie here
   146800640       582.281    0.147  hull      up R -> S(1), down R -> S(0)
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
  EXPECT_EQ(error({"--problem", "x.cfn", "--budget-curve", "9"}),
            "shardlab: solve: --budget-curve is of programs; --problem has none\n");
}

}  // namespace
}  // namespace shardlab::testing_support

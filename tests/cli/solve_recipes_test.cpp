// shardlab solve with experts' recipes and the greedy walk: tables, keys, messages word for word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace solve_recipes_test {

using nlohmann::json;
using Words = std::vector<std::string>;

class SolveRecipes : public testing::Test {
 protected:
  ProcessResult solve(Words words) {
    words.insert(words.begin(), "solve");
    const auto has = [&](const char* word) {
      return std::find(words.begin(), words.end(), word) != words.end();
    };
    if (!has("--stack") && !has("--problem")) {
      words.insert(words.end(), {"--stack", "ap-nccl"});
    }
    return run_shardlab(words, folder_.path());
  }
  json solved(Words words) {
    words.insert(words.end(), {"--format", "json", "--no-timing"});
    const ProcessResult result = solve(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  }
  std::string error(const Words& words) {
    const ProcessResult result = solve(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_EQ(result.out, "");
    return result.err;
  }
  // One layer of LLaMA3-8B, with as many sequences as 8x8 ranks.
  std::string llama(const std::string& batch = "64") {
    EXPECT_EQ(run_shardlab({"program", "llama3-8b", "--layers", "1", "--batch", batch, "--out",
                            "llama.json"},
                           folder_.path())
                  .exit_code,
              0);
    return "llama.json";
  }
  TemporaryFolder folder_;
};

// With whole weights a rank needs nothing from others: two products of 8192 x 8192 by 28672.
TEST_F(SolveRecipes, AreComparedWithTheOptimum) {
  const ProcessResult result = solve({"mlp", "--mesh", "8", "--compare-recipes"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, R"(mlp on 8, ap-nccl, h100
  the shortest step that fits is that of "optimum": 0.38 ms, 2695100 tokens/s/GPU
  less than 2 % longer, which is too close to call: "dp"
  recipe        executed us  objective us  above %  step us  tokens/s/GPU  peak GB  kernels us  parameters us  gradients us  activations us  collectives  moved GB  greedy us
  optimum               380           380      0.0      380       2695100      0.3         380              0             0               0            0      0.00        380
  dp                    380           380      0.0      380       2695100      0.3         380              0             0               0            0      0.00        380
  greedy                380           380      0.0      380       2695100      0.3         380              0             0               0            0      0.00        380
  optimum, cut          580           582     53.3      580       1764700      0.2         380              0             0             202            1      0.07        651
  tp-sp                 580           582     53.3      580       1764700      0.2         380              0             0             202            1      0.07        582
  tp                    731           732     92.6      731       1401500      0.2         448              0             0             283            1      0.07        732
  fsdp                 1036          1038    173.2     1006       1017800      0.5         380            658             0               0            1      0.23       1038
  greedy us: the sum if each operator is decided alone by this stack's prices, from the row's layouts of parameters and inputs; the row greedy starts from the optimum's
  fsdp-tp: recipe fsdp-tp: found a mesh of 1 dim; valid: 2 (fsdp x tp), 3 (fsdp x fsdp x tp)
  fsdp-tp-sp: recipe fsdp-tp-sp: found a mesh of 1 dim; valid: 2 (fsdp x tp), 3 (fsdp x fsdp x tp)
  hsdp: recipe hsdp: found a mesh of 1 dim; valid: 2 (dp x fsdp)
  dp: 0 us above the optimum: kernels +0, parameters +0, gradients +0, activations +0
  greedy: 0 us above the optimum: kernels +0, parameters +0, gradients +0, activations +0
  optimum, cut: 202 us above the optimum: activations +202, kernels +0, parameters +0, gradients +0
  tp-sp: 202 us above the optimum: activations +202, kernels +0, parameters +0, gradients +0
  tp: 352 us above the optimum: activations +283, kernels +68, parameters +0, gradients +0
  fsdp: 658 us above the optimum: parameters +658, kernels +0, gradients +0, activations +0
)");
}

TEST_F(SolveRecipes, RowsAreThePlansOfTheirRecipes) {
  const std::string file = llama();
  const json found =
      solved({file, "--mesh", "8x8", "--compare-recipes", "--stack", "calibrated-h100"});
  EXPECT_EQ(found["mesh"], "8x8");
  ASSERT_EQ(found["recipes"].size(), 10U);
  const auto optimum = found["recipes"][0]["objective_us"].get<double>();
  EXPECT_EQ(found["recipes"][0]["name"], "optimum");
  double last_us = 0.0;
  std::map<std::string, json> by_name;
  for (const json& row : found["recipes"]) {
    EXPECT_EQ(row["misfit"], nullptr) << row;
    const auto objective = row["objective_us"].get<double>();
    EXPECT_NEAR(row["above_optimum_percent"].get<double>(), 100 * (objective / optimum - 1), 1e-9);
    EXPECT_GE(objective, optimum);
    EXPECT_GE(row["greedy_us"].get<double>(), objective * (1 - 1e-12));
    EXPECT_NEAR(row["executed_us"].get<double>(), objective, 1e-9 * objective);
    EXPECT_LE(row["step_us"].get<double>(), objective * (1 + 1e-6));
    EXPECT_GE(row["step_us"].get<double>(), row["kernels_us"].get<double>() * (1 - 1e-6));
    EXPECT_NEAR(row["tokens_per_s_per_gpu"].get<double>() * row["step_us"].get<double>(),
                64 * 8192 / 64.0 * 1e6, 1e-3);
    EXPECT_GE(row["peak_bytes"].get<double>(), row["kept_bytes"].get<double>() * 0.74);
    EXPECT_GE(objective, last_us) << "rows are in the order of what they take";
    last_us = objective;
    by_name[row["name"]] = row;
    if (row["name"] == "greedy") {
      EXPECT_EQ(objective, found["recipes"][0]["greedy_us"]);
      continue;
    }
    double sum = row["kernels_us"].get<double>();
    for (const json& us : row["moves_us"]) sum += us.get<double>();
    EXPECT_NEAR(sum, objective, 1e-9 * objective);
    const std::string recipe = row["name"];
    Words words = {file, "--mesh", "8x8", "--stack", "calibrated-h100", "--no-fit"};
    if (recipe == "optimum, cut") {
      words.insert(words.end(), {"--parameter-budget", "0"});
    } else if (recipe != "optimum") {
      words.insert(words.end(), {"--recipe", recipe});
    }
    const json plan = solved(words);
    EXPECT_EQ(plan["objective_us"], row["objective_us"]) << recipe;
    EXPECT_EQ(plan["recipe"], recipe.starts_with("optimum") ? json(nullptr) : json(recipe));
  }
  // 16 bytes for each element of the parameters, none of which is cut: embedding and head, norms,
  // one layer.
  const double elements =
      2 * 128256.0 * 4096 + 3 * 4096 + 2.0 * 4096 * 4096 + 2.0 * 1024 * 4096 + 3.0 * 4096 * 14336;
  EXPECT_EQ(by_name["dp"]["kept_bytes"], 16 * elements);
  EXPECT_EQ(by_name["fsdp"]["kept_bytes"], 16 * elements / 64);
}

// With --greedy, each row also says what DTensor makes of its layouts of parameters and inputs: for
// whole weights, the step that was planned.
TEST_F(SolveRecipes, CanBeDecidedAsDTensorDoes) {
  const std::string file = llama();
  const Words words = {file,      "--mesh",         "64", "--compare-recipes", "--greedy",
                       "--stack", "calibrated-h100"};
  const json compared = solved(words);
  for (const json& row : compared["recipes"]) {
    if (row["misfit"] != nullptr) continue;
    ASSERT_TRUE(row.contains("eager")) << row;
    if (row["name"] != "dp") continue;
    EXPECT_EQ(row["eager"]["stack"], "dtensor-2.15");
    const auto planned = row["step_us"].get<double>();
    EXPECT_NEAR(row["eager"]["step_us"].get<double>(), planned, 0.02 * planned);
    EXPECT_GT(row["eager"]["peak_bytes"].get<double>(), row["kept_bytes"].get<double>());
  }
  const ProcessResult text = solve(words);
  EXPECT_NE(text.out.find("DTensor step us"), std::string::npos) << text.out;
  const json without = solved({file, "--mesh", "64", "--compare-recipes"});
  EXPECT_FALSE(without["recipes"][0].contains("eager"));
}

// Where nothing fits, the first line says what may help besides the options that are in use.
TEST_F(SolveRecipes, SayThatNothingFits) {
  Words words = {llama(), "--mesh", "8x8", "--compare-recipes", "--memory-budget", "1GB"};
  const std::string text = solve(words).out;
  EXPECT_NE(text.find("\n  no plan fits into the 1.0 GB of a device; try --recompute selective "
                      "--reshard-after-forward\n"),
            std::string::npos)
      << text.substr(0, 400);
  words.insert(words.end(), {"--recompute", "full", "--reshard-after-forward"});
  const std::string all_in_use = solve(words).out;
  EXPECT_NE(all_in_use.find("\n  no plan fits into the 1.0 GB of a device; try more ranks\n"),
            std::string::npos)
      << all_in_use.substr(0, 400);
}

// The prices of v1 take moves that can't run. A plan with such a move has no step, so nothing is
// known of its time, its memory and its collectives.
TEST_F(SolveRecipes, APlanThatCantRunHasNoFiguresOfAStep) {
  const Words words = {
      "mlp", "--mesh", "2x4", "--set", "stack.transitions=v1", "--compare-recipes"};
  const std::string text = solve(words).out;
  EXPECT_THAT(text, testing::ContainsRegex("\n  optimum, cut +can't run +604 +58.9 +- +- +- +390 "
                                           "+0 +0 +214 +- +- +678\n"));
  bool is_found = false;
  const json compared = solved(words);
  for (const json& row : compared["recipes"]) {
    if (row["name"] != "optimum, cut") continue;
    is_found = true;
    EXPECT_EQ(row["executed_us"], nullptr);
    EXPECT_EQ(row["collectives"], nullptr);
  }
  EXPECT_TRUE(is_found);
}

// A recipe that keeps more than the budget is no row below the optimum.
TEST_F(SolveRecipes, MayNotBreakAParameterBudget) {
  const json found = solved({"mlp", "--mesh", "8", "--compare-recipes", "--parameter-budget", "0.5",
                             "--stack", "calibrated-h100"});
  for (const json& row : found["recipes"]) {
    // A row that has no figures says so under each key.
    for (const auto& [key, value] : found["recipes"][0].items()) {
      EXPECT_TRUE(row.contains(key)) << key << " of " << row;
    }
    if (row["name"] == "dp") {
      for (const char* key : {"executed_us", "step_us", "kernels_us", "fits"}) {
        EXPECT_EQ(row[key], nullptr) << key;
      }
      EXPECT_EQ(row["misfit"],
                "a device keeps 100.0 % of the parameters, each counted alike; valid: at most "
                "50.0 % (--parameter-budget)");
    } else if (row["misfit"] == nullptr) {
      EXPECT_GE(row["above_optimum_percent"].get<double>(), 0.0) << row;
    }
  }
}

TEST_F(SolveRecipes, PinsHoldBesideARecipe) {
  const ProcessResult result = solve(
      {llama(), "--mesh", "8x8", "--recipe", "fsdp", "--pin", "primals_9=S(0)R", "--no-timing"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out.substr(result.out.find("  infeasible")),
            "  infeasible: no assignment satisfies all of: forbidden values of \"primals_9\" "
            "(recipe fsdp, pin "
            "to S(0)R)\n");
}

// There are as many tokens as a weight has rows, yet the weight's gradients are not taken for
// activations.
TEST_F(SolveRecipes, AWidthMayHaveAsManyRowsAsTheBatch) {
  ASSERT_EQ(run_shardlab({"program", "llama3-8b", "--layers", "1", "--batch", "8", "--seqlen",
                          "512", "--out", "p.json"},
                         folder_.path())
                .exit_code,
            0);
  for (const char* recipe : {"dp", "fsdp"}) {
    const json plan = solved({"p.json", "--mesh", "8", "--recipe", recipe});
    EXPECT_EQ(plan["infeasible"], nullptr);
    EXPECT_TRUE(plan["optimal"]);
  }
}

// Replicating everything would be free, which is no answer.
TEST_F(SolveRecipes, RefuseAStackWithoutPricesOfKernels) {
  for (const char* asked : {"--compare-recipes", "--greedy"}) {
    const ProcessResult result = solve({"mlp", "--mesh", "8", "--stack", "dtensor-2.13", asked});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err,
              "shardlab: solve: the stack dtensor-2.13 prices no kernels, so that replicating "
              "everything would be free; valid: a stack that does, such as alpha-beta, or --set "
              "stack.compute_model=roofline\n");
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(SolveRecipes, MisfitsAreSaid) {
  const std::string file = llama("16");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--recipe", "fdsp"}),
            "shardlab: unknown recipe \"fdsp\" (did you mean \"fsdp\"?); valid: a path, or dp, "
            "fsdp, fsdp-tp, fsdp-tp-sp, hsdp, tp, tp-sp\n");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--recipe", "hsdp"}),
            "shardlab: recipe hsdp: found a mesh of 1 dim; valid: 2 (dp x fsdp)\n");
  folder_.write("norms.json", R"({"schema": "shardlab/recipe/1", "name": "norms",
    "meshes": [["tp"]], "rules": [{"nodes": {"kind": "parameter", "roles": ["norm"]},
    "place": {"tp": "R"}}]})");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--recipe", "norms.json"}),
            "shardlab: recipe norms: /rules/0 matches no node of the program mlp (roles norm); its "
            "nodes of kind parameter have these roles: 1 column_linear, 1 row_linear\n");
  EXPECT_EQ(error({file, "--mesh", "8x8", "--recipe", "dp"}),
            "shardlab: recipe dp: primals_14 (i64[16,8192]): found S(0)S(0), where dim 0 "
            "has 16 elements, too few for 8 x 8 shards; valid: RR, RS(0), RS(1), S(0)R, S(0)S(1), "
            "S(1)R, S(1)S(0), S(1)S(1); a batch of at least 64, or a mesh of fewer ranks, can be "
            "placed so: `shardlab program llama3-8b --batch 64 --out FILE` writes one\n");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--compare-recipes", "--recipe", "dp"}),
            "shardlab: solve: --recipe is for one plan, but --compare-recipes prints none; valid: "
            "without it\n");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--compare-recipes", "--best", "2"}),
            "shardlab: solve: --best is for one plan, but --compare-recipes prints none; valid: "
            "without it\n");
  EXPECT_EQ(error({"--problem", "x.cfn", "--greedy"}),
            "shardlab: solve: --greedy is for a PROGRAM, not for --problem; valid: without it\n");
  folder_.write("bad.json", R"({"schema": "shardlab/recipe/1", "name": "bad", "meshes": [["dp"]],
    "rules": [{"nodes": {"kind": "input"}, "place": {"tp": "R"}}]})");
  const ProcessResult result = solve({"mlp", "--mesh", "8", "--recipe", "./bad.json"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err,
            "shardlab: ./bad.json:/rules/0/place/tp: unknown role (did you mean \"dp\"?); valid: "
            "dp\n");
}

// Started from the optimum's parameters and inputs under AutoParallel's constraints, choosing node
// by node costs 3.3 times the optimum.
TEST_F(SolveRecipes, GreedyChoicesAreRegretted) {
  const std::string file = llama("16");
  const json found = solved({file, "--mesh", "8x8", "--parameter-budget", "0.015625",
                             "--pin-inputs", "S(0)R", "--pin-outputs", "S(0)S(2)", "--greedy"});
  const json& greedy = found["greedy"];
  const auto optimum = found["objective_us"].get<double>();
  const auto walk = greedy["objective_us"].get<double>();
  EXPECT_NEAR(optimum, 35984.0410, 6e-5);
  EXPECT_NEAR(greedy["gap_us"].get<double>(), walk - optimum, 1e-9 * walk);
  EXPECT_NEAR(greedy["gap_percent"].get<double>(), 100 * (walk / optimum - 1), 1e-6);
  double parts = 0.0;
  for (const json& us : greedy["breakdown_us"]) parts += us.get<double>();
  EXPECT_NEAR(parts, walk, 1e-9 * walk);
  ASSERT_EQ(greedy["regret"].size(), 10U);
  double sum = greedy["other_regret_us"].get<double>();
  double last = walk;
  for (const json& choice : greedy["regret"]) {
    const auto regret = choice["regret_us"].get<double>();
    EXPECT_LE(regret, last);
    last = regret;
    sum += regret;
    ASSERT_TRUE(choice.contains("op")) << choice;
    EXPECT_GE(choice["dearer_there_us"].get<double>(), -1e-6);
    EXPECT_NEAR(choice["cheaper_later_us"].get<double>(),
                regret + choice["dearer_there_us"].get<double>(), 1e-6);
    EXPECT_NE(choice["chosen"], choice["instead"]);
  }
  EXPECT_NEAR(sum, walk - optimum, 1e-6 * walk);
  // The walk keeps the optimum's layouts of sources, and priced as a plan it costs the same.
  json plan = json::object();
  for (const json& node : found["assignment"]) {
    if (node["op"] == "") {
      EXPECT_EQ(greedy["layouts"][node["node"].get<std::string>()], node["layout_out"]);
    }
  }
  EXPECT_EQ(greedy["layouts"].size(), found["assignment"].size());
}

TEST_F(SolveRecipes, WhatAWalkRegretsIsATable) {
  const ProcessResult result = solve({"mlp", "--mesh", "8", "--greedy", "--no-timing"});
  EXPECT_EQ(result.out.substr(result.out.find("  greedy")),
            "  greedy, node by node from where the optimum has parameters and inputs: "
            "379.95 us, 0 us (0.00 %) above the optimum; kernels 379.95 us, communication 0 us, "
            "transitions 0 us\n");
  const ProcessResult cut =
      solve({"mlp", "--mesh", "8", "--parameter-budget", "0", "--greedy", "--no-timing"});
  EXPECT_EQ(
      cut.out.substr(cut.out.find("  greedy")),
      R"(  greedy, node by node from where the optimum has parameters and inputs: 650.6 us, 68.323 us (11.73 %) above the optimum; kernels 448.28 us, communication 200.33 us, transitions 2 us
  most regretted  op               took              better           better: more there us  less later us  regret us
  z               aten.add.Tensor  P(avg)<-R,P(avg)  S(0)<-S(0),S(0)                    133         201.33     68.323
  all other choices: 0 us
)");
}

}  // namespace solve_recipes_test
}  // namespace shardlab::testing_support

// shardlab solve PROGRAM: AutoParallel's LLaMA3-8B from the program alone, constraints, messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace solve_program_test {

using nlohmann::json;
using Words = std::vector<std::string>;

// Certified optima of meta-pytorch/autoparallel's instances (a54c252; 8x8 H100s, batch 16, sequence
// 8192,
// parameter budget 1/64, tokens S(0)R, logits S(0)S(2)), with their parts.
struct Optimum {
  const char* matmul;
  int layers;
  int nodes;
  double objective_us;
  double compute_us;
  double communication_us;
  double transition_us;
};
constexpr Optimum kOptima[] = {
    {"einsum", 1, 332, 35984.0410, 18426.35, 17516.69, 41},
    {"einsum", 2, 604, 52259.9164, 26754.01, 25432.91, 73},
    {"einsum", 32, 8734, 540536.1775, 276583.74, 262919.44, 1033},
    {"native", 1, 387, 36331.7207, 18368.04, 17904.68, 59},
    {"native", 2, 708, 53125.0244, 26637.31, 26382.72, 105},
    {"native", 32, 10308, 556924.1365, 274715.30, 280723.84, 1485},
};

const Words kGolden = {"--mesh",       "8x8",   "--parameter-budget", "0.015625",
                       "--pin-inputs", "S(0)R", "--pin-outputs",      "S(0)S(2)"};

class Llama : public testing::Test {
 protected:
  ProcessResult solve(const std::string& matmul, int layers, Words more = {},
                      const Words& constraints = kGolden, int batch = 16) {
    const std::string file = "llama.json";
    const ProcessResult made =
        run_shardlab({"program", "llama3-8b", "--layers", std::to_string(layers), "--batch",
                      std::to_string(batch), "--seqlen", "8192", "--matmul", matmul, "--out", file},
                     folder_.path());
    EXPECT_EQ(made.exit_code, 0) << made.err;
    Words words = {"solve", file};
    if (std::find(more.begin(), more.end(), "--stack") == more.end()) {
      words.insert(words.end(), {"--stack", "ap-nccl"});
    }
    words.insert(words.end(), constraints.begin(), constraints.end());
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder_.path());
  }
  json solved(const std::string& matmul, int layers, Words more = {},
              const Words& constraints = kGolden, int batch = 16) {
    more.insert(more.end(), {"--format", "json", "--no-timing"});
    const ProcessResult result = solve(matmul, layers, more, constraints, batch);
    EXPECT_EQ(result.err, "");
    return json::parse(result.out);
  }
  TemporaryFolder folder_;
};

// The report's times by layer are alike in the middle layers, in both passes, and these share a
// row.
TEST_F(Llama, EveryLayerOfTheReportHasItsTime) {
  for (const std::string matmul : {"einsum", "native"}) {
    for (const int layers : {2, 4}) {
      SCOPED_TRACE(matmul + " " + std::to_string(layers));
      const ProcessResult result = solve(matmul, layers, {"--out", "out"});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const json record = json::parse(read_text(folder_.path() / "out/record.json"));
      std::map<std::pair<int, std::string>, double> kernels;
      for (const json& node : record["result"]["assignment"]) {
        if (node["layer"].is_null()) continue;
        kernels[{node["layer"].get<int>(), node["phase"].get<std::string>()}] +=
            node["compute_us"].get<double>();
      }
      ASSERT_EQ(kernels.size(), static_cast<std::size_t>(2 * layers));
      for (const auto& [of, us] : kernels) {
        EXPECT_GT(us, 1000.0) << of.first << " " << of.second;
        if (of.first == 0 || of.first == layers - 1) continue;
        EXPECT_NEAR(us, (kernels[{1, of.second}]), 1e-6 * us) << of.first << " " << of.second;
      }
      const std::string report = read_text(folder_.path() / "out/report.md");
      for (const int layer : {0, layers - 1}) {
        EXPECT_NE(report.find("| layer " + std::to_string(layer) + " |"), std::string::npos);
      }
      EXPECT_EQ(report.find("| layers 1 and 2, alike: 2 |") != std::string::npos, layers == 4);
      EXPECT_EQ(report.find("layer " + std::to_string(layers)), std::string::npos);
    }
  }
}

// One layer on three mesh dims, two sequences for each rank of the outermost.
TEST_F(Llama, HasTheCertifiedOptimumOnThreeMeshDims) {
  const Words constraints = {"--mesh",       "2x4x8",  "--parameter-budget", "0.015625",
                             "--pin-inputs", "S(0)RR", "--pin-outputs",      "S(0)RS(2)"};
  const json plan = solved("einsum", 1, {}, constraints, 4);
  EXPECT_EQ(plan["nodes"], 332);
  EXPECT_TRUE(plan["optimal"]);
  EXPECT_NEAR(plan["objective_us"], 17006.9714, 5e-5);
}

TEST_F(Llama, OptimaAreAutoParallelsFromTheProgramAlone) {
  for (const Optimum& wanted : kOptima) {
    const json found = solved(wanted.matmul, wanted.layers);
    const std::string what = std::string(wanted.matmul) + " " + std::to_string(wanted.layers);
    EXPECT_EQ(found["nodes"], wanted.nodes) << what;
    EXPECT_EQ(found["optimal"], true) << what;
    const auto objective = found["objective_us"].get<double>();
    EXPECT_NEAR(objective, wanted.objective_us, 6e-5) << what;
    EXPECT_NEAR(found["lower_bound_us"].get<double>(), objective, 1e-6 * objective) << what;
    const json& parts = found["breakdown_us"];
    EXPECT_NEAR(parts["compute"].get<double>(), wanted.compute_us, 0.006) << what;
    EXPECT_NEAR(parts["communication"].get<double>(), wanted.communication_us, 0.006) << what;
    EXPECT_EQ(parts["transition"], wanted.transition_us) << what;
    double sum = 0.0;
    for (const json& node : found["assignment"]) {
      sum += node["compute_us"].get<double>() + node["communication_us"].get<double>() +
             node["transition_us"].get<double>();
    }
    EXPECT_NEAR(sum, objective, 1e-9 * objective) << what;
  }
}

TEST_F(Llama, TheObjectiveIsAffineInDepth) {
  for (const auto& [matmul, per_layer] : {std::pair{"einsum", 16275.875}, {"native", 16793.304}}) {
    const auto two = solved(matmul, 2)["objective_us"].get<double>();
    const auto three = solved(matmul, 3)["objective_us"].get<double>();
    const auto five = solved(matmul, 5)["objective_us"].get<double>();
    EXPECT_NEAR(three - two, per_layer, 5e-4) << matmul;
    EXPECT_NEAR(five - three, 2 * (three - two), 1e-6) << matmul;
  }
}

TEST_F(Llama, JobsDoNotMatter) {
  EXPECT_EQ(solve("einsum", 2, {"--no-timing", "--jobs", "1"}).out,
            solve("einsum", 2, {"--no-timing", "--jobs", "3"}).out);
}

// Fewer constraints never cost more; a pinned node is where it was pinned.
TEST_F(Llama, ConstraintsHold) {
  const auto bound = solved("einsum", 1)["objective_us"].get<double>();
  const auto free = solved("einsum", 1, {}, {"--mesh", "8x8"})["objective_us"].get<double>();
  EXPECT_LT(free, bound);
  const json first = solved("einsum", 1)["assignment"][0];
  const std::string name = first["node"];
  const json pinned = solved("einsum", 1, {"--pin", name + "=RR"}, {"--mesh", "8x8"});
  EXPECT_EQ(pinned["assignment"][0]["layout_out"], "RR");
  EXPECT_GE(pinned["objective_us"].get<double>(), free - 1e-6);
  // Parameters, gradients and Adam's moments of 1 layer take 20 GB, and the best step 2.08 GB.
  const json fits = solved("einsum", 1, {"--memory-budget", "3e9"}, {"--mesh", "8x8"});
  EXPECT_EQ(fits["optimal"], true);
  EXPECT_NEAR(fits["objective_us"].get<double>(), free, 1e-6);
  const json small = solved("einsum", 1, {"--memory-budget", "2e9"}, {"--mesh", "8x8"});
  EXPECT_LE(small["memory"]["peak_bytes"].get<double>(), 2e9);
  EXPECT_GT(small["objective_us"].get<double>(), free);
  EXPECT_LT(small["gap"].get<double>(), 0.01);
}

TEST_F(Llama, ExportedProblemsHaveTheSameOptimum) {
  const auto objective =
      solved("native", 1, {"--export-problem", "p.cfn"})["objective_us"].get<double>();
  const ProcessResult again =
      run_shardlab({"solve", "--problem", "p.cfn", "--format", "json"}, folder_.path());
  ASSERT_EQ(again.exit_code, 0) << again.err;
  // Costs have six digits after the point, and there are some hundred.
  EXPECT_NEAR(json::parse(again.out)["objective_us"].get<double>(), objective, 1e-3);
}

// AutoParallel's own plan of one layer, priced here, costs as much as the optimum. The two differ
// in the layouts of two views.
TEST_F(Llama, AutoParallelsSolutionHasNoGap) {
  const json found =
      solved("einsum", 1,
             {"--diff", SHARDLAB_GOLDEN_DIR "/autoparallel/autoparallel_solution_sample.json"});
  EXPECT_NEAR(found["diff"]["objective_us"].get<double>(), 35984.04103130081, 1e-8 * 35984);
  EXPECT_NEAR(found["diff"]["gap_us"].get<double>(), 0.0, 1e-6);
}

TEST_F(Llama, AnotherPlanIsPricedAndCompared) {
  const ProcessResult free =
      solve("native", 1, {"--format", "json", "--no-timing"}, {"--mesh", "8x8"});
  folder_.write("free.json", free.out);
  const json same = solved("native", 1, {"--diff", "free.json"}, {"--mesh", "8x8"});
  EXPECT_EQ(same["diff"]["gap_us"], 0.0);
  EXPECT_TRUE(same["diff"]["nodes"].empty());
  // A plan that was made without constraints breaks the parameter budget.
  const json bound = solved("native", 1, {"--diff", "free.json"});
  EXPECT_EQ(bound["diff"]["objective_us"], nullptr);
  EXPECT_FALSE(bound["diff"]["nodes"].empty());
  folder_.write("none.json", R"({"assignment": []})");
  const ProcessResult none = solve("native", 1, {"--diff", "none.json"});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_EQ(none.err, "shardlab: none.json: has no node \"primals_1\"\n");
  folder_.write("other.json",
                R"({"nodes": [{"name": "primals_1", "placement": "S(7)R", "inputs": []}]})");
  EXPECT_EQ(
      solve("native", 1, {"--diff", "other.json"}).err,
      "shardlab: other.json:/nodes/0: found S(7)R <- , which is not one of the 9 strategies of "
      "primals_1\n");
}

// A pin after the solve costs what the same pin costs from the start.
TEST_F(Llama, ThenPinsAreSolvedOneAfterTheOther) {
  const Words free = {"--mesh", "8x8", "--pin-inputs", "S(0)R", "--pin-outputs", "S(0)S(2)"};
  const json plan =
      solved("einsum", 1, {"--then", "primals_1=RR", "--then", "primals_9=S(0)R"}, free);
  ASSERT_EQ(plan["then"].size(), 2U);
  double before = plan["objective_us"].get<double>();
  Words pins;
  for (const json& step : plan["then"]) {
    pins.insert(pins.end(), {"--pin", step["pin"].get<std::string>()});
    const json from_start = solved("einsum", 1, pins, free);
    EXPECT_TRUE(step["optimal"]);
    EXPECT_NEAR(step["objective_us"].get<double>(), from_start["objective_us"].get<double>(), 1e-6);
    EXPECT_NEAR(step["dearer_us"].get<double>(), step["objective_us"].get<double>() - before, 1e-9);
    EXPECT_FALSE(step["changed"].empty());
    before = step["objective_us"].get<double>();
  }
  const Words tearing = {"--then", "primals_1=S(0)S(0)", "--then", "primals_1=RR",
                         "--then", "primals_2=RR",       "--then", "primals_3=RR"};
  const json torn = solved("einsum", 1, tearing, free);
  ASSERT_EQ(torn["then"].size(), 4U);
  EXPECT_EQ(torn["then"][1]["tried"], true);
  EXPECT_EQ(torn["then"][3]["tried"], false);
  EXPECT_EQ(torn["then"][3]["pin"], "primals_3=RR");
  const ProcessResult text = solve("einsum", 1, tearing, free);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_NE(text.out.find("  not tried: primals_2=RR, primals_3=RR\n"), std::string::npos)
      << text.out;
  EXPECT_TRUE(torn["then"][1]["objective_us"].is_null());
  EXPECT_EQ(torn["then"][1]["conflict"].size(), 2U) << torn["then"][1]["conflict"];
  EXPECT_EQ(solve("einsum", 1, {"--then", "primals_1=S(7)R"}).err,
            "shardlab: --then primals_1: found S(7)R; valid: RR, RS(0), RS(1), S(0)R, S(0)S(0), "
            "S(0)S(1), S(1)R, S(1)S(0), S(1)S(1)\n");
  EXPECT_EQ(solve("einsum", 1, {"--then", "primals_99=RR"}).err.substr(0, 58),
            "shardlab: --then: the program has no node \"primals_99\" (di");
}

TEST_F(Llama, WithinABudgetThatTiesParametersMarginsAreNotClaimed) {
  const Words loose = {"--mesh", "8x8", "--parameter-budget", "0.05"};
  const json plan = solved("einsum", 1, {"--margins", "--best", "3"}, loose);
  EXPECT_TRUE(plan["optimal"]);
  EXPECT_TRUE(plan["optima"].is_null());
  EXPECT_EQ(plan["best"].size(), 1U);
  EXPECT_EQ(
      plan["notes"].back(),
      "a budget couples the parameters, so margins, the number of optima and further plans are "
      "not worked out");
}

TEST_F(Llama, TooManyPairsOfStrategiesAreRefusedBeforeTheyFillMemory) {
  const ProcessResult result = solve("einsum", 1, {}, {"--mesh", "2x2x2x8"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(
      result.err,
      "shardlab: mesh 2x2x2x8: the program has more than 100000000 pairs of strategies to "
      "price; valid: a mesh with fewer dims, a smaller mesh, or the best plan alone under a stack "
      "with the planner graph\n");
}

TEST_F(Llama, WhatCannotBeIsAConflict) {
  const ProcessResult result =
      solve("einsum", 1, {"--memory-budget", "1000", "--format", "json"}, {"--mesh", "8x8"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const json found = json::parse(result.out);
  EXPECT_EQ(found["objective_us"], nullptr);
  EXPECT_FALSE(found["conflict"].empty());
  EXPECT_NE(found["infeasible"].get<std::string>().find(
                "budget \"memory\" of 1000 (the least possible is "),
            std::string::npos)
      << found["infeasible"];
}

// A parameter may be named by its label if no other one has that label.
TEST_F(Llama, LabelsAreNames) {
  const std::string label = "layers.0.attention.wq.weight";
  const Words mesh = {"--mesh", "8x8"};
  const ProcessResult plan = solve("einsum", 1, {"--pin", label + "=RS(0)", "--no-timing"}, mesh);
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  const std::size_t row = plan.out.find(" " + label + " ");
  ASSERT_NE(row, std::string::npos) << plan.out;
  EXPECT_NE(plan.out.substr(row, plan.out.find('\n', row) - row).find(" RS(0) "),
            std::string::npos);
  const json step = solved("einsum", 1, {"--then", label + "=RS(0)"}, mesh)["then"][0];
  EXPECT_EQ(step["pin"], label + "=RS(0)");
  const json pinned = solved("einsum", 1, {"--pin", "primals_2=RS(0)"}, mesh);
  EXPECT_NEAR(step["objective_us"].get<double>(), pinned["objective_us"].get<double>(), 1e-6);
}

// The best total with a layout is the optimum of the program that has it pinned.
TEST(SolveProgram, ExplainsWhyNot) {
  const TemporaryFolder folder;
  const auto mlp = [&](Words words) {
    words.insert(words.begin(), {"solve", "mlp", "--mesh", "8", "--format", "json"});
    return json::parse(run_shardlab(words, folder.path()).out);
  };
  const json found = mlp({"--explain", "S(0)"});
  const auto optimum = found["objective_us"].get<double>();
  int dearer = 0;
  for (const json& node : found["explain"]) {
    const json pinned = mlp({"--pin", node["node"].get<std::string>() + "=S(0)"});
    const auto total = node["global_us"].get<double>();
    EXPECT_NEAR(total, pinned["objective_us"].get<double>(), 1e-9 * optimum) << node;
    EXPECT_GE(total, optimum - 1e-9) << node;
    const bool is_chosen = node["chosen"] == "S(0)";
    if (is_chosen) {
      EXPECT_EQ(total, optimum) << node;
      EXPECT_EQ(node["local_us"], node["chosen_us"]) << node;
    }
    // Leaving all else as chosen is one way to have the layout, so the best total is no dearer.
    EXPECT_GE(optimum - node["chosen_us"].get<double>() + node["local_us"].get<double>(),
              total - 1e-9)
        << node;
    dearer += is_chosen ? 0 : 1;
  }
  EXPECT_EQ(found["explain"].size(), 8U);
  EXPECT_EQ(dearer, 2);  // the weights
}

TEST(SolveProgram, MemoryBudgetsHaveUnits) {
  const TemporaryFolder folder;
  const auto objective = [&](const char* budget) {
    const ProcessResult result =
        run_shardlab({"solve", "mlp", "--mesh", "8", "--memory-budget", budget, "--format", "json"},
                     folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out)["objective_us"].get<double>();
  };
  EXPECT_EQ(objective("0.25GB"), objective("250000000"));
  EXPECT_GT(objective("0.25GB"), objective("80GB"));
}

// Both sizes of the sentence have the unit that suits them.
TEST(SolveProgram, ABudgetThatNoPlanFitsIntoIsStatedInItsUnit) {
  const TemporaryFolder folder;
  const ProcessResult result = run_shardlab({"solve", "transformer-block", "--mesh", "2x4",
                                             "--memory-budget", "90MB", "--format", "json"},
                                            folder.path());
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(json::parse(result.out)["infeasible"].get<std::string>(),
              testing::MatchesRegex("no plan was found that fits into 90.0 MB, though there may be "
                                    "one; the smallest peak "
                                    "of those that were tried is 1[0-9][0-9] MB"));
}

// A program of few nodes is searched exactly: its plan is no dearer than one that pins make fit,
// and nothing is called infeasible that is not.
TEST(SolveProgram, SmallProgramsGetTheBestPlanThatFits) {
  const TemporaryFolder folder;
  const auto solve = [&](const std::string& budget, const Words& more, int exit_code) {
    Words words = {"solve", "mlp", "--mesh", "2x2", "--memory-budget", budget, "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    return result.out;
  };
  const Words json_form = {"--format", "json"};
  const json pinned = json::parse(solve(
      "250MB",
      {"--format", "json", "--pin", "x=S(0)R", "--pin", "up=S(0)S(1)", "--pin", "down=RS(0)"}, 0));
  for (const char* budget : {"250MB", "205MB"}) {
    const json free = json::parse(solve(budget, json_form, 0));
    EXPECT_EQ(free["optimal"], true);
    EXPECT_LE(free["memory"]["peak_bytes"].get<double>(),
              std::string(budget) == "250MB" ? 250e6 : 205e6);
    if (std::string(budget) == "250MB") {
      EXPECT_LE(free["objective_us"].get<double>(), pinned["objective_us"].get<double>() + 1e-9);
    }
  }
  EXPECT_THAT(solve("100MB", {}, 1),
              testing::HasSubstr("\n  infeasible: no plan fits into 100 MB; "));
  EXPECT_THAT(solve("195MB", {}, 1),
              testing::HasSubstr("\n  no plan was found that fits into 195 MB, though there may be "
                                 "one; the smallest peak of those that were tried is 201 MB\n"));
}

// A budget that no charge meets ends with a recipe's plan and a bound, also where its networks are
// too entangled to be solved.
TEST(SolveProgram, RecipesAreTriedWhereTheOptimumDoesNotFit) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_shardlab(
                {"program", "llama3-8b", "--layers", "12", "--batch", "16", "--out", "llama.json"},
                folder.path())
                .exit_code,
            0);
  const auto solved = [&](const Words& more) {
    Words words = {"solve", "llama.json", "--mesh", "8x8", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  const json optimum = solved({});
  const auto recipe =
      solved({"--recipe", "fsdp-tp-sp", "--memory-budget", "10GB"})["objective_us"].get<double>();
  // 10.486 GB is just below the optimum's peak.
  for (const char* budget : {"10GB", "10.486GB"}) {
    const json found = solved({"--memory-budget", budget});
    EXPECT_EQ(found["memory"]["fits"], true);
    EXPECT_LE(found["objective_us"].get<double>(), recipe * (1.0 + 1e-9));
    EXPECT_GE(found["lower_bound_us"].get<double>(),
              optimum["objective_us"].get<double>() * (1.0 - 1e-9));
    EXPECT_LE(found["lower_bound_us"].get<double>(), found["objective_us"].get<double>());
  }
}

// The parts of a step's memory sum to its peak, a plan that does not fit is none unless it is asked
// for, and recomputation makes it fit.
TEST(SolveProgram, APlanFitsIntoItsDevice) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_shardlab(
                {"program", "llama3-8b", "--layers", "4", "--batch", "128", "--out", "llama.json"},
                folder.path())
                .exit_code,
            0);
  const auto solved = [&](const Words& more, int exit_code) {
    Words words = {"solve", "llama.json", "--mesh", "16", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    return json::parse(result.out);
  };
  const json large = solved({"--no-fit"}, 0);
  EXPECT_EQ(large["memory"]["fits"], false);
  EXPECT_EQ(large["recompute"], "none");
  double sum = 0.0;
  for (const json& bytes : large["memory"]["parts"]) sum += bytes.get<double>();
  EXPECT_NEAR(sum, large["memory"]["peak_bytes"].get<double>(), 1.0);
  EXPECT_LE(large["step_us"].get<double>(), large["executed_us"].get<double>() * (1 + 1e-9));
  EXPECT_NEAR(large["executed_us"].get<double>(), large["objective_us"].get<double>(),
              1e-9 * large["objective_us"].get<double>());

  const json none = solved({}, 1);
  EXPECT_EQ(none["objective_us"], nullptr);
  EXPECT_EQ(none["optimal"], false);  // the search among those that do not fit may have ended
  EXPECT_THAT(
      none["infeasible"].get<std::string>(),
      testing::StartsWith("no plan was found that fits into 84.9 GB, though there may be one; "));

  const json again = solved({"--recompute", "auto"}, 0);
  EXPECT_EQ(again["memory"]["fits"], true);
  EXPECT_NE(again["recompute"], "none");
  EXPECT_GT(again["objective_us"].get<double>(), large["objective_us"].get<double>());
  EXPECT_NEAR(again["executed_us"].get<double>(), again["objective_us"].get<double>(),
              1e-9 * again["objective_us"].get<double>());
  const auto runs_again = std::ranges::count_if(again["assignment"],
                                                [](const json& node) { return node["runs"] == 2; });
  EXPECT_GT(runs_again, 0);
}

TEST(SolveProgram, SearchesForAShorterStep) {
  const TemporaryFolder folder;
  const auto solved = [&](const char* objective) {
    const ProcessResult result = run_shardlab({"solve", "transformer-block", "--mesh", "2x4",
                                               "--objective", objective, "--format", "json"},
                                              folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  const json sum = solved("sum");
  const json step = solved("step");
  EXPECT_LE(step["step_us"].get<double>(), sum["step_us"].get<double>());
  EXPECT_GE(step["objective_us"].get<double>(), sum["objective_us"].get<double>() - 1e-9);
  EXPECT_NEAR(step["lower_bound_us"].get<double>(), sum["objective_us"].get<double>(), 1e-6);
  EXPECT_GT(step["searched"]["plans"], 10);
  EXPECT_EQ(step["searched"]["optimum"]["step_us"], sum["step_us"]);
}

TEST(SolveProgram, RefusesContradictionsAboutMemory) {
  const TemporaryFolder folder;
  const auto error = [&](Words words) {
    words.insert(words.begin(), {"solve", "mlp", "--mesh", "8"});
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_EQ(
      error({"--no-fit", "--memory-budget", "1GB"}),
      "shardlab: solve: found --no-fit, which takes any plan, and --memory-budget, which says "
      "what a plan may take; valid: one of them\n");
  EXPECT_EQ(
      error({"--no-fit", "--recompute", "auto"}),
      "shardlab: solve: found --no-fit and --recompute auto, which fits the plan into memory; "
      "valid: one of them\n");
  EXPECT_THAT(error({"--recompute", "often"}),
              testing::StartsWith("shardlab: --recompute: recomputation \"often\": at position 0: "
                                  "expected none, full, selective"));
}

// Answers beside the plan stand in the report, and in the report that is written again.
TEST(SolveProgram, ReportsWhatIsAskedForBesideThePlan) {
  const TemporaryFolder folder;
  folder.write("other.json",
               run_shardlab({"solve", "mlp", "--mesh", "8", "--pin", "up=R", "--format", "json"},
                            folder.path())
                   .out);
  const ProcessResult result = run_shardlab(
      {"solve", "mlp", "--mesh", "8", "--out", "run", "--greedy", "--then", "up=R", "--explain",
       "R", "--diff", "other.json", "--best", "3", "--sensitivity", "--budget-curve", "5"},
      folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::string report = read_text(folder.path() / "run" / "report.md");
  for (const char* title :
       {"What moves", "Why not another layout?", "Another plan", "The next best plans",
        "Further pins", "Without looking ahead", "How firm the plan is", "Cost against memory"}) {
    EXPECT_NE(report.find("\n## " + std::string(title) + "\n"), std::string::npos) << title;
  }
  EXPECT_EQ(report.find("## Experts' recipes"), std::string::npos);
  ASSERT_EQ(run_shardlab({"report", "run/record.json", "--out", "again"}, folder.path()).exit_code,
            0);
  for (const char* file : {"report.html", "report.md", "report.json"}) {
    EXPECT_EQ(read_text(folder.path() / "run" / file), read_text(folder.path() / "again" / file));
  }
}

TEST(SolveProgram, ReportsRecipesBesideTheOptimum) {
  const TemporaryFolder folder;
  const ProcessResult printed = run_shardlab(
      {"solve", "transformer-block", "--mesh", "8", "--compare-recipes"}, folder.path());
  const ProcessResult result = run_shardlab(
      {"solve", "transformer-block", "--mesh", "8", "--compare-recipes", "--out", "run"},
      folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, printed.out + "report: run/report.html\n");
  const json record = json::parse(read_text(folder.path() / "run" / "record.json"));
  const json& recipes = record["result"]["answers"]["recipes"];
  ASSERT_GE(recipes.size(), 3U);
  EXPECT_EQ(recipes[0]["objective_us"], record["result"]["objective_us"]);
  const std::string report = read_text(folder.path() / "run" / "report.md");
  EXPECT_NE(report.find("\n## Experts' recipes\n"), std::string::npos);
}

// A move leads from the layout of its producer to that of the reader's input, and has its price.
TEST(SolveProgram, MovesLeadFromTheProducerToTheReader) {
  const TemporaryFolder folder;
  const ProcessResult result = run_shardlab(
      {"solve", "transformer-block", "--mesh", "2x4", "--format", "json"}, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json plan = json::parse(result.out);
  std::map<std::string, std::string> layout_of;
  std::size_t moves = 0;
  for (const json& node : plan["assignment"]) {
    double us = 0.0;
    for (const json& move : node["moves"]) {
      ++moves;
      us += move["us"].get<double>();
      EXPECT_EQ(move["from"], layout_of.at(move["of"])) << move;
      EXPECT_EQ(move["to"], node["layout_in"][move["input"].get<std::size_t>()]) << move;
    }
    EXPECT_NEAR(us, node["communication_us"].get<double>() + node["transition_us"].get<double>(),
                1e-9);
    layout_of[node["node"]] = node["layout_out"];
  }
  EXPECT_GT(moves, 0U);
}

// A long program is summed up: its sources and what moves, whose times are those of all its nodes.
TEST(SolveProgram, SumsUpALongProgram) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      run_shardlab({"program", "llama3-8b", "--layers", "1", "--out", "llama.json"}, folder.path())
          .exit_code,
      0);
  const Words words = {"solve", "llama.json", "--mesh", "8x8", "--no-timing"};
  const std::string text = run_shardlab(words, folder.path()).out;
  EXPECT_NE(text.find("\n  layers.0.attention.wq.weight     f32[4096,4096]        "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  node by node: --nodes, --format json or --out DIR\n"),
            std::string::npos);
  EXPECT_EQ(text.find("\n  einsum_default "), std::string::npos);
  Words all = words;
  all.emplace_back("--nodes");
  EXPECT_NE(run_shardlab(all, folder.path()).out.find("\n  einsum_default "), std::string::npos);

  Words as_json = words;
  as_json.insert(as_json.end(), {"--format", "json"});
  const json plan = json::parse(run_shardlab(as_json, folder.path()).out);
  const json& breakdown = plan["breakdown_us"];
  Words exact = words;
  exact.insert(exact.end(), {"--digits", "full"});
  const std::string exact_text = run_shardlab(exact, folder.path()).out;
  std::istringstream lines(exact_text.substr(exact_text.find("\n  moved ") + 1));
  std::string line;
  std::getline(lines, line);
  double moved_us = 0.0;
  while (std::getline(lines, line) && !line.starts_with("  node by node")) {
    moved_us += std::stod(line.substr(line.rfind(' ')));
  }
  EXPECT_NEAR(moved_us,
              breakdown["communication"].get<double>() + breakdown["transition"].get<double>(),
              1e-6);
}

// The figures of the nodes sum up to those of the whole.
TEST(SolveProgram, NodesSumUpToTheBreakdown) {
  const TemporaryFolder folder;
  const ProcessResult result = run_shardlab(
      {"solve", "transformer-block", "--mesh", "2x4", "--stack", "ap-nccl", "--format", "json"},
      folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json plan = json::parse(result.out);
  const auto sum = [&](const char* key) {
    double us = 0.0;
    for (const json& node : plan["assignment"]) us += node[key].get<double>();
    return us;
  };
  const json& parts = plan["breakdown_us"];
  EXPECT_NEAR(sum("compute_us"), parts["compute"].get<double>(), 1e-9);
  EXPECT_NEAR(sum("communication_us"), parts["communication"].get<double>(), 1e-9);
  EXPECT_NEAR(sum("transition_us"), parts["transition"].get<double>(), 1e-9);
  EXPECT_GT(sum("communication_us"), 0.0);
  EXPECT_GT(sum("transition_us"), 0.0);
}

// -- Programs that make no sense ------------------------------------------------------------------

constexpr const char* kBadPrograms[][3] = {
    {"mm", R"("op": "aten.mm.default", "inputs": ["w", "x"],
              "outputs": [{"dtype": "f32", "shape": [32, 32]}])",
     "aten.mm.default: shapes do not fit mk,kn->mn: found [32,48], [64,32]"},
    {"outputs", R"("op": "aten.mm.default", "inputs": ["x", "w"],
                   "outputs": [{"dtype": "f32", "shape": [64, 49]}])",
     "its outputs are declared as f32[64,49]; valid: f32[64,48]"},
    {"mul", R"("op": "aten.mul.Tensor", "inputs": ["x", "w"],
               "outputs": [{"dtype": "f32", "shape": [64, 32]}])",
     "aten.mul.Tensor: shapes do not broadcast: f32[64,32], f32[32,48]"},
    {"dim", R"("op": "aten.sum.dim_IntList", "inputs": ["x"], "args": {"positional": [[7]]},
               "outputs": [{"dtype": "f32", "shape": [64]}])",
     "aten.sum.dim_IntList: dim 7 out of range; valid: -2 to 1"},
    {"args", R"("op": "aten.softmax.int", "inputs": ["x"], "args": {"positional": ["abc"]},
                "outputs": [{"dtype": "f32", "shape": [64, 32]}])",
     "aten._softmax.default: argument 0 of args.positional: found \"abc\"; valid: an integer, the "
     "dim of _softmax(Tensor self, int dim, bool half_to_float) -> Tensor"},
    {"output", R"("kind": "output", "inputs": ["x"], "outputs": [{"dtype": "f32", "shape": [4]}])",
     "its outputs are declared as f32[4]; valid: f32[64,32]"},
};
std::string program_text(const std::string& node, const std::string& more = "") {
  return R"({"schema": "shardlab/program/1", "name": "p", "nodes": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [64, 32]}]},
    {"name": "w", "kind": "parameter", "outputs": [{"dtype": "f32", "shape": [32, 48]}]},
    {"name": "h", )" +
         node + "}]" + more + "}";
}

TEST(BadPrograms, AreRefusedByWhoeverReadsThem) {
  const TemporaryFolder folder;
  // The plan lacks all nodes, but the program is judged before its plan.
  folder.write("plan.json", R"({"assignment": []})");
  for (const auto& [name, node, message] : kBadPrograms) {
    folder.write("p.json", program_text(node));
    for (const Words& words :
         {Words{"solve", "p.json"}, Words{"solve", "p.json", "--compare-recipes"},
          Words{"simulate", "p.json"}, Words{"simulate", "p.json", "--plan", "plan.json"}}) {
      Words all = words;
      all.insert(all.end(), {"--mesh", "2x4"});
      const ProcessResult result = run_shardlab(all, folder.path());
      EXPECT_EQ(result.exit_code, 3) << name;
      EXPECT_EQ(result.out, "") << name;
      EXPECT_EQ(result.err, std::string("shardlab: p.json:/nodes/2: node h: ") + message + "\n");
    }
  }
}

TEST(BadPrograms, PairsOfTwoShapesAreRefused) {
  const TemporaryFolder folder;
  folder.write("p.json", program_text(R"("op": "aten.mm.default", "inputs": ["x", "w"],
                               "outputs": [{"dtype": "f32", "shape": [64, 48]}])",
                                      R"(, "pairs": [["w", "h"]])"));
  for (const char* command : {"solve", "simulate"}) {
    const ProcessResult result = run_shardlab({command, "p.json", "--mesh", "2x4"}, folder.path());
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.err,
              "shardlab: p.json:/pairs/0: found f32[32,48] and f32[64,48]; valid: tensors of one "
              "shape\n");
  }
}

TEST(BadPrograms, AnOpWithoutARuleIsANote) {
  const TemporaryFolder folder;
  folder.write("p.json", program_text(R"("op": "mylib.secret.default", "inputs": ["x"],
                                         "outputs": [{"dtype": "i64", "shape": [3]}])"));
  const ProcessResult result =
      run_shardlab({"solve", "p.json", "--mesh", "2x4", "--format", "json"}, folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["notes"],
            json::array({"mylib.secret.default has no sharding rule, so node h is replicated, and "
                         "priced by its bytes alone"}));
}

// Another plan is priced only on the mesh that it was made for, as simulate --plan does it, whether
// solve or AutoParallel saved it.
TEST(SolveProgram, AnotherPlanIsOfThisMesh) {
  const TemporaryFolder folder;
  const auto diff = [&](const char* mesh) {
    return run_shardlab({"solve", "mlp", "--mesh", mesh, "--diff", "plan.json", "--no-timing"},
                        folder.path());
  };
  const json plan = json::parse(
      run_shardlab({"solve", "mlp", "--mesh", "2x4", "--format", "json"}, folder.path()).out);
  folder.write("plan.json", plan.dump());
  EXPECT_EQ(diff("dp=2,tp=4").exit_code, 0);
  for (const char* mesh : {"4x2", "2x2", "8"}) {
    const ProcessResult result = diff(mesh);
    EXPECT_EQ(result.exit_code, 3) << mesh;
    EXPECT_EQ(result.out, "") << mesh;
    EXPECT_EQ(result.err,
              std::string("shardlab: plan.json:/mesh: found 2x4; valid: ") + mesh + "\n");
  }
  json nodes = json::array();
  for (const json& node : plan["assignment"]) {
    json inputs = json::array();
    for (const json& layout : node["layout_in"]) inputs.push_back({{"dst_placement", layout}});
    nodes.push_back(
        {{"name", node["node"]}, {"placement", node["layout_out"]}, {"inputs", inputs}});
  }
  json saved = {{"nodes", nodes}};
  folder.write("plan.json", saved.dump());
  EXPECT_EQ(diff("2x4").exit_code, 0);
  EXPECT_EQ(diff("4x2").exit_code, 0);  // it does not say
  saved["mesh"] = {{"shape", {2, 4}}, {"dim_names", {"dp", "tp"}}};
  folder.write("plan.json", saved.dump());
  EXPECT_EQ(diff("2x4").exit_code, 0);
  EXPECT_EQ(diff("4x2").err, "shardlab: plan.json:/mesh: found 2x4; valid: 4x2\n");
  saved["mesh"]["shape"][1] = "four";
  folder.write("plan.json", saved.dump());
  EXPECT_EQ(diff("2x4").exit_code, 3);
  EXPECT_EQ(diff("2x4").err.substr(0, 45), "shardlab: plan.json:/mesh/shape/1: found \"fou");
}

// A conflict names what forbids a node's values: a budget that leaves a parameter only one layout,
// or a pin.
TEST(SolveProgram, AConflictNamesWhatForbids) {
  const TemporaryFolder folder;
  const json plan = json::parse(run_shardlab({"solve", "mlp", "--mesh", "4", "--parameter-budget",
                                              "0.25", "--then", "up=R", "--format", "json"},
                                             folder.path())
                                    .out);
  EXPECT_EQ(plan["then"][0]["conflict"],
            json::array({"forbidden values of \"up\" (parameter budget)", "pin of \"up\" to R"}));
  const json pinned =
      json::parse(run_shardlab({"solve", "mlp", "--mesh", "4", "--parameter-budget", "0.25",
                                "--pin-inputs", "S(0)", "--then", "x=R", "--format", "json"},
                               folder.path())
                      .out);
  EXPECT_EQ(
      pinned["then"][0]["conflict"],
      json::array({"forbidden values of \"x\" (pin of all inputs to S(0))", "pin of \"x\" to R"}));
}

// Names can't steer a terminal, nor break a table.
TEST(SolveProgram, NamesArePrintedSafely) {
  const TemporaryFolder folder;
  const std::string text = replaced(
      program_text(R"("op": "mylib.\u001b[2J.default", "inputs": ["x"], "label": "a\u0000b",
                      "outputs": [{"dtype": "f32", "shape": [64, 32]}])"),
      "\"x\"", R"("a\nb\u001b[31m")");
  folder.write("p.json", replaced(text, R"("name": "p")", R"("name": "p\u001b[0m")"));
  for (const Words& words :
       {Words{}, Words{"--margins"}, Words{"--greedy", "--best", "3"}, Words{"--explain", "R"},
        Words{"--then", "w=S(0)", "--sensitivity"}, Words{"--compare-recipes"}}) {
    Words all = {"solve", "p.json", "--mesh", "2", "--no-timing"};
    all.insert(all.end(), words.begin(), words.end());
    const ProcessResult result = run_shardlab(all, folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out.find_first_of(std::string("\x1b\0", 2)), std::string::npos) << result.out;
    EXPECT_EQ(result.out.find("a\nb"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("p\\x1b[0m"), std::string::npos) << result.out;
    if (words.empty()) {
      EXPECT_NE(result.out.find("\n  a\\x0ab\\x1b[31m "), std::string::npos) << result.out;
      EXPECT_NE(result.out.find("  note: mylib.\\x1b[2J.default has no sharding rule"),
                std::string::npos)
          << result.out;
    }
  }
}

// The plan is chosen by what it takes when it runs. Only AutoParallel's stacks, on request, choose
// by another figure, and then the time of the plan stands beside it.
TEST(SolveProgram, ByDefaultTheObjectiveIsWhatExecutes) {
  for (const char* topology : {"h100", "a100", "h200", "b300"}) {
    const json plan = json::parse(run_shardlab({"solve", "transformer-block", "--mesh", "2x4",
                                                "--topology", topology, "--format", "json"})
                                      .out);
    const std::string measured = std::string("calibrated-") + topology;
    EXPECT_EQ(plan["stack"], std::string(topology) == "b300" ? "alpha-beta" : measured);
    EXPECT_EQ(plan["objective_name"], "objective");
    const auto objective = plan["objective_us"].get<double>();
    EXPECT_GT(objective, 0.0);
    EXPECT_NEAR(plan["executed_us"].get<double>(), objective, 1e-9 * objective);
  }
  const ProcessResult own = run_shardlab({"solve", "transformer-block", "--mesh", "2x4"});
  EXPECT_NE(own.out.find("\n  objective "), std::string::npos) << own.out;
  EXPECT_EQ(own.out.find("\n  executed "), std::string::npos) << own.out;
  EXPECT_THAT(own.out, testing::ContainsRegex(
                           "\n  objective [0-9.]+ us \\([0-9.]+ to [0-9.]+ us on 95 % of clusters "
                           "like those measured\\), lower bound "));
}

// Pins, questions and saved plans name a shard order as the plan prints it.
TEST_F(Llama, AShardOrderIsReadAsItIsPrinted) {
  const Words words = {"--stack",   "alpha-beta",    "--pin", "primals_2=S(0)[1]S(0)[0]",
                       "--explain", "S(0)[1]S(0)[0]"};
  const ProcessResult text = solve("einsum", 1, words, {"--mesh", "8x8"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("\n  S(0)[1]S(0)[0] at "), std::string::npos) << text.out;
  const json plan = solved("einsum", 1, words, {"--mesh", "8x8"});
  std::string layout;
  for (const json& node : plan["assignment"]) {
    if (node["node"] == "primals_2") layout = node["layout_out"];
  }
  EXPECT_EQ(layout, "S(0)[1]S(0)[0]");
  folder_.write("plan.json", plan.dump());
  const ProcessResult run = run_shardlab(
      {"simulate", "llama.json", "--mesh", "8x8", "--plan", "plan.json", "--format", "json"},
      folder_.path());
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto objective = plan["objective_us"].get<double>();
  EXPECT_NEAR(json::parse(run.out)["price_us"].get<double>(), objective, 1e-9 * objective);
}

// An answer with a gap is still an answer, and says how far from the optimum it may be.
TEST(SolveProgram, ATimeLimitLeavesAProvedGap) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      run_shardlab({"program", "llama3-70b", "--layers", "6", "--out", "p.json"}, folder.path())
          .exit_code,
      0);
  const auto solve = [&](const Words& more) {
    Words words = {"solve", "p.json", "--mesh", "8x8", "--stack", "alpha-beta", "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder.path());
  };
  const json whole = json::parse(solve({"--format", "json"}).out);
  EXPECT_TRUE(whole["optimal"]);
  EXPECT_FALSE(whole.contains("gap"));
  const json cut = json::parse(solve({"--format", "json", "--time-limit", "0"}).out);
  ASSERT_FALSE(cut["optimal"]);
  const auto best = whole["objective_us"].get<double>();
  EXPECT_GE(cut["objective_us"].get<double>(), best);
  EXPECT_LE(cut["lower_bound_us"].get<double>(), best * (1.0 + 1e-9));
  EXPECT_GT(cut["lower_bound_us"].get<double>(), 0.9 * best);
  EXPECT_NEAR(cut["gap"].get<double>(),
              1.0 - cut["lower_bound_us"].get<double>() / cut["objective_us"].get<double>(), 1e-12);
  EXPECT_NEAR(cut["executed_us"].get<double>(), cut["objective_us"].get<double>(), 1e-6 * best);
  const ProcessResult text = solve({"--time-limit", "0", "--margins"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find(", not proved optimal: at most "), std::string::npos) << text.out;
}

// Margins that are known within the time are those of a run without a limit; the others are said to
// be unknown.
TEST(SolveProgram, TheTimeLimitCoversMargins) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      run_shardlab({"program", "llama3-8b", "--layers", "2", "--batch", "16", "--out", "p.json"},
                   folder.path())
          .exit_code,
      0);
  const auto solve = [&](const Words& more) {
    Words words = {"solve", "p.json", "--mesh", "8x8", "--margins", "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const json whole = json::parse(solve({"--format", "json"}));
  const json cut = json::parse(solve({"--format", "json", "--time-limit", "0.2"}));
  std::size_t unknown = 0;
  for (std::size_t n = 0; n < whole["assignment"].size(); ++n) {
    const json& known = cut["assignment"][n]["margin_us"];
    if (known.is_null()) {
      ++unknown;
      continue;
    }
    const auto margin = whole["assignment"][n]["margin_us"].get<double>();
    EXPECT_NEAR(known.get<double>(), margin, 1e-6 * margin + 1e-6);
  }
  ASSERT_GT(unknown, 0U);
  EXPECT_THAT(cut["notes"].dump(), testing::HasSubstr("margins"));
}

// `simulate --plan` refuses such a plan with the same words.
TEST(SolveProgram, AnotherPlanHasEachNodeOnce) {
  const TemporaryFolder folder;
  const Words solve = {"solve", "mlp", "--mesh", "8", "--format", "json"};
  json plan = json::parse(run_shardlab(solve, folder.path()).out);
  plan["assignment"].push_back(plan["assignment"][0]);
  folder.write("plan.json", plan.dump());
  const ProcessResult result =
      run_shardlab({"solve", "mlp", "--mesh", "8", "--diff", "plan.json"}, folder.path());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err, "shardlab: plan.json:/assignment/" +
                            std::to_string(plan["assignment"].size() - 1) + ": found the node \"" +
                            plan["assignment"][0]["node"].get<std::string>() +
                            "\" a second time\n");
}

TEST(SolveProgram, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  const auto error = [&](Words words) {
    words.insert(words.begin(), "solve");
    const ProcessResult result = run_shardlab(words, folder.path());
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_EQ(error({}),
            "shardlab: solve: found neither a PROGRAM nor --problem; valid: one of them\n");
  EXPECT_EQ(error({"mlp", "--problem", "x.cfn"}),
            "shardlab: solve: found both a PROGRAM and --problem; valid: one of them\n");
  EXPECT_EQ(error({"mlp"}), "shardlab: solve: --mesh is required\n");
  EXPECT_EQ(error({"--problem", "x.cfn", "--mesh", "8"}),
            "shardlab: solve: --mesh is for a PROGRAM, not for --problem; valid: without it\n");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--pin", "w1"}),
            "shardlab: --pin: found \"w1\"; valid: NAME=LAYOUT\n");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--pin", "up=S(0)", "--pin", "up=R"}),
            "shardlab: pin up: found R, which contradicts the pin up=S(0); valid: one layout for "
            "each node\n");
  EXPECT_EQ(error({"mlp", "--mesh", "8", "--memory-budget", "80XB"}),
            "shardlab: --memory-budget: size \"80XB\": at position 2: expected a unit: B, KiB, "
            "MiB, GiB, TiB, kB, KB, MB, GB or TB\n");
}

// Solving for two nodes' other values at once is too much, and for each alone it is not.
TEST(SolvedMargins, OfANetworkThatIsEntangledAreFoundValueByValue) {
  const Words words = {"solve", "transformer-block", "--mesh", "2x2", "--format", "json"};
  Words with_margins = words;
  with_margins.emplace_back("--margins");
  const ProcessResult result = run_shardlab(with_margins);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json found = json::parse(result.out);
  const auto optimum = found["objective_us"].get<double>();
  const json& node = found["assignment"][131];
  ASSERT_EQ(node["node"], "permute_12");
  const auto margin = node["margin_us"].get<double>();
  EXPECT_GT(margin, 0.0);
  // The best with another layout has another value.
  double least = INFINITY;
  for (const char* layout :
       {"RR", "RS(0)", "RS(1)", "S(0)R", "S(1)R", "S(0)S(0)", "S(0)S(1)", "S(1)S(0)", "S(1)S(1)"}) {
    if (node["layout_out"] == layout) continue;
    Words pinned = words;
    pinned.insert(pinned.end(), {"--pin", std::string("permute_12=") + layout});
    const json other = json::parse(run_shardlab(pinned).out);
    least = std::min(least, other["objective_us"].get<double>() - optimum);
  }
  EXPECT_GE(least, margin - 1e-9 * optimum);
}

// A product of rows whose sequence is cut: the view makes strided shards of them, of which some say
// the same as a shard order. Both are listed, so that nothing moves, and virtual ranks compute the
// program.
TEST(SolveStrided, ListsStridedShardsBesideShardOrders) {
  const TemporaryFolder folder;
  folder.write("mini.json", R"json({"schema": "shardlab/program/1", "name": "mini", "nodes": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [2, 16, 8]}]},
    {"name": "w", "kind": "parameter", "outputs": [{"dtype": "f32", "shape": [8, 8]}]},
    {"name": "rows", "op": "aten.view.default", "inputs": ["x"], "args": {"positional": [[32, 8]]},
     "outputs": [{"dtype": "f32", "shape": [32, 8]}]},
    {"name": "product", "op": "aten.mm.default", "inputs": ["rows", "w"],
     "outputs": [{"dtype": "f32", "shape": [32, 8]}]},
    {"name": "back", "op": "aten.view.default", "inputs": ["product"],
     "args": {"positional": [[2, 16, 8]]}, "outputs": [{"dtype": "f32", "shape": [2, 16, 8]}]},
    {"name": "y", "kind": "output", "inputs": ["back"],
     "outputs": [{"dtype": "f32", "shape": [2, 16, 8]}]}]})json");
  const auto rows_of = [&](const char* pin, const Words& more) {
    Words words = {"solve",    "mini.json",
                   "--mesh",   "2x2",
                   "--stack",  "alpha-beta",
                   "--set",    "devices_per_host=2",
                   "--set",    "stack.rules=autoparallel",
                   "--no-fit", "--pin-inputs",
                   pin,        "--pin-outputs",
                   pin,        "--format",
                   "json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult solved = run_shardlab(words, folder.path());
    EXPECT_EQ(solved.exit_code, 0) << solved.err;
    if (solved.exit_code != 0) return std::string();
    folder.write("plan.json", solved.out);
    const ProcessResult done =
        run_shardlab({"simulate", "mini.json", "--plan", "plan.json", "--mesh", "2x2", "--stack",
                      "alpha-beta", "--data", "on", "--format", "json"},
                     folder.path());
    EXPECT_EQ(done.exit_code, 0) << done.err << done.out;
    return json::parse(solved.out)["assignment"][2]["layout_out"].get<std::string>();
  };
  EXPECT_EQ(rows_of("S(1)R", {"--strided"}), "_S(0,2)R");
  EXPECT_EQ(rows_of("S(1)S(0)", {"--strided"}), "S(0)[1]S(0)[0]");
  EXPECT_NE(rows_of("S(1)R", {}), "_S(0,2)R");
}

}  // namespace solve_program_test
}  // namespace shardlab::testing_support

// shardlab simulate PROGRAM: with data, under the plan of a file or as the stack chooses.
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/base/text.h"
#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace simulate_program_test {

using nlohmann::json;
using Words = std::vector<std::string>;

class ThinLlama : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* size : {"whole", "thin"}) {
      Words words = {"program", "llama3-8b", "--layers", "1", "--out", size};
      words.back() += ".json";
      if (std::string(size) == "thin") {
        const Words sizes = {"--batch",      "8",       "--seqlen",   "8",     "--width",
                             "64",           "--heads", "16",         "--ffn", "64",
                             "--vocabulary", "128",     "--kv-heads", "8"};
        words.insert(words.end(), sizes.begin(), sizes.end());
      }
      const ProcessResult made = run_shardlab(words, folder_.path());
      ASSERT_EQ(made.exit_code, 0) << made.err;
    }
    const ProcessResult solved =
        run_shardlab({"solve", "whole.json", "--stack", "ap-nccl", "--mesh", "2x4",
                      "--parameter-budget", "0.125", "--pin-inputs", "S(0)R", "--pin-outputs",
                      "S(0)S(2)", "--format", "json", "--no-timing"},
                     folder_.path());
    ASSERT_EQ(solved.exit_code, 0) << solved.err;
    plan_ = json::parse(solved.out);
    folder_.write("plan.json", solved.out);
  }
  ProcessResult simulate(const Words& more) {
    Words words = {"simulate", "thin.json", "--mesh", "2x4"};
    if (std::find(more.begin(), more.end(), "--stack") == more.end()) {
      words.insert(words.end(), {"--stack", "ap-nccl"});
    }
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder_.path());
  }
  void expect_bad_plan(const json& plan, const std::string& message) {
    folder_.write("bad.json", plan.dump());
    const ProcessResult result = simulate({"--plan", "bad.json"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.err, "shardlab: bad.json" + message + "\n");
  }
  json& node(std::size_t i) { return plan_["assignment"][i]; }
  std::size_t node_named(const std::string& name) {
    for (std::size_t i = 0; i < plan_["assignment"].size(); ++i) {
      if (node(i)["node"] == name) return i;
    }
    ADD_FAILURE() << name;
    return 0;
  }
  TemporaryFolder folder_;
  json plan_;
};

TEST_F(ThinLlama, APlanOfTheWholeModelRunsOnItsTwin) {
  const ProcessResult result =
      simulate({"--plan", "plan.json", "--data", "on", "--format", "json", "--no-timing"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json found = json::parse(result.out);
  EXPECT_EQ(found["verified"], true);
  EXPECT_EQ(found["replicas_bitwise_equal"], true);
  EXPECT_EQ(found["mismatch"], nullptr);
  EXPECT_EQ(found["plan"], "plan.json");
  EXPECT_EQ(found["ranks"], 8);
  EXPECT_GT(found["max_abs_error"].get<double>(), 0.0);
  EXPECT_LT(found["max_abs_error"].get<double>(), 1e-10);
  EXPECT_EQ(found["wrong_nodes"], json::array());
  EXPECT_GT(found["exact_nodes"], 60);
  EXPECT_GT(found["bytes_moved"], 0);
  for (const json& step : found["steps"]) EXPECT_EQ(step["verified"], true) << step.dump();
  // Without data the steps, bytes and times are the same.
  const ProcessResult shapes = simulate({"--plan", "plan.json", "--format", "json", "--no-timing"});
  const json without = json::parse(shapes.out);
  EXPECT_EQ(without["data"], false);
  EXPECT_EQ(without["verified"], nullptr);
  EXPECT_EQ(without["bytes_moved"], found["bytes_moved"]);
  EXPECT_EQ(without["time_us"], found["time_us"]);
  EXPECT_EQ(without["price_us"], found["price_us"]);
  EXPECT_EQ(without["steps"].size(), found["steps"].size());
}

TEST_F(ThinLlama, ThePriceOfAPlanIsWhatSolveSaysOfItsKernels) {
  const ProcessResult solved = run_shardlab({"solve", "thin.json", "--stack", "ap-nccl", "--mesh",
                                             "2x4", "--format", "json", "--no-timing"},
                                            folder_.path());
  folder_.write("thin-plan.json", solved.out);
  const ProcessResult result =
      simulate({"--plan", "thin-plan.json", "--format", "json", "--no-timing"});
  // Nothing moves, so only the kernels are left.
  const json found = json::parse(result.out);
  EXPECT_EQ(found["bytes_moved"], 0);
  EXPECT_NEAR(found["price_us"].get<double>(),
              json::parse(solved.out)["breakdown_us"]["compute"].get<double>(), 1e-9);
}

// AutoParallel prices some changes differently from the sum of their steps.
TEST_F(ThinLlama, SolveSaysWhatAPlansStepsSumUpTo) {
  const ProcessResult result = run_shardlab({"simulate", "whole.json", "--mesh", "2x4", "--plan",
                                             "plan.json", "--format", "json", "--no-timing"},
                                            folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto executed = plan_["executed_us"].get<double>();
  EXPECT_NEAR(json::parse(result.out)["price_us"].get<double>(), executed, 1e-9 * executed);
  EXPECT_GT(executed, plan_["objective_us"].get<double>());
  EXPECT_EQ(plan_["unexecutable"], nullptr);
  const std::string text = run_shardlab({"solve", "whole.json", "--stack", "ap-nccl", "--mesh",
                                         "2x4", "--parameter-budget", "0.125", "--pin-inputs",
                                         "S(0)R", "--pin-outputs", "S(0)S(2)", "--digits", "full"},
                                        folder_.path())
                               .out;
  EXPECT_NE(text.find("  AutoParallel's objective "), std::string::npos) << text;
  EXPECT_NE(text.find("  executed " + format_double(executed) +
                      " us: what its kernels and the steps of its moves take, while ap-nccl prices "
                      "a move by its two ends\n"),
            std::string::npos)
      << text;
}

// A partial sum becomes an average for free: AutoParallel's prices lead there, no collective does.
TEST(SolveCommand, SaysWhichOfItsMovesCantRun) {
  const TemporaryFolder folder;
  const Words program = {"program",  "llama3-8b", "--layers", "1",
                         "--matmul", "native",    "--out",    "llama.json"};
  ASSERT_EQ(run_shardlab(program, folder.path()).exit_code, 0);
  Words words = {"solve",  "llama.json", "--stack",  "ap-nccl",
                 "--mesh", "2x4",        "--recipe", "fsdp-tp-sp"};
  const std::string why =
      "node permute_29, input 0, P(sum)P(sum) to P(avg)P(avg): P(sum)->P(avg) is refused by the "
      "executor since pytorch/pytorch#172041";
  const ProcessResult text = run_shardlab(words, folder.path());
  EXPECT_NE(text.out.find("\n  can't run: " + why + "\n"), std::string::npos) << text.out;
  words.insert(words.end(), {"--format", "json"});
  const json found = json::parse(run_shardlab(words, folder.path()).out);
  EXPECT_EQ(found["executed_us"], nullptr);
  EXPECT_EQ(found["unexecutable"], why);
}

// Flash attention has two outputs of random state where the op's rule has one, and no rule set but
// AutoParallel's has dtype casts.
TEST_F(ThinLlama, WhatTheStackChoosesRunsToo) {
  for (const std::string stack : {"dtensor-2.13", "ap-nccl", "shardlab"}) {
    Words words = {"--stack", stack, "--pin-inputs", "S(0)R", "--data", "on", "--format", "json"};
    // AutoParallel's prices then ask for P(sum)->P(avg), which no collective makes.
    if (stack != "ap-nccl") {
      words.insert(words.end(), {"--pin", "layers.0.attention.wq.weight=RS(0)"});
    }
    const ProcessResult result = simulate(words);
    ASSERT_EQ(result.exit_code, 0) << stack << ": " << result.err << result.out;
    const json found = json::parse(result.out);
    EXPECT_EQ(found["verified"], true) << stack << ": " << found["mismatch"];
    EXPECT_EQ(found["plan"], nullptr);
    EXPECT_EQ(found["wrong_nodes"], json::array());
    EXPECT_GT(found["exact_nodes"], 60);
    EXPECT_EQ(found["bytes_moved"] > 0, stack != "ap-nccl");
  }
  const ProcessResult whole =
      run_shardlab({"simulate", "whole.json", "--mesh", "8x8", "--pin-inputs", "S(0)R", "--pin",
                    "layers.0.attention.wq.weight=S(0)S(1)", "--format", "json"},
                   folder_.path());
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const json found = json::parse(whole.out);
  EXPECT_EQ(found["ops"], 304);
  EXPECT_EQ(found["ranks"], 64);
  EXPECT_GT(found["bytes_moved"], 0);
  EXPECT_GT(found["time_us"], 0.0);
}

TEST_F(ThinLlama, AWrongPlanIsNamedByItsNode) {
  // The file says that a product is replicated, but its inner dim is sharded, so each rank has a
  // partial sum.
  const std::size_t einsum = node_named("einsum_default_6");
  node(einsum)["layout_in"] = {"S(0)S(2)", "RS(0)"};
  node(einsum)["layout_out"] = "S(0)R";
  folder_.write("wrong.json", plan_.dump());
  const ProcessResult result =
      simulate({"--plan", "wrong.json", "--data", "on", "--format", "json", "--no-timing"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const json found = json::parse(result.out);
  EXPECT_EQ(found["verified"], false);
  EXPECT_EQ(found["wrong_nodes"], json({"einsum_default_6"}));
  EXPECT_TRUE(found["mismatch"].get<std::string>().starts_with(
      "einsum_default_6: aten.einsum.default: S(0)R: rank 0, element [0,0,0]: found "))
      << found["mismatch"];
  EXPECT_GT(found["max_abs_error"].get<double>(), 1e-3);
}

TEST_F(ThinLlama, WhatNoCollectiveMakesIsRefused) {
  const std::size_t einsum = node_named("einsum_default_6");
  node(einsum)["layout_in"][0] = "S(0)P(sum)";
  folder_.write("refused.json", plan_.dump());
  const ProcessResult result = simulate({"--plan", "refused.json", "--format", "json"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const json found = json::parse(result.out);
  EXPECT_EQ(found["verified"], false);
  EXPECT_EQ(found["price_us"], nullptr);
  const auto refused = found["refused"].get<std::string>();
  EXPECT_TRUE(refused.starts_with("node einsum_default_6: input 0, ")) << refused;
  EXPECT_NE(refused.find(" to S(0)P(sum): "), std::string::npos) << refused;
}

TEST_F(ThinLlama, FilesThatAreNoPlanOfTheProgramAreBadInput) {
  json plan = plan_;
  plan["mesh"] = "4x2";
  expect_bad_plan(plan, ":/mesh: found 4x2; valid: 2x4");
  plan = plan_;
  plan["assignment"].erase(0);
  expect_bad_plan(plan, ": has no node \"primals_1\"");
  plan = plan_;
  plan["assignment"][0]["node"] = "primals_0";
  expect_bad_plan(plan, ":/assignment/0: found the node \"primals_0\", which the program lacks");
  plan = plan_;
  plan["assignment"][1] = plan["assignment"][0];
  expect_bad_plan(plan, ":/assignment/1: found the node \"primals_1\" a second time");
  plan = plan_;
  plan["assignment"][0]["layout_out"] = "S(0)";
  expect_bad_plan(
      plan,
      ":/assignment/0: an output: layout \"S(0)\": at position 4: expected 2 placements, "
      "one per mesh dim");
  plan = plan_;
  plan["assignment"][0]["layout_out"] = "S(0)S(2)";
  expect_bad_plan(
      plan, ": node primals_1: S(0)S(2) of f64[128,64]: S(2) names a dim that the tensor lacks");
  plan = plan_;
  plan["assignment"][0]["layout_in"] = {"RR"};
  expect_bad_plan(
      plan,
      ": node primals_1: found layouts for 1 outputs and 1 inputs; valid: layouts for 1 and 0");
  const ProcessResult pinned = simulate({"--plan", "plan.json", "--pin-inputs", "RR"});
  EXPECT_EQ(pinned.exit_code, 2);
  EXPECT_EQ(pinned.err,
            "shardlab: --pin-inputs: found together with --plan, which has every node's layout; "
            "valid: one of them\n");
}

TEST_F(ThinLlama, TheModelItselfIsTooLargeForData) {
  const ProcessResult result =
      run_shardlab({"simulate", "whole.json", "--mesh", "2x4", "--stack", "ap-nccl", "--plan",
                    "plan.json", "--data", "on", "--memory", "1GiB"},
                   folder_.path());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err,
            "shardlab: node primals_1: its kernel would need 525336576 doubles; valid: smaller "
            "tensors, or a memory limit above 1 GiB\n");
}

constexpr const char* kProgram = R"({"schema": "shardlab/program/1", "name": "mlp", "nodes": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "bf16", "shape": [32, 16]}]},
    {"name": "w1", "kind": "parameter", "outputs": [{"dtype": "bf16", "shape": [16, 64]}]},
    {"name": "w2", "kind": "parameter", "outputs": [{"dtype": "bf16", "shape": [64, 16]}]},
    {"name": "h", "op": "aten.mm.default", "inputs": ["x", "w1"],
     "outputs": [{"dtype": "bf16", "shape": [32, 64]}]},
    {"name": "y", "op": "aten.mm.default", "inputs": ["h", "w2"],
     "outputs": [{"dtype": "bf16", "shape": [32, 16]}]},
    {"name": "z", "op": "aten.relu.default", "inputs": ["y"],
     "outputs": [{"dtype": "bf16", "shape": [32, 16]}]},
    {"name": "out", "kind": "output", "inputs": ["z"], "outputs": []}]})";

// Sums, products and relu of whole numbers are exact; numbers that round are judged right as well.
TEST(SimulateProgram, WhatTheStackChoosesRunsToo) {
  const TemporaryFolder folder;
  folder.write("mlp.json", kProgram);
  for (const char* stack : {"dtensor-2.13", "shardlab", "alpha-beta"}) {
    for (const char* values : {"whole", "uniform"}) {
      const ProcessResult result =
          run_shardlab({"simulate", "mlp.json", "--mesh", "2x4", "--pin-inputs", "S(0)R", "--pin",
                        "w1=RS(1)", "--pin", "w2=RS(0)", "--stack", stack, "--data", "on",
                        "--values", values, "--format", "json", "--no-timing"},
                       folder.path());
      ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
      const json found = json::parse(result.out);
      EXPECT_EQ(found["verified"], true) << found["mismatch"];
      EXPECT_GT(found["bytes_moved"], 0);
      EXPECT_EQ(found["exact_nodes"] == 7, std::string(values) == "whole");
    }
  }
}

// A plan runs under the stack that it names, unless another is asked for.
TEST(SimulatedPlan, HasItsStack) {
  const TemporaryFolder folder;
  const Words solve = {"solve", "mlp",      "--stack", "ap-nccl",    "--mesh",
                       "4",     "--format", "json",    "--no-timing"};
  json plan = json::parse(run_shardlab(solve, folder.path()).out);
  EXPECT_EQ(plan["stack"], "ap-nccl");
  const auto simulate = [&](const Words& more) {
    folder.write("plan.json", plan.dump());
    Words words = {"simulate", "mlp", "--mesh", "4", "--plan", "plan.json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder.path());
  };
  const std::string own = simulate({}).out;
  EXPECT_NE(own.find(", ap-nccl, plan.json\n"), std::string::npos) << own;
  const std::string other = simulate({"--stack", "dtensor-v3"}).out;
  EXPECT_NE(other.find(", dtensor-v3, plan.json\n"), std::string::npos) << other;
  plan["stack"] = "of-a-file";
  EXPECT_EQ(simulate({}).err,
            "shardlab: plan.json:/stack: found of-a-file, which is not a shipped stack; valid: "
            "--stack with its path\n");
  plan.erase("stack");
  const std::string without = simulate({}).out;
  EXPECT_NE(without.find(", dtensor-2.15, plan.json\n"), std::string::npos) << without;
}

}  // namespace simulate_program_test
}  // namespace shardlab::testing_support

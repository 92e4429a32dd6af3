// --flatten and --advise-flattened: the advice says what registering the flattened mesh does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace flatten_test {

using nlohmann::json;
using Words = std::vector<std::string>;

class Flatten : public testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult made = run_shardlab({"program", "llama3-8b", "--layers", "1", "--batch",
                                             "64", "--matmul", "native", "--out", "llama.json"},
                                            folder.path());
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  ProcessResult compare(const Words& more) const {
    Words words = {"compare",      "--baseline",  "dtensor-2.13",   "--candidate",
                   "dtensor-2.15", "--program",   "llama.json",     "--recipe",
                   "fsdp-tp",      "--reference", "calibrated-h100"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder.path());
  }
  ProcessResult solve(const Words& more) const {
    Words words = {"solve", "llama.json", "--recipe", "fsdp-tp", "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder.path());
  }
  static json json_of(const ProcessResult& done) {
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out);
  }
  TemporaryFolder folder;
};

TEST_F(Flatten, CompareSavesWhatItsAdviceSays) {
  const json advised =
      json_of(compare({"--mesh", "dp=8,tp=8", "--advise-flattened", "--format", "json"}));
  const json& step = advised["steps"][0];
  ASSERT_EQ(step["flattened_meshes"].size(), 2U);
  const json& advice = step["flattened_meshes"][0];
  EXPECT_EQ(advice["stack"], "dtensor-2.13");
  EXPECT_EQ(step["flattened_meshes"][1]["stack"], "dtensor-2.15");
  EXPECT_EQ(advice["tried"], 1);
  EXPECT_EQ(advice["step_us"], step["step_us"]["baseline"]);
  ASSERT_EQ(advice["worth"].size(), 1U) << advice;
  const json& one = advice["worth"][0];
  EXPECT_EQ(one["axes"], (json{"dp", "tp"}));
  EXPECT_EQ(one["ranks"], 64);
  const auto saved = one["saved_us"].get<double>();
  EXPECT_GT(saved, 0.0);
  EXPECT_NEAR(one["break_even_steps"]["median"].get<double>() * saved,
              1e6 * advice["group_seconds"]["median"].get<double>(), saved);
  const json registered =
      json_of(compare({"--mesh", "dp=8,tp=8", "--flatten", "dp,tp", "--format", "json"}));
  EXPECT_NEAR(registered["steps"][0]["step_us"]["baseline"].get<double>(),
              advice["step_us"].get<double>() - saved, 1e-6);
}

// A product whose sum is spread over both mesh dims is reduced over one after the other, or at
// once.
TEST_F(Flatten, SolveSavesWhatItsAdviceSays) {
  folder.write("mm.json", R"({"schema": "shardlab/program/1", "name": "mm", "nodes": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [512, 65536]}]},
    {"name": "w", "kind": "parameter", "outputs": [{"dtype": "f32", "shape": [65536, 512]}]},
    {"name": "y", "op": "aten.mm.default", "inputs": ["x", "w"],
     "outputs": [{"dtype": "f32", "shape": [512, 512]}]},
    {"name": "z", "op": "aten.relu.default", "inputs": ["y"],
     "outputs": [{"dtype": "f32", "shape": [512, 512]}]}]})");
  const auto solved = [&](const Words& more) {
    Words words = {"solve",   "mm.json",      "--mesh",      "dp=2,tp=4",
                   "--stack", "dtensor-2.13", "--set",       "stack.compute_model=roofline",
                   "--pin",   "x=S(1)S(1)",   "--pin",       "w=S(0)S(0)",
                   "--pin",   "z=RR",         "--no-timing", "--format",
                   "json"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(run_shardlab(words, folder.path()));
  };
  const json plan = solved({"--advise-flattened"});
  const json& advice = plan["flattened_meshes"];
  EXPECT_GT(plan["step_us"].get<double>(), 0.0);
  EXPECT_EQ(advice["step_us"], plan["step_us"]);
  EXPECT_EQ(advice["tried"], 1);
  ASSERT_EQ(advice["worth"].size(), 1U) << advice;
  const auto saved = advice["worth"][0]["saved_us"].get<double>();
  EXPECT_GT(saved, 0.05 * plan["step_us"].get<double>());
  const json registered = solved({"--flatten", "dp,tp"});
  EXPECT_NEAR(registered["step_us"].get<double>(), plan["step_us"].get<double>() - saved,
              1e-9 * plan["step_us"].get<double>());
}

TEST_F(Flatten, NothingIsAdvisedWhereNothingIsMerged) {
  const ProcessResult done =
      compare({"--mesh", "dp=8,tp=8", "--advise-flattened", "--set", "stack.merge=off"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out,
              testing::HasSubstr("  flattened meshes for dtensor-2.15+set: none of 1 that the mesh "
                                 "could have shortens the step of "));
  EXPECT_THAT(
      done.out,
      testing::HasSubstr(
          "  flattened meshes for dtensor-2.13: 1 of 1 that the mesh could have shortens "));
}

// AutoParallel's objective takes P(sum) to P(avg), which PyTorch refuses to run.
TEST_F(Flatten, APlanThatCannotRunHasNoAdvice) {
  const ProcessResult made = run_shardlab({"program", "llama3-8b", "--layers", "1", "--batch", "4",
                                           "--matmul", "native", "--out", "small.json"},
                                          folder.path());
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const ProcessResult done = run_shardlab({"solve", "small.json", "--mesh", "dp=8,tp=8", "--stack",
                                           "ap-nccl", "--advise-flattened", "--no-timing"},
                                          folder.path());
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out,
              testing::HasSubstr(
                  "  note: --advise-flattened is not answered, because the plan can't run\n"));
}

TEST_F(Flatten, MeshDimsAreFlattenedByName) {
  const char* message =
      "--advise-flattened: found the mesh 2x4, whose dims have no names; valid: a mesh such as ";
  for (const ProcessResult& done : {compare({"--mesh", "2x4", "--advise-flattened"}),
                                    solve({"--mesh", "2x4", "--advise-flattened"})}) {
    EXPECT_EQ(done.exit_code, 2);
    EXPECT_THAT(done.err, testing::HasSubstr(message));
  }
  const ProcessResult suite =
      run_shardlab({"compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v4", "--suite",
                    "ops-small", "--flatten", "dp,tp"});
  EXPECT_EQ(suite.exit_code, 2);
  EXPECT_THAT(suite.err, testing::HasSubstr(
                             "compare: found --flatten or --advise-flattened without --program"));
}

// pytorch/pytorch#171913 merges all-reduces over neighbouring mesh dims alone, and no gathers.
TEST(PlanFlattened, MergesByTheRuleOfTheStack) {
  const auto steps = [](const char* rule, const char* from, const char* flattened) {
    const ProcessResult done = run_shardlab(
        {"plan", "--mesh", "a=2,b=2,c=2", "--tensor", "f32[64,64]", "--from", from, "--to", "RRR",
         "--stack", "dtensor-2.13", "--set", std::string("stack.merge_rule=") + rule, "--flatten",
         flattened, "--format", "json"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out)["steps"].size();
  };
  EXPECT_EQ(steps("runs", "PRP", "a,c"), 1U);
  EXPECT_EQ(steps("neighbouring-all-reduces", "PRP", "a,c"), 2U);
  EXPECT_EQ(steps("neighbouring-all-reduces", "RPP", "b,c"), 1U);
  EXPECT_EQ(steps("runs", "RS(0)S(0)", "b,c"), 1U);
  EXPECT_EQ(steps("neighbouring-all-reduces", "RS(0)S(0)", "b,c"), 2U);
  EXPECT_EQ(steps("runs", "PPP", "b,c"), 3U);
  EXPECT_EQ(steps("neighbouring-all-reduces", "PPP", "b,c"), 2U);
}

// The input moves in two steps, which merge into one.
TEST(SelectFlattened, PricesMergedStepsWhereTheStackDoes) {
  const auto least = [](const Words& more) {
    Words words = {"select",        "--op",   "aten.relu.default", "--inputs",
                   "f32[16,16] PP", "--mesh", "dp=2,tp=4",         "--stack",
                   "dtensor-2.13",  "--set",  "stack.merge=price", "--format",
                   "json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult done = run_shardlab(words);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out)["selected"]["total_us"].get<double>();
  };
  EXPECT_LT(least({"--flatten", "dp,tp"}), 0.9 * least({}));
}

}  // namespace flatten_test
}  // namespace shardlab::testing_support

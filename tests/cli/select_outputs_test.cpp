// What select prints of ops whose output mask leaves out results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace select_outputs_test {

using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

ProcessResult layer_norm(const std::string& mask, const Words& more) {
  Words words = {"select",
                 "--op",
                 "aten.native_layer_norm_backward.default",
                 "--mesh",
                 "2x4",
                 "--inputs",
                 "f32[8,16,8] S(0)S(1)",
                 "f32[8,16,8] S(0)S(1)",
                 "f32[8,16,1] S(0)S(1)",
                 "f32[8,16,1] S(0)S(1)",
                 "f32[8] RR",
                 "f32[8] RR",
                 "--args",
                 "[[8]," + mask + "]"};
  words.insert(words.end(), more.begin(), more.end());
  return run_shardlab(words);
}

// The outputs of the candidate that the text marks as chosen.
std::string chosen_outputs(const ProcessResult& done) {
  EXPECT_EQ(done.exit_code, 0) << done.err;
  const std::size_t chosen = done.out.find("  chosen");
  if (chosen == std::string::npos) return "";
  const std::size_t first =
      done.out.find_first_not_of(" ", done.out.find_first_of("0123456789", chosen) + 1);
  return done.out.substr(first, done.out.find("  ", first) - first);
}

TEST(SelectOutputs, AreNoneInTextWhereTheMaskLeavesThemOut) {
  EXPECT_EQ(chosen_outputs(layer_norm("[true,true,true]", {})),
            "S(0)S(1), P(sum)P(sum), P(sum)P(sum)");
  EXPECT_EQ(chosen_outputs(layer_norm("[true,true,false]", {})), "S(0)S(1), P(sum)P(sum), none");
  EXPECT_EQ(chosen_outputs(layer_norm("[true,false,true]", {})), "S(0)S(1), none, P(sum)P(sum)");
  EXPECT_EQ(chosen_outputs(layer_norm("[false,false,true]", {})), "none, none, P(sum)P(sum)");
  EXPECT_EQ(chosen_outputs(layer_norm("[true,false,false]", {"--torch-names"})),
            "(Shard(dim=0), Shard(dim=1)), none, none");
}

TEST(SelectOutputs, HaveTheirPositionsInJsonWhereTheMaskLeavesSomeOut) {
  const auto selection = [](const std::string& mask) {
    const ProcessResult done = layer_norm(mask, {"--format", "json"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out);
  };
  const json whole = selection("[true,true,true]");
  EXPECT_FALSE(whole["selected"].contains("output_positions"));
  EXPECT_EQ(whole["selected"]["outputs"].size(), 3U);
  const json masked = selection("[true,false,true]");
  EXPECT_EQ(masked["selected"]["outputs"], json({"S(0)S(1)", "P(sum)P(sum)"}));
  EXPECT_EQ(masked["selected"]["output_positions"], json({0, 2}));
  for (const json& candidate : masked["candidates"]) {
    EXPECT_EQ(candidate["output_positions"], json({0, 2}));
    EXPECT_EQ(candidate["outputs"].size(), 2U);
  }
  EXPECT_EQ(selection("[false,true,false]")["selected"]["output_positions"], json({1}));
}

TEST(SelectCandidates, AreNotListedInMillions) {
  const ProcessResult result = run_shardlab(
      {"select", "--op", "aten.mm.default", "--mesh", "2x2x2x2x2x2x2x2", "--stack", "alpha-beta",
       "--inputs", "bf16[8192,8192] S(0)S(0)RRRRRR", "bf16[8192,8192] S(0)RRRRRRR"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err,
            "shardlab: aten.mm.default has 16777216 candidates on the mesh 2x2x2x2x2x2x2x2, more "
            "than the 4194304 that are listed; valid: --search exact, or a mesh with fewer dims\n");
}

// https://github.com/pytorch/pytorch/blob/v2.15.0/torch/distributed/tensor/_ops/utils.py
TEST(SelectOutputs, AreRefusedWherePyTorchMixesNoneWithPlacements) {
  const auto attention = [](const char* stack) {
    const std::string query = "f32[2,8,64,8] S(0)S(1)";
    return run_shardlab({"select", "--op",
                         "aten._scaled_dot_product_efficient_attention_backward.default", "--mesh",
                         "2x4", "--inputs", query, query, query, query, "f32[2,8,64,64] S(0)S(1)",
                         query, "f32[2,8,64] S(0)S(1)", "i64[] RR", "i64[] RR", "--args",
                         "[0.0,[true,true,true,false],true]", "--stack", stack});
  };
  for (const char* stack : {"dtensor-2.14", "dtensor-2.15"}) {
    const ProcessResult done = attention(stack);
    EXPECT_NE(done.exit_code, 0);
    EXPECT_THAT(done.err,
                HasSubstr("strategy position 3 mixes None with placements across mesh dims"));
  }
  EXPECT_EQ(chosen_outputs(attention("dtensor-2.13")), "S(0)S(1), S(0)S(1), S(0)S(1), none");
}

}  // namespace select_outputs_test
}  // namespace shardlab::testing_support

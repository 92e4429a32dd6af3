// What simulate finds of losses that ignore a target: an average of the shards' means is no mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace simulate_losses_test {

using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

ProcessResult loss(const std::string& op, const Words& inputs, const std::string& args,
                   const std::string& stack) {
  Words words = {"simulate", "--op", op, "--mesh", "4", "--inputs"};
  words.insert(words.end(), inputs.begin(), inputs.end());
  for (const std::string& word : {std::string("--args"), args, std::string("--stack"), stack}) {
    words.push_back(word);
  }
  return run_shardlab(words);
}

const Words kTargets = {"f32[8,5] S(0)", "i64[8] S(0)", "none"};
const Words kTargets2d = {"f32[8,5,4,4] S(2)", "i64[8,4,4] R", "none"};

TEST(SimulateLosses, AMeanThatIgnoresTargetsIsWrongOnShardsInPyTorch213) {
  for (const char* ignored : {"-100", "2", "4", "255"}) {
    const ProcessResult result = loss("aten.nll_loss_forward.default", kTargets,
                                      "[1," + std::string(ignored) + "]", "dtensor-2.13");
    EXPECT_EQ(result.exit_code, 1) << ignored;
    EXPECT_THAT(result.out, HasSubstr("S(0), S(0) -> P(avg), P(sum)\n")) << ignored;
    EXPECT_THAT(result.out, HasSubstr("WRONG: aten.nll_loss_forward.default: output 0, rank 0"))
        << ignored;
  }
  const ProcessResult result =
      loss("aten.nll_loss_forward.default", kTargets, "[1,-100]", "dtensor-2.13");
  EXPECT_THAT(result.out, HasSubstr("found 0.875, expected 0.8333333333333334"));
}

TEST(SimulateLosses, OfImagesWithoutWeightsIgnoreTargetsToo) {
  const ProcessResult result =
      loss("aten.nll_loss2d_forward.default", kTargets2d, "[1,255]", "dtensor-2.13");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("S(2), S(1) -> P(avg), P(sum)\n"));
  EXPECT_THAT(result.out, HasSubstr("WRONG: aten.nll_loss2d_forward.default: output 0, rank 0"));
}

TEST(SimulateLosses, AreRightWhereNoShardIsDividedByItsOwnCount) {
  const auto expect_right = [](const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("every element is right"));
  };
  for (const char* stack : {"dtensor-2.14", "dtensor-2.15", "shardlab"}) {
    expect_right(loss("aten.nll_loss_forward.default", kTargets, "[1,-100]", stack));
    expect_right(loss("aten.nll_loss2d_forward.default", kTargets2d, "[1,-100]", stack));
  }
  for (const char* args : {"[0,-100]", "[2,-100]"}) {
    expect_right(loss("aten.nll_loss_forward.default", kTargets, args, "dtensor-2.13"));
  }
  for (const char* stack : {"dtensor-2.13", "dtensor-2.15", "shardlab"}) {
    expect_right(loss("aten.nll_loss_backward.default",
                      {"f32[] R", "f32[8,5] S(0)", "i64[8] S(0)", "none", "f32[] R"}, "[1,-100]",
                      stack));
  }
}

// `rules` draws the targets in the same way, so that the witness is the smallest call.
TEST(SimulateLosses, HaveTheirWitnessInRulesToo) {
  const ProcessResult result = run_shardlab(
      {"rules", "aten.nll_loss_forward.default", "--rule-set", "dtensor-2.13", "--format", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json unsound = json::parse(result.out).at("ops")[0].at("unsound");
  ASSERT_EQ(unsound.size(), 2U);
  EXPECT_EQ(unsound[0].at("row"), "P(avg), P(sum) | S(0), S(0)");
  EXPECT_EQ(unsound[0].at("call"),
            "aten.nll_loss_forward.default(f32[6,4], i64[6], none, 1, -100)");
}

}  // namespace simulate_losses_test
}  // namespace shardlab::testing_support

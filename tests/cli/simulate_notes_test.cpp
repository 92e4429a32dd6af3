// What simulate notes where its run is not PyTorch's, or takes no time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace simulate_notes_test {

using testing::HasSubstr;
using testing::Not;

std::string convolution(const std::string& stack) {
  const ProcessResult result =
      run_shardlab({"simulate", "--op", "aten.convolution.default", "--mesh", "4", "--inputs",
                    "f32[8,4,16,16] S(3)", "f32[4,4,3,3] R", "none", "--args",
                    "[[1,1],[1,1],[1,1],false,[0,0],1]", "--stack", stack});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST(SimulateNotes, SayThatPyTorchRunsAConvolutionWithoutItsMoves) {
  const std::string note = "PyTorch dispatches aten.convolution.default to convolution_handler";
  EXPECT_THAT(convolution("dtensor-2.13"), HasSubstr(note));
  EXPECT_THAT(convolution("shardlab"), Not(HasSubstr(note)));
}

TEST(SimulateNotes, SayThatStepsOfStridedShardsHaveNoPrice) {
  const auto gathered = [](const std::string& stack) {
    const ProcessResult result = run_shardlab({"simulate", "--mesh", "4", "--tensor", "f32[9]",
                                               "--from", "_S(0,2)", "--to", "R", "--stack", stack});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("every element is right"));
    return result.out;
  };
  EXPECT_THAT(gathered("dtensor-2.15"),
              HasSubstr("has no price for a step from or to a strided shard"));
  EXPECT_THAT(gathered("alpha-beta"), Not(HasSubstr("has no price")));
}

}  // namespace simulate_notes_test
}  // namespace shardlab::testing_support

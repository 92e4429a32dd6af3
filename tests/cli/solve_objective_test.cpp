// shardlab solve --objective step on a program whose next best plans hold moves that nothing runs.
#include <gtest/gtest.h>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace solve_objective_test {

using nlohmann::json;

// A masked mean: the sum of a bool mask is cast to f32, and PyTorch's rule of casts lists
// P(product), to which no value can be partitioned. Some of the next best plans move to it.
TEST(SolveObjective, PassesOverPlansThatCannotRun) {
  const std::string program = SHARDLAB_SOURCE_DIR "/tests/golden/programs/masked_mean.json";
  for (const char* mesh : {"4", "2x2"}) {
    const auto solved = [&](const std::string& objective) {
      return run_shardlab(
          {"solve", program, "--mesh", mesh, "--objective", objective, "--format", "json"});
    };
    const ProcessResult sum = solved("sum");
    const ProcessResult step = solved("step");
    ASSERT_EQ(sum.exit_code, 0) << sum.err;
    ASSERT_EQ(step.exit_code, 0) << step.err;
    EXPECT_LE(json::parse(step.out)["step_us"].get<double>(),
              json::parse(sum.out)["step_us"].get<double>());
  }
}

}  // namespace solve_objective_test
}  // namespace shardlab::testing_support

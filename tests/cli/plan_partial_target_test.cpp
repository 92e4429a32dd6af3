// What plan says of targets that DTensor.redistribute refuses to users, as PyTorch 2.13.0, 2.14.1
// and 2.15.0 do: "redistributing to Partial is for internal use only!" in 2.13, and "only Shard to
// Partial(sum) redistribution is supported!" since 2.14.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace plan_partial_target_test {

using testing::HasSubstr;

// The line about the target, without its line feed; empty if there is none.
std::string line_about(const std::string& mesh, const std::string& from, const std::string& to,
                       const std::string& stack, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"plan",   "--mesh", mesh,   "--tensor", "f32[8,4]",
                                    "--from", from,     "--to", to,         "--stack"};
  words.push_back(stack);
  words.insert(words.end(), more.begin(), more.end());
  const ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::size_t begin = result.out.find("  DTensor.redistribute refuses ");
  if (begin == std::string::npos) return "";
  return result.out.substr(begin, result.out.find('\n', begin) - begin);
}

TEST(PlanPartialTarget, IsRefusedToUsersOfDTensor) {
  EXPECT_EQ(line_about("4", "R", "P(avg)", "dtensor-2.13"),
            "  DTensor.redistribute refuses R->P(avg) on mesh dim 0 to users of PyTorch 2.13.0; "
            "only the propagation of ops asks for such moves");
  EXPECT_EQ(line_about("2x2", "PR", "PP", "dtensor-2.15"),
            "  DTensor.redistribute refuses R->P(sum) on mesh dim 1 to users of PyTorch 2.15.0; "
            "only the propagation of ops asks for such moves");
  EXPECT_EQ(line_about("4", "P", "P(avg)", "dtensor-legacy"),
            "  DTensor.redistribute refuses P(sum)->P(avg) on mesh dim 0 to users; only the "
            "propagation of ops asks for such moves");
  EXPECT_EQ(line_about("4", "R", "P", "dtensor-2.14", {"--torch-names"}),
            "  DTensor.redistribute refuses Replicate() -> Partial(sum) on mesh dim 0 to users of "
            "PyTorch 2.14.1; only the propagation of ops asks for such moves");
}

TEST(PlanPartialTarget, MayBeASumOfShardsSince214) {
  EXPECT_THAT(line_about("4", "S(0)", "P", "dtensor-2.13"), HasSubstr("refuses S(0)->P(sum)"));
  EXPECT_THAT(line_about("4", "S(0)", "P(avg)", "dtensor-2.15"), HasSubstr("S(0)->P(avg)"));
  EXPECT_THAT(line_about("2x2", "_S(0,2)S(0)", "PS(0)", "dtensor-2.15"),
              HasSubstr("_S(0,2)->P(sum)"));
  for (const char* stack : {"dtensor-2.14", "dtensor-2.15"}) {
    EXPECT_EQ(line_about("4", "S(0)", "P", stack), "");
  }
}

TEST(PlanPartialTarget, IsAllowedWhereTheTensorHasItAlready) {
  EXPECT_EQ(line_about("2x2", "PR", "PS(0)", "dtensor-2.13"), "");
  EXPECT_EQ(line_about("4", "P(avg)", "P(avg)", "dtensor-2.13"), "");
  EXPECT_EQ(line_about("4", "P", "S(0)", "dtensor-2.13"), "");
}

TEST(PlanPartialTarget, IsNoMatterOfOtherRuleSets) {
  for (const char* stack : {"shardlab", "ap-default"}) {
    EXPECT_EQ(line_about("4", "R", "P(avg)", stack), "");
  }
}

}  // namespace plan_partial_target_test
}  // namespace shardlab::testing_support

// `shardlab rules`, run as a user runs it.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace rules_test {

using nlohmann::json;

json proof_of(const std::vector<std::string>& words) {
  std::vector<std::string> command = {"rules", "--format", "json"};
  command.insert(command.end(), words.begin(), words.end());
  const ProcessResult result = run_shardlab(command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return json::parse(result.out, nullptr, false);
}

// Proving a whole set takes minutes there; the contract test ProvedOp proves op by op.
#ifdef SHARDLAB_SANITIZED
#define SKIP_WHERE_SLOW() GTEST_SKIP() << "whole rule sets are not proved under sanitizers"
#else
#define SKIP_WHERE_SLOW() static_cast<void>(0)
#endif

TEST(RulesCommand, TheSetShardlabHasNoUnsoundRowAndLacksNone) {
  SKIP_WHERE_SLOW();
  const json proof = proof_of({});
  EXPECT_EQ(proof.at("rule_set"), "shardlab");
  EXPECT_GE(proof.at("ops").size(), 120U);
  for (const json& op : proof["ops"]) {
    EXPECT_EQ(op.at("unsound"), json::array()) << op["op"];
    EXPECT_EQ(op.at("missing"), json::array()) << op["op"];
    EXPECT_GT(op.at("accepted"), 0) << op["op"];
    for (const json& omission : op.at("known_omissions")) {
      EXPECT_FALSE(omission.at("reason").get<std::string>().empty()) << omission;
    }
  }
}

// A cast to whole numbers does not commute with a sum (R61), and PyTorch's rule of to.dtype says
// so.
TEST(RulesCommand, AnUnsoundRowHasAWitness) {
  const json proof = proof_of({"aten.to.dtype", "--rule-set", "dtensor-2.13", "--mesh", "2"});
  ASSERT_EQ(proof.at("ops").size(), 1U);
  const json& unsound = proof["ops"][0].at("unsound");
  ASSERT_EQ(unsound.size(), 2U);
  EXPECT_EQ(unsound[1].at("row"), "P(sum) | P(sum)");
  EXPECT_EQ(unsound[1].at("mesh"), "2");
  EXPECT_EQ(unsound[1].at("call"), "aten.to.dtype(f32[5], \"i64\")");
  EXPECT_NE(unsound[1].at("found").get<std::string>().find("reduces to"), std::string::npos);
}

TEST(RulesCommand, AGateSaysNo) {
  const auto exit_code = [](const char* op) {
    return run_shardlab({"rules", op, "--rule-set", "dtensor-2.13", "--fail-on-unsound"}).exit_code;
  };
  EXPECT_EQ(exit_code("aten.to.dtype"), 1);
  EXPECT_EQ(exit_code("aten.mm.default"), 0);
}

// The findings that the documentation points to are those of today.
TEST(RulesCommand, FindsInPyTorchWhatTheCommittedTablesSay) {
  SKIP_WHERE_SLOW();
  for (const std::string set : {"dtensor-2.13", "dtensor-2.15"}) {
    const ProcessResult result = run_shardlab({"rules", "--rule-set", set});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string file = "reports/findings/rules-" + set + ".txt";
    EXPECT_TRUE(result.out == read_text(std::filesystem::path(SHARDLAB_SOURCE_DIR) / file))
        << "write it again: shardlab rules --rule-set " << set << " > " << file;
  }
}

}  // namespace rules_test
}  // namespace shardlab::testing_support

// Registered placements on the command line.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace placements_test {

using nlohmann::json;

json json_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = run_shardlab(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return json::parse(result.out, nullptr, false);
}

std::vector<std::string> question(const std::string& command, const std::string& from,
                                  const std::string& to) {
  return {command, "--mesh", "4", "--tensor", "f32[262144]", "--from", from, "--to", to};
}

TEST(RegisteredPlacementCommands, ListAndDescribeThem) {
  EXPECT_EQ(json_of({"list", "placements"}), (json{{"placements", {"ragged_shard"}}}));
  const json entry = json_of({"describe", "placement", "ragged_shard"});
  EXPECT_EQ(entry.at("form"), "RG(DIMS:UNITS)");
  EXPECT_EQ(entry.at("steps").size(), 4U);
  const ProcessResult unknown = run_shardlab({"describe", "placement", "ragged_shart"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("did you mean \"ragged_shard\"?"), std::string::npos) << unknown.err;
}

TEST(RegisteredPlacementCommands, PlanThem) {
  const json plan = json_of(question("plan", "RG(0:1,3,2,2)", "S(0)"));
  ASSERT_EQ(plan.at("steps").size(), 2U) << plan;
  EXPECT_EQ(plan["steps"][0].at("collective"), "all_gather");
  EXPECT_EQ(plan["steps"][0].at("from"), "RG(0:1,3,2,2)");
  EXPECT_DOUBLE_EQ(plan["steps"][0].at("full_bytes").get<double>(), 1048576.0 * 7 / 8 * 4 / 3);
  EXPECT_EQ(plan["steps"][1].at("to"), "S(0)");
  const ProcessResult named =
      run_shardlab({"plan", "--mesh", "4", "--tensor", "f32[16]", "--torch-names", "--from",
                    "(RaggedShard(dims=(0,), local_units=(1, 3, 2, 2)),)", "--to", "R"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_NE(named.out.find("RaggedShard(dims=(0,), local_units=(1, 3, 2, 2))"), std::string::npos)
      << named.out;
}

TEST(RegisteredPlacementCommands, SimulateThemOnRealData) {
  std::vector<std::string> words = question("simulate", "RG(0:1,3,2,2)", "RG(0:0,0,5,3)");
  words[4] = "f32[64,5]";
  const json done = json_of(words);
  EXPECT_NE(done.dump().find("\"verified\":true"), std::string::npos) << done;
}

TEST(RegisteredPlacementCommands, SelectAndProveRules) {
  const json selected = json_of({"select", "--op", "aten.add.Tensor", "--mesh", "2", "--inputs",
                                 "f32[8,4] RG(0:1,3)", "f32[8,4] RG(0:1,3)"});
  EXPECT_NE(selected.dump().find("\"RG(0:1,3)\""), std::string::npos) << selected;
  const json proof = json_of({"rules", "aten.add.Tensor", "--placement", "ragged_shard"});
  EXPECT_EQ(proof.at("unsound"), 0);
  EXPECT_EQ(proof.at("missing"), 0);
  EXPECT_GT(proof.at("rows"), json_of({"rules", "aten.add.Tensor"}).at("rows"));
}

TEST(RegisteredPlacementCommands, SayWhatTheyCannotDo) {
  const auto message = [](const std::vector<std::string>& words) {
    const ProcessResult result = run_shardlab(words);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_NE(message(question("plan", "RG(0:1,3)", "R")).find("valid on this mesh dim: 4 units"),
            std::string::npos);
  EXPECT_NE(message(question("plan", "RG(0:1,3,2,2)[0]", "R")).find("no order index"),
            std::string::npos);
  EXPECT_NE(message(question("plan", "RG(0,1:1,3,2,2)", "R")).find("cuts tensor dims 0 to 1"),
            std::string::npos);
  EXPECT_NE(message({"rules", "aten.add.Tensor", "--placement", "x"}).find("valid: ragged_shard"),
            std::string::npos);
}

}  // namespace placements_test
}  // namespace shardlab::testing_support

// shardlab apply: the file that it writes, as text, and messages. tests/scripts/apply_test.py runs
// such files where PyTorch is installed.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/messages.h"

namespace shardlab::testing_support {
namespace apply_test {

using nlohmann::json;
using Words = std::vector<std::string>;

class Apply : public testing::Test {
 protected:
  // Solves a shipped program, and keeps the plan as plan.json.
  void solve(const std::string& program, const std::string& mesh, Words more = {}) {
    Words words = {"solve", program, "--mesh", mesh, "--format", "json", "--no-timing"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult solved = run_shardlab(words, folder_.path());
    EXPECT_EQ(solved.exit_code, 0) << solved.err;
    folder_.write("plan.json", solved.out);
  }
  ProcessResult apply(const std::string& program, Words more = {}) {
    Words words = {"apply", program, "--plan", "plan.json", "--out", "sharded.py"};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder_.path());
  }
  [[nodiscard]] bool wrote() const {
    return std::filesystem::exists(folder_.path() / "sharded.py");
  }

  TemporaryFolder folder_;
};

TEST_F(Apply, WritesOneLineForEachOperatorAndEachStep) {
  solve("mlp", "2x4", {"--pin-inputs", "S(0)R", "--pin", "up=RS(1)", "--pin", "down=S(1)S(0)"});
  const ProcessResult result = apply("mlp");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string text = read_text(folder_.path() / "sharded.py");
  EXPECT_NE(text.find("MESH = (2, 4)\n"), std::string::npos);
  EXPECT_NE(
      text.find("    \"up\": Layout((4096, 14336), torch.bfloat16, [Replicate(), Shard(1)]),\n"),
      std::string::npos);
  EXPECT_NE(text.find("    down_RS0 = ranks.all_gather(down, 0, 1)  # S(1)S(0) to RS(0)\n"),
            std::string::npos);
  EXPECT_NE(text.find("def forward(ranks, parameters, buffers, inputs):\n"), std::string::npos);
  EXPECT_NE(text.find("def apply(model, mesh):\n"), std::string::npos);
}

TEST_F(Apply, ListsItsCollectivesInJson) {
  solve("transformer-block", "2x4", {"--parameter-budget", "0.125", "--pin-inputs", "S(0)R"});
  const ProcessResult result = apply("transformer-block", {"--format", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_EQ(document["mesh"], "2x4");
  EXPECT_EQ(document["stack"], "calibrated-h100");
  EXPECT_EQ(document["topology"], "h100");
  EXPECT_EQ(document["notes"], json::array());
  ASSERT_FALSE(document["steps"].empty());
  for (const json& step : document["steps"]) {
    EXPECT_TRUE(step["phase"] == "forward" || step["phase"] == "backward") << step;
    EXPECT_NE(step["from"], step["to"]);
  }
}

TEST_F(Apply, RefusesAPlanOfAnotherProgramWithoutWritingAFile) {
  solve("mlp", "2x4");
  const ProcessResult result = apply("transformer-block");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err,
            "shardlab: plan.json:/assignment/0: found the node \"x\", which the program lacks\n");
  EXPECT_FALSE(wrote());
}

TEST_F(Apply, RefusesWhatIsNoPlan) {
  for (const auto& [text, message] : {
           std::pair{"{}", "shardlab: plan.json: missing key \"mesh\"\n"},
           std::pair{"{\"assignment\": [], \"mesh\": \"4\"}",
                     "shardlab: plan.json: has no node \"x\"\n"},
           std::pair{
               "{\"assignment\": [], \"mesh\": \"4\", \"infeasible\": \"too small\"}",
               "shardlab: plan.json:/infeasible: found no plan (too small); valid: a feasible "
               "plan\n"},
       }) {
    folder_.write("plan.json", text);
    const ProcessResult result = apply("mlp");
    EXPECT_EQ(result.exit_code, 3) << text;
    EXPECT_EQ(result.err, message);
    EXPECT_FALSE(wrote());
  }
}

TEST_F(Apply, NamesTheNodeThatCannotBeWritten) {
  folder_.write("odd.json",
                R"({"schema": "shardlab/program/1", "name": "odd", "source": "a test", "nodes": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [8]}]},
    {"name": "y", "op": "mine.odd.default", "inputs": ["x"], "outputs": [{"dtype": "f32", "shape": [8]}]},
    {"name": "out", "kind": "output", "inputs": ["y"], "outputs": [{"dtype": "f32", "shape": [8]}]}], "pairs": []})");
  solve("odd.json", "4");
  const ProcessResult result = apply("odd.json");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err,
            "shardlab: plan.json: node y: found mine.odd.default, an operator without a schema; "
            "valid: operators of ATen (PyTorch 2.13) that change none of their arguments\n");
  EXPECT_FALSE(wrote());
}

TEST_F(Apply, RefusesATensorWhoseValuesNoOneHas) {
  folder_.write("made.json",
                R"({"schema": "shardlab/program/1", "name": "made", "source": "a test", "nodes": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [8]}]},
    {"name": "c", "label": "_tensor_constant0", "kind": "buffer",
     "outputs": [{"dtype": "f32", "shape": [8]}]},
    {"name": "y", "op": "aten.mul.Tensor", "inputs": ["x", "c"],
     "outputs": [{"dtype": "f32", "shape": [8]}]},
    {"name": "out", "kind": "output", "inputs": ["y"], "outputs": [{"dtype": "f32", "shape": [8]}]}], "pairs": []})");
  solve("made.json", "4");
  const ProcessResult result = apply("made.json");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(
      result.err,
      "shardlab: plan.json: node c: found a tensor that forward makes, whose values a program "
      "does not hold; valid: a buffer or an attribute of the module\n");
  EXPECT_FALSE(wrote());
}

}  // namespace apply_test
}  // namespace shardlab::testing_support

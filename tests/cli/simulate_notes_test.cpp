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

// A view of rows in _S(0,2), and its product with a weight that is cut by columns.
constexpr const char* kViewed = R"json({"schema": "shardlab/program/1", "name": "viewed", "nodes": [
  {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [8192, 64]}]},
  {"name": "w", "kind": "parameter", "outputs": [{"dtype": "f32", "shape": [64, 64]}]},
  {"name": "v", "op": "aten.view.default", "inputs": ["x"], "args": {"positional": [[8192, 64]]},
   "outputs": [{"dtype": "f32", "shape": [8192, 64]}]},
  {"name": "y", "op": "aten.mm.default", "inputs": ["v", "w"], "args": {"positional": []},
   "outputs": [{"dtype": "f32", "shape": [8192, 64]}]},
  {"name": "out", "kind": "output", "inputs": ["y"],
   "outputs": [{"dtype": "f32", "shape": [8192, 64]}]}]})json";

TEST(SimulateNotes, SayThatACountOfBytesHasEnded) {
  const auto moved = [](const std::string& ranks, const std::string& format) {
    const ProcessResult result = run_shardlab(
        {"simulate", "--mesh", ranks, "--tensor", "bf16[16777216,2621440]", "--from", "S(0)",
         "--to", "R", "--stack", "alpha-beta", "--data", "off", "--format", format});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(moved("1000000", "text"), HasSubstr(", at least 9,223 PB moved\n"));
  EXPECT_THAT(moved("1000000", "json"), HasSubstr("at least as many bytes as bytes_moved says"));
  EXPECT_THAT(moved("1000", "text"), Not(HasSubstr("at least")));
  EXPECT_THAT(moved("1000", "json"), Not(HasSubstr("at least")));
}

// A tensor without elements may have more rows than can be listed.
TEST(SimulateOp, RefusesARepeatWhoseRowsAreTooMany) {
  const ProcessResult result =
      run_shardlab({"simulate", "--op", "aten.repeat.default", "--mesh", "3", "--inputs",
                    "i64[0,4] R", "--args", "[[1099511627776, 1099511627776]]"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.err.find("the rows of i64[0,4398046511104] can't be listed within"),
            std::string::npos)
      << result.err;
}

TEST(StridedPrograms, KeepWhatTheirStridedShardsMean) {
  const TemporaryFolder folder;
  const std::string program = folder.write("viewed.json", kViewed);
  const auto moved = [&](const std::string& layout) {
    const ProcessResult result =
        run_shardlab({"simulate", program, "--mesh", "4", "--pin", "x=" + layout, "--pin", "w=S(1)",
                      "--stack", "dtensor-2.15"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(moved("_S(0,2)[0]"), HasSubstr("_S(0,2)->R")) << "the activation";
  EXPECT_THAT(moved("_S(0,2)"), HasSubstr("S(1)->R")) << "the weight";
  EXPECT_THAT(moved("_S(0,2)"), Not(HasSubstr("_S(0,2)->R")));
}

TEST(StridedPlans, AreWrittenAndReadBackAlthoughTheyHaveNoPrice) {
  const TemporaryFolder folder;
  const std::vector<std::string> move = {"--mesh", "2x2",         "--tensor", "f32[16]",
                                         "--from", "_S(0,2)S(0)", "--to",     "RR"};
  std::vector<std::string> words = {"plan", "--stack", "dtensor-2.15", "--out", "report"};
  words.insert(words.end(), move.begin(), move.end());
  EXPECT_EQ(run_shardlab(words, folder.path()).exit_code, 0);
  folder.write("suite.json", R"json({"schema": "shardlab/suite/1", "name": "few", "title": "t",
    "source": "s", "questions": [{"id": "q1", "kind": "plan", "mesh": "2x2", "tensor": "f32[16]",
    "from": "_S(0,2)S(0)", "to": "RR"}]})json");
  const ProcessResult recorded = run_shardlab(
      {"record", "--suite", "suite.json", "--stack", "dtensor-2.15", "--out", "few.choices.json"},
      folder.path());
  ASSERT_EQ(recorded.exit_code, 0) << recorded.err;
  words = {"plan", "--stack", "few.choices.json"};
  words.insert(words.end(), move.begin(), move.end());
  const ProcessResult read = run_shardlab(words, folder.path());
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_THAT(read.out, HasSubstr("which run all the same"));
}

}  // namespace simulate_notes_test
}  // namespace shardlab::testing_support

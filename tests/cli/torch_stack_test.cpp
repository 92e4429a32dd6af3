// Stacks that a live PyTorch answers: "torch:PYTHON" with its parts. What needs PyTorch is skipped
// where it is not installed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/messages.h"
#include "tests/support/oracle.h"

namespace shardlab::testing_support {
namespace torch_stack_test {

using nlohmann::json;
using Words = std::vector<std::string>;

Words select(const std::string& stack, const Words& more = {}) {
  Words words = {"select",   "--op",     "aten.mm.default", "--mesh",
                 "2x2",      "--inputs", "f32[16,16] RP",   "f32[16,16] RS(0)",
                 "--format", "json",     "--stack",         stack};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(TorchStack, WithoutAnInterpreterOrATorchEndsInOneSentence) {
  const TemporaryFolder folder;
  folder.write("empty/readme", "no interpreter here");
  folder.write("python", "#!/bin/sh\nexec python3 -S -E \"$@\"\n");
  std::filesystem::permissions(folder.path() / "python", std::filesystem::perms::owner_all);
  const std::map<std::string, std::string> messages = {
      {"torch:./no/such/python", "found no file ./no/such/python; valid: an interpreter"},
      {"torch:./empty", "found no bin/python in the folder ./empty"},
      // An interpreter without its packages has no torch.
      {"torch:./python", "torch:./python: ModuleNotFoundError: No module named 'torch'"},
  };
  for (const auto& [stack, message] : messages) {
    const ProcessResult result = run_shardlab(select(stack), folder.path());
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  }
}

TEST(TorchStack, WithAPartThatIsUnknownIsAMistakeOfUsage) {
  const ProcessResult result = run_shardlab(select("torch+pach=mine.py"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("found \"+pach=mine.py\"; valid: +overlay=DIR"), std::string::npos)
      << result.err;
}

class LiveTorch : public testing::Test {
 protected:
  void SetUp() override {
    if (oracle_python().empty()) {
      GTEST_SKIP() << "no PyTorch: set SHARDLAB_ORACLE_PYTHON or run scripts/setup --with-oracle";
    }
    stack_ = "torch:" + oracle_python();
  }
  // What `select` chooses under a stack.
  json chosen(const std::string& stack, const Words& more = {}) {
    const ProcessResult result = run_shardlab(select(stack, more), folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (result.exit_code != 0) return {};
    json answer = json::parse(result.out);
    return {{"inputs", answer["selected"]["inputs"]},
            {"outputs", answer["selected"]["outputs"]},
            {"total_us", answer["selected"]["total_us"]},
            {"candidates", answer["candidates"].size()}};
  }

  TemporaryFolder folder_;
  std::string stack_;
};

TEST_F(LiveTorch, ChoosesAsTheStackOfItsReleaseDoes) {
  EXPECT_EQ(chosen(stack_), chosen("dtensor-2.13"));
}

TEST_F(LiveTorch, FlipsNoDecisionOfTheStackOfItsRelease) {
  const ProcessResult result = run_shardlab(
      {"compare", "--baseline", "dtensor-2.13", "--candidate", stack_, "--suite", "ops-small",
       "--suite", "llama3-8b-tp", "--format", "json", "--no-timing", "--quiet"},
      folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json answer = json::parse(result.out);
  EXPECT_GT(answer["questions"], 700);
  EXPECT_EQ(answer["flips"], json::array());
}

// PyTorch's product of matrices gains a row that only this file has: everything sharded alike,
// which is wrong, but costs nothing here.
TEST_F(LiveTorch, TakesTheRulesOfAFile) {
  folder_.write("mine.py", R"py(
import torch
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy
from torch.distributed.tensor.placement_types import Partial, Shard

@register_single_dim_strategy(torch.ops.aten.mm.default)
def mm(op, args_schema, kwargs_schema):
    return [[Partial(), Shard(1), Shard(0)], [Shard(0), Shard(0), Shard(0)]]
)py");
  const json mine = chosen(stack_ + "+rules=mine.py");
  EXPECT_EQ(mine["candidates"], 9);  // three rows, the replicated one among them, on two mesh dims
  EXPECT_NE(mine, chosen("dtensor-2.13"));
}

// Prices are not PyTorch's, so that a change of them would be left out of the answer.
TEST_F(LiveTorch, RefusesAPatchOfWhatItDoesNotAsk) {
  folder_.write("patch.py", R"py(
from torch.distributed.tensor import _collective_utils

def allreduce_cost(num_bytes, mesh_topo, mesh_dim):
    return 1000.0

_collective_utils.allreduce_cost = allreduce_cost
)py");
  const ProcessResult result = run_shardlab(select(stack_ + "+patch=patch.py"), folder_.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("found a change of _collective_utils.allreduce_cost"),
            std::string::npos)
      << result.err;
}

TEST_F(LiveTorch, ShowsWhereAPatchFails) {
  folder_.write("patch.py", "import torch\n\nraise RuntimeError('not on my machine')\n");
  const ProcessResult result = run_shardlab(select(stack_ + "+patch=patch.py"), folder_.path());
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(result.err.find("RuntimeError: not on my machine"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("patch.py, line 3"), std::string::npos) << result.err;
}

}  // namespace torch_stack_test
}  // namespace shardlab::testing_support

// Stacks that a live PyTorch answers: "torch:PYTHON" with its parts. What needs PyTorch is skipped
// where it is not installed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

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
  json describe(const std::string& stack) {
    const ProcessResult result = run_shardlab({"describe", "stack", stack}, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? json::parse(result.out) : json();
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
  // How a stack redistributes a tensor on 2x4.
  json plan(const std::string& stack, const std::string& tensor, const std::string& from,
            const std::string& to) {
    const ProcessResult result =
        run_shardlab({"plan", "--mesh", "2x4", "--tensor", tensor, "--from", from, "--to", to,
                      "--stack", stack, "--format", "json"},
                     folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? json::parse(result.out) : json();
  }

  TemporaryFolder folder_;
  std::string stack_;
};

TEST_F(LiveTorch, ChoosesAsTheStackOfItsReleaseDoes) {
  EXPECT_EQ(chosen(stack_), chosen("dtensor-2.13"));
}

// Every release that is installed, against the stack that is named after it.
TEST_F(LiveTorch, FlipsNoDecisionOfTheStackOfItsRelease) {
  for (const std::string& python : oracle_pythons()) {
    const json described = describe("torch:" + python);
    const std::string base = described["provenance"]["torch"]["base"];
    SCOPED_TRACE(base + " against " + python);
    const ProcessResult result = run_shardlab(
        {"compare", "--baseline", base, "--candidate", "torch:" + python, "--suite", "ops-small",
         "--suite", "llama3-8b-tp", "--format", "json", "--no-timing", "--quiet"},
        folder_.path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json answer = json::parse(result.out);
    EXPECT_GT(answer["questions"], 700);
    EXPECT_EQ(answer["flips"], json::array());
    const json& torch = answer["provenance"]["torch"];
    EXPECT_GE(torch["verified"]["asked"], 20);
    EXPECT_EQ(torch["verified"]["different"], json::array());
    EXPECT_EQ(torch["levels"]["decisions"], 0);
  }
}

// Ops of which PyTorch's rows alone would give no decision, or another one: the result is no
// tensor, PyTorch runs the steps of the op, a tensor that is no list follows a list, and an output
// is left out.
TEST_F(LiveTorch, DecidesAboutOpsWhoseRowsAreNotEnough) {
  struct Question {
    const char* op;
    Words inputs;
    const char* args;
  };
  const Question questions[] = {
      {"aten.equal.default", {"f32[4,6] R", "f32[4,6] S(1)"}, "[]"},
      {"aten.l1_loss.default", {"f32[4,6] R", "f32[4,6] S(1)"}, "[1]"},
      {"aten._amp_foreach_non_finite_check_and_unscale_.default",
       {"[f32[4] S(0); f32[8] S(0)]", "f32[] P(max)", "f32[] R"},
       "[]"},
      // PyTorch 2.13 has a layout for the gradient that the mask leaves out.
      {"aten._scaled_dot_product_efficient_attention_backward.default",
       {"f32[2,3,2,4] R", "f32[2,3,2,4] R", "f32[2,3,2,4] R", "f32[2,3,2,4] R", "f32[2,3,2,2] R",
        "f32[2,3,2,4] R", "f32[2,3,32] R", "i64[] R", "i64[] R"},
       "[0.0, [true, true, true, false]]"},
      // Traces leave out the tensors of lengths, which stand before the seed in the schema.
      {"aten._scaled_dot_product_flash_attention_backward.default",
       {"bf16[2,4,8,16] S(0)", "bf16[2,4,8,16] S(0)", "bf16[2,4,8,16] S(0)", "bf16[2,4,8,16] S(0)",
        "bf16[2,4,8,16] S(0)", "f32[2,4,8] S(0)", "i64[2] R", "i64[] R"},
       "[8, 8, 0.0, true]"},
  };
  for (const std::string& python : oracle_pythons()) {
    const std::string base = describe("torch:" + python)["provenance"]["torch"]["base"];
    for (const Question& question : questions) {
      SCOPED_TRACE(question.op + (" of " + base));
      const auto answered_by = [&](const std::string& stack) {
        Words words = {"select", "--op", question.op, "--args", question.args,
                       "--mesh", "4",    "--stack",   stack,    "--inputs"};
        words.insert(words.end(), question.inputs.begin(), question.inputs.end());
        const ProcessResult result = run_shardlab(words, folder_.path());
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_EQ(result.err, "");
        // The name of the stack stands behind each call.
        return std::regex_replace(result.out, std::regex(" on 4, .*"), "");
      };
      EXPECT_EQ(answered_by("torch:" + python), answered_by(base));
    }
  }
}

// What configs/torch/machinery.json says of a release is what that release has.
TEST_F(LiveTorch, HasTheMachineryOfItsRelease) {
  for (const std::string& python : oracle_pythons()) {
    const json described = describe("torch:" + python);
    const json& torch = described["provenance"]["torch"];
    SCOPED_TRACE(torch["version"]);
    EXPECT_EQ(
        torch["changed"],
        (json{{"prices", json::array()}, {"others", json::array()}, {"dispatch", json::array()}}));
    EXPECT_GT(described["torch"]["fingerprints"].size(), 100U);
    EXPECT_EQ(described["torch"]["levels"]["rows"].size(), torch["levels"]["rows"]);
  }
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

// PyTorch has a single-dim strategy for the product and looks there first, so that it never asks a
// strategy of the whole mesh.
TEST_F(LiveTorch, SaysWhichRulesOfAFilePyTorchIgnores) {
  folder_.write("mine.py", R"py(
import torch
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.experimental import register_sharding

@register_sharding(torch.ops.aten.mm.default)
def mm(a, b):
    return [([Replicate()], [Replicate(), Replicate()])]
)py");
  const std::string stack = stack_ + "+rules=mine.py";
  const ProcessResult result = run_shardlab(select(stack), folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err,
            "shardlab: " + stack +
                ": PyTorch ignores what is registered in op_strategy_funcs for aten.mm.default, "
                "since it finds the op in op_single_dim_strategy_funcs first; a rule takes part if "
                "it is registered there, or if the file deletes the op from that table\n");
  EXPECT_EQ(json::parse(result.out)["provenance"]["torch"]["ignored_registrations"],
            json({{{"op", "aten.mm.default"},
                   {"table", "op_strategy_funcs"},
                   {"found_in", "op_single_dim_strategy_funcs"}}}));
  EXPECT_EQ(chosen(stack), chosen("dtensor-2.13"));
  folder_.write("mine.py",
                read_text(folder_.path() / "mine.py") +
                    "table = DTensor._op_dispatcher.sharding_propagator."
                    "op_single_dim_strategy_funcs\ndel table[torch.ops.aten.mm.default]\n");
  const json replaced = chosen(stack);
  EXPECT_EQ(replaced["inputs"], json({"RR", "RR"}));
  EXPECT_EQ(replaced["candidates"], 1);
}

// What both stacks choose for the questions of a suite, as pairs of stacks: the flips between them.
class LiveComparison : public LiveTorch {
 protected:
  json compared(const std::string& baseline, const std::string& candidate, const Words& more = {}) {
    Words words = {"compare",   "--baseline", baseline, "--candidate", candidate, "--suite",
                   "ops-small", "--format",   "json",   "--no-timing", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_shardlab(words, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? json::parse(result.out) : json();
  }
  // The folder torch/distributed/tensor of the installed PyTorch, copied into a checkout.
  void copy_dtensor(const std::string& checkout) {
    const ProcessResult where = run_process(
        {oracle_python(), "-c",
         "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"});
    ASSERT_EQ(where.exit_code, 0) << where.err;
    const std::filesystem::path torch(where.out.substr(0, where.out.find('\n')));
    const std::filesystem::path to = folder_.path() / checkout / "torch" / "distributed";
    std::filesystem::create_directories(to);
    std::filesystem::copy(torch / "distributed" / "tensor", to / "tensor",
                          std::filesystem::copy_options::recursive);
  }
};

// The comparison of a step runs on a thread that starts the worker and ends before the last
// question.
TEST_F(LiveTorch, ComparesTheStepOfAProgram) {
  for (const std::string& python : oracle_pythons()) {
    const std::string stack = "torch:" + python;
    const std::string base = describe(stack)["provenance"]["torch"]["base"];
    SCOPED_TRACE(base + " against " + python);
    // transformer-block makes tensors of none, which PyTorch cannot be asked about.
    const ProcessResult result = run_shardlab(
        {"compare", "--baseline", base, "--candidate", stack, "--program", "mlp", "--program",
         "transformer-block", "--mesh", "2x4", "--format", "json", "--no-timing", "--quiet"},
        folder_.path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json answer = json::parse(result.out);
    EXPECT_EQ(answer["flips"], json::array());
    EXPECT_EQ(answer["steps"].size(), 2U);
    for (const json& step : answer["steps"]) {
      const json& step_us = step["step_us"];
      EXPECT_GT(step_us["baseline"], 0.0);
      EXPECT_EQ(step_us["candidate"], step_us["baseline"]) << step["program"];
    }
  }
}

// PyTorch's own formula, once with the change in a checkout and once as a cost function of a stack
// of shardlab's own: the same decisions at the same prices.
TEST_F(LiveComparison, AnOverlayThatChangesAPriceFlipsWhatTheSameCostFunctionFlips) {
  copy_dtensor("branch");
  const std::filesystem::path file =
      folder_.path() / "branch/torch/distributed/tensor/_collective_utils.py";
  const std::string source = read_text(file);
  const std::size_t all_reduce = source.find("def allreduce_cost");
  ASSERT_NE(all_reduce, std::string::npos);
  folder_.write("branch/torch/distributed/tensor/_collective_utils.py",
                source.substr(0, all_reduce) +
                    replaced(source.substr(all_reduce, 600), "latency = 6.6", "latency = 16.6") +
                    source.substr(all_reduce + 600));
  folder_.write("plus10.py", R"py(
def price(collective, bytes, group):
    base = 16.6 if collective == "all_reduce" else 6.6
    hops = (2 if collective == "all_reduce" else 1) * (group.ranks - 1)
    hop, bandwidth = (2.7, 87.7 * 0.22) if group.hosts > 1 else (0.6, 87.7)
    gib = bytes / 1024**3
    return base + hops * hop + gib * hops / group.ranks / bandwidth * 1e6
)py");
  const std::string branch = stack_ + "+overlay=branch";
  const json changed = compared("dtensor-2.13", branch);
  EXPECT_GT(changed["flips"].size(), 5U);
  EXPECT_EQ(changed["provenance"]["torch"]["changed"]["prices"],
            json({"_collective_utils.allreduce_cost"}));
  EXPECT_EQ(changed["provenance"]["torch"]["verified"]["different"], json::array());
  EXPECT_GE(changed["provenance"]["torch"]["verified"]["asked"], 20);
  const json same = compared("dtensor-2.13+cost=plus10.py:price", branch, {"--verify", "0"});
  EXPECT_EQ(same["flips"], json::array());
  EXPECT_GT(same["questions"], 700);
}

// The price of an all-to-all as a function of the message's size, which no constant can express.
TEST_F(LiveComparison, APatchOfThePriceFlipsWhatTheSameCostFunctionFlips) {
  const std::string function = R"py(
def by_size(current, target, mesh_topo, mesh_dim, gib):
    if current != target and current.is_shard() and target.is_shard():
        return (5.0 if gib < 0.001 else 50.0) + 1000.0 * gib, gib
    return own(current, target, mesh_topo, mesh_dim, gib)
)py";
  folder_.write("patch.py",
                "from torch.distributed.tensor import _collective_utils as costs\n"
                "own = costs._compute_placement_transition_cost\n" +
                    function + "costs._compute_placement_transition_cost = by_size\n");
  folder_.write("cost.py",
                "from torch.distributed.tensor._collective_utils import "
                "_compute_placement_transition_cost as own\n" +
                    function);
  EXPECT_GT(compared("dtensor-2.13", stack_ + "+patch=patch.py")["flips"].size(), 5U);
  const json same =
      compared(stack_ + "+cost=cost.py:by_size", stack_ + "+patch=patch.py", {"--verify", "5"});
  EXPECT_EQ(same["flips"], json::array());
  EXPECT_EQ(same["provenance"]["torch"][0]["verified"]["equal"], 5);
  EXPECT_EQ(same["provenance"]["torch"][1]["verified"]["equal"], 5);
}

// A branch that takes the last of the cheapest candidates is not what shardlab's own selection
// does, so PyTorch decides.
TEST_F(LiveTorch, LeavesWholeDecisionsToAPyTorchThatSelectsInAnotherWay) {
  folder_.write("last.py", R"py(
from torch.distributed.tensor import _sharding_prop

def last(strategy, op_schema=None):
    return min(reversed(strategy.strategies), key=lambda s: sum(map(sum, s.redistribute_cost)))

_sharding_prop._select_min_cost_strategy = last
)py");
  const auto selected = [&](const std::string& stack) {
    const ProcessResult result =
        run_shardlab({"select", "--op", "aten.mm.default", "--mesh", "2x2", "--inputs",
                      "f32[16,16] S(0)R", "f32[16,16] RR", "--format", "json", "--stack", stack},
                     folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  const json own = selected("dtensor-2.13");
  const json branch = selected(stack_ + "+patch=last.py");
  ASSERT_GT(own["ties"].size(), 1U);
  EXPECT_EQ(own["candidates"].size(), branch["candidates"].size());
  EXPECT_EQ(branch["selected"]["index"], own["ties"].back());
  EXPECT_NE(branch["selected"]["outputs"], own["selected"]["outputs"]);
  EXPECT_EQ(branch["provenance"]["torch"]["changed"]["others"],
            json({"_sharding_prop._select_min_cost_strategy"}));
  EXPECT_EQ(branch["provenance"]["torch"]["levels"]["rows"], 0);
}

// A row that computes something else makes choices cheaper; they are told apart from improvements.
TEST_F(LiveComparison, CallsAFlipToAnUnsoundRowWrong) {
  folder_.write("unsound.py", R"py(
import torch
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy
from torch.distributed.tensor.placement_types import Partial, Replicate, Shard

@register_single_dim_strategy(torch.ops.aten.mm.default)
def mm(op, args_schema, kwargs_schema):
    return [[Shard(0), Shard(0), Replicate()], [Shard(1), Replicate(), Shard(1)],
            [Partial(), Shard(1), Shard(0)], [Shard(0), Partial(), Partial()]]
)py");
  folder_.write("products.json", R"json({"schema": "shardlab/suite/1", "name": "products",
    "questions": [{"id": "both partial", "kind": "select", "op": "aten.mm.default", "mesh": "2x4",
                   "inputs": ["bf16[8192,4096] RP(sum)", "bf16[4096,4096] RP(sum)"]}]})json");
  const ProcessResult result =
      run_shardlab({"compare", "--baseline", stack_, "--candidate", stack_ + "+rules=unsound.py",
                    "--suite", "products.json", "--no-timing", "--quiet", "--out", "report"},
                   folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("the flip takes a choice that computes something wrong"),
            std::string::npos)
      << result.out;
  const json answer = json::parse(read_text(folder_.path() / "report" / "report.json"));
  ASSERT_EQ(answer["flips"].size(), 1U);
  EXPECT_EQ(answer["flips"][0]["verdict"], "wrong");
  EXPECT_EQ(answer["stacks"][1]["flips"]["better"], 0);
  EXPECT_EQ(answer["stacks"][1]["flips"]["wrong"], 1);
  EXPECT_EQ(answer["stacks"][0]["regret"]["mean"], 0.0);
  EXPECT_NE(answer["flips"][0]["reason"].get<std::string>().find("S(0) | P(sum), P(sum): "),
            std::string::npos);
  for (const char* page : {"report.md", "report.html"}) {
    EXPECT_NE(read_text(folder_.path() / "report" / page).find("computes something wrong"),
              std::string::npos)
        << page;
  }
}

// One row that is right and one that computes something else: the proof keeps the first and shows a
// witness against the second.
TEST_F(LiveTorch, ProvesTheRulesOfAFile) {
  folder_.write("mine.py", R"py(
import torch
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy
from torch.distributed.tensor.placement_types import Partial, Replicate, Shard

@register_single_dim_strategy(torch.ops.aten.mm.default)
def mm(op, args_schema, kwargs_schema):
    return [[Shard(0), Shard(0), Replicate()], [Shard(0), Shard(0), Shard(0)]]
)py");
  const ProcessResult result =
      run_shardlab({"rules", "aten.mm.default", "--rule-set", stack_ + "+rules=mine.py", "--format",
                    "json", "--fail-on-unsound"},
                   folder_.path());
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const json answer = json::parse(result.out);
  ASSERT_EQ(answer["unsound"], 1);
  const json& unsound = answer["ops"][0]["unsound"][0];
  EXPECT_EQ(unsound["row"], "S(0) | S(0), S(0)");
  EXPECT_NE(unsound["found"], "");
  std::set<std::string> missing;
  for (const json& row : answer["ops"][0]["missing"]) missing.insert(row["row"]);
  EXPECT_TRUE(missing.contains("P(sum) | S(1), S(0)"));
  EXPECT_FALSE(missing.contains("S(0) | S(0), R"));
}

// A branch that changes the planner, here by a statement that does nothing: PyTorch plans and
// decides, and so gives the plan that the release gives.
TEST_F(LiveComparison, APlannerThatIsNotKnownPlansItself) {
  copy_dtensor("branch");
  const std::filesystem::path file =
      folder_.path() / "branch/torch/distributed/tensor/_redistribute.py";
  const std::string source = read_text(file);
  const std::size_t planner = source.find("    def find_min_cost_path(");
  ASSERT_NE(planner, std::string::npos);
  const std::size_t body = source.find(":\n", source.find(")", planner)) + 2;
  folder_.write("branch/torch/distributed/tensor/_redistribute.py",
                source.substr(0, body) + "        probe = 0\n" + source.substr(body));
  const auto planned = [&](const std::string& stack) {
    return plan(stack, "f32[64,64]", "S(0)[1]S(0)[0]", "S(1)S(0)");
  };
  const json own = planned("dtensor-2.13");
  const json branch = planned(stack_ + "+overlay=branch");
  EXPECT_EQ(branch["provenance"]["torch"]["changed"]["others"],
            json({"_redistribute.DTensorRedistributePlanner.find_min_cost_path"}));
  EXPECT_EQ(branch["path"], own["path"]);
  EXPECT_EQ(branch["price_us"], own["price_us"]);
  EXPECT_GT(branch["steps"].size(), 1U);
}

// The planner that a constant of the module chooses, and that of the function behind a wrapper, are
// PyTorch's own; the stack of the release with the graph planner has the same prices.
TEST_F(LiveTorch, PlansAsConstantsAndWrappersOfAPatchSay) {
  folder_.write("constant.py",
                "import torch.distributed.tensor._redistribute as redistribute\n"
                "redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN = True\n");
  folder_.write("wrapper.py", R"py(
import functools
import torch.distributed.tensor._redistribute as redistribute
own = redistribute._gen_transform_infos_non_cached

@functools.wraps(own)
def planned(src, dst, use_graph_based_transform=None):
    return own(src, dst, True)

redistribute._gen_transform_infos_non_cached = planned
)py");
  folder_.write("graph.json", R"({"schema": "shardlab/stack/1", "name": "graph",
                                  "base": "dtensor-2.13", "planner": "graph"})");
  const auto planned = [&](const std::string& stack) {
    return plan(stack, "bf16[8192,4096]", "S(0)S(0)", "RS(0)");
  };
  const json greedy = planned(stack_);
  const json graph = planned("graph.json");
  EXPECT_LT(graph["price_us"], greedy["price_us"]);
  for (const auto& [patch, changed] :
       {std::pair{"constant.py", "_redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN"},
        std::pair{"wrapper.py", "_redistribute._gen_transform_infos_non_cached"}}) {
    const json patched = planned(stack_ + "+patch=" + patch);
    EXPECT_EQ(patched["price_us"], graph["price_us"]) << patch;
    EXPECT_EQ(patched["path"], graph["path"]) << patch;
    EXPECT_EQ(patched["provenance"]["torch"]["changed"]["others"], json({changed}));
  }
}

// Where Python decides or prices, a change of the stack that nobody reads is refused.
TEST_F(LiveTorch, RefusesASetThatNobodyReads) {
  folder_.write("planner.py",
                "import torch.distributed.tensor._redistribute as redistribute\n"
                "redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN = True\n");
  folder_.write("price.py", R"py(
from torch.distributed.tensor import _collective_utils as utils
own = utils.allreduce_cost
utils.allreduce_cost = lambda *arguments: 2 * own(*arguments)
)py");
  const auto refusal = [&](const std::string& patch, const std::string& set) {
    const ProcessResult result =
        run_shardlab(select(stack_ + patch, {"--set", "stack." + set}), folder_.path());
    EXPECT_EQ(result.exit_code, 2) << set;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  const std::string whole = refusal("+patch=planner.py", "planner=greedy");
  EXPECT_TRUE(
      whole.starts_with("shardlab: --set stack.planner=greedy: changes nothing, since the "
                        "PyTorch of torch:"))
      << whole;
  EXPECT_TRUE(whole.ends_with(
      "planner.py decides as a whole: its _redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN "
      "differs from that of dtensor-2.13; valid: the change in that PyTorch, by +patch=FILE.py\n"))
      << whole;
  EXPECT_NE(refusal("+patch=planner.py", "transition_us=3").find("decides as a whole"),
            std::string::npos);
  EXPECT_NE(refusal("+patch=price.py", "collective_model=alpha_beta").find("gives the prices"),
            std::string::npos);
  EXPECT_NE(refusal("", "rules=shardlab").find("has the rules of its PyTorch"), std::string::npos);
}

// The sample is asked of the stack without --set, which would otherwise be what differs.
TEST_F(LiveTorch, FollowsASetOfWhatShardlabDecides) {
  const ProcessResult result =
      run_shardlab({"select", "--op", "aten.mm.default", "--mesh", "2x2", "--inputs",
                    "f32[16,16] RS(0)", "f32[16,16] RS(0)", "--format", "json", "--stack", stack_,
                    "--set", "stack.policy=lexicographic", "--set", "stack.transition_us=1000"},
                   folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const json answer = json::parse(result.out);
  EXPECT_EQ(answer["provenance"]["torch"]["verified"]["different"], json::array());
  EXPECT_GT(answer["selected"]["total_us"], 1000.0);
}

// A patch gives one mesh dim another bandwidth, by its name.
TEST_F(LiveTorch, PricesMeshDimsByTheirNames) {
  folder_.write("named.py", R"py(
from torch.distributed.tensor import _collective_utils as utils
own = utils.MeshTopoInfo.build_from_mesh

def build_from_mesh(mesh):
    topology = own(mesh)
    for dim, name in enumerate(mesh.mesh_dim_names or ()):
        if name == "tp":
            topology.mesh_dim_bandwidth[dim] *= 4
    return topology

utils.MeshTopoInfo.build_from_mesh = staticmethod(build_from_mesh)
)py");
  const auto price_us = [&](const std::string& mesh, const std::string& stack) {
    const ProcessResult result =
        run_shardlab({"plan", "--mesh", mesh, "--tensor", "bf16[8192,4096]", "--from", "RS(0)",
                      "--to", "RR", "--format", "json", "--stack", stack},
                     folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? json::parse(result.out)["price_us"].get<double>() : 0.0;
  };
  const std::string patched = stack_ + "+patch=named.py";
  const double before = price_us("dp=2,tp=4", stack_);
  constexpr double kLatencyUs = 6.6 + 3 * 0.6;
  EXPECT_NEAR(price_us("dp=2,tp=4", patched), kLatencyUs + (before - kLatencyUs) / 4, 1e-6);
  EXPECT_EQ(price_us("dp=2,cp=4", patched), before);
  EXPECT_EQ(price_us("2x4", patched), before);
}

// PyTorch's plans do not say which steps it merges when it runs them, so that a patch of that
// function leaves no answer where there is something to merge.
TEST_F(LiveTorch, RefusesToMergeStepsWhereAPatchMergesOthers) {
  folder_.write("merge.py",
                "import torch.distributed.tensor._redistribute as redistribute\n"
                "redistribute._optimize_transform_infos = lambda infos, *rest: infos\n");
  const auto planned = [&](const std::string& stack, const std::string& from, const Words& more) {
    Words words = {"plan", "--mesh", "a=2,b=2", "--tensor", "bf16[8192,4096]", "--from", from,
                   "--to", "RR",     "--stack", stack};
    words.insert(words.end(), more.begin(), more.end());
    return run_shardlab(words, folder_.path());
  };
  const std::string patched = stack_ + "+patch=merge.py";
  EXPECT_EQ(planned(stack_, "P(sum)P(sum)", {"--flatten", "a,b"}).exit_code, 0);
  const ProcessResult refused = planned(patched, "P(sum)P(sum)", {"--flatten", "a,b"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(refused.err,
            "shardlab: found a change of _redistribute._optimize_transform_infos, so that only "
            "PyTorch itself knows which of the 2 steps of this plan it merges onto a flattened "
            "mesh; valid: a mesh without flattened dims, on which it merges none\n");
  EXPECT_EQ(planned(patched, "P(sum)R", {"--flatten", "a,b"}).exit_code, 0);
  EXPECT_EQ(planned(patched, "P(sum)P(sum)", {}).exit_code, 0);
}

// A change that no fingerprint sees, since it stands in no source: a sample of redistributions is
// planned by PyTorch too, and what differs is printed.
TEST_F(LiveComparison, AsksPyTorchForASampleOfPlans) {
  folder_.write("unseen.py",
                "import torch.distributed.tensor._redistribute as redistribute\n"
                "redistribute._gen_transform_infos_non_cached.__defaults__ = (True,)\n");
  folder_.write("plans.json", R"json({"schema": "shardlab/suite/1", "name": "plans", "questions": [
    {"id": "a", "kind": "plan", "mesh": "2x4", "tensor": "bf16[8192,4096]",
     "from": "S(0)S(0)", "to": "RS(0)"},
    {"id": "b", "kind": "plan", "mesh": "2x4", "tensor": "bf16[8192,4096]",
     "from": "RS(1)", "to": "RR"}]})json");
  const auto compare = [&](const std::string& candidate, const Words& more) {
    Words words = {"compare",    "--baseline", "dtensor-2.13", "--candidate", candidate, "--suite",
                   "plans.json", "--format",   "json",         "--no-timing", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_shardlab(words, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return std::pair{json::parse(result.out), result.err};
  };
  const auto [same, nothing] = compare(stack_, {});
  EXPECT_EQ(nothing, "");
  EXPECT_EQ(same["provenance"]["torch"]["verified"],
            (json{{"asked", 2}, {"equal", 2}, {"different", json::array()}}));
  const std::string patched = stack_ + "+patch=unseen.py";
  const auto [changed, said] = compare(patched, {});
  const json& verified = changed["provenance"]["torch"]["verified"];
  EXPECT_EQ(verified["asked"], 2);
  EXPECT_EQ(verified["equal"], 1);
  EXPECT_NE(said.find(": PyTorch's own decision differs: bf16[8192,4096] "
                      "S(0)S(0) to RS(0) on 2x4: shardlab takes S(0) to R over mesh dim 1, "
                      "S(0) to R over mesh dim 0, R to S(0) over mesh dim 1, PyTorch S(0) to S(1) "
                      "over mesh dim 1, "),
            std::string::npos)
      << said;
  EXPECT_TRUE(
      said.ends_with(": 1 of 2 decisions that were asked as a check differ, so PyTorch "
                     "decides everything from here on\n"))
      << said;
  EXPECT_EQ(changed["flips"].size(), 1U);
  EXPECT_EQ(changed["provenance"]["torch"]["levels"]["rows"], 0);
  EXPECT_EQ(changed["provenance"]["torch"]["levels"]["candidates"], 0);
  EXPECT_EQ(compare(patched, {"--verify", "0"}).first["flips"], json::array());
}

// One plan of a sample differs, and with it all that shardlab would say of this PyTorch is in
// doubt: the text and the report say so, and --set that only shardlab would read is refused.
TEST_F(LiveTorch, DecidesEverythingOnceASampleDiffers) {
  folder_.write("unseen.py",
                "import torch.distributed.tensor._redistribute as redistribute\n"
                "redistribute._gen_transform_infos_non_cached.__defaults__ = (True,)\n");
  folder_.write("plans.json", R"json({"schema": "shardlab/suite/1", "name": "plans", "questions": [
    {"id": "a", "kind": "plan", "mesh": "2x4", "tensor": "bf16[8192,4096]",
     "from": "S(0)S(0)", "to": "RS(0)"}]})json");
  const std::string stack = stack_ + "+patch=unseen.py";
  const Words compare = {"compare", "--baseline", "dtensor-2.13", "--candidate", stack,
                         "--suite", "plans.json", "--no-timing",  "--quiet"};
  Words words = compare;
  words.insert(words.end(), {"--out", "report"});
  const ProcessResult compared = run_shardlab(words, folder_.path());
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const std::string note = "1 of the 1 decisions of " + stack +
                           " that were asked as a check differs from what its rules and prices "
                           "gave, so that PyTorch decided everything";
  EXPECT_NE(compared.out.find("  note: " + note + "\n"), std::string::npos) << compared.out;
  EXPECT_NE(read_text(folder_.path() / "report" / "report.md").find(note + "."), std::string::npos);
  words = compare;
  words.insert(words.end(), {"--set", "stack.transition_us=3"});
  const ProcessResult refused = run_shardlab(words, folder_.path());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("--set stack.transition_us=3: changes nothing, since the PyTorch of " +
                             stack +
                             " decides as a whole: some of its answers to a sample of questions "
                             "differ from those of dtensor-2.13"),
            std::string::npos)
      << refused.err;
}

// A module that imported a function reads its own name for it, which a patch may bind to another
// function without a change of the definition.
TEST_F(LiveTorch, SeesThatAPatchRebindsAnImportedName) {
  folder_.write("imported.py", R"py(
import torch.distributed.tensor._ops.utils as utils
own = utils.redistribute_cost
utils.redistribute_cost = lambda source, target: 4 * own(source, target)
)py");
  folder_.write("hosts.py",
                "from torch.distributed.device_mesh import _mesh_resources\n"
                "_mesh_resources.num_devices_per_host = lambda device_type: 2\n");
  const json own = chosen(stack_);
  const json imported = chosen(stack_ + "+patch=imported.py");
  EXPECT_EQ(imported["inputs"], own["inputs"]);
  EXPECT_DOUBLE_EQ(imported["total_us"], 4 * own["total_us"].get<double>());
  EXPECT_EQ(describe(stack_ + "+patch=imported.py")["provenance"]["torch"]["changed"],
            (json{{"prices", json::array()},
                  {"others", {"_ops.utils.redistribute_cost"}},
                  {"dispatch", json::array()}}));
  EXPECT_EQ(describe(stack_ + "+patch=hosts.py")["provenance"]["torch"]["changed"],
            (json{{"prices", {"device_mesh._mesh_resources.num_devices_per_host"}},
                  {"others", json::array()},
                  {"dispatch", json::array()}}));
  EXPECT_EQ(chosen(stack_ + "+patch=hosts.py")["total_us"],
            chosen("dtensor-2.13", {"--set", "devices_per_host=2"})["total_us"]);
}

// A handler takes the place of the op when it is dispatched, whatever the propagator decides.
TEST_F(LiveTorch, SaysWhichChangesOfTheDispatchTakePartInNoAnswer) {
  folder_.write("handler.py", R"py(
import torch
from torch.distributed.tensor import DTensor
DTensor._op_dispatcher._custom_op_handlers[torch.ops.aten.mm.default] = lambda op, args, named: args[0]
)py");
  const std::string stack = stack_ + "+patch=handler.py";
  const ProcessResult result = run_shardlab(select(stack), folder_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err,
            "shardlab: " + stack +
                ": found a change from dtensor-2.13 in "
                "_dispatch.OpDispatcher._custom_op_handlers[aten.mm.default], which takes part in "
                "no answer: PyTorch runs it when it dispatches an op, and shardlab asks only "
                "which placements the propagator decides on\n");
  EXPECT_EQ(json::parse(result.out)["provenance"]["torch"]["changed"],
            (json{{"prices", json::array()},
                  {"others", json::array()},
                  {"dispatch", {"_dispatch.OpDispatcher._custom_op_handlers[aten.mm.default]"}}}));
}

TEST_F(LiveTorch, ShowsWhereAPatchFails) {
  folder_.write("patch.py", "import torch\n\nraise RuntimeError('not on my machine')\n");
  const ProcessResult result = run_shardlab(select(stack_ + "+patch=patch.py"), folder_.path());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("RuntimeError: not on my machine"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("patch.py, line 3"), std::string::npos) << result.err;
}

// -- Cost functions of stacks that need no PyTorch -----------------------------------------------

class CostFunction : public testing::Test {
 protected:
  ProcessResult compare(const std::string& candidate) {
    return run_shardlab({"compare", "--baseline", "dtensor-2.13", "--candidate", candidate,
                         "--suite", "ops-small", "--format", "json", "--no-timing", "--quiet"},
                        folder_.path());
  }
  ProcessResult select_with(const std::string& function) {
    return run_shardlab(select("dtensor-2.13+cost=mine.py:" + function), folder_.path());
  }

  TemporaryFolder folder_;
};

constexpr const char* kFormula = R"py(
def ring(collective, bytes, group):
    hops = (2 if collective == "all_reduce" else 1) * (group.ranks - 1)
    hop, bandwidth = (2.7, 87.7 * 0.22) if group.hosts > 1 else (0.6, 87.7)
    return 6.6 + hops * hop + bytes / 1024**3 * hops / group.ranks / bandwidth * 1e6

def price(current, target, mesh_topo, mesh_dim, gib):
    ranks = mesh_topo.mesh_dim_devices[mesh_dim]
    hop, bandwidth = mesh_topo.mesh_dim_latency[mesh_dim], mesh_topo.mesh_dim_bandwidth[mesh_dim]
    def ring(size, hops):
        return 6.6 + hops * hop + size * hops / ranks / bandwidth * 1e6
    if current.is_shard() and target.is_replicate():
        return ring(gib * ranks, ranks - 1), gib * ranks
    if current.is_shard() and target.is_shard():
        return ring(gib, ranks - 1) + 1.0, gib
    if current.is_partial() and target.is_replicate():
        return ring(gib, 2 * (ranks - 1)), gib
    if current.is_partial() and target.is_shard():
        return ring(gib, ranks - 1), gib / ranks
    if current.is_replicate() and target.is_shard():
        return 0.0, gib / ranks
    if current.is_replicate() and target.is_partial():
        return 0.0, gib
    return float("inf"), gib

def doubled(collective, bytes, group):
    return 2 * ring(collective, bytes, group)

def raises(collective, bytes, group):
    raise ValueError("no such link")

def negative(collective, bytes, group):
    return -1.0

def endless(collective, bytes, group):
    return float("inf")

def two(collective, bytes):
    return 1.0

constant = 1.0
)py";

// Both signatures with the formula of the stack's own model flip nothing.
TEST_F(CostFunction, OfTheModelsOwnFormulaFlipsNothing) {
  folder_.write("mine.py", kFormula);
  for (const char* function : {"ring", "price"}) {
    const ProcessResult result = compare("dtensor-2.13+cost=mine.py:" + std::string(function));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json answer = json::parse(result.out);
    EXPECT_GT(answer["questions"], 700);
    EXPECT_EQ(answer["flips"], json::array()) << function;
    EXPECT_EQ(answer["provenance"]["torch"]["cost"], "mine.py:" + std::string(function));
  }
}

TEST_F(CostFunction, SetsThePrices) {
  folder_.write("mine.py", kFormula);
  const auto total = [&](const std::string& stack) {
    const ProcessResult result = run_shardlab(select(stack), folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out)["selected"]["total_us"].get<double>();
  };
  EXPECT_EQ(total("dtensor-2.13+cost=mine.py:ring"), total("dtensor-2.13"));
  EXPECT_EQ(total("dtensor-2.13+cost=mine.py:price"), total("dtensor-2.13"));
  EXPECT_EQ(total("dtensor-2.13+cost=mine.py:doubled"), 2 * total("dtensor-2.13"));
}

TEST_F(CostFunction, ThatFailsIsNamedWithTheCall) {
  folder_.write("mine.py", kFormula);
  struct Failure {
    const char* function;
    int exit_code;
    std::vector<std::string> said;
  };
  const std::vector<Failure> failures = {
      {"raises",
       3,
       {"mine.py:raises", "ValueError: no such link", "raises('all_reduce', 1024.0",
        "mine.py, line "}},
      {"negative", 3, {"mine.py:negative", "gave -1.0 as the price, which is negative"}},
      {"endless", 3, {"endless('all_reduce', 1024.0", "gave an infinite price"}},
      {"two", 3, {"two takes 2 parameters"}},
      {"constant", 3, {"has no function constant"}},
  };
  for (const Failure& failure : failures) {
    const ProcessResult result = select_with(failure.function);
    EXPECT_EQ(result.exit_code, failure.exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& text : failure.said) {
      EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    }
  }
}

// The message names the file, the line and the error, and shows the lines of the user's file alone.
TEST_F(CostFunction, OfAFileWithAMistakeShowsItsLines) {
  const std::string file = (folder_.path() / "mine.py").string();
  const std::map<std::string, std::string> messages = {
      {"def ring(a, b, c):\n    return 1.0 +\n",
       "SyntaxError: invalid syntax (" + file + ", line 2)\n  " + file +
           ", line 2\n    return 1.0 +\n                ^\n"},
      {"import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module' (" + file +
                                      ", line 1)\n  " + file +
                                      ", line 1, in <module>\n    import no_such_module\n"},
      {"def f():\n    raise ValueError('a\\x1b[31m\\nb')\n\n\nf()\n",
       "ValueError: a\\x1b[31m\\x0ab (" + file + ", line 2)\n  " + file +
           ", line 5, in <module>\n    f()\n  " + file +
           ", line 2, in f\n    raise ValueError('a\\x1b[31m\\nb')\n"},
      {std::string("x = 1\n\0", 7), "SyntaxError: source code string cannot contain null bytes (" +
                                        file + ")\n  " + file + "\n"},
  };
  for (const auto& [source, message] : messages) {
    folder_.write("mine.py", source);
    const ProcessResult result = select_with("ring");
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "shardlab: dtensor-2.13+cost=mine.py:ring: " + message);
  }
}

TEST_F(CostFunction, OfAFileThatNeedsAMissingTorchIsForTheEnvironment) {
  folder_.write("torch_free/mine.py", "import torch\n\ndef ring(a, b, c):\n    return 1.0\n");
  const ProcessResult result =
      run_shardlab(select("dtensor-2.13+cost=torch_free/mine.py:ring"), folder_.path());
  if (result.exit_code == 0) GTEST_SKIP() << "python3 has PyTorch";
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_NE(result.err.find("No module named 'torch'"), std::string::npos) << result.err;
}

TEST_F(CostFunction, NeedsAFileAndFollowsAStackAlone) {
  ProcessResult result = select_with("ring");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("There is no file"), std::string::npos) << result.err;
  result = run_shardlab(select("dtensor-2.13+patch=a.py+cost=mine.py:ring"), folder_.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("found +patch= after dtensor-2.13"), std::string::npos) << result.err;
  result = run_shardlab(select("no-such-stack+cost=mine.py:ring"), folder_.path());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.err.find("no-such-stack"), std::string::npos) << result.err;
}

}  // namespace torch_stack_test
}  // namespace shardlab::testing_support

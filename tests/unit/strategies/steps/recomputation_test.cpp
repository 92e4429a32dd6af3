// Which nodes run again in the backward pass, and what the blocks of a model are.
#include "strategies/steps/recomputation.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/error.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace recomputation_test {

Program llama(std::int64_t layers) {
  return find_built_in_program("llama3-8b")->make({.layers = layers, .batch = 2, .seqlen = 64});
}

TEST(Recomputation, ReadsItsText) {
  for (const char* text : {"none", "full", "selective", "every:2", "full:3", "selective:16"}) {
    EXPECT_EQ(Recomputation::parse(text).text(), text);
  }
  for (const char* text : {"", "all", "none:2", "every", "every:0", "full:-1", "full:x",
                           "full:", "every:99999999999"}) {
    EXPECT_THROW((void)Recomputation::parse(text), TextError) << text;
  }
}

TEST(ModelBlocks, AreTheLayersOfTheModel) {
  const Program program = llama(3);
  const ModelBlocks blocks = blocks_of(program);
  EXPECT_EQ(blocks.names, (std::vector<std::string>{"layers.0", "layers.1", "layers.2"}));
  EXPECT_EQ(blocks.unit_names,
            (std::vector<std::string>{"root", "layers.0", "layers.1", "layers.2"}));
  std::map<int, int> flash;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    if (program.nodes[n].op.starts_with("aten._scaled_dot_product_flash_attention.")) {
      ++flash[blocks.block[n]];
    }
    if (program.nodes[n].kind == NodeKind::kParameter) {
      EXPECT_TRUE(blocks.is_weight[n]);
    }
    if (program.nodes[n].kind == NodeKind::kBuffer) {
      EXPECT_FALSE(blocks.is_weight[n]);
    }
  }
  EXPECT_EQ(flash, (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}}));
}

// A program written by hand may name no outputs. Its kernels still run in the forward pass.
TEST(ModelBlocks, WhatNothingReadsIsAnOutputWhereNoneIsNamed) {
  const auto written = [](bool names_outputs) {
    nlohmann::json nodes = nlohmann::json::parse(R"([
        {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [4, 4]}]},
        {"name": "y", "op": "aten.relu.default", "inputs": ["x"],
         "outputs": [{"dtype": "f32", "shape": [4, 4]}]},
        {"name": "z", "op": "aten.neg.default", "inputs": ["x"],
         "outputs": [{"dtype": "f32", "shape": [4, 4]}]}])");
    if (names_outputs) {
      nodes.push_back({{"name", "out"},
                       {"kind", "output"},
                       {"inputs", {"y"}},
                       {"outputs", nodes[1]["outputs"]}});
    }
    return Program::from_json({{"schema", "shardlab/program/1"}, {"name", "p"}, {"nodes", nodes}},
                              {"p.json", ""});
  };
  EXPECT_EQ(blocks_of(written(false)).pass, std::vector<Phase>(3, Phase::kForward));
  // Where an output is named, what it does not need runs with the backward pass.
  const std::vector<Phase> named = blocks_of(written(true)).pass;
  EXPECT_EQ(named[1], Phase::kForward);
  EXPECT_EQ(named[2], Phase::kBackward);
}

// How many values of the blocks the backward pass reads that are not computed again.
int kept_values(const Program& program, const Recomputation& policy) {
  const ModelBlocks blocks = blocks_of(program);
  const std::vector<bool> again = recomputed_nodes(program, blocks, policy);
  std::set<std::size_t> kept;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& reader = program.nodes[n];
    if (reader.is_source() || (reader.phase == Phase::kForward && !again[n])) continue;
    for (const ValueRef& value : values_read(reader)) {
      const ProgramNode& from = program.nodes[value.node];
      const bool is_kept = from.computes() && from.phase == Phase::kForward && !again[value.node] &&
                           !blocks.is_weight[value.node] &&
                           blocks.block[value.node] != ModelBlocks::kOutside;
      if (is_kept) kept.insert(value.node);
    }
  }
  return static_cast<int>(kept.size());
}

// A block keeps what the next one reads, of the last one nothing is left to keep.
TEST(Recomputation, FullKeepsWhatOtherBlocksRead) {
  const Program program = llama(3);
  EXPECT_EQ(kept_values(program, Recomputation::parse("full")), 2);
  EXPECT_GT(kept_values(program, Recomputation::parse("none")), 50);
}

// Of a layer's seven products, the first, third, fifth and seventh are kept; the last is read by no
// backward node, and the other three are computed again.
TEST(Recomputation, SelectiveKeepsAttentionAndEverySecondProduct) {
  const Program program = llama(2);
  const ModelBlocks blocks = blocks_of(program);
  const std::vector<bool> again =
      recomputed_nodes(program, blocks, Recomputation::parse("selective"));
  std::map<std::string, std::pair<int, int>>
      runs;  // by op: how many run again, and how many do not
  for (std::size_t n = 0; n < again.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    if (!node.computes() || node.phase != Phase::kForward || blocks.block[n] != 0) continue;
    ++(again[n] ? runs[node.op].first : runs[node.op].second);
  }
  EXPECT_EQ(runs["aten.einsum.default"].first, 3);
  EXPECT_EQ(runs["aten.einsum.default"].second, 4);
  EXPECT_EQ(runs["aten._scaled_dot_product_flash_attention.default"], (std::pair(0, 1)));
}

TEST(Recomputation, IsForTheBlocksThatItNames) {
  const Program program = llama(4);
  const ModelBlocks blocks = blocks_of(program);
  const auto blocks_again = [&](const char* policy) {
    const std::vector<bool> again = recomputed_nodes(program, blocks, Recomputation::parse(policy));
    std::set<int> found;
    for (std::size_t n = 0; n < again.size(); ++n) {
      if (again[n]) found.insert(blocks.block[n]);
    }
    return found;
  };
  EXPECT_EQ(blocks_again("none"), (std::set<int>{}));
  EXPECT_EQ(blocks_again("full"), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(blocks_again("full:2"), (std::set<int>{0, 1}));
  EXPECT_EQ(blocks_again("every:2"), (std::set<int>{0, 2}));
  EXPECT_EQ(blocks_again("selective:1"), (std::set<int>{0}));
}

// Weights that are resharded are made again, but for the unit that the forward pass reads last.
TEST(Recomputation, ReshardsAllButTheLastUnit) {
  const Program program = llama(2);
  const ModelBlocks blocks = blocks_of(program);
  Recomputation policy;
  policy.reshards_weights = true;
  const std::vector<bool> again = recomputed_nodes(program, blocks, policy);
  std::set<std::string> units;
  for (std::size_t n = 0; n < again.size(); ++n) {
    if (!again[n]) continue;
    EXPECT_TRUE(blocks.is_weight[n]) << program.nodes[n].name;
    units.insert(blocks.unit_names[static_cast<std::size_t>(blocks.unit[n])]);
  }
  EXPECT_EQ(units, (std::set<std::string>{"layers.0", "layers.1"}));
}

}  // namespace recomputation_test
}  // namespace shardlab

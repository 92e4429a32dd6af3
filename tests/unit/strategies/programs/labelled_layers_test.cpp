// Which layer a node belongs to: every layer of LLaMA has the same nodes, forward and backward.
#include "strategies/programs/labelled_layers.h"

#include <gtest/gtest.h>

#include <map>

#include "strategies/programs/built_in_programs.h"

namespace shardlab {
namespace labelled_layers_test {

using Counts = std::map<std::string, int>;  // how many ops of each name

Program llama(std::int64_t layers, MatmulForm matmul) {
  return find_built_in_program("llama3-8b")
      ->make({.layers = layers, .batch = 2, .seqlen = 64, .matmul = matmul});
}

TEST(LabelledLayers, EveryLayerOfLlamaHasTheSameOps) {
  for (const MatmulForm matmul : {MatmulForm::kEinsum, MatmulForm::kNative}) {
    std::map<Phase, Counts> one;  // by phase, in a program with one layer
    for (const std::int64_t count : {1, 2, 3, 8, 32}) {
      SCOPED_TRACE(std::to_string(count) + " layers");
      const Program program = llama(count, matmul);
      const auto layers = labelled_layers(program);
      ASSERT_EQ(layers.size(), program.nodes.size());
      std::map<std::int64_t, std::map<Phase, Counts>> found;
      for (std::size_t i = 0; i < layers.size(); ++i) {
        const ProgramNode& node = program.nodes[i];
        // The first and the last layer share fewer values with others, and so lack an alias.
        if (layers[i] && node.computes() && node.op != "aten.alias.default")
          ++found[*layers[i]][node.phase][node.op];
      }
      ASSERT_EQ(found.size(), static_cast<std::size_t>(count));
      if (count == 1) one = found[0];
      for (const auto& [layer, phases] : found) EXPECT_EQ(phases, one) << layer;
    }
    const std::string flash = "aten._scaled_dot_product_flash_attention.default";
    EXPECT_EQ(one[Phase::kForward][flash], 1);
    EXPECT_GT(one[Phase::kBackward].size(), 5U);
  }
}

// In LLaMA3-8B with one layer, the embedding and the logits stay outside the layers.
TEST(LabelledLayers, NodesOutsideTheLayersBelongToNone) {
  const Program program = llama(2, MatmulForm::kNative);
  const auto layers = labelled_layers(program);
  int outside = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string& op = program.nodes[i].op;
    if (op.starts_with("aten.embedding")) {
      EXPECT_FALSE(layers[i]) << program.nodes[i].name;
    }
    outside += !layers[i] && op == "aten.mm.default" ? 1 : 0;
  }
  EXPECT_EQ(outside, 3) << "the logits, and their two gradients";
}

Program labelled(const char* label) {
  return Program::from_json(
      {{"schema", "shardlab/program/1"},
       {"name", "p"},
       {"source", "a test"},
       {"nodes",
        {{{"name", "x"}, {"kind", "input"}, {"outputs", {{{"dtype", "f32"}, {"shape", {4}}}}}},
         {{"name", "y"},
          {"kind", "op"},
          {"label", label},
          {"op", "aten.neg.default"},
          {"inputs", {"x"}},
          {"outputs", {{{"dtype", "f32"}, {"shape", {4}}}}}}}}},
      {"p.json", ""});
}

TEST(LabelledLayers, ALabelNamesItsLayer) {
  for (const char* label :
       {"layers.3", "layers.3.wq", "model.layers.3.mlp", "sublayers.1.layers.3"}) {
    EXPECT_EQ(labelled_layers(labelled(label))[1], 3) << label;
  }
  for (const char* label : {"", "norm", "layers", "layers.", "layers.x", "layers.3x", "sublayers.3",
                            "layers.-1", "layers.99999999999999999999"}) {
    EXPECT_EQ(labelled_layers(labelled(label))[1], std::nullopt) << label;
  }
}

}  // namespace labelled_layers_test
}  // namespace shardlab

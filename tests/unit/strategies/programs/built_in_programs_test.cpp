// The generated programs: every node's shape and dtype is what its op makes of its inputs, every
// parameter has its gradient, and every op has a sharding rule.
#include "strategies/programs/built_in_programs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "costmodel/base/error.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace built_in_programs_test {

struct Case {
  std::string_view program;
  MatmulForm form;
};

class BuiltInPrograms : public testing::TestWithParam<Case> {
 protected:
  static Program small(std::int64_t layers) {
    return find_built_in_program(GetParam().program)
        ->make({.layers = layers, .batch = 8, .seqlen = 64, .matmul = GetParam().form});
  }
};

OpCall call_of(const Program& program, const ProgramNode& node) {
  OpCall call{.op = node.op, .inputs = {}, .args = node.args};
  for (const ProgramInput& input : node.inputs) {
    TensorArg& arg = call.inputs.emplace_back();
    arg.is_list = input.is_list;
    for (const ValueRef& value : input.values) {
      arg.tensors.push_back(
          {program.nodes[value.node].outputs[value.output], Layout::replicated(1)});
    }
  }
  return call;
}

TEST_P(BuiltInPrograms, EveryNodeIsWhatItsOpMakes) {
  const Program program = small(2);
  std::size_t checked = 0;
  for (const ProgramNode& node : program.nodes) {
    if (node.op.empty() || node.op == kGetItem) continue;
    const OpRule& rule = find_op_rule(node.op, kAutoParallel);
    std::vector<TensorMeta> outputs = rule.outputs(call_of(program, node));
    // The rule counts flash attention's random state as one output.
    const bool forward = node.op == "aten._scaled_dot_product_flash_attention.default";
    for (std::size_t o = 0; o < (forward ? 2 : node.outputs.size()); ++o) {
      ASSERT_LT(o, outputs.size()) << node.name;
      EXPECT_EQ(outputs[o].shape, node.outputs[o].shape) << node.name << " " << node.op;
      // The dtype of a factory is where the rule does not look; on GPUs norms keep statistics in
      // f32.
      const bool statistics = node.op.find("layer_norm") != std::string::npos && o > 0;
      if (node.inputs.empty() || statistics) continue;
      EXPECT_EQ(outputs[o].dtype, node.outputs[o].dtype) << node.name << " " << node.op;
    }
    ++checked;
  }
  EXPECT_GT(checked, 300U);
}

TEST_P(BuiltInPrograms, EveryParameterHasItsGradientAndEveryOutputItsTangent) {
  const Program program = small(2);
  std::map<NodeKind, std::set<std::size_t>> tied;
  for (const auto& [first, second] : program.pairs) {
    EXPECT_EQ(program.nodes[first].outputs[0].shape, program.nodes[second].outputs[0].shape);
    tied[program.nodes[first].kind].insert(first);
    tied[program.nodes[second].kind].insert(second);
  }
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const NodeKind kind = program.nodes[n].kind;
    const bool expected =
        kind != NodeKind::kOp && kind != NodeKind::kBuffer && kind != NodeKind::kInput;
    EXPECT_EQ(tied[kind].contains(n), expected) << program.nodes[n].name;
  }
}

TEST_P(BuiltInPrograms, EveryValueIsReadOrLeavesTheProgram) {
  const Program program = small(1);
  const ProgramGraph graph = graph_of(program);
  for (std::uint32_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    const bool part_of_statistics =
        node.op == kGetItem;  // a norm's output that no backward node reads
    if (node.leaves() || part_of_statistics) continue;
    EXPECT_FALSE(users_of(graph, n).empty()) << node.name;
    // A tensor that has several readers is read through one alias.
    const bool tuple = node.outputs.size() > 1;
    if (node.op != "aten.alias.default" && !tuple) {
      EXPECT_EQ(users_of(graph, n).size(), 1U) << node.name;
    }
  }
}

TEST_P(BuiltInPrograms, EveryLayerAddsTheSame) {
  const std::size_t one = small(2).nodes.size();
  const std::size_t two = small(3).nodes.size();
  EXPECT_EQ(small(4).nodes.size(), two + (two - one));
}

TEST_P(BuiltInPrograms, EveryOpHasARule) {
  const Program program = small(1);
  for (const RuleSet set : {kAutoParallel, RuleSet(Release::k2_13), kShardlab}) {
    const ProgramStrategies all =
        enumerate_strategies(program, DeviceMesh::parse("2x4"), {.rules = set});
    EXPECT_TRUE(all.notes.empty()) << all.notes.front();
  }
}

TEST_P(BuiltInPrograms, AreReadAsTheyAreWritten) {
  const std::string text = small(1).text();
  EXPECT_EQ(Program::from_json(nlohmann::json::parse(text), {"p.json", ""}).text(), text);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const BuiltInProgram& program : all_built_in_programs()) {
    cases.push_back({program.name, MatmulForm::kEinsum});
    cases.push_back({program.name, MatmulForm::kNative});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, BuiltInPrograms, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& test) {
                           std::string name(test.param.program);
                           for (char& c : name) {
                             if (c == '-' || c == '.') c = '_';
                           }
                           return name +
                                  (test.param.form == MatmulForm::kEinsum ? "_einsum" : "_native");
                         });

// Other sizes change extents alone: nodes, names, edges, ops, pairs and kinds stay.
TEST_P(BuiltInPrograms, ThinTwinsHaveTheSameGraph) {
  const BuiltInProgram& model = *find_built_in_program(GetParam().program);
  ProgramOptions options = {.layers = 2, .batch = 8, .seqlen = 64, .matmul = GetParam().form};
  const Program whole = model.make(options);
  options.sizes = {.width = 32, .heads = 4, .ffn = 24, .vocabulary = 40};
  if (GetParam().program.starts_with("llama")) options.sizes.kv_heads = 2;
  if (GetParam().program.starts_with("moe")) options.sizes.experts = 4;
  const Program thin = model.make(options);
  EXPECT_NE(thin.source, whole.source);
  ASSERT_EQ(thin.nodes.size(), whole.nodes.size());
  EXPECT_EQ(thin.pairs, whole.pairs);
  for (std::size_t n = 0; n < thin.nodes.size(); ++n) {
    const ProgramNode& a = thin.nodes[n];
    const ProgramNode& b = whole.nodes[n];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.op, b.op) << a.name;
    EXPECT_EQ(a.kind, b.kind) << a.name;
    EXPECT_EQ(values_read(a), values_read(b)) << a.name;
    ASSERT_EQ(a.outputs.size(), b.outputs.size()) << a.name;
    for (std::size_t o = 0; o < a.outputs.size(); ++o) {
      EXPECT_EQ(a.outputs[o].dtype, b.outputs[o].dtype) << a.name;
      EXPECT_EQ(a.outputs[o].ndim(), b.outputs[o].ndim()) << a.name;
    }
  }
}

TEST(ProgramSizesErrors, AreSaid) {
  const auto made = [](const char* name, const ProgramSizes& sizes) {
    return find_built_in_program(name)->make({.sizes = sizes});
  };
  EXPECT_THROW_MSG(made("llama3-8b", {.heads = 24}), InputError,
                   "--heads: found 24; valid: a divisor of 2048, which is half the width");
  EXPECT_THROW_MSG(made("llama3-8b", {.heads = 4}), InputError,
                   "--kv-heads: found 8; valid: a divisor of 4, which is the number of heads");
  EXPECT_THROW_MSG(made("llama3-8b", {.width = 33}), InputError,
                   "--width: found 33; valid: an even number");
  EXPECT_THROW_MSG(made("llama3-8b", {.experts = 4}), InputError,
                   "--experts: found 4, but llama3-8b has no experts");
  EXPECT_THROW_MSG(made("gpt2-xl", {.experts_per_token = 4}), InputError,
                   "--experts-per-token: found 4, but gpt2-xl has no experts");
  EXPECT_THROW_MSG(made("gpt2-xl", {.kv_heads = 4}), InputError,
                   "--kv-heads: found 4, but gpt2-xl has no heads that share keys");
  EXPECT_THROW_MSG(made("gpt2-xl", {.heads = 24}), InputError,
                   "--heads: found 24; valid: a divisor of 1600, which is the width");
  EXPECT_THROW_MSG(made("moe-1.3b-64e", {.experts = 1}), InputError,
                   "--experts-per-token: found 2; valid: at most 1, the number of experts");
}

// This file was written by scripts/export_program.py; nothing here was adapted to it.
TEST(ExportedProgram, IsReadAndEveryOpHasARule) {
  std::ifstream in(SHARDLAB_SOURCE_DIR "/configs/programs/transformer-block.json");
  const Program program =
      Program::from_json(nlohmann::json::parse(in), {"transformer-block.json", ""});
  EXPECT_EQ(program.pairs.size(), 10U);  // nine parameters and the logits
  const ProgramStrategies all = enumerate_strategies(program, DeviceMesh::parse("2x4"));
  EXPECT_TRUE(all.notes.empty()) << all.notes.front();
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    EXPECT_GT(all.of(n).strategies, 0U) << program.nodes[n].name;
    const std::string& op = program.nodes[n].op;
    if (op.empty() || op == kGetItem) continue;
    const std::vector<TensorMeta> outputs =
        find_op_rule(op, kAutoParallel).outputs(call_of(program, program.nodes[n]));
    ASSERT_EQ(outputs.size(), program.nodes[n].outputs.size()) << program.nodes[n].name;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      EXPECT_EQ(outputs[o].shape, program.nodes[n].outputs[o].shape) << program.nodes[n].name;
    }
  }
}

// Recipes find values by what the model calls them: each parameter, what each module makes, and the
// alias of that.
TEST(LlamaProgram, SaysWhatItsValuesAreCalled) {
  for (const MatmulForm form : {MatmulForm::kEinsum, MatmulForm::kNative}) {
    const Program program = find_built_in_program("llama3-8b")
                                ->make({.layers = 2, .batch = 4, .seqlen = 64, .matmul = form});
    const auto labelled = [&](std::string_view label) {
      std::vector<const ProgramNode*> nodes;
      for (const ProgramNode& node : program.nodes) {
        if (node.label == label) nodes.push_back(&node);
      }
      return nodes;
    };
    for (const ProgramNode& node : program.nodes) {
      EXPECT_EQ(node.kind == NodeKind::kParameter, node.label.ends_with(".weight")) << node.name;
    }
    EXPECT_EQ(labelled("layers.1.feed_forward.w2.weight").at(0)->outputs[0].text(),
              "f32[4096,14336]");
    EXPECT_EQ(labelled("layers.1.attention.wk").at(0)->outputs[0].text(), "bf16[4,64,1024]");
    EXPECT_EQ(labelled("layers.0.attention.wk.weight.grad").at(0)->outputs[0].shape,
              (Shape{4096, 1024}));
    ASSERT_EQ(labelled("layers.0.h").size(), 2U);  // the value and its alias
    EXPECT_EQ(labelled("layers.0.h")[1]->op, "aten.alias.default");
    EXPECT_EQ(labelled("output").size(), 2U);  // the value, and the logits that leave the program
    EXPECT_EQ(labelled("output")[1]->kind, NodeKind::kOutput);
  }
}

TEST(BuiltInProgramTable, IsSortedAndFound) {
  std::string_view last;
  for (const BuiltInProgram& program : all_built_in_programs()) {
    EXPECT_LT(last, program.name);
    last = program.name;
    EXPECT_EQ(find_built_in_program(program.name), &program);
  }
  EXPECT_EQ(find_built_in_program("llama4"), nullptr);
}

}  // namespace built_in_programs_test
}  // namespace shardlab

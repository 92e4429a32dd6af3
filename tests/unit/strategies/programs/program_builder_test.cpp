// Building programs: names, shapes and strides as PyTorch's tracer has them, the einsum form, and
// aliases.
#include "strategies/programs/program_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace program_builder_test {

std::vector<std::string> names_of(const Program& program) {
  std::vector<std::string> names;
  for (const ProgramNode& node : program.nodes) names.push_back(node.name);
  return names;
}
std::vector<std::string> ops_of(const Program& program) {
  std::vector<std::string> ops;
  for (const ProgramNode& node : program.nodes) {
    if (node.computes()) ops.push_back(node.op);
  }
  return ops;
}

Value parameter(ProgramBuilder& b, Shape shape) {
  return b.source(NodeKind::kParameter, meta_of(DType::kBF16, std::move(shape)));
}

TEST(ProgramBuilder, NamesNodesAsTheTracerDoes) {
  ProgramBuilder b("p", "");
  const Value x = parameter(b, {4, 8});
  const Value g = b.source(NodeKind::kTangent, meta_of(DType::kBF16, {4, 8}));
  const Value y = b.binary("aten.mul.Tensor", x, x);
  const Value z = b.unary("aten.mul.Scalar", y, nlohmann::json::array({2}));
  static_cast<void>(
      b.reduce("aten.sum.dim_IntList", z, {0}));  // sum_1: Python has a sum of its own
  b.skip("mul", 2);
  static_cast<void>(b.binary("aten.mul.Tensor", z, g));
  const TracedProgram traced = std::move(b).build();
  EXPECT_EQ(names_of(traced.program), (std::vector<std::string>{"primals_1", "tangents_1", "mul",
                                                                "mul_1", "sum_1", "mul_4"}));
  EXPECT_EQ(traced.program.nodes[1].phase, Phase::kBackward);
}

TEST(ProgramBuilder, KeepsStridesOfViews) {
  ProgramBuilder b("p", "");
  const Value x = parameter(b, {4, 8});
  const Value t = b.permute(x, {1, 0});
  EXPECT_EQ(b.meta(t).shape, (Shape{8, 4}));
  EXPECT_EQ(b.meta(t).strides, (Shape{1, 8}));
  EXPECT_TRUE(b.meta(b.permute(t, {1, 0})).strides.empty());
  const Value column = b.unsqueeze(x, 2);
  EXPECT_TRUE(b.meta(column).is_contiguous());
  const Value wide = b.expand(column, {4, 8, 3});
  EXPECT_EQ(b.meta(wide).strides, (Shape{8, 1, 0}));
  EXPECT_EQ(b.meta(b.squeeze(column, 2)).shape, (Shape{4, 8}));
}

TEST(ProgramBuilder, TheEinsumFormTakesProductsOfFlattenedTensors) {
  ProgramBuilder b("p", "");
  const Value x = parameter(b, {2, 4, 8});
  const Value w = parameter(b, {8, 16});
  const Value flat = b.view(x, {8, 8});
  const Value y = b.view(b.mm(flat, w), {2, 4, 16});
  const Value g = b.source(NodeKind::kTangent, meta_of(DType::kBF16, {2, 4, 16}));
  const Value product = b.mm(b.permute(b.view(g, {8, 16}), {1, 0}), flat);
  b.returns(y, NodeKind::kOutput, g);
  b.returns(b.permute(product, {1, 0}), NodeKind::kGradient, w);
  const TracedProgram traced = with_einsums(std::move(b).build());
  EXPECT_EQ(ops_of(traced.program),
            (std::vector<std::string>{"aten.einsum.default", "aten.einsum.default"}));
  EXPECT_EQ(traced.program.nodes[2].args, nlohmann::json::parse(R"(["abk,kn->abn"])"));
  EXPECT_EQ(traced.program.nodes[4].args, nlohmann::json::parse(R"(["abn,abk->kn"])"));
  EXPECT_EQ(traced.program.nodes[4].outputs[0].strides,
            (Shape{1, 8}));  // the strides of the transposed product
  EXPECT_EQ(traced.returned[1].value.node, 4U);
}

TEST(ProgramBuilder, TheEinsumFormLeavesOtherProducts) {
  ProgramBuilder b("p", "");
  const Value x = parameter(b, {2, 4, 8});
  const Value w = parameter(b, {8, 16});
  const Value two = b.mm(b.view(x, {8, 8}), w);
  const Value apart = b.view(two, {8, 4, 4});  // another shape than the one that was flattened
  const Value matrix =
      b.mm(b.view(x, {4, 16}), b.permute(w, {1, 0}));  // its columns are not the last dim
  b.returns(apart, NodeKind::kOutput, x);
  b.returns(matrix, NodeKind::kOutput, x);
  const std::vector<std::string> ops = ops_of(with_einsums(std::move(b).build()).program);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "aten.mm.default"), 2);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "aten.einsum.default"), 0);
}

TEST(ProgramBuilder, AliasesStandBeforeTheFirstOfSeveralReadersAndBehindWhatIsReturned) {
  ProgramBuilder b("p", "");
  const Value x = parameter(b, {4, 8});
  const Value y = b.unary("aten.neg.default", x);
  const Value once = b.unary("aten.exp.default", y);
  const Value both = b.binary("aten.add.Tensor", y, once);
  b.returns(both, NodeKind::kOutput, x);
  const Program program = with_aliases(std::move(b).build());
  EXPECT_EQ(names_of(program), (std::vector<std::string>{"primals_1", "neg", "alias_default", "exp",
                                                         "add", "alias_default_1"}));
  EXPECT_EQ(program.nodes[4].inputs[0].values[0].node, 2U);  // readers take the alias
  EXPECT_EQ(program.nodes[5].kind, NodeKind::kOutput);
  EXPECT_EQ(program.pairs, (std::vector<std::pair<std::size_t, std::size_t>>{{5, 0}}));
}

TEST(ProgramBuilder, OneReaderThatReadsTwiceNeedsNoAlias) {
  ProgramBuilder b("p", "");
  const Value x = parameter(b, {4, 8});
  const Value square = b.binary("aten.mul.Tensor", x, x);
  b.returns(square, NodeKind::kOutput, x);
  EXPECT_EQ(with_aliases(std::move(b).build()).nodes.size(), 3U);
}

TEST(ProgramBuilder, TuplesGetNoAlias) {
  ProgramBuilder b("p", "");
  const Value x = parameter(b, {4, 8});
  const TensorMeta half = meta_of(DType::kBF16, {2, 8});
  const Value parts = b.op("aten.split.Tensor", {x}, nlohmann::json::array({2}), {half, half});
  const Value first = b.part(parts, 0);
  const Value sum = b.binary("aten.add.Tensor", first, b.part(parts, 1));
  b.returns(sum, NodeKind::kOutput, x);
  const Program program = with_aliases(std::move(b).build());
  EXPECT_EQ(ops_of(program), (std::vector<std::string>{"aten.split.Tensor", "_operator.getitem",
                                                       "_operator.getitem", "aten.add.Tensor"}));
  EXPECT_EQ(program.nodes[3].inputs[0].values[0], (ValueRef{1, 1}));
}

TEST(ProgramGraph, KnowsReadersAndWhatTheyRead) {
  ProgramBuilder b("p", "");
  const Value x = parameter(b, {4, 8});
  const Value y = b.binary("aten.add.Tensor", x, x);
  static_cast<void>(b.binary("aten.mul.Tensor", y, x));
  const Program program = std::move(b).build().program;
  const ProgramGraph graph = graph_of(program);
  EXPECT_EQ(boost::num_edges(graph), 4U);
  EXPECT_EQ(users_of(graph, 0), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(users_of(graph, 2), (std::vector<std::uint32_t>{}));
  EXPECT_EQ(boost::in_degree(1U, graph), 2U);
  std::vector<std::uint32_t> arguments;
  const auto [begin, end] = boost::in_edges(2U, graph);
  for (auto edge = begin; edge != end; ++edge) arguments.push_back(graph[*edge].argument);
  std::sort(arguments.begin(), arguments.end());
  EXPECT_EQ(arguments, (std::vector<std::uint32_t>{0, 1}));
}

}  // namespace program_builder_test
}  // namespace shardlab

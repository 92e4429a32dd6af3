// What the kernels of a program's nodes cost, where they do not read all that they are given.
#include "strategies/programs/program_prices.h"

#include <gtest/gtest.h>

#include "strategies/programs/program_builder.h"
#include "strategies/programs/program_graph.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace program_prices_test {

using testing_support::stack_with;
using testing_support::topology_with;

constexpr double kGiB = 1073741824.0;
constexpr double kBytesPerUs = 2345e3;  // an H100's memory under alpha-beta

// On 4 ranks: a table and indices of it; keys that queries of a group share; and what a loss does.
struct Nodes {
  Nodes() {
    ProgramBuilder b("kernels", "");
    const Value table = b.source(NodeKind::kParameter, meta_of(DType::kF32, {1048576, 1024}));
    const Value tokens = b.source(NodeKind::kInput, meta_of(DType::kI64, {65536}));
    const Value keys = b.source(NodeKind::kInput, meta_of(DType::kF32, {1024, 1, 65536}));
    embedding = b.op("aten.embedding.default", {table, tokens}, nlohmann::json::array(),
                     {meta_of(DType::kF32, {65536, 1024})});
    repeated = b.clone(b.expand(keys, {1024, 4, 65536}));
    ones = b.op("aten.full_like.default", {embedding}, nlohmann::json::array({1}),
                {meta_of(DType::kF32, {65536, 1024})});
    room = b.op("aten.empty_like.default", {embedding}, nlohmann::json::array(),
                {meta_of(DType::kF32, {65536, 1024})});
    program = std::move(b).build().program;
  }

  // All tensors of the node in one layout.
  [[nodiscard]] double us(Value value, const std::string& stack, const std::string& layout) const {
    const ProgramNode& node = program.nodes[value.node];
    const Placements own = Layout::parse(layout, 1).placements;
    const NodePlacements placements = {
        .outputs = std::vector<Placements>(node.outputs.size(), own),
        .inputs = std::vector<Placements>(values_read(node).size(), own)};
    const StackEvaluator evaluator(stack_with(stack), topology_with(8));
    return kernel_us_of(program, value.node, op_rule_or_null(node.op, kShardlab),
                        evaluator.compute_model(), DeviceMesh::parse("4"), placements);
  }

  Program program;
  Value embedding, repeated, ones, room;
};

TEST(ProgramPrices, KernelsCostTheBytesThatTheyMove) {
  const Nodes nodes;
  const double rows = kGiB / 4;  // 65,536 rows of 1,024 elements of f32
  const double indices = 65536.0 * 8;
  EXPECT_DOUBLE_EQ(nodes.us(nodes.embedding, "alpha-beta", "R"),
                   (2 * rows + indices) / kBytesPerUs);
  // Each rank has a quarter of the tokens.
  EXPECT_DOUBLE_EQ(nodes.us(nodes.embedding, "alpha-beta", "S(0)"),
                   (2 * rows + indices) / 4 / kBytesPerUs);
  // A quarter of a GiB is read, and four times that written.
  EXPECT_DOUBLE_EQ(nodes.us(nodes.repeated, "alpha-beta", "R"), 1.25 * kGiB / kBytesPerUs);
  // Where the heads are cut, a rank has one of each group, which nothing repeats.
  EXPECT_DOUBLE_EQ(nodes.us(nodes.repeated, "alpha-beta", "S(1)"), 0.5 * kGiB / kBytesPerUs);
  EXPECT_DOUBLE_EQ(nodes.us(nodes.ones, "alpha-beta", "R"), rows / kBytesPerUs);
  EXPECT_EQ(nodes.us(nodes.room, "alpha-beta", "R"), 0.0);
}

TEST(ProgramPrices, AutoParallelCountsAllTensors) {
  const Nodes nodes;
  const double per_us = 0.7 * 3.35 * kGiB * 1024 / 1e6;
  const double rows = kGiB / 4;
  EXPECT_DOUBLE_EQ(nodes.us(nodes.embedding, "ap-nccl", "R"),
                   (4 * kGiB + rows + 65536.0 * 8) / per_us);
  EXPECT_DOUBLE_EQ(nodes.us(nodes.repeated, "ap-nccl", "R"), 2 * kGiB / per_us);
  EXPECT_DOUBLE_EQ(nodes.us(nodes.ones, "ap-nccl", "R"), 2 * rows / per_us);
  EXPECT_DOUBLE_EQ(nodes.us(nodes.room, "ap-nccl", "R"), 2 * rows / per_us);
}

}  // namespace program_prices_test
}  // namespace shardlab

// How many bytes the kernels of operators move, where they need not read all that they are given.
#include "strategies/rules/kernel_traffic.h"

#include <gtest/gtest.h>

#include "strategies/rules/rule_table.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace kernel_traffic_test {

using testing_support::call_of;

// The query of a call on one rank.
KernelQuery query_of(const std::string& op, const std::vector<std::string>& inputs,
                     const std::string& args = "[]") {
  const OpCall call = call_of(op, inputs, 1, args);
  const OpRule& rule = find_op_rule(op, kShardlab);
  std::vector<Shape> shapes;
  std::vector<Bytes> input_bytes;
  for (const TensorSpec* tensor : call.tensors()) {
    shapes.push_back(tensor->meta.shape);
    input_bytes.push_back(tensor->meta.bytes());
  }
  std::vector<Bytes> output_bytes;
  for (const TensorMeta& output : rule.outputs(call)) output_bytes.push_back(output.bytes());
  KernelQuery query;
  KernelTraffic(rule.op, rule.written_outputs())
      .add_to(query, {.inputs = input_bytes,
                      .stored_inputs = input_bytes,
                      .outputs = output_bytes,
                      .input_shapes = shapes});
  return query;
}

struct Traffic {
  std::string op;
  std::vector<std::string> inputs;
  Bytes moved;
  Bytes unmoved;
  std::string args = "[]";
};

TEST(KernelTraffic, CountsWhatIsReadAndWritten) {
  constexpr Bytes kMatrix = 8 * 16 * 4;  // f32[8,16]
  const Traffic kernels[] = {
      {"aten.relu.default", {"f32[8,16] R"}, 2 * kMatrix, 0},
      {"aten.relu_.default", {"f32[8,16] R"}, 2 * kMatrix, 0},
      {"aten.add.Tensor", {"f32[8,16] R", "f32[8,16] R"}, 3 * kMatrix, 0},
      // An `out=` tensor is given, and written as the output.
      {"aten.add.out", {"f32[8,16] R", "f32[8,16] R", "f32[8,16] R"}, 3 * kMatrix, kMatrix},
      {"aten.zero_.default", {"f32[8,16] R"}, kMatrix, kMatrix},
      {"aten.fill_.Scalar", {"f32[8,16] R"}, kMatrix, kMatrix, "[1]"},
      {"aten.zeros_like.default", {"f32[8,16] R"}, kMatrix, kMatrix},
      {"aten.uniform_.default", {"f32[8,16] R"}, kMatrix, kMatrix},
      {"aten.empty_like.default", {"f32[8,16] R"}, 0, 2 * kMatrix},
      // Probabilities are read; a number is not a tensor.
      {"aten.bernoulli.default", {"f32[8,16] R"}, 2 * kMatrix, 0},
      {"aten.bernoulli.p", {"f32[8,16] R"}, kMatrix, kMatrix, "[0.5]"},
      {"aten.copy_.default", {"f32[8,16] R", "bf16[8,16] R"}, 1.5 * kMatrix, kMatrix},
      // Views share memory; what only has a shape in common with its input does not read it.
      {"aten.view.default", {"f32[8,16] R"}, 0, 2 * kMatrix, "[[16,8]]"},
      {"aten.squeeze.default", {"f32[8,16] R"}, 0, 2 * kMatrix},
      {"aten.diagonal_copy.default", {"f32[8,16] R"}, 2 * 8 * 4, kMatrix - 8 * 4},
      // Three rows are written in place: their values and indices are read.
      {"aten.index_put_.default",
       {"f32[8,16] R", "[i64[3] R]", "f32[3,16] R"},
       2 * 3 * 16 * 4 + 3 * 8,
       kMatrix + 5 * 16 * 4},
      // A single value goes to as many rows as there are indices, so that the whole may be written.
      {"aten.index_put_.default",
       {"f32[8,16] R", "[i64[3] R]", "f32[1] R"},
       kMatrix + 3 * 8 + 4,
       kMatrix},
      // The functional form copies first.
      {"aten.index_put.default",
       {"f32[8,16] R", "[i64[3] R]", "f32[3,16] R"},
       2 * kMatrix + 3 * 16 * 4 + 3 * 8,
       0},
      {"aten.scatter_.value",
       {"f32[8,16] R", "i64[8,1] R"},
       8 * 4 + 8 * 8,
       kMatrix + 8 * 15 * 4,
       "[1,2]"},
      // Three rows of 16 elements are read from the table, with their indices, and written.
      {"aten.embedding.default", {"f32[8,16] R", "i64[3] R"}, 2 * 3 * 16 * 4 + 3 * 8, 5 * 16 * 4},
      // Ten rows are read at least once, so that all eight are.
      {"aten.embedding.default", {"f32[8,16] R", "i64[10] R"}, kMatrix + 10 * 16 * 4 + 10 * 8, 0},
      {"aten.index_select.default",
       {"f32[8,16] R", "i64[2] R"},
       2 * 8 * 2 * 4 + 2 * 8,
       8 * 14 * 4,
       "[1]"},
      {"aten.index.Tensor", {"f32[8,16] R", "[i64[3] R]"}, 2 * 3 * 16 * 4 + 3 * 8, 5 * 16 * 4},
      {"aten.gather.default", {"f32[8,16] R", "i64[8,1] R"}, 2 * 8 * 4 + 8 * 8, 8 * 15 * 4, "[1]"},
  };
  for (const Traffic& kernel : kernels) {
    const KernelQuery query = query_of(kernel.op, kernel.inputs, kernel.args);
    EXPECT_DOUBLE_EQ(query.bytes, kernel.moved) << kernel.op;
    EXPECT_DOUBLE_EQ(query.unmoved_bytes, kernel.unmoved) << kernel.op;
  }
}

// Parameters, moments and largest moments are read and written, and gradients are read, whether the
// rule set lists outputs or not. With grad_scale the gradients are written, too.
TEST(KernelTraffic, AFusedOptimizerWritesWhatItUpdates) {
  constexpr Bytes kMatrix = 8 * 16 * 4;
  // How many matrices an op moves that is given these and some numbers, such as the steps.
  const auto moved = [&](std::string_view op, std::size_t matrices, std::size_t numbers,
                         std::size_t outputs) {
    std::vector<Shape> shapes(matrices, {8, 16});
    shapes.resize(matrices + numbers);
    std::vector<Bytes> inputs(matrices, kMatrix);
    inputs.resize(matrices + numbers, 0.0);
    const std::vector<Bytes> written(outputs, kMatrix);
    KernelQuery query;
    KernelTraffic(op).add_to(
        query,
        {.inputs = inputs, .stored_inputs = inputs, .outputs = written, .input_shapes = shapes});
    EXPECT_DOUBLE_EQ(query.bytes + query.unmoved_bytes - query.overwritten_bytes,
                     static_cast<double>(matrices + outputs) * kMatrix);
    return query.bytes / kMatrix;
  };
  for (const std::size_t outputs : {0U, 5U}) {
    for (const std::string name : {"aten._fused_adam_", "aten._fused_adamw_", "aten._fused_adam"}) {
      EXPECT_EQ(moved(name + ".default", 4, 1, outputs), 7) << name;
      EXPECT_EQ(moved(name + ".default", 5, 1, outputs), 9) << name;  // amsgrad
      EXPECT_EQ(moved(name + ".default", 4, 3, outputs), 8) << name;  // grad_scale and found_inf
      EXPECT_EQ(moved(name + ".tensor_lr", 4, 2, outputs), 7) << name;
      EXPECT_EQ(moved(name + ".tensor_lr", 5, 4, outputs), 10) << name;
    }
  }
  for (const std::size_t outputs : {0U, 1U}) {
    EXPECT_EQ(moved("aten._amp_foreach_non_finite_check_and_unscale_.default", 1, 2, outputs), 2);
    EXPECT_EQ(moved("aten._foreach_addcdiv_.ScalarList", 3, 0, outputs), 4);
    EXPECT_EQ(moved("aten._foreach_addcmul_.Tensor", 3, 1, outputs), 4);
  }
}

// The loss reads one logarithm of each row of 16 classes, and its backward pass none.
TEST(KernelTraffic, ALossReadsOneClassOfEachRow) {
  const std::vector<Bytes> inputs = {8 * 16 * 4.0, 8 * 8.0};
  const std::vector<Shape> shapes = {{8, 16}, {8}};
  const std::vector<Bytes> outputs = {4.0, 4.0};
  const KernelTensors forward = {
      .inputs = inputs, .stored_inputs = inputs, .outputs = outputs, .input_shapes = shapes};
  EXPECT_DOUBLE_EQ(KernelTraffic("aten.nll_loss_forward.default").read_of(0, forward), 8 * 4.0);
  EXPECT_DOUBLE_EQ(KernelTraffic("aten.nll_loss_forward.default").read_of(1, forward), 8 * 8.0);
  const std::vector<Bytes> gradient_first = {4.0, 8 * 16 * 4.0, 8 * 8.0, 4.0};
  const KernelTensors backward = {.inputs = gradient_first,
                                  .stored_inputs = gradient_first,
                                  .outputs = outputs,
                                  .input_shapes = {}};
  EXPECT_DOUBLE_EQ(KernelTraffic("aten.nll_loss_backward.default").read_of(0, backward), 4.0);
  EXPECT_DOUBLE_EQ(KernelTraffic("aten.nll_loss_backward.default").read_of(1, backward), 0.0);
  EXPECT_DOUBLE_EQ(KernelTraffic("aten.nll_loss_backward.default").read_of(2, backward), 8 * 8.0);
}

// The keys of a group of four queries are repeated by a stride of 0, and read once.
TEST(KernelTraffic, WhatAStrideOfZeroRepeatsIsReadOnce) {
  TensorMeta keys = TensorMeta::parse("bf16[2,8,4,16]");
  keys.strides = {128, 16, 0, 1};
  EXPECT_DOUBLE_EQ(stored_bytes(keys, {2, 8, 4, 16}), 2 * 8 * 16 * 2.0);
  EXPECT_DOUBLE_EQ(stored_bytes(keys, {1, 8, 2, 16}), 8 * 16 * 2.0);
  EXPECT_DOUBLE_EQ(stored_bytes(keys, {1, 8, 0, 16}), 0.0);
  EXPECT_DOUBLE_EQ(stored_bytes(TensorMeta::parse("bf16[2,8]"), {2, 8}), 32.0);
  const std::vector<Bytes> inputs = {2048.0};
  const std::vector<Bytes> stored = {512.0};
  const std::vector<Bytes> outputs = {2048.0};
  KernelQuery query;
  KernelTraffic("aten.clone.default")
      .add_to(query,
              {.inputs = inputs, .stored_inputs = stored, .outputs = outputs, .input_shapes = {}});
  EXPECT_DOUBLE_EQ(query.bytes, 2560.0);
  EXPECT_DOUBLE_EQ(query.unmoved_bytes, 1536.0);
}

// Ranks may hold nothing of a table or of its indices.
TEST(KernelTraffic, EmptyShardsMoveNothing) {
  const std::vector<Bytes> inputs = {0.0, 0.0};
  const std::vector<Shape> shapes = {{0, 16}, {0}};
  const std::vector<Bytes> outputs = {0.0};
  for (const std::string_view op : {"aten.embedding.default", "aten.nll_loss_forward.default",
                                    "aten.gather.default", "aten.copy_.default"}) {
    KernelQuery query;
    KernelTraffic(op).add_to(
        query,
        {.inputs = inputs, .stored_inputs = inputs, .outputs = outputs, .input_shapes = shapes});
    EXPECT_EQ(query.bytes, 0.0) << op;
    EXPECT_EQ(query.unmoved_bytes, 0.0) << op;
  }
}

// Whatever a kernel leaves, it is given as many bytes as its tensors have.
TEST(KernelTraffic, MovedAndUnmovedBytesAreThoseOfAllTensors) {
  const std::vector<Bytes> inputs = {512.0, 64.0, 32.0};
  const std::vector<Shape> shapes = {{8, 16}, {8}, {8}};
  const std::vector<Bytes> outputs = {256.0, 16.0};
  for (const std::string_view op : all_op_names()) {
    for (const std::size_t out_tensors : {0U, 1U, 4U}) {
      KernelQuery query;
      KernelTraffic(op, out_tensors)
          .add_to(query, {.inputs = inputs,
                          .stored_inputs = inputs,
                          .outputs = outputs,
                          .input_shapes = shapes});
      EXPECT_DOUBLE_EQ(query.bytes + query.unmoved_bytes - query.overwritten_bytes, 880.0) << op;
      EXPECT_GE(query.bytes, 0.0) << op;
      EXPECT_GE(query.unmoved_bytes, 0.0) << op;
      EXPECT_LE(query.overwritten_bytes, query.bytes) << op;
    }
  }
}

}  // namespace kernel_traffic_test
}  // namespace shardlab

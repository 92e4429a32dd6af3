// Lookups of rows in a table, and their backward. Where the rows of the table are sharded, each
// rank looks up the rows that it has and masks the others. Source: PyTorch 2.13.0,
// _ops/_embedding_ops.py (embedding_strategy, embedding_dense_backward_strategy).
#include "costmodel/base/error.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace embedding_rules {

using rows::copy_out_rule;
using rows::copy_rule;
using rows::kAvg;
using rows::kR;
using rows::kSum;

void expect_indices(const OpCall& call, const TensorSpec& indices) {
  if (indices.meta.dtype == DType::kI64 || indices.meta.dtype == DType::kI32) return;
  throw InputError(call.op + ": found indices " + indices.meta.text() +
                   "; valid: indices of i64 or i32");
}

// Arguments: embedding(weight, indices, ...).
std::vector<TensorMeta> embedding_outputs(const OpCall& call) {
  expect_tensors(call, 2);
  const TensorMeta& weight = call.required_tensor(0).meta;
  const TensorSpec& indices = call.required_tensor(1);
  if (weight.ndim() != 2) {
    throw InputError(call.op + ": found a weight " + weight.text() + "; valid: a weight of 2 dims");
  }
  if (indices.meta.ndim() == kMaxTensorDims) {
    throw InputError(call.op + ": found indices " + indices.meta.text() +
                     "; valid: indices of at most " + std::to_string(kMaxTensorDims - 1) + " dims");
  }
  expect_indices(call, indices);
  TensorMeta out{.dtype = weight.dtype, .shape = indices.meta.shape, .strides = {}};
  out.shape.push_back(weight.shape[1]);
  return {out};
}

// PyTorch proposes plain shards whatever layouts the inputs have.
Rows embedding_rows_of_dtensor(const OpCall& call, const OpRule&) {
  const int ndim = call.required_tensor(1).meta.ndim();
  const Placement mask = Placement::mask_partial(0, call.required_tensor(0).meta.shape[0]);
  Rows rows = {{Placement::shard(ndim), Placement::shard(1), kR},
               {mask, Placement::shard(0), mask}};
  for (int d = 0; d < ndim; ++d) rows.push_back({Placement::shard(d), kR, Placement::shard(d)});
  return rows;
}

Rows embedding_rows(const OpCall& call, const OpRule&) {
  const int ndim = call.required_tensor(1).meta.ndim();
  const Placement mask = Placement::mask_partial(0, call.required_tensor(0).meta.shape[0]);
  Rows rows = {{RowEntry::any_shard(ndim), RowEntry::any_shard(1), kR},
               {mask, RowEntry::any_shard(0), kR}};
  for (int d = 0; d < ndim; ++d)
    rows.push_back({RowEntry::any_shard(d), kR, RowEntry::any_shard(d)});
  for (const Placement& partial : rows::kPassThrough) rows.push_back({partial, partial, kR});
  return rows;
}

// Arguments: embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq).
std::vector<TensorMeta> backward_outputs(const OpCall& call) {
  expect_tensors(call, 2);
  const TensorMeta& grad = call.required_tensor(0).meta;
  const TensorSpec& indices = call.required_tensor(1);
  expect_indices(call, indices);
  Shape wanted = indices.meta.shape;
  if (grad.ndim() > 0) wanted.push_back(grad.shape.back());
  const std::int64_t rows = call.integer_arg(0, 0);
  if (grad.ndim() == 0 || wanted != grad.shape) {
    throw InputError(call.op + ": found a gradient " + grad.text() + " for indices " +
                     indices.meta.text() +
                     "; valid: a gradient of the indices' shape and one more dim");
  }
  if (rows < 0 || rows > (std::int64_t{1} << 40U)) {
    throw InputError(call.op + ": argument 0 of --args: found " + std::to_string(rows) +
                     "; valid: 0 to 2^40 rows");
  }
  static_cast<void>(call.integer_arg(1, -1));
  static_cast<void>(call.boolean_arg(2, false));
  return {TensorMeta{.dtype = grad.dtype, .shape = {rows, grad.shape.back()}, .strides = {}}};
}

Rows backward_rows_of_dtensor(const OpCall& call, const OpRule&) {
  const int ndim = call.required_tensor(1).meta.ndim();
  Rows rows = {{Placement::shard(1), Placement::shard(ndim), kR}};
  for (int d = 0; d < ndim; ++d) rows.push_back({kSum, Placement::shard(d), Placement::shard(d)});
  rows.push_back({kSum, kSum, kR});
  return rows;
}

// If gradients are scaled by how often a row is looked up, a rank needs all lookups.
Rows backward_rows(const OpCall& call, const OpRule&) {
  const int ndim = call.required_tensor(1).meta.ndim();
  Rows rows = {{RowEntry::any_shard(1), RowEntry::any_shard(ndim), kR}};
  for (int d = 0; d < ndim && !call.boolean_arg(2, false); ++d) {
    rows.push_back({kSum, RowEntry::any_shard(d), RowEntry::any_shard(d)});
  }
  rows.push_back({kSum, kSum, kR});
  rows.push_back({kAvg, kAvg, kR});
  return rows;
}

constexpr OpRule kRules[] = {
    copy_rule("aten.embedding.default", kDTensor, embedding_outputs, embedding_rows_of_dtensor),
    copy_rule("aten.embedding.default", kShardlab, embedding_outputs, embedding_rows),
    copy_out_rule<embedding_outputs, embedding_rows_of_dtensor>("aten.embedding.out", kDTensor),
    copy_out_rule<embedding_outputs, embedding_rows>("aten.embedding.out", kShardlab),
    copy_rule("aten.embedding_dense_backward.default", kDTensor, backward_outputs,
              backward_rows_of_dtensor),
    copy_rule("aten.embedding_dense_backward.default", kShardlab, backward_outputs, backward_rows),
};

}  // namespace embedding_rules

OP_RULES(embedding){embedding_rules::kRules};

}  // namespace shardlab

// Lookups of rows in a table, and their backward. Where the rows of the table are sharded, each
// rank looks up the rows that it has and masks the others. Bags, which join several rows, have
// rules of the set shardlab alone: the columns of the table may be sharded. Source: PyTorch 2.13.0,
// _ops/_embedding_ops.py (embedding_strategy, embedding_dense_backward_strategy); for shapes of
// bags, torch/_meta_registrations.py (meta_embedding_bag, on a CPU, where programs are exported).
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

// -- Bags --------------------------------------------------------------------------------------

enum class BagMode : std::uint8_t { kTotal, kMean, kMaximum };

BagMode bag_mode(const OpCall& call, std::size_t arg) {
  const std::int64_t mode = call.integer_arg(arg, 0);
  if (mode >= 0 && mode <= 2) return static_cast<BagMode>(mode);
  throw InputError(call.op + ": argument " + std::to_string(arg) + " of --args: found " +
                   std::to_string(mode) + "; valid: 0 (sum), 1 (mean) or 2 (max)");
}

const TensorSpec& vector_of(const OpCall& call, std::size_t i, std::string_view what) {
  const TensorSpec& found = call.required_tensor(i);
  if (found.meta.ndim() == 1) return found;
  throw InputError(call.op + ": found " + std::string(what) + " " + found.meta.text() +
                   "; valid: a tensor of 1 dim");
}

// The weights of the lookups, which only sums have; null if there are none.
const TensorSpec* weights_of(const OpCall& call, std::size_t i, BagMode mode,
                             std::int64_t lookups) {
  const TensorSpec* weights = call.tensor(i);
  if (weights == nullptr) return nullptr;
  if (mode != BagMode::kTotal || weights->meta.shape != Shape{lookups}) {
    throw InputError(call.op + ": found weights " + weights->meta.text() + "; valid: " +
                     (mode == BagMode::kTotal
                          ? "a weight for each of " + std::to_string(lookups) + " lookups"
                          : "weights for bags that are sums, none for those that are not"));
  }
  return weights;
}

// Arguments: _embedding_bag and _embedding_bag_forward_only(weight, indices, offsets,
// scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx). The
// outputs are the bags, the bag of each lookup, the number of lookups in each bag, and the row that
// each maximum comes from.
std::vector<TensorMeta> bag_outputs(const OpCall& call) {
  if (call.inputs.size() > 4) {
    throw InputError(call.op + ": takes at most 4 tensor arguments, found " +
                     std::to_string(call.inputs.size()));
  }
  const TensorMeta& weight = call.required_tensor(0).meta;
  if (weight.ndim() != 2 || !is_floating_point(weight.dtype)) {
    throw InputError(call.op + ": found a weight " + weight.text() +
                     "; valid: a floating point weight of 2 dims");
  }
  const TensorSpec& indices = vector_of(call, 1, "indices");
  const TensorSpec& offsets = vector_of(call, 2, "offsets");
  expect_indices(call, indices);
  expect_indices(call, offsets);
  const BagMode mode = bag_mode(call, 1);
  static_cast<void>(call.boolean_arg(0, false));
  static_cast<void>(call.boolean_arg(2, false));
  const TensorSpec* weights = weights_of(call, 3, mode, indices.meta.shape[0]);
  const std::int64_t last = call.boolean_arg(3, false) ? 1 : 0;
  const std::int64_t bags = offsets.meta.shape[0] - last;
  if (bags < 0) {
    throw InputError(call.op + ": found offsets " + offsets.meta.text() +
                     "; valid: at least the last one, which the arguments announce");
  }
  // A sum of f32 or f16 rows takes a path that does not say which bag each lookup is in.
  const bool short_path =
      mode == BagMode::kTotal && call.integer_arg(4, -1) < 0 &&
      (weight.dtype == DType::kF32 || weight.dtype == DType::kF16) &&
      (weights == nullptr || weights->meta.strides.empty() || weights->meta.strides[0] == 1);
  const DType whole = offsets.meta.dtype;
  const Shape found = {bags, weight.shape[1]};
  const Shape lookups = {short_path ? 0 : indices.meta.shape[0]};
  const Shape rows = mode == BagMode::kMaximum ? found : Shape{bags};
  return {{.dtype = weight.dtype, .shape = found, .strides = {}},
          {.dtype = whole, .shape = lookups, .strides = {}},
          {.dtype = whole, .shape = {bags}, .strides = {}},
          {.dtype = whole, .shape = rows, .strides = {}}};
}

Rows bag_rows(const OpCall& call, const OpRule&) {
  const BagMode mode = bag_mode(call, 1);
  const bool weighs = call.tensor(3) != nullptr;
  const RowEntry columns = RowEntry::any_shard(1);
  Rows rows;
  const auto add = [&](const RowEntry& out, const RowEntry& maxima, const RowEntry& weight,
                       const RowEntry& of_lookups) {
    rows.push_back({out, kR, kR, maxima, weight, kR, kR});
    if (weighs) rows.back().push_back(of_lookups);
  };
  add(columns, mode == BagMode::kMaximum ? columns : RowEntry(kR), columns, kR);
  if (mode == BagMode::kMaximum) return rows;
  for (const Placement& p : {kSum, kAvg}) {
    add(p, kR, p, kR);
    if (weighs) add(p, kR, kR, p);
  }
  return rows;
}

// Arguments: _embedding_bag_backward(grad, indices, offsets, offset2bag, bag_size, maximum_indices,
// num_weights, scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx).
std::vector<TensorMeta> bag_backward_outputs(const OpCall& call) {
  if (call.inputs.size() > 7) {
    throw InputError(call.op + ": takes at most 7 tensor arguments, found " +
                     std::to_string(call.inputs.size()));
  }
  const BagMode mode = bag_mode(call, 2);
  const TensorMeta& grad = call.required_tensor(0).meta;
  const TensorSpec& indices = vector_of(call, 1, "indices");
  const std::int64_t lookups = indices.meta.shape[0];
  const std::int64_t bag_of_each = vector_of(call, 3, "the bags of the lookups").meta.shape[0];
  const TensorSpec& sizes = vector_of(call, 4, "the sizes of the bags");
  const TensorSpec& maxima = call.required_tensor(5);
  static_cast<void>(vector_of(call, 2, "offsets"));
  for (const std::size_t i : {1U, 2U, 3U, 4U, 5U}) expect_indices(call, call.required_tensor(i));
  const bool has_bags = bag_of_each == lookups || (bag_of_each == 0 && mode == BagMode::kTotal);
  if (grad.ndim() != 2 || sizes.meta.shape[0] != grad.shape[0] || !has_bags ||
      (mode == BagMode::kMaximum && maxima.meta.shape != grad.shape)) {
    throw InputError(
        call.op + ": found a gradient " + grad.text() + ", indices " + indices.meta.text() +
        " and what the forward op saved, " + call.required_tensor(3).meta.text() + ", " +
        sizes.meta.text() + " and " + maxima.meta.text() +
        "; valid: a gradient with a row for each bag, the bag of each lookup, the size "
        "of each bag, and for maxima the rows that they come from");
  }
  const std::int64_t rows = call.integer_arg(0, 0);
  if (rows < 0 || rows > (std::int64_t{1} << 40U)) {
    throw InputError(call.op + ": argument 0 of --args: found " + std::to_string(rows) +
                     "; valid: 0 to 2^40 rows");
  }
  if (call.boolean_arg(3, false)) {
    throw InputError(call.op +
                     ": argument 3 of --args: found true (a sparse gradient); valid: false");
  }
  static_cast<void>(call.boolean_arg(1, false));
  static_cast<void>(call.integer_arg(4, -1));
  static_cast<void>(weights_of(call, 6, mode, lookups));
  return {{.dtype = grad.dtype, .shape = {rows, grad.shape[1]}, .strides = {}}};
}

Rows bag_backward_rows(const OpCall& call, const OpRule&) {
  const BagMode mode = bag_mode(call, 2);
  const bool weighs = call.tensor(6) != nullptr;
  const RowEntry columns = RowEntry::any_shard(1);
  const RowEntry each = RowEntry::any_shard(0);
  Rows rows;
  const auto add = [&](const RowEntry& out, const RowEntry& grad, const RowEntry& lookups,
                       const RowEntry& sizes, const RowEntry& maxima, const RowEntry& weights) {
    rows.push_back({out, grad, lookups, kR, lookups, sizes, maxima});
    if (weighs) rows.back().push_back(weights);
  };
  const bool of_maxima = mode == BagMode::kMaximum;
  add(columns, columns, kR, kR, of_maxima ? columns : RowEntry(kR), kR);
  if (of_maxima) {
    // Each bag adds to the rows of its maxima.
    add(kSum, each, kR, each, each, kR);
  } else if (!call.boolean_arg(1, false) &&
             call.required_tensor(3).meta.shape == call.required_tensor(1).meta.shape) {
    // Each lookup adds to its row. If gradients are scaled by how often a row is looked up, a rank
    // needs all lookups.
    add(kSum, kR, each, kR, kR, each);
  }
  for (const Placement& p : {kSum, kAvg}) {
    add(p, p, kR, kR, kR, kR);
    if (weighs) add(p, kR, kR, kR, kR, p);
  }
  return rows;
}

constexpr OpRule kRules[] = {
    copy_rule("aten._embedding_bag.default", kShardlab, bag_outputs, bag_rows),
    copy_rule("aten._embedding_bag_backward.default", kShardlab, bag_backward_outputs,
              bag_backward_rows),
    copy_rule("aten._embedding_bag_forward_only.default", kShardlab, bag_outputs, bag_rows),
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

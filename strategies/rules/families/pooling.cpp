// Pooling in two spatial dims. Batch and channels may be sharded, and partials pass where the op is
// linear. The rule set shardlab also shards the spatial dims where a cut between shards falls
// between windows. Source: PyTorch 2.13.0, _ops/_math_ops.py (pooling_strategy,
// pool_backward_strategy).
#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"
#include "strategies/rules/window.h"

namespace shardlab {
namespace pooling_rules {

using rows::kAvg;
using rows::kR;
using rows::kSum;

constexpr std::size_t kSpatial = 2;

const TensorMeta& image(const OpCall& call, std::size_t tensor) {
  const TensorMeta& in = call.required_tensor(tensor).meta;
  if (in.ndim() != 4 && in.ndim() != 3) {
    throw InputError(call.op + ": takes a tensor [N,C,H,W] or [C,H,W], found " + in.text());
  }
  return in;
}

const TensorMeta& only_image(const OpCall& call) {
  expect_tensors(call, 1);
  return image(call, 0);
}

// The shape of the image after its spatial extents are replaced.
Shape resized(const OpCall& call, const TensorMeta& in, const std::vector<std::int64_t>& extents) {
  Shape shape = in.shape;
  for (std::size_t i = 0; i < kSpatial; ++i) {
    if (extents[i] < 1) {
      throw InputError(call.op + ": the window does not fit into " + in.text());
    }
    shape[shape.size() - kSpatial + i] = extents[i];
  }
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    elements = saturating_product(elements, std::max<std::int64_t>(extent, 1));
  }
  if (elements > std::int64_t{1} << 53U)
    throw InputError(call.op + ": the result would have more than 2^53 elements");
  return shape;
}

struct Pooled {
  Shape output;
  // For each spatial dim, the number of rows of the input that one row of the output reads and no
  // other row does; 0 where windows overlap.
  std::int64_t blocks[kSpatial] = {0, 0};
};

// -- Windows --------------------------------------------------------------------------------------

// The --args are the kernel, the stride (if empty, the kernel's extents) and the padding; then, for
// a maximum only, the dilation; then whether the last window may reach past the end.

Pooled pooled(const OpCall& call, const TensorMeta& in, bool dilates) {
  const auto kernel = by_spatial_dim(call, {0, kSpatial, {}, 1});
  const auto stride = by_spatial_dim(call, {1, kSpatial, kernel, 1});
  const auto padding = by_spatial_dim(call, {2, kSpatial, {0}, 0});
  const auto dilation =
      dilates ? by_spatial_dim(call, {3, kSpatial, {1}, 1}) : std::vector<std::int64_t>{1, 1};
  const bool rounds_up = call.boolean_arg(dilates ? 4 : 3, false);
  Pooled result;
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < kSpatial; ++i) {
    const Window window{kernel[i], stride[i], padding[i], dilation[i]};
    if (window.padding * 2 > window.kernel) {
      throw InputError(call.op + ": found a padding of " + std::to_string(window.padding) +
                       "; valid: at most half of the kernel's extent, " +
                       std::to_string(window.kernel));
    }
    extents.push_back(window.count(in.shape[in.shape.size() - kSpatial + i], rounds_up));
    if (window.lies_within_stride()) result.blocks[i] = window.stride;
  }
  result.output = resized(call, in, extents);
  return result;
}

Pooled max_pooled(const OpCall& call) { return pooled(call, only_image(call), true); }
Pooled avg_pooled(const OpCall& call) { return pooled(call, only_image(call), false); }

// The only one of the --args is the output's extents.
Pooled adapted(const OpCall& call) {
  const TensorMeta& in = only_image(call);
  const auto extents = by_spatial_dim(call, {0, kSpatial, {}, 1});
  Pooled result{.output = resized(call, in, extents)};
  for (std::size_t i = 0; i < kSpatial; ++i) {
    const std::int64_t have = in.shape[in.shape.size() - kSpatial + i];
    if (have > 0 && have % extents[i] == 0) result.blocks[i] = have / extents[i];
  }
  return result;
}

// -- Rules -----------------------------------------------------------------------------------

using Pool = Pooled (*)(const OpCall&);

template <Pool pool, bool indexed>
std::vector<TensorMeta> pool_outputs(const OpCall& call) {
  const TensorMeta out{
      .dtype = call.required_tensor(0).meta.dtype, .shape = pool(call).output, .strides = {}};
  if (!indexed) return {out};
  return {out, {.dtype = DType::kI64, .shape = out.shape, .strides = {}}};
}

// PyTorch proposes shards of the first dim and, last, of the channels of a batch. 2.13 proposes
// plain ones whatever layout the input has.
template <std::size_t tensors>
Rows pooling_rows(const OpCall& call, const OpRule& rule) {
  static_cast<void>(rule.outputs(call));
  const auto shard = [&](int dim) {
    return rule.sets.contains(Release::k2_13) ? RowEntry(Placement::shard(dim))
                                              : RowEntry::any_shard(dim);
  };
  Rows all = {rows::all_alike(tensors, shard(0))};
  if (tensors == 2) {  // an average is linear
    for (const Placement& p : {kSum, kAvg}) all.push_back(rows::all_alike(tensors, p));
  }
  if (call.required_tensor(0).meta.ndim() == 4) {
    all.push_back(rows::all_alike(tensors, shard(1)));
  }
  return all;
}

enum class Linear : std::uint8_t { kNo, kSums };

template <Pool pool, Linear linear>
Rows block_rows(const OpCall& call, const OpRule& rule) {
  const std::size_t tensors = rule.outputs(call).size() + 1;
  const int ndim = call.required_tensor(0).meta.ndim();
  Rows all;
  for (int d = 0; d < ndim - 2; ++d) {
    all.push_back(rows::all_alike(tensors, RowEntry::any_shard(d)));
  }
  if (linear == Linear::kNo) return all;  // indices count positions in the whole image
  const Pooled pooled = pool(call);
  for (int i = 0; i < 2; ++i) {
    if (pooled.blocks[i] == 0) continue;
    all.push_back(rows::all_alike(tensors, RowEntry::any_shard(ndim - 2 + i)));
  }
  for (const Placement& p : {kSum, kAvg}) all.push_back(rows::all_alike(tensors, p));
  return all;
}

// Whether every shard of a spatial dim holds a whole number of blocks, the same on each rank.
template <Pool pool>
bool blocks_are_whole(const OpCall& call, std::span<const Placements> inputs,
                      const DeviceMesh& mesh) {
  const Pooled pooled = pool(call);
  const Shape& shape = call.required_tensor(0).meta.shape;
  for (std::size_t i = 0; i < kSpatial; ++i) {
    const std::size_t d = shape.size() - kSpatial + i;
    const std::int64_t block = pooled.blocks[i];
    const bool is_sharded = std::any_of(
        inputs[0].begin(), inputs[0].end(),
        [&](const Placement& p) { return p.is_shard_like() && p.dim() == static_cast<int>(d); });
    if (!is_sharded || block == 1) continue;
    if (block == 0 || shape[d] % block != 0) return false;
    Shape blocks = shape;
    blocks[d] /= block;
    if (!is_evenly_shardable_on_dim(blocks, inputs[0], mesh, static_cast<int>(d))) return false;
  }
  return true;
}

// -- max_pool2d_with_indices_backward: gradient, input, indices ----------------------------------

std::vector<TensorMeta> backward_outputs(const OpCall& call) {
  if (call.inputs.size() != 3) {
    throw InputError(call.op +
                     ": takes 3 tensors (the output's gradient, an input and indices), found " +
                     std::to_string(call.inputs.size()));
  }
  const TensorMeta& in = image(call, 1);
  expect_one_dtype(call, 0, 2);
  const Shape output = pooled(call, in, true).output;
  for (const std::size_t tensor : {std::size_t{0}, std::size_t{2}}) {
    if (call.required_tensor(tensor).meta.shape == output) continue;
    throw InputError(call.op + (tensor == 0 ? ": the gradient " : ": the indices tensor ") +
                     call.required_tensor(tensor).meta.text() +
                     " does not have the output's shape, " +
                     TensorMeta{.dtype = in.dtype, .shape = output, .strides = {}}.text());
  }
  return {TensorMeta{.dtype = in.dtype, .shape = in.shape, .strides = {}}};
}

Rows backward_rows(const OpCall& call, const OpRule& rule) {
  static_cast<void>(rule.outputs(call));
  Rows all = {rows::all_alike(4, RowEntry::any_shard(0))};
  if (call.required_tensor(0).meta.ndim() == 4) {
    all.push_back(rows::all_alike(4, RowEntry::any_shard(1)));
  }
  for (const Placement& p : {kSum, kAvg}) all.push_back({p, p, kR, kR});
  return all;
}

std::string_view unread_input(const OpCall&, const Row& row) {
  return row[2].placement().is_partial() ? "only the shape of the input is read" : "";
}

template <Pool pool>
constexpr OpRule averaging(std::string_view op, RuleSets sets) {
  OpRule rule{.op = op,
              .sets = sets,
              .outputs = pool_outputs<pool, false>,
              .rows = pooling_rows<2>,
              .uneven_in = rows::kSinceRows,
              .kernel = Kernel::kElementwise};
  if (sets == kShardlab) {
    rule.rows = block_rows<pool, Linear::kSums>;
    rule.filter = blocks_are_whole<pool>;
  }
  return rule;
}

constexpr OpRule maximal(RuleSets sets) {
  return {.op = "aten.max_pool2d_with_indices.default",
          .sets = sets,
          .outputs = pool_outputs<max_pooled, true>,
          .rows = pooling_rows<3>,
          .uneven_in = rows::kSinceRows,
          .kernel = Kernel::kElementwise};
}

constexpr OpRule kRules[] = {
    averaging<adapted>("aten._adaptive_avg_pool2d.default", rows::kBeforeRows),
    averaging<adapted>("aten._adaptive_avg_pool2d.default", rows::kSinceRows),
    averaging<adapted>("aten._adaptive_avg_pool2d.default", kShardlab),
    averaging<avg_pooled>("aten.avg_pool2d.default", rows::kBeforeRows),
    averaging<avg_pooled>("aten.avg_pool2d.default", rows::kSinceRows),
    averaging<avg_pooled>("aten.avg_pool2d.default", kShardlab),
    maximal(rows::kBeforeRows),
    maximal(rows::kSinceRows),
    {.op = "aten.max_pool2d_with_indices.default",
     .sets = kShardlab,
     .outputs = pool_outputs<max_pooled, true>,
     .rows = block_rows<max_pooled, Linear::kNo>,
     .kernel = Kernel::kElementwise},
    {.op = "aten.max_pool2d_with_indices_backward.default",
     .outputs = backward_outputs,
     .rows = backward_rows,
     .excuse = unread_input,
     .kernel = Kernel::kElementwise},
};

}  // namespace pooling_rules

OP_RULES(pooling){pooling_rules::kRules};

}  // namespace shardlab

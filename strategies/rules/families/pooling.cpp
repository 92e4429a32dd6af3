// Pooling in two and three spatial dims, its gradients, and unpooling. Batch and channels may be
// sharded, and partials pass where the op is linear. The rule set shardlab also shards the spatial
// dims where a cut between shards falls between windows, and has the gradients that DTensor lacks.
// Poolings in one dim run as poolings in two (composite_ops.h). Source: PyTorch 2.13.0,
// _ops/_math_ops.py (pooling_strategy, pool_backward_strategy, interp_pool_1out_2in_strategy).
#include <algorithm>
#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"
#include "strategies/rules/window.h"

namespace shardlab {
namespace pooling_rules {

using rows::kAvg;
using rows::kR;
using rows::kSum;

bool is_named(const OpCall& call, std::string_view part) {
  return call.op.find(part) != std::string::npos;
}
bool takes_maximum(const OpCall& call) { return is_named(call, "max"); }
bool is_adaptive(const OpCall& call) { return is_named(call, "adaptive"); }

const TensorMeta& image(const OpCall& call, std::size_t tensor) {
  const TensorMeta& in = call.required_tensor(tensor).meta;
  const std::size_t spatial = spatial_dims_of(call.op);
  if (in.shape.size() != spatial + 2 && in.shape.size() != spatial + 1) {
    throw InputError(call.op + ": takes a tensor " +
                     (spatial == 2 ? "[N,C,H,W] or [C,H,W]" : "[N,C,D,H,W] or [C,D,H,W]") +
                     ", found " + in.text());
  }
  return in;
}

// The dim of the first spatial extent, and so the number of the dims before them.
int first_spatial(const OpCall& call, const TensorMeta& in) {
  return in.ndim() - static_cast<int>(spatial_dims_of(call.op));
}

bool has_batch(const OpCall& call, const TensorMeta& in) { return first_spatial(call, in) == 2; }

// The shape of the image after its spatial extents are replaced.
Shape resized(const OpCall& call, const TensorMeta& in, std::span<const std::int64_t> extents) {
  Shape shape = in.shape;
  std::copy(extents.begin(), extents.end(), shape.end() - std::ssize(extents));
  expect_countable(call, shape);
  return shape;
}

// A run of rows of the image that alone determines a run of rows of the output. Both are 0 where
// windows overlap, so that there are none.
struct Block {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

struct Pooled {
  Shape output;
  std::vector<Block> blocks;  // for each spatial dim, the shortest ones

  // Whether no row of the image is read by two rows of the output.
  [[nodiscard]] bool reads_apart() const {
    return std::ranges::all_of(blocks, [](const Block& block) { return block.out == 1; });
  }
};

Pooled adapted(const OpCall& call, const TensorMeta& in, std::span<const std::int64_t> extents) {
  Pooled result{.output = resized(call, in, extents), .blocks = {}};
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const std::int64_t have = in.shape[in.shape.size() - extents.size() + i];
    const std::int64_t blocks = std::gcd(have, extents[i]);
    const bool are_any = have > 0 && extents[i] > 0;
    result.blocks.push_back(are_any ? Block{have / blocks, extents[i] / blocks} : Block{});
  }
  return result;
}

// What a pooling makes of an image. Adaptive ones take the extents of the output; their gradients
// take none, since the output's gradient has them.
Pooled pooled(const OpCall& call, const TensorMeta& in) {
  const std::size_t spatial = spatial_dims_of(call.op);
  if (is_adaptive(call) && is_named(call, "backward")) {
    return adapted(call, in, spatial_extents(call.op, image(call, 0).shape));
  }
  if (is_adaptive(call)) return adapted(call, in, by_spatial_dim(call, {0, spatial, {}, 1}));
  const PoolingWindow pooling(call, in);
  Pooled result{.output = resized(call, in, pooling.counts), .blocks = {}};
  for (const Window& window : pooling.windows) {
    result.blocks.push_back(window.lies_within_stride() ? Block{window.stride, 1} : Block{});
  }
  return result;
}

// Whether an adaptive pooling averages over this whole spatial dim. Then shards are averaged too,
// if all have as many rows, and the mean of the ranks' averages is the result.
bool averages_dim(const OpCall& call, const Pooled& to, std::size_t dim) {
  return is_adaptive(call) && !is_named(call, "backward") && to.output[dim] == 1;
}

// Whether every shard of a spatial dim of the image, which is tensor `tensor`, holds a whole number
// of blocks, the same on each rank. Where each row is pooled alone, the ranks may have different
// numbers of them.
template <std::size_t tensor>
bool blocks_are_whole(const OpCall& call, std::span<const Placements> inputs,
                      const DeviceMesh& mesh) {
  const TensorMeta& in = call.required_tensor(tensor).meta;
  const Pooled to = pooled(call, in);
  for (std::size_t i = 0; i < to.blocks.size(); ++i) {
    const std::size_t d = in.shape.size() - to.blocks.size() + i;
    const bool is_sharded = std::ranges::any_of(inputs[tensor], [&](const Placement& p) {
      return p.is_shard_like() && p.dim() == static_cast<int>(d);
    });
    const bool averages = averages_dim(call, to, d);
    const Block block = averages ? Block{1, 1} : to.blocks[i];
    if (!is_sharded || (block.in == 1 && block.out == 1 && !averages)) continue;
    if (block.in == 0 || in.shape[d] % block.in != 0) return false;
    Shape blocks = in.shape;
    blocks[d] /= block.in;
    if (!is_evenly_shardable_on_dim(blocks, inputs[tensor], mesh, static_cast<int>(d))) {
      return false;
    }
  }
  return true;
}

// Rows for each dim before the spatial ones, and for the spatial ones that consist of blocks.
void add_block_rows(Rows& all, const OpCall& call, const TensorMeta& in, std::size_t tensors) {
  const int first = first_spatial(call, in);
  for (int d = 0; d < first; ++d) all.push_back(rows::all_alike(tensors, RowEntry::any_shard(d)));
  if (takes_maximum(call)) return;  // indices count positions in the whole image
  const Pooled to = pooled(call, in);
  for (std::size_t i = 0; i < to.blocks.size(); ++i) {
    const int d = first + static_cast<int>(i);
    if (averages_dim(call, to, to_index(d))) {
      all.push_back({kAvg, RowEntry::any_shard(d)});
    } else if (to.blocks[i].in > 0) {
      all.push_back(rows::all_alike(tensors, RowEntry::any_shard(d)));
    }
  }
}

// -- Pooling --------------------------------------------------------------------------------------

std::vector<TensorMeta> pool_outputs(const OpCall& call) {
  expect_tensors(call, 1);
  const TensorMeta& in = image(call, 0);
  const TensorMeta out{.dtype = in.dtype, .shape = pooled(call, in).output, .strides = {}};
  if (!takes_maximum(call)) return {out};
  return {out, {.dtype = DType::kI64, .shape = out.shape, .strides = {}}};
}

// PyTorch proposes shards of the first dim and, last, of the channels of a batch. 2.13 proposes
// plain ones whatever layout the input has.
Rows pooling_rows(const OpCall& call, const OpRule& rule) {
  const std::size_t tensors = rule.outputs(call).size() + 1;
  const auto shard = [&](int dim) {
    return rule.sets.contains(Release::k2_13) ? RowEntry(Placement::shard(dim))
                                              : RowEntry::any_shard(dim);
  };
  Rows all = {rows::all_alike(tensors, shard(0))};
  if (!takes_maximum(call)) {  // an average is linear
    for (const Placement& p : {kSum, kAvg}) all.push_back(rows::all_alike(tensors, p));
  }
  if (has_batch(call, image(call, 0))) all.push_back(rows::all_alike(tensors, shard(1)));
  return all;
}

Rows block_rows(const OpCall& call, const OpRule& rule) {
  const std::size_t tensors = rule.outputs(call).size() + 1;
  Rows all;
  add_block_rows(all, call, image(call, 0), tensors);
  if (takes_maximum(call)) return all;
  for (const Placement& p : {kSum, kAvg}) all.push_back(rows::all_alike(tensors, p));
  return all;
}

// -- Gradients: the output's gradient, the image and, of a maximum, the indices -------------------

std::vector<TensorMeta> backward_outputs(const OpCall& call) {
  const std::size_t tensors = takes_maximum(call) ? 3 : 2;
  if (call.inputs.size() != tensors) {
    throw InputError(call.op + ": takes " + std::to_string(tensors) +
                     " tensors (the output's gradient" +
                     (tensors == 3 ? ", an input and indices" : " and an input") + "), found " +
                     std::to_string(call.inputs.size()));
  }
  const TensorMeta& in = image(call, 1);
  expect_one_dtype(call, 0, 2);
  const Shape output = pooled(call, in).output;
  for (const std::size_t tensor : {std::size_t{0}, std::size_t{2}}) {
    if (tensor == tensors || call.required_tensor(tensor).meta.shape == output) continue;
    throw InputError(call.op + (tensor == 0 ? ": the gradient " : ": the indices tensor ") +
                     call.required_tensor(tensor).meta.text() +
                     " does not have the output's shape, " +
                     TensorMeta{.dtype = in.dtype, .shape = output, .strides = {}}.text());
  }
  return {TensorMeta{.dtype = in.dtype, .shape = in.shape, .strides = {}}};
}

// The gradient is linear in the output's gradient, whatever the image and the indices are.
void add_linear_rows(Rows& all, std::size_t tensors, std::span<const Placement> partials) {
  for (const Placement& p : partials) {
    Row row(tensors, kR);
    row[0] = row[1] = p;
    all.push_back(row);
  }
}

constexpr std::array<Placement, 2> kLinear = {kSum, kAvg};

Rows max_backward_rows(const OpCall& call, const OpRule& rule) {
  static_cast<void>(rule.outputs(call));
  Rows all = {rows::all_alike(4, RowEntry::any_shard(0))};
  if (has_batch(call, image(call, 0))) all.push_back(rows::all_alike(4, RowEntry::any_shard(1)));
  add_linear_rows(all, 4, kLinear);
  return all;
}

// An adaptive pooling's gradient has no windows that tell where indices may point to, so that ranks
// may also have some of the places each.
Rows adaptive_max_backward_rows(const OpCall& call, const OpRule& rule) {
  Rows all = max_backward_rows(call, rule);
  const TensorMeta& in = image(call, 1);
  for (int d = first_spatial(call, in); d < in.ndim(); ++d) {
    all.push_back({kSum, RowEntry::any_shard(d), kR, RowEntry::any_shard(d)});
  }
  return all;
}

// Whether the gradient of each element is that of one output, divided by a positive number, or 0.
bool divides_alone(const OpCall& call) {
  constexpr std::size_t kDivisor = 5;
  const bool is_negative = !is_adaptive(call) && call.number_arg(kDivisor, 1.0) < 0.0;
  return !is_negative && pooled(call, image(call, 1)).reads_apart();
}

Rows average_backward_rows(const OpCall& call, const OpRule& rule) {
  static_cast<void>(rule.outputs(call));
  Rows all;
  add_block_rows(all, call, image(call, 1), 3);
  if (divides_alone(call)) {
    add_linear_rows(all, 3, rows::partials_keeping(0.0));
  } else {
    add_linear_rows(all, 3, kLinear);
  }
  return all;
}

std::string_view unread_input(const OpCall&, const Row& row) {
  return row[2].placement().is_partial() ? "only the shape of the input is read" : "";
}

// -- Unpooling: a pooled image and the indices of its elements in the output ----------------------

std::vector<TensorMeta> unpool_outputs(const OpCall& call) {
  expect_tensors(call, 2);
  const TensorMeta& in = image(call, 0);
  const TensorMeta& indices = call.required_tensor(1).meta;
  if (indices.shape != in.shape || indices.dtype != DType::kI64) {
    throw InputError(call.op + ": found indices " + indices.text() +
                     "; valid: i64 in the input's shape, " + in.text());
  }
  const auto extents = by_spatial_dim(call, {0, spatial_dims_of(call.op), {}, 1});
  return {TensorMeta{.dtype = in.dtype, .shape = resized(call, in, extents), .strides = {}}};
}

// PyTorch proposes shards of the first two dims, also of a gradient, with or without a batch.
Rows first_two_rows(const OpCall& call, const OpRule& rule) {
  static_cast<void>(rule.outputs(call));
  return {rows::all_alike(3, RowEntry::any_shard(0)), rows::all_alike(3, RowEntry::any_shard(1))};
}

// Elements are moved and the rest is 0, so that every partial of the input passes.
Rows unpool_rows(const OpCall& call, const OpRule& rule) {
  static_cast<void>(rule.outputs(call));
  Rows all;
  add_block_rows(all, call, image(call, 0), 3);
  add_linear_rows(all, 3, rows::partials_keeping(0.0));
  return all;
}

// -- Rules ----------------------------------------------------------------------------------------

constexpr OpRule pool(std::string_view op, RuleSets sets) {
  OpRule rule{.op = op,
              .sets = sets,
              .outputs = pool_outputs,
              .rows = pooling_rows,
              .uneven_in = rows::kSinceRows,
              .kernel = Kernel::kElementwise};
  if (sets == kShardlab) {
    rule.rows = block_rows;
    rule.filter = blocks_are_whole<0>;
  }
  return rule;
}

constexpr OpRule max_backward(std::string_view op, RuleSets sets) {
  return {.op = op,
          .sets = sets,
          .outputs = backward_outputs,
          .rows = max_backward_rows,
          .excuse = unread_input,
          .kernel = Kernel::kElementwise};
}

constexpr OpRule adaptive_max_backward(std::string_view op) {
  OpRule rule = max_backward(op, kShardlab);
  rule.rows = adaptive_max_backward_rows;
  return rule;
}

constexpr OpRule average_backward(std::string_view op, RuleSets sets) {
  return {.op = op,
          .sets = sets,
          .outputs = backward_outputs,
          .rows = sets == kShardlab ? average_backward_rows : first_two_rows,
          .filter = sets == kShardlab ? blocks_are_whole<1> : nullptr,
          .excuse = unread_input,
          .kernel = Kernel::kElementwise};
}

constexpr OpRule unpool(std::string_view op, RuleSets sets) {
  return {.op = op,
          .sets = sets,
          .outputs = unpool_outputs,
          .rows = sets == kShardlab ? unpool_rows : first_two_rows,
          .kernel = Kernel::kElementwise};
}

constexpr std::string_view kPoolings[] = {
    "aten._adaptive_avg_pool2d.default",
    "aten._adaptive_avg_pool3d.default",
    "aten.adaptive_max_pool2d.default",
    "aten.adaptive_max_pool3d.default",
    "aten.avg_pool2d.default",
    "aten.avg_pool3d.default",
    "aten.max_pool2d_with_indices.default",
    "aten.max_pool3d_with_indices.default",
};

constexpr auto kPoolingRules = [] {
  std::array<OpRule, 3 * std::size(kPoolings)> rules;
  for (std::size_t i = 0; i < std::size(kPoolings); ++i) {
    rules[3 * i] = pool(kPoolings[i], rows::kBeforeRows);
    rules[3 * i + 1] = pool(kPoolings[i], rows::kSinceRows);
    rules[3 * i + 2] = pool(kPoolings[i], kShardlab);
  }
  return rules;
}();

constexpr OpRule kOtherRules[] = {
    average_backward("aten._adaptive_avg_pool2d_backward.default", kDTensor),
    average_backward("aten._adaptive_avg_pool2d_backward.default", kShardlab),
    average_backward("aten._adaptive_avg_pool3d_backward.default", kShardlab),
    adaptive_max_backward("aten.adaptive_max_pool2d_backward.default"),
    adaptive_max_backward("aten.adaptive_max_pool3d_backward.default"),
    average_backward("aten.avg_pool2d_backward.default", kShardlab),
    average_backward("aten.avg_pool3d_backward.default", kShardlab),
    max_backward("aten.max_pool2d_with_indices_backward.default", kDTensor | kShardlab),
    max_backward("aten.max_pool3d_with_indices_backward.default", kShardlab),
    unpool("aten.max_unpool2d.default", kDTensor),
    unpool("aten.max_unpool2d.default", kShardlab),
    unpool("aten.max_unpool3d.default", kDTensor),
    unpool("aten.max_unpool3d.default", kShardlab),
};

constexpr auto kRules = [] {
  std::array<OpRule, std::size(kPoolingRules) + std::size(kOtherRules)> rules;
  std::copy(std::begin(kOtherRules), std::end(kOtherRules),
            std::copy(std::begin(kPoolingRules), std::end(kPoolingRules), rules.begin()));
  return rules;
}();

}  // namespace pooling_rules

OP_RULES(pooling){pooling_rules::kRules};

}  // namespace shardlab

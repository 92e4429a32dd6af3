// Sampling an image at the places of a grid, torch.nn.functional.grid_sample, in two and three
// spatial dims, and its gradients. The batch may be sharded, and partials of the image pass. The
// rule set shardlab also shards the channels, where each rank needs the whole grid, and the grid's
// places, where each rank needs the whole image. Source: PyTorch 2.13.0, _ops/_math_ops.py
// (grid_sampler_strategy, grid_sampler_backward_strategy).
#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"
#include "strategies/rules/window.h"

namespace shardlab {
namespace grid_sampler_rules {

using rows::kAvg;
using rows::kR;
using rows::kSum;

int spatial_dims(const OpCall& call) { return static_cast<int>(spatial_dims_of(call.op)); }

// The shape of the samples from an image [N,C,...] at the places of a grid [N,...,2 or 3].
Shape samples_of(const OpCall& call, const TensorMeta& image, const TensorMeta& grid) {
  const int spatial = spatial_dims(call);
  const bool fits = image.ndim() == spatial + 2 && grid.ndim() == spatial + 2 &&
                    image.shape[0] == grid.shape[0] && grid.shape.back() == spatial;
  if (!fits) {
    throw InputError(call.op + ": found " + image.text() + " and " + grid.text() + "; valid: " +
                     (spatial == 2 ? "an image [N,C,H,W] and a grid [N,h,w,2]"
                                   : "an image [N,C,D,H,W] and a grid [N,d,h,w,3]"));
  }
  Shape shape = {image.shape[0], image.shape[1]};
  shape.insert(shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  expect_countable(call, shape);
  for (std::size_t d = 2; d < image.shape.size(); ++d) {
    if (image.shape[d] > 0) continue;
    throw InputError(call.op + ": found " + image.text() +
                     "; valid: an image of at least one pixel");
  }
  return shape;
}

bool takes_nearest(const OpCall& call, std::size_t arg) {
  const std::int64_t mode = call.integer_arg(arg, 0);
  const bool is_cubic = mode == 2 && spatial_dims(call) == 2;
  if (mode == 0 || mode == 1 || is_cubic) return mode == 1;
  throw InputError(call.op + ": found interpolation mode " + std::to_string(mode) +
                   "; valid: 0 (bilinear), 1 (nearest)" +
                   (spatial_dims(call) == 2 ? " or 2 (bicubic)" : ""));
}

// -- The samples: an image and a grid -------------------------------------------------------------

std::vector<TensorMeta> outputs(const OpCall& call) {
  expect_tensors(call, 2);
  expect_one_dtype(call);
  static_cast<void>(takes_nearest(call, 0));
  const TensorMeta& image = call.required_tensor(0).meta;
  return {TensorMeta{.dtype = image.dtype,
                     .shape = samples_of(call, image, call.required_tensor(1).meta),
                     .strides = {}}};
}

Rows batch_rows(const OpCall& call, const OpRule& rule) {
  static_cast<void>(rule.outputs(call));
  return {rows::all_alike(3, RowEntry::any_shard(0)), {kSum, kSum, kR}, {kAvg, kAvg, kR}};
}

Rows all_rows(const OpCall& call, const OpRule& rule) {
  static_cast<void>(rule.outputs(call));
  Rows all = {rows::all_alike(3, RowEntry::any_shard(0)),
              {RowEntry::any_shard(1), RowEntry::any_shard(1), kR}};
  for (int d = 1; d <= spatial_dims(call); ++d) {
    all.push_back({RowEntry::any_shard(d + 1), kR, RowEntry::any_shard(d)});
  }
  for (const Placement& p : {kSum, kAvg}) all.push_back({p, p, kR});
  if (takes_nearest(call, 0)) {  // elements are moved, and the rest is 0
    for (const Placement& p : {rows::kMin, rows::kMax}) all.push_back({p, p, kR});
  }
  return all;
}

// -- The gradients of the image and the grid: the samples' gradient, the image, the grid ----------

// Whether the image's gradient is asked for. That of the grid is always computed.
bool returns_image(const OpCall& call) {
  constexpr std::size_t kMask = 3;
  if (call.args.size() <= kMask || call.args[kMask].is_null()) return true;
  const nlohmann::json& mask = call.args[kMask];
  if (mask.is_array() && mask.size() == 2 && mask[0].is_boolean()) return mask[0].get<bool>();
  throw InputError(call.op + ": found an output mask " + mask.dump() + "; valid: two booleans");
}

std::vector<TensorMeta> backward_outputs(const OpCall& call) {
  expect_tensors(call, 3);
  expect_one_dtype(call);
  static_cast<void>(takes_nearest(call, 0));
  const TensorMeta& gradient = call.required_tensor(0).meta;
  const TensorMeta& image = call.required_tensor(1).meta;
  const TensorMeta& grid = call.required_tensor(2).meta;
  const Shape samples = samples_of(call, image, grid);
  if (gradient.shape != samples) {
    throw InputError(call.op + ": found a gradient " + gradient.text() +
                     "; valid: the samples' shape, " +
                     TensorMeta{.dtype = image.dtype, .shape = samples, .strides = {}}.text());
  }
  std::vector<TensorMeta> results;
  if (returns_image(call)) {
    results.push_back({.dtype = image.dtype, .shape = image.shape, .strides = {}});
  }
  results.push_back({.dtype = grid.dtype, .shape = grid.shape, .strides = {}});
  return results;
}

struct Gradients {
  RowEntry image;
  RowEntry grid;
};

Row row_of(const OpCall& call, const Gradients& gradients, std::initializer_list<RowEntry> inputs) {
  Row row;
  if (returns_image(call)) row.push_back(gradients.image);
  row.push_back(gradients.grid);
  row.insert(row.end(), inputs.begin(), inputs.end());
  return row;
}

Rows batch_backward_rows(const OpCall& call, const OpRule& rule) {
  return {rows::all_alike(rule.outputs(call).size() + 3, RowEntry::any_shard(0))};
}

Rows all_backward_rows(const OpCall& call, const OpRule& rule) {
  Rows all = batch_backward_rows(call, rule);
  const RowEntry channels = RowEntry::any_shard(1);
  all.push_back(row_of(call, {channels, kSum}, {channels, channels, kR}));
  for (int d = 1; d <= spatial_dims(call); ++d) {
    const RowEntry places = RowEntry::any_shard(d);
    all.push_back(row_of(call, {kSum, places}, {RowEntry::any_shard(d + 1), kR, places}));
  }
  for (const Placement& p : {kSum, kAvg}) {
    all.push_back(row_of(call, {p, p}, {p, kR, kR}));
    // The image's gradient does not depend on the image.
    all.push_back(row_of(call, {kR, p}, {kR, p, kR}));
  }
  return all;
}

constexpr OpRule ruled(std::string_view op, RuleSets sets, OutputsOf outputs, RowsOf rows) {
  return {.op = op, .sets = sets, .outputs = outputs, .rows = rows};
}

constexpr OpRule kRules[] = {
    ruled("aten.grid_sampler_2d.default", kDTensor, outputs, batch_rows),
    ruled("aten.grid_sampler_2d.default", kShardlab, outputs, all_rows),
    ruled("aten.grid_sampler_2d_backward.default", kDTensor, backward_outputs, batch_backward_rows),
    ruled("aten.grid_sampler_2d_backward.default", kShardlab, backward_outputs, all_backward_rows),
    ruled("aten.grid_sampler_3d.default", kDTensor, outputs, batch_rows),
    ruled("aten.grid_sampler_3d.default", kShardlab, outputs, all_rows),
    ruled("aten.grid_sampler_3d_backward.default", kDTensor, backward_outputs, batch_backward_rows),
    ruled("aten.grid_sampler_3d_backward.default", kShardlab, backward_outputs, all_backward_rows),
};

}  // namespace grid_sampler_rules

OP_RULES(grid_sampler){grid_sampler_rules::kRules};

}  // namespace shardlab

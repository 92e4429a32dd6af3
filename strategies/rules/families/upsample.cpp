// Upsampling in one, two or three spatial dims, and its gradient. Both are linear: each output is a
// mixture of inputs, by weights that follow from the extents. Batch and channels may be sharded.
// The rule set shardlab also shards a spatial dim where the nearest element is taken, if the cuts
// between shards fall between blocks. Source: PyTorch 2.13.0, _ops/_math_ops.py
// (interp_upsample_1out_1in_strategy) and _ops/autogen.py (forms that write to a tensor).
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"
#include "strategies/rules/upsampling.h"

namespace shardlab {
namespace upsample_rules {

using rows::kAvg;
using rows::kMax;
using rows::kMin;
using rows::kSum;

bool has_written(const OpCall& call) { return !call.op.ends_with(".default"); }

std::vector<TensorMeta> outputs(const OpCall& call) {
  expect_tensors(call, has_written(call) ? 2 : 1);
  expect_one_dtype(call);
  const Upsampling up(call);
  const TensorMeta& in = call.required_tensor(0).meta;
  const std::size_t ndim = up.spatial + 2;
  const Shape& smaller = up.is_backward ? up.input_shape : in.shape;
  if (static_cast<std::size_t>(in.ndim()) != ndim || smaller.size() != ndim) {
    throw InputError(call.op + ": found " + in.text() +
                     (up.is_backward
                          ? " and an input shape of " + std::to_string(smaller.size()) + " dims"
                          : "") +
                     "; valid: " + std::to_string(ndim) + " dims, [N,C,...]");
  }
  Shape larger = smaller;
  std::copy(up.extents.begin(), up.extents.end(), larger.begin() + 2);
  expect_countable(call, larger);
  if (up.is_backward && in.shape != larger) {
    throw InputError(call.op + ": found a gradient " + in.text() + "; valid: the output's shape, " +
                     TensorMeta{.dtype = in.dtype, .shape = larger, .strides = {}}.text());
  }
  const TensorMeta out{
      .dtype = in.dtype, .shape = up.is_backward ? smaller : larger, .strides = {}};
  if (has_written(call) && call.tensors().back()->meta.shape != out.shape) {
    throw InputError(call.op + ": the tensor that is written to, " +
                     call.tensors().back()->meta.text() + ", does not have the result's shape, " +
                     out.text());
  }
  return {out};
}

Rows rows_of(const OpCall& call, const OpRule& rule) {
  static_cast<void>(rule.outputs(call));
  Rows all;
  for (const RowEntry& entry :
       {RowEntry::any_shard(0), RowEntry::any_shard(1), RowEntry(kSum), RowEntry(kAvg)}) {
    all.push_back(rows::all_alike(has_written(call) ? 3 : 2, entry));
  }
  return all;
}

// A block is a run of input rows that alone determines a run of output rows. Blocks of the nearest
// element are the shortest such runs; there are none, and both are 0, where outputs are mixed from
// neighbours or are scaled by another factor than the extents'.
struct Blocks {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

Blocks blocks_of(const OpCall& call, std::size_t dim) {
  const Upsampling up(call);
  const Shape& smaller = up.is_backward ? up.input_shape : call.required_tensor(0).meta.shape;
  const std::int64_t in = smaller[dim];
  const std::int64_t out = up.extents[dim - 2];
  const double scale = up.scales[dim - 2];
  const bool scales = scale != 0.0 && scale != static_cast<double>(out) / static_cast<double>(in);
  if (!up.takes_nearest || in < 1 || scales) return {};
  const std::int64_t blocks = std::gcd(in, out);
  return {.in = in / blocks, .out = out / blocks};
}

Rows all_rows(const OpCall& call, const OpRule& rule) {
  Rows all = rows_of(call, rule);
  const std::size_t tensors = all.front().size();
  const Upsampling up(call);
  for (std::size_t dim = 2; dim < up.spatial + 2; ++dim) {
    if (blocks_of(call, dim).in > 0) {
      all.push_back(rows::all_alike(tensors, RowEntry::any_shard(static_cast<int>(dim))));
    }
  }
  // A copy of the least element is the least copy.
  if (up.takes_nearest && !up.is_backward) {
    for (const Placement& p : {kMin, kMax}) all.push_back(rows::all_alike(tensors, p));
  }
  return all;
}

// Whether every shard of a spatial dim holds whole blocks, as many on each rank.
bool blocks_are_whole(const OpCall& call, std::span<const Placements> inputs,
                      const DeviceMesh& mesh) {
  const Upsampling up(call);
  Shape shape = call.required_tensor(0).meta.shape;
  for (std::size_t dim = 2; dim < up.spatial + 2; ++dim) {
    const int d = static_cast<int>(dim);
    const bool is_sharded = std::ranges::any_of(
        inputs[0], [&](const Placement& p) { return p.is_shard_like() && p.dim() == d; });
    const Blocks block = blocks_of(call, dim);
    if (!is_sharded || (block.in == 1 && block.out == 1)) continue;
    if (block.in == 0) return false;
    shape[dim] /= up.is_backward ? block.out : block.in;
    if (!is_evenly_shardable_on_dim(shape, inputs[0], mesh, d)) return false;
  }
  return true;
}

// Each op has a form that writes to a tensor, a gradient, and such a form of the gradient.
constexpr std::string_view kOps[] = {
    "aten._upsample_bicubic2d_aa.default",
    "aten._upsample_bicubic2d_aa.out",
    "aten._upsample_bicubic2d_aa_backward.default",
    "aten._upsample_bicubic2d_aa_backward.grad_input",
    "aten._upsample_bilinear2d_aa.default",
    "aten._upsample_bilinear2d_aa.out",
    "aten._upsample_bilinear2d_aa_backward.default",
    "aten._upsample_bilinear2d_aa_backward.grad_input",
    "aten._upsample_lanczos2d_aa.default",
    "aten._upsample_lanczos2d_aa.out",
    "aten._upsample_lanczos2d_aa_backward.default",
    "aten._upsample_lanczos2d_aa_backward.grad_input",
    "aten._upsample_nearest_exact1d.default",
    "aten._upsample_nearest_exact1d.out",
    "aten._upsample_nearest_exact1d_backward.default",
    "aten._upsample_nearest_exact1d_backward.grad_input",
    "aten._upsample_nearest_exact2d.default",
    "aten._upsample_nearest_exact2d.out",
    "aten._upsample_nearest_exact2d_backward.default",
    "aten._upsample_nearest_exact2d_backward.grad_input",
    "aten._upsample_nearest_exact3d.default",
    "aten._upsample_nearest_exact3d.out",
    "aten._upsample_nearest_exact3d_backward.default",
    "aten._upsample_nearest_exact3d_backward.grad_input",
    "aten.upsample_bicubic2d.default",
    "aten.upsample_bicubic2d.out",
    "aten.upsample_bicubic2d_backward.default",
    "aten.upsample_bicubic2d_backward.grad_input",
    "aten.upsample_bilinear2d.default",
    "aten.upsample_bilinear2d.out",
    "aten.upsample_bilinear2d_backward.default",
    "aten.upsample_bilinear2d_backward.grad_input",
    "aten.upsample_linear1d.default",
    "aten.upsample_linear1d.out",
    "aten.upsample_linear1d_backward.default",
    "aten.upsample_linear1d_backward.grad_input",
    "aten.upsample_nearest1d.default",
    "aten.upsample_nearest1d.out",
    "aten.upsample_nearest1d_backward.default",
    "aten.upsample_nearest1d_backward.grad_input",
    "aten.upsample_nearest2d.default",
    "aten.upsample_nearest2d.out",
    "aten.upsample_nearest2d_backward.default",
    "aten.upsample_nearest2d_backward.grad_input",
    "aten.upsample_nearest3d.default",
    "aten.upsample_nearest3d.out",
    "aten.upsample_nearest3d_backward.default",
    "aten.upsample_nearest3d_backward.grad_input",
    "aten.upsample_trilinear3d.default",
    "aten.upsample_trilinear3d.out",
    "aten.upsample_trilinear3d_backward.default",
    "aten.upsample_trilinear3d_backward.grad_input",
};

constexpr OpRule rule_of(std::string_view op, RuleSets sets) {
  return {.op = op,
          .sets = sets,
          .outputs = outputs,
          .rows = sets == kShardlab ? all_rows : rows_of,
          .filter = sets == kShardlab ? blocks_are_whole : nullptr,
          .out_tensors = op.ends_with(".default") ? 0U : 1U,
          .kernel = Kernel::kElementwise};
}

constexpr auto kRules = [] {
  std::array<OpRule, 2 * std::size(kOps)> rules;
  for (std::size_t i = 0; i < std::size(kOps); ++i) {
    rules[2 * i] = rule_of(kOps[i], kDTensor);
    rules[2 * i + 1] = rule_of(kOps[i], kShardlab);
  }
  return rules;
}();

}  // namespace upsample_rules

OP_RULES(upsample){upsample_rules::kRules};

}  // namespace shardlab

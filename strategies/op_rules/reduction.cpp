// Reductions and softmax. PyTorch 2.13.0 still lets them follow their input's layout; the rule set
// shardlab has them as rows. Source: PyTorch 2.13.0, _ops/_math_ops.py (common_reduction_strategy,
// softmax_strategy); pull request #162692 (mean of uneven shards).
#include <algorithm>
#include <numeric>

#include "costmodel/error.h"
#include "strategies/op_rule.h"

namespace shardlab {
namespace {

struct ReductionName {
  std::string_view op;
  ReduceOp reduce_op;
};
constexpr std::array<ReductionName, 10> kReductions = {{
    {"aten.amax.default", ReduceOp::kMax},
    {"aten.amin.default", ReduceOp::kMin},
    {"aten.max.default", ReduceOp::kMax},
    {"aten.mean.default", ReduceOp::kAvg},
    {"aten.mean.dim", ReduceOp::kAvg},
    {"aten.min.default", ReduceOp::kMin},
    {"aten.nansum.default", ReduceOp::kSum},
    {"aten.prod.default", ReduceOp::kProduct},
    {"aten.sum.default", ReduceOp::kSum},
    {"aten.sum.dim_IntList", ReduceOp::kSum},
}};

ReduceOp reduce_op_of(std::string_view op) {
  for (const ReductionName& row : kReductions) {
    if (row.op == op) return row.reduce_op;
  }
  SHARDLAB_CHECK(false, "no reduction ", op);
}

const TensorSpec& only_input(const OpCall& call) {
  const auto tensors = call.tensors();
  if (tensors.size() != 1) {
    throw InputError(call.op + ": takes 1 tensor, found " + std::to_string(tensors.size()));
  }
  return *tensors[0];
}

ReducedDims reduction_of(const OpCall& call) {
  return ReducedDims::of(call, only_input(call).meta.ndim());
}

std::vector<TensorMeta> reduction_outputs(const OpCall& call) {
  const ReducedDims reduction = reduction_of(call);
  const TensorMeta& in = only_input(call).meta;
  return {TensorMeta{.dtype = in.dtype, .shape = reduction.output_shape(in.shape), .strides = {}}};
}

// Shards of reduced dims and partials of another op are gathered first where the reduction is not
// linear on them.
std::vector<FollowCandidate> follow_reduction(const OpCall& call, const DeviceMesh& mesh) {
  const ReducedDims reduction = reduction_of(call);
  const TensorSpec& in = only_input(call);
  const ReduceOp op = reduce_op_of(call.op);
  bool linear = true;
  if (op == ReduceOp::kAvg) {
    for (int d = 0; d < in.meta.ndim(); ++d) {
      if (reduction.reduced[static_cast<std::size_t>(d)] &&
          !is_evenly_shardable_on_dim(in.meta.shape, in.layout.placements, mesh, d)) {
        linear = false;
      }
    }
  }
  for (const Placement& p : in.layout.placements) {
    if (p.is_partial() && p.reduce_op() != op) linear = false;
  }
  const auto is_reduced = [&](const Placement& p) {
    return p.is_shard_like() && reduction.reduced[static_cast<std::size_t>(p.dim())];
  };
  FollowCandidate candidate;
  Placements input;
  Placements output;
  for (const Placement& p : in.layout.placements) {
    const Placement kept =
        !linear && (p.is_partial() || is_reduced(p)) ? Placement::replicate() : p;
    input.push_back(kept);
    if (is_reduced(kept)) {
      output.push_back(Placement::partial(op));
    } else if (kept.is_shard_like()) {
      output.push_back(kept.with_dim(reduction.output_dim(kept.dim())));
    } else {
      output.push_back(kept);
    }
  }
  candidate.inputs.push_back(input);
  candidate.outputs.push_back(output);
  return {candidate};
}

Rows reduction_rows(const OpCall& call, const OpRule&) {
  const ReducedDims reduction = reduction_of(call);
  const Placement partial = Placement::partial(reduce_op_of(call.op));
  Rows rows;
  for (int d = 0; d < only_input(call).meta.ndim(); ++d) {
    if (reduction.reduced[static_cast<std::size_t>(d)]) {
      rows.push_back({partial, RowEntry::any_shard(d)});
    } else {
      rows.push_back({RowEntry::any_shard(reduction.output_dim(d)), RowEntry::any_shard(d)});
    }
  }
  rows.push_back({partial, partial});
  return rows;
}

// An average of local averages is the average only where every shard has as many rows.
bool mean_is_even(const OpCall& call, std::span<const Placements> inputs, const DeviceMesh& mesh) {
  const ReducedDims reduction = reduction_of(call);
  const Shape& shape = only_input(call).meta.shape;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (reduction.reduced[static_cast<std::size_t>(d)] &&
        !is_evenly_shardable_on_dim(shape, inputs[0], mesh, d)) {
      return false;
    }
  }
  return true;
}

// A shard without rows has no maximum: PyTorch's kernels refuse an empty reduced dim.
bool every_shard_has_rows(const OpCall& call, std::span<const Placements> inputs,
                          const DeviceMesh& mesh) {
  const ReducedDims reduction = reduction_of(call);
  const Shape& shape = only_input(call).meta.shape;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (!reduction.reduced[static_cast<std::size_t>(d)]) continue;
    if (local_extents(shape, d, Layout(inputs[0]), mesh).front() == 0) return false;
  }
  return true;
}

double elements(std::span<const Shape> local, const OpCall&) {
  double product = 1.0;
  for (const std::int64_t extent : local[0]) product *= static_cast<double>(extent);
  return product;
}

// -- Softmax: the first of --args is the dim
// ---------------------------------------------------------------------------

int softmax_dim(const OpCall& call) {
  if (call.args.empty()) throw InputError(call.op + ": --args must begin with the dim");
  return normalize_dim(call.integer_arg(0, 0), only_input(call).meta.ndim(), call.op);
}

std::vector<TensorMeta> softmax_outputs(const OpCall& call) {
  static_cast<void>(softmax_dim(call));
  return {only_input(call).meta};
}

std::vector<FollowCandidate> follow_softmax(const OpCall& call, const DeviceMesh&) {
  const int dim = softmax_dim(call);
  Placements kept;
  for (const Placement& p : only_input(call).layout.placements) {
    const bool lost = p.is_partial() || (p.is_shard_like() && p.dim() == dim);
    kept.push_back(lost ? Placement::replicate() : p);
  }
  return {FollowCandidate{.outputs = {kept}, .inputs = {kept}}};
}

Rows softmax_rows(const OpCall& call, const OpRule&) {
  const int dim = softmax_dim(call);
  Rows rows;
  for (int d = 0; d < only_input(call).meta.ndim(); ++d) {
    if (d != dim) rows.push_back({RowEntry::any_shard(d), RowEntry::any_shard(d)});
  }
  return rows;
}

constexpr unsigned kFollow = kDTensor213 | kDTensorLegacy;

constexpr OpRule followed(std::string_view op) {
  return {.op = op,
          .sets = kFollow,
          .outputs = reduction_outputs,
          .follow = follow_reduction,
          .kernel = Kernel::kReduction,
          .flops = elements};
}
constexpr OpRule as_rows(std::string_view op) {
  return {.op = op,
          .sets = kShardlab,
          .outputs = reduction_outputs,
          .rows = reduction_rows,
          .kernel = Kernel::kReduction,
          .flops = elements};
}
constexpr OpRule as_mean_rows(std::string_view op) {
  OpRule rule = as_rows(op);
  rule.filter = mean_is_even;
  return rule;
}
constexpr OpRule as_extreme_rows(std::string_view op) {
  OpRule rule = as_rows(op);
  rule.filter = every_shard_has_rows;
  return rule;
}
constexpr OpRule followed_softmax(std::string_view op) {
  return {.op = op,
          .sets = kFollow,
          .outputs = softmax_outputs,
          .follow = follow_softmax,
          .kernel = Kernel::kReduction,
          .flops = elements};
}
constexpr OpRule softmax_as_rows(std::string_view op) {
  return {.op = op,
          .sets = kShardlab,
          .outputs = softmax_outputs,
          .rows = softmax_rows,
          .kernel = Kernel::kReduction,
          .flops = elements};
}

constexpr OpRule kRules[] = {
    followed("aten.amax.default"),
    as_extreme_rows("aten.amax.default"),
    followed("aten.amin.default"),
    as_extreme_rows("aten.amin.default"),
    followed("aten.max.default"),
    as_extreme_rows("aten.max.default"),
    followed("aten.mean.default"),
    as_mean_rows("aten.mean.default"),
    followed("aten.mean.dim"),
    as_mean_rows("aten.mean.dim"),
    followed("aten.min.default"),
    as_extreme_rows("aten.min.default"),
    followed("aten.nansum.default"),
    followed("aten.prod.default"),
    as_rows("aten.prod.default"),
    followed("aten.sum.default"),
    as_rows("aten.sum.default"),
    followed("aten.sum.dim_IntList"),
    as_rows("aten.sum.dim_IntList"),
    followed_softmax("aten._softmax.default"),
    softmax_as_rows("aten._softmax.default"),
    followed_softmax("aten._log_softmax.default"),
    softmax_as_rows("aten._log_softmax.default"),
    followed_softmax("aten._safe_softmax.default"),
    softmax_as_rows("aten._safe_softmax.default"),
};

}  // namespace

OP_RULES(reduction){kRules};

}  // namespace shardlab

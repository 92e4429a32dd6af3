// Pointwise ops by linearity class: shards of any broadcast dim, then the class's partial rows for
// calls with as many tensors. Uneven shards may stay as they are. Source: PyTorch 2.13.0,
// _ops/_pointwise_ops.py; pull requests #157340, #170025, #170030, #170035, #170209.
#include <algorithm>

#include "costmodel/error.h"
#include "strategies/op_rule.h"

namespace shardlab {
namespace {

constexpr Placement kR = Placement::replicate();
constexpr Placement kSum = Placement::partial(ReduceOp::kSum);
constexpr Placement kAvg = Placement::partial(ReduceOp::kAvg);
constexpr Placement kMax = Placement::partial(ReduceOp::kMax);
constexpr Placement kMin = Placement::partial(ReduceOp::kMin);

// output | inputs
constexpr PartialRow kAdditiveRows[] = {
    {{kSum, kSum, kSum}, 3}, {{kAvg, kAvg, kAvg}, 3}, {{kAvg, kAvg, kR}, 3},
    {{kMax, kMax, kR}, 3},   {{kMin, kMin, kR}, 3},   {{kAvg, kR, kAvg}, 3},
};
// The unary pair serves calls whose other operand is a number.
constexpr PartialRow kMultiplicativeRows[] = {
    {{kSum, kSum}, 2},     {{kAvg, kAvg}, 2},     {{kSum, kSum, kR}, 3},
    {{kAvg, kAvg, kR}, 3}, {{kSum, kR, kSum}, 3}, {{kAvg, kR, kAvg}, 3},
};
constexpr PartialRow kDivision[] = {
    {{kSum, kSum}, 2}, {{kAvg, kAvg}, 2}, {{kSum, kSum, kR}, 3}, {{kAvg, kAvg, kR}, 3}};
constexpr PartialRow kScalarLinear[] = {{{kSum, kSum}, 2}, {{kAvg, kAvg}, 2}};
constexpr PartialRow kNonDecreasing[] = {{{kMax, kMax}, 2}, {{kMin, kMin}, 2}};
constexpr PartialRow kNonIncreasing[] = {{{kMin, kMax}, 2}, {{kMax, kMin}, 2}};
constexpr PartialRow kNegation[] = {
    {{kSum, kSum}, 2}, {{kAvg, kAvg}, 2}, {{kMin, kMax}, 2}, {{kMax, kMin}, 2}};
constexpr PartialRow kPreserveUnary[] = {
    {{kSum, kSum}, 2}, {{kAvg, kAvg}, 2}, {{kMax, kMax}, 2}, {{kMin, kMin}, 2}};
constexpr PartialRow kPreserveBinary[] = {{{kSum, kSum, kSum}, 3},
                                          {{kAvg, kAvg, kAvg}, 3},
                                          {{kMax, kMax, kMax}, 3},
                                          {{kMin, kMin, kMin}, 3}};
constexpr PartialRow kMonotone[] = {
    {{kMax, kMax, kR}, 3}, {{kMax, kR, kMax}, 3}, {{kMin, kMin, kR}, 3}, {{kMin, kR, kMin}, 3}};
constexpr PartialRow kMaxPreserving[] = {{{kMax, kMax, kR}, 3},
                                         {{kMax, kR, kMax}, 3},
                                         {{kMin, kMin, kR}, 3},
                                         {{kMin, kR, kMin}, 3},
                                         {{kMax, kMax, kMax}, 3}};
constexpr PartialRow kMinPreserving[] = {{{kMax, kMax, kR}, 3},
                                         {{kMax, kR, kMax}, 3},
                                         {{kMin, kMin, kR}, 3},
                                         {{kMin, kR, kMin}, 3},
                                         {{kMin, kMin, kMin}, 3}};

bool has_out_tensor(const OpCall& call) { return call.op.ends_with("out"); }

// The tensor arguments without `out`.
boost::container::small_vector<const TensorSpec*, 4> operands(const OpCall& call) {
  auto tensors = call.tensors();
  if (tensors.empty()) throw InputError(call.op + ": takes at least one tensor, found none");
  if (has_out_tensor(call)) {
    if (tensors.size() < 2) {
      throw InputError(call.op + ": takes its operands and the out tensor last, found one tensor");
    }
    tensors.pop_back();
  }
  return tensors;
}

std::vector<TensorMeta> pointwise_outputs(const OpCall& call) {
  const auto tensors = operands(call);
  TensorMeta out = tensors[0]->meta;
  out.shape = broadcast_shape({tensors.data(), tensors.size()}, call.op);
  out.strides.clear();
  if (has_out_tensor(call) && call.tensors().back()->meta.shape != out.shape) {
    throw InputError(call.op + ": out " + call.tensors().back()->meta.text() +
                     " has not the result's shape, " + out.text());
  }
  return {out};
}

// Which dim of a tensor is dim `dim` of the broadcast shape; -1 when it is missing or broadcast.
int operand_dim(const Shape& shape, const Shape& common, int dim) {
  const int missing = static_cast<int>(common.size() - shape.size());
  const int own = dim - missing;
  if (own < 0) return -1;
  return shape[static_cast<std::size_t>(own)] == common[static_cast<std::size_t>(dim)] ? own : -1;
}

Rows pointwise_rows(const OpCall& call, const OpRule& rule) {
  const auto tensors = operands(call);
  const Shape common = broadcast_shape({tensors.data(), tensors.size()}, call.op);
  Rows rows;
  for (int dim = 0; dim < static_cast<int>(common.size()); ++dim) {
    Row row = {RowEntry::any_shard(dim)};
    for (const TensorSpec* tensor : tensors) {
      const int own = operand_dim(tensor->meta.shape, common, dim);
      row.push_back(own >= 0 ? RowEntry::any_shard(own) : RowEntry(kR));
    }
    rows.push_back(row);
  }
  for (const PartialRow& partial : rule.partial_rows) {
    if (partial.size != 1 + tensors.size()) continue;
    Row row;
    for (std::size_t i = 0; i < partial.size; ++i) row.push_back(partial.entries[i]);
    rows.push_back(row);
  }
  if (has_out_tensor(call)) {
    for (Row& row : rows) row.push_back(row[0]);
  }
  return rows;
}

double pointwise_flops(std::span<const Shape> local, const OpCall&) {
  double largest = 0.0;
  for (const Shape& shape : local) {
    double elements = 1.0;
    for (const std::int64_t extent : shape) elements *= static_cast<double>(extent);
    largest = std::max(largest, elements);
  }
  return largest;
}

// -- The older form: all arguments follow one
// --------------------------------------------------------------------------

enum class Linearity : std::uint8_t { kNone, kUnary, kAdditive, kMultiplicative };

bool is_linear_partial(const Placement& p) {
  return p.kind() == Placement::Kind::kPartial && is_linear(p.reduce_op());
}

// The argument with the most shards is followed (the first of them). Per mesh dim: its shard is
// mapped through the broadcast; its P(sum) or P(avg) stays where the op is linear, else becomes R.
// Additive ops turn the other arguments into partials too (a replica is divided), multiplicative
// ones keep them whole.
template <Linearity kLinearity>
std::vector<FollowCandidate> follow_most_sharded(const OpCall& call, const DeviceMesh& mesh) {
  const auto tensors = operands(call);
  const Shape common = broadcast_shape({tensors.data(), tensors.size()}, call.op);
  std::size_t followed = 0;
  std::int64_t most = -1;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t shards = num_shards(tensors[i]->layout.placements, mesh, true);
    if (shards > most) {
      most = shards;
      followed = i;
    }
  }
  const TensorSpec& leader = *tensors[followed];
  FollowCandidate candidate;
  candidate.inputs.resize(tensors.size());
  Placements output;
  for (int m = 0; m < mesh.ndim(); ++m) {
    const Placement& p = leader.layout[m];
    if (p.is_shard_like()) {
      const int dim = p.dim() + static_cast<int>(common.size() - leader.meta.shape.size());
      const bool kept = operand_dim(leader.meta.shape, common, dim) >= 0;
      output.push_back(kept ? p.with_dim(dim) : kR);
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const int own = operand_dim(tensors[i]->meta.shape, common, dim);
        candidate.inputs[i].push_back(kept && own >= 0 ? p.with_dim(own) : kR);
      }
      continue;
    }
    const bool keeps = kLinearity != Linearity::kNone && is_linear_partial(p);
    output.push_back(keeps ? p : kR);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const bool partial = keeps && (i == followed || kLinearity == Linearity::kAdditive);
      candidate.inputs[i].push_back(partial ? p : kR);
    }
  }
  candidate.outputs.push_back(output);
  if (has_out_tensor(call)) candidate.inputs.push_back(output);
  return {candidate};
}

constexpr unsigned kCurrent = kDTensor213 | kShardlab;

constexpr OpRule current(std::string_view op, std::span<const PartialRow> partial_rows = {}) {
  return {.op = op,
          .sets = kCurrent,
          .outputs = pointwise_outputs,
          .rows = pointwise_rows,
          .partial_rows = partial_rows,
          .allow_uneven = true,
          .flops = pointwise_flops};
}

template <Linearity kLinearity>
constexpr OpRule legacy(std::string_view op) {
  return {.op = op,
          .sets = kDTensorLegacy,
          .outputs = pointwise_outputs,
          .follow = follow_most_sharded<kLinearity>,
          .flops = pointwise_flops};
}

constexpr OpRule kRules[] = {
    // additive
    current("aten.add.Tensor", kAdditiveRows),
    current("aten.add_.Tensor", kAdditiveRows),
    current("aten.add.out", kAdditiveRows),
    current("aten.sub.Tensor", kAdditiveRows),
    current("aten.sub_.Tensor", kAdditiveRows),
    current("aten.sub.out", kAdditiveRows),
    current("aten._foreach_add.List", kAdditiveRows),
    current("aten._foreach_add_.List", kAdditiveRows),
    current("aten._foreach_sub.List", kAdditiveRows),
    current("aten._foreach_sub_.List", kAdditiveRows),
    // multiplicative
    current("aten.mul.Tensor", kMultiplicativeRows),
    current("aten.mul_.Tensor", kMultiplicativeRows),
    current("aten.mul.out", kMultiplicativeRows),
    current("aten._foreach_mul.List", kMultiplicativeRows),
    current("aten._foreach_mul_.List", kMultiplicativeRows),
    // division
    current("aten.div.Tensor", kDivision),
    current("aten.div_.Tensor", kDivision),
    current("aten.div.out", kDivision),
    current("aten._foreach_div.List", kDivision),
    current("aten._foreach_div_.List", kDivision),
    // scalar linear
    current("aten.mul.Scalar", kScalarLinear),
    current("aten.mul_.Scalar", kScalarLinear),
    current("aten.div.Scalar", kScalarLinear),
    current("aten.div_.Scalar", kScalarLinear),
    current("aten._foreach_mul.Scalar", kScalarLinear),
    current("aten._foreach_mul_.Scalar", kScalarLinear),
    current("aten._foreach_div.Scalar", kScalarLinear),
    current("aten._foreach_div_.Scalar", kScalarLinear),
    // non-decreasing
    current("aten.asinh.default", kNonDecreasing),
    current("aten.atan.default", kNonDecreasing),
    current("aten.ceil.default", kNonDecreasing),
    current("aten.erf.default", kNonDecreasing),
    current("aten.exp.default", kNonDecreasing),
    current("aten.exp_.default", kNonDecreasing),
    current("aten.exp2.default", kNonDecreasing),
    current("aten.expm1.default", kNonDecreasing),
    current("aten.floor.default", kNonDecreasing),
    current("aten.relu.default", kNonDecreasing),
    current("aten.relu_.default", kNonDecreasing),
    current("aten.round.default", kNonDecreasing),
    current("aten.sgn.default", kNonDecreasing),
    current("aten.sigmoid.default", kNonDecreasing),
    current("aten.sign.default", kNonDecreasing),
    current("aten.sinh.default", kNonDecreasing),
    current("aten.tanh.default", kNonDecreasing),
    current("aten.trunc.default", kNonDecreasing),
    current("aten._foreach_exp.default", kNonDecreasing),
    // non-increasing, negation
    current("aten.erfc.default", kNonIncreasing),
    current("aten.neg.default", kNegation),
    current("aten.neg_.default", kNegation),
    current("aten.neg.out", kNegation),
    current("aten._foreach_neg.default", kNegation),
    current("aten._foreach_neg_.default", kNegation),
    // preserving
    current("aten.copy_.default", kPreserveBinary),
    current("aten.positive.default", kPreserveUnary),
    // monotone in both
    current("aten.logaddexp.default", kMonotone),
    current("aten.logaddexp2.default", kMonotone),
    current("aten.clamp_min.Tensor", kMaxPreserving),
    current("aten.fmax.default", kMaxPreserving),
    current("aten.maximum.default", kMaxPreserving),
    current("aten.maximum.out", kMaxPreserving),
    current("aten.clamp_max.Tensor", kMinPreserving),
    current("aten.fmin.default", kMinPreserving),
    current("aten.minimum.default", kMinPreserving),
    current("aten.minimum.out", kMinPreserving),
    // no partial row
    current("aten.abs.default"),
    current("aten.add.Scalar"),
    current("aten.addcdiv.default"),
    current("aten.addcmul.default"),
    current("aten.bitwise_and.Tensor"),
    current("aten.clamp.default"),
    current("aten.clamp_.default"),
    current("aten.cos.default"),
    current("aten.clamp_min.default"),
    current("aten.eq.Tensor"),
    current("aten.ge.Scalar"),
    current("aten.gelu.default"),
    current("aten.gelu_backward.default"),
    current("aten.gt.Scalar"),
    current("aten.gt.Tensor"),
    current("aten.le.Scalar"),
    current("aten.le.Tensor"),
    current("aten.lerp.Tensor"),
    current("aten.log.default"),
    current("aten.log1p.default"),
    current("aten.logical_and.default"),
    current("aten.lt.Scalar"),
    current("aten.lt.Tensor"),
    current("aten.masked_fill.Scalar"),
    current("aten.ne.Tensor"),
    current("aten.pow.Tensor_Scalar"),
    current("aten.pow.Tensor_Tensor"),
    current("aten.reciprocal.default"),
    current("aten.rsqrt.default"),
    current("aten.rsub.Scalar"),
    current("aten.sigmoid_backward.default"),
    current("aten.silu.default"),
    current("aten.silu_backward.default"),
    current("aten.sin.default"),
    current("aten.sqrt.default"),
    current("aten.sub.Scalar"),
    current("aten.tanh_backward.default"),
    current("aten.threshold_backward.default"),
    current("aten.where.self"),
    current("aten._foreach_add.Scalar"),
    current("aten._foreach_sqrt.default"),
    // the older form
    legacy<Linearity::kAdditive>("aten.add.Tensor"),
    legacy<Linearity::kAdditive>("aten.add_.Tensor"),
    legacy<Linearity::kAdditive>("aten.sub.Tensor"),
    legacy<Linearity::kMultiplicative>("aten.mul.Tensor"),
    legacy<Linearity::kMultiplicative>("aten.mul_.Tensor"),
    legacy<Linearity::kMultiplicative>("aten.div.Tensor"),
    legacy<Linearity::kUnary>("aten.mul.Scalar"),
    legacy<Linearity::kUnary>("aten.div.Scalar"),
    legacy<Linearity::kUnary>("aten.neg.default"),
    legacy<Linearity::kNone>("aten.abs.default"),
    legacy<Linearity::kNone>("aten.add.Scalar"),
    legacy<Linearity::kNone>("aten.clamp_.default"),
    legacy<Linearity::kNone>("aten.exp.default"),
    legacy<Linearity::kNone>("aten.gelu.default"),
    legacy<Linearity::kNone>("aten.maximum.default"),
    legacy<Linearity::kNone>("aten.minimum.default"),
    legacy<Linearity::kNone>("aten.relu.default"),
    legacy<Linearity::kNone>("aten.silu.default"),
    legacy<Linearity::kNone>("aten.sqrt.default"),
    legacy<Linearity::kNone>("aten.where.self"),
};

}  // namespace

OP_RULES(pointwise){kRules};

}  // namespace shardlab

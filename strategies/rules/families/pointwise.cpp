// Pointwise ops by classes of linearity. Any dim of the broadcast shape may be sharded; which
// partials pass is listed for each class. Uneven shards may stay as they are. Source: PyTorch
// 2.13.0, _ops/_pointwise_ops.py and, for the in-place and out= forms that it does not list,
// autogen.py; pull requests #157340, #170025, #170030, #170035, #170209.
//
// The rule set shardlab has every partial row that is right for all values. Where a number among
// the arguments decides which are, that number chooses the rows (pointwise_choices.h).
#include "strategies/rules/pointwise.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/pointwise_choices.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace pointwise_rules {

using namespace partial_rows;

// where(condition, a, b): a sum passes only when a and b are both sums.
constexpr PartialRow kChoice[] = {
    {{kSum, kR, kSum, kSum}, 4}, {{kAvg, kR, kAvg, kAvg}, 4}, {{kMax, kR, kMax, kMax}, 4},
    {{kMin, kR, kMin, kMin}, 4}, {{kAvg, kR, kAvg, kR}, 4},   {{kMax, kR, kMax, kR}, 4},
    {{kMin, kR, kMin, kR}, 4},   {{kAvg, kR, kR, kAvg}, 4},   {{kMax, kR, kR, kMax}, 4},
    {{kMin, kR, kR, kMin}, 4},
};
// clamp with both limits: min(max(x, low), high).
constexpr PartialRow kClampBoth[] = {
    {{kMax, kMax, kR, kR}, 4},   {{kMax, kR, kMax, kR}, 4},   {{kMax, kR, kR, kMax}, 4},
    {{kMax, kMax, kMax, kR}, 4}, {{kMin, kMin, kR, kR}, 4},   {{kMin, kR, kMin, kR}, 4},
    {{kMin, kR, kR, kMin}, 4},   {{kMin, kMin, kR, kMin}, 4}, {{kMin, kR, kMin, kMin}, 4},
};
// clamp with one limit is a maximum or a minimum.
Rows clamp_rows(const OpCall& call, const OpRule&) {
  const std::size_t operands = pointwise_operands(call).size();
  if (operands == 3) return pointwise_rows(call, std::span<const PartialRow>(kClampBoth));
  const bool low = call.inputs.size() > 1 && !call.inputs[1].is_absent();
  return pointwise_rows(call, low ? std::span<const PartialRow>(kMaxPreserving)
                                  : std::span<const PartialRow>(kMinPreserving));
}
// Comparisons that rise with the first operand and fall with the second (kAbove), or the other way
// round (kBelow); true counts as more than false.
constexpr PartialRow kAbove[] = {
    {{kMax, kMax, kR}, 3}, {{kMin, kMin, kR}, 3}, {{kMax, kR, kMin}, 3}, {{kMin, kR, kMax}, 3}};
constexpr PartialRow kBelow[] = {
    {{kMin, kMax, kR}, 3}, {{kMax, kMin, kR}, 3}, {{kMax, kR, kMax}, 3}, {{kMin, kR, kMin}, 3}};
constexpr PartialRow kFirstMonotone[] = {{{kMax, kMax, kR}, 3}, {{kMin, kMin, kR}, 3}};
// copy(x, y) returns y in the shape and dtype of x, whose values do not matter.
constexpr PartialRow kOverwritten[] = {
    {{kSum, kSum, kSum}, 3}, {{kSum, kR, kSum}, 3}, {{kAvg, kAvg, kAvg}, 3}, {{kAvg, kR, kAvg}, 3},
    {{kMax, kMax, kMax}, 3}, {{kMax, kR, kMax}, 3}, {{kMin, kMin, kMin}, 3}, {{kMin, kR, kMin}, 3}};
// Ops that multiply the first operand by a factor that is never negative.
constexpr PartialRow kFirstMasked[] = {
    {{kSum, kSum, kR}, 3}, {{kAvg, kAvg, kR}, 3}, {{kMax, kMax, kR}, 3}, {{kMin, kMin, kR}, 3}};

// PyTorch replicates a tensor that the op writes its output to, if the keyword for that tensor is
// not `out`: grad_input, and the two outputs of frexp. In the rule set shardlab such a tensor is
// placed like the output.
Rows replicated_keyword_rows(const OpCall& call, const OpRule& rule) {
  Rows rows = pointwise_rows(call, rule);
  for (Row& row : rows) row.back() = RowEntry(kR);
  return rows;
}

// The absolute value of a complex number is a real one.
std::vector<TensorMeta> abs_outputs(const OpCall& call) {
  const TensorMeta& in = pointwise_operands(call)[0]->meta;
  TensorMeta out = pointwise_output(call, ResultType::kPromoted, 1);
  if (in.dtype == DType::kC64) out.dtype = DType::kF32;
  return {out};
}

// Start, end and, in some forms, a weight. All are of one dtype, unless the weight has no dims.
std::vector<TensorMeta> lerp_outputs(const OpCall& call) {
  const auto operands = pointwise_operands(call);
  const bool has_weight = operands.size() == 3 && operands[2]->meta.ndim() > 0;
  expect_one_dtype(call, 0, has_weight ? 3 : 2);
  return {pointwise_output(call, ResultType::kFirst, 3)};
}

std::vector<TensorMeta> masked_outputs(const OpCall& call) {
  const auto operands = pointwise_operands(call);
  if (operands.size() == 2) expect_mask(call, *operands[1]);
  return {pointwise_output(call, ResultType::kFirst, 2)};
}

// The first tensor keeps its shape: the second one broadcasts to it.
std::vector<TensorMeta> copied_outputs(const OpCall& call) {
  const TensorMeta out = pointwise_output(call, ResultType::kFirst, 2);
  const TensorMeta& first = call.tensors()[0]->meta;
  if (first.shape == out.shape) return {out};
  throw InputError(call.op + ": found " + call.tensors()[1]->meta.text() + " to copy into " +
                   first.text() + "; valid: a tensor that broadcasts to it");
}

// The outputs are mantissa and exponent. The out variant has two tensors to write them to.
std::vector<TensorMeta> frexp_outputs(const OpCall& call) {
  const auto tensors = call.tensors();
  expect_tensors(call, call.op.ends_with("out") ? 3 : 1);
  TensorMeta mantissa = tensors[0]->meta;
  mantissa.strides.clear();
  TensorMeta exponent = mantissa;
  exponent.dtype = DType::kI32;
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i]->meta.shape != mantissa.shape) {
      throw InputError(call.op + ": found " + tensors[i]->meta.text() +
                       "; valid: tensors of the input's shape");
    }
  }
  return {mantissa, exponent};
}
template <bool kKeywordsReplicated>
Rows frexp_rows(const OpCall& call, const OpRule&) {
  Rows rows;
  const std::size_t entries = 2 + call.tensors().size();
  for (int dim = 0; dim < call.tensors()[0]->meta.ndim(); ++dim) {
    Row row(entries, RowEntry::any_shard(dim));
    for (std::size_t i = 3; kKeywordsReplicated && i < entries; ++i) row[i] = RowEntry(kR);
    rows.push_back(row);
  }
  return rows;
}

std::string_view of_written_outputs(const OpCall&, const Row&) {
  return "an output keeps the layout of the tensor that it is written to";
}

// Words are in alphabetical order within a class. Of an op's overloads, the one that stands for the
// op's bare name comes first.
constexpr PointwiseOps kOps[] = {
    {.words = "add.Tensor~ add.out",
     .dtensor = kAdditive,
     .shardlab_rows = added_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "sub.Tensor~ sub.out",
     .dtensor = kAdditive,
     .shardlab_rows = subtracted_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "special_modified_bessel_k0 special_modified_bessel_k1 "
              "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1",
     .dtensor = kDecreasingWherePositive,
     .shardlab = kDecreasingWherePositive,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "div.Tensor~ div.out",
     .dtensor = kDivision,
     .shardlab_rows = divided_rows,
     .outputs = outputs_as<ResultType::kFloat, 2>,
     .excuse = for_some_values},
    {.words = "special_xlog1py.other_scalar",
     .dtensor = kFirstLinear,
     .shardlab_rows = xlog1py_rows,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "special_xlog1py",
     .dtensor = kFirstLinear,
     .shardlab_rows = xlog1py_rows,
     .outputs = outputs_as<ResultType::kFloat, 2>,
     .excuse = where_defined},
    {.words = "div.Scalar*",
     .dtensor = kLinear,
     .shardlab_rows = divided_rows,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = for_some_values},
    {.words = "mul.Scalar*",
     .dtensor = kLinear,
     .shardlab_rows = scaled_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "clamp_min.Tensor fmax+ maximum+",
     .dtensor = kMaxPreserving,
     .shardlab = kMaxPreserving,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "clamp_max.Tensor fmin+ minimum+",
     .dtensor = kMinPreserving,
     .shardlab = kMinPreserving,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "logaddexp+ logaddexp2+",
     .dtensor = kMonotone,
     .shardlab = kMonotone,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "mul.Tensor~ mul.out",
     .dtensor = kMultiplicative,
     .shardlab_rows = scaled_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "neg*",
     .dtensor = kNegation,
     .shardlab = kNegation,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "hardshrink+ relu*",
     .dtensor = kNonDecreasing,
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kFirst, 1>},
    {.words = "nan_to_num*",
     .dtensor = kNonDecreasing,
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kFirst, 1>,
     .excuse = of_finite_values},
    {.words = "asinh* atan* erf* exp* exp2* expm1* sigmoid* sinh* special_modified_bessel_i1 "
              "tanh*",
     .dtensor = kNonDecreasing,
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kFloat, 1>},
    {.words = "ceil* floor* round* round.decimals* sgn* sign* trunc*",
     .dtensor = kNonDecreasing,
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "deg2rad* rad2deg*",
     .dtensor = kNonDecreasing,
     .shardlab = kPreserveUnary,
     .outputs = outputs_as<ResultType::kFloat, 1>},
    {.words = "threshold*",
     .dtensor = kNonDecreasing,
     .shardlab_rows = threshold_rows,
     .outputs = outputs_as<ResultType::kFirst, 1>,
     .excuse = for_some_values},
    {.words = "erfc* special_erfcx+",
     .dtensor = kNonIncreasing,
     .shardlab = kNonIncreasing,
     .outputs = outputs_as<ResultType::kFloat, 1>},
    {.words = "ge.Tensor* gt.Tensor*",
     .shardlab = kAbove,
     .outputs = outputs_as<ResultType::kTruth, 2>},
    {.words = "le.Tensor* lt.Tensor*",
     .shardlab = kBelow,
     .outputs = outputs_as<ResultType::kTruth, 2>},
    {.words = "where.self+", .shardlab = kChoice, .outputs = outputs_as<ResultType::kChoice, 3>},
    {.words = "clamp.Tensor* clip.Tensor*",
     .shardlab_rows = clamp_rows,
     .outputs = outputs_as<ResultType::kPromoted, 3>},
    {.words = "rsqrt* special_modified_bessel_k0.out special_modified_bessel_k1.out "
              "special_scaled_modified_bessel_k0.out special_scaled_modified_bessel_k1.out",
     .shardlab = kDecreasingWherePositive,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "gelu_backward gelu_backward.grad_input sigmoid_backward silu_backward "
              "tanh_backward",
     .shardlab = kFirstLinear,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "ldexp.Tensor ldexp.out native_dropout_backward+",
     .shardlab = kFirstMasked,
     .outputs = outputs_as<ResultType::kFloat, 2>},
    {.words = "ldexp_ threshold_backward threshold_backward.grad_input",
     .shardlab = kFirstMasked,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "bitwise_left_shift.Tensor* bitwise_right_shift.Tensor*",
     .shardlab = kFirstMonotone,
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = for_some_values},
    {.words = "clamp_min.Tensor_out clamp_min_.Tensor max.other max.out",
     .shardlab = kMaxPreserving,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "clamp_max.Tensor_out clamp_max_.Tensor min.other min.out",
     .shardlab = kMinPreserving,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "nextafter*",
     .shardlab = kMonotone,
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = for_some_values},
    {.words = "celu* hardsigmoid* hardtanh* relu6~ selu~ softshrink+",
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kFirst, 1>},
    {.words = "special_i1+ special_log_ndtr+ special_modified_bessel_i1.out",
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kFloat, 1>},
    {.words = "clamp* clamp_max* clamp_min* clip*",
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "bitwise_right_shift.Tensor_Scalar*",
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kPromoted, 1>,
     .excuse = for_some_values},
    {.words = "ge.Scalar* gt.Scalar*",
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kTruth, 1>,
     .excuse = for_some_values},
    {.words = "isposinf+",
     .shardlab = kNonDecreasing,
     .outputs = outputs_as<ResultType::kTruth, 1>,
     .excuse = of_finite_values},
    {.words = "angle+", .shardlab = kNonIncreasing, .outputs = outputs_as<ResultType::kFloat, 1>},
    {.words = "bitwise_not*",
     .shardlab = kNonIncreasing,
     .outputs = outputs_as<ResultType::kPromoted, 1>,
     .excuse = for_some_values},
    {.words = "le.Scalar* lt.Scalar*",
     .shardlab = kNonIncreasing,
     .outputs = outputs_as<ResultType::kTruth, 1>,
     .excuse = for_some_values},
    {.words = "isneginf+",
     .shardlab = kNonIncreasing,
     .outputs = outputs_as<ResultType::kTruth, 1>,
     .excuse = of_finite_values},
    {.words = "frac* gelu* mish* silu*", .outputs = outputs_as<ResultType::kFirst, 1>},
    {.words = "softplus+", .outputs = outputs_as<ResultType::kFirst, 1>, .excuse = for_some_values},
    {.words = "rrelu_with_noise+",
     .outputs = outputs_as<ResultType::kFirst, 2>,
     .excuse = without_drawing},
    {.words = "cos* cosh* i0* reciprocal* sin* sinc* special_airy_ai+ special_bessel_j0+ "
              "special_bessel_j1+ special_bessel_y0+ special_bessel_y1+ special_i0e+ special_i1e+ "
              "special_modified_bessel_i0+ special_spherical_bessel_j0+ tan*",
     .outputs = outputs_as<ResultType::kFloat, 1>},
    {.words = "copysign.Scalar*",
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = but_for_zero},
    {.words = "special_chebyshev_polynomial_t.n_scalar+ special_chebyshev_polynomial_t.x_scalar+ "
              "special_chebyshev_polynomial_u.n_scalar+ special_chebyshev_polynomial_u.x_scalar+ "
              "special_chebyshev_polynomial_v.n_scalar+ special_chebyshev_polynomial_v.x_scalar+ "
              "special_chebyshev_polynomial_w.n_scalar+ special_chebyshev_polynomial_w.x_scalar+ "
              "special_entr+ special_hermite_polynomial_h.n_scalar+ "
              "special_hermite_polynomial_h.x_scalar+ special_hermite_polynomial_he.n_scalar+ "
              "special_hermite_polynomial_he.x_scalar+ special_laguerre_polynomial_l.n_scalar+ "
              "special_laguerre_polynomial_l.x_scalar+ special_legendre_polynomial_p.n_scalar+ "
              "special_legendre_polynomial_p.x_scalar+ "
              "special_shifted_chebyshev_polynomial_t.n_scalar+ "
              "special_shifted_chebyshev_polynomial_t.x_scalar+ "
              "special_shifted_chebyshev_polynomial_u.n_scalar+ "
              "special_shifted_chebyshev_polynomial_u.x_scalar+ "
              "special_shifted_chebyshev_polynomial_v.n_scalar+ "
              "special_shifted_chebyshev_polynomial_v.x_scalar+ "
              "special_shifted_chebyshev_polynomial_w.n_scalar+ "
              "special_shifted_chebyshev_polynomial_w.x_scalar+",
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = for_some_values},
    {.words = "acos* asin* atanh* digamma* erfinv* lgamma* mvlgamma* polygamma* special_ndtri+ "
              "special_zeta.other_scalar+ special_zeta.self_scalar+",
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "atan2*", .outputs = outputs_as<ResultType::kFloat, 2>},
    {.words = "copysign.Tensor~ copysign.out",
     .outputs = outputs_as<ResultType::kFloat, 2>,
     .excuse = but_for_zero},
    {.words = "special_chebyshev_polynomial_t+ special_chebyshev_polynomial_u+ "
              "special_chebyshev_polynomial_v+ special_chebyshev_polynomial_w+ "
              "special_hermite_polynomial_h+ special_hermite_polynomial_he+ "
              "special_laguerre_polynomial_l+ special_legendre_polynomial_p+ "
              "special_shifted_chebyshev_polynomial_t+ special_shifted_chebyshev_polynomial_u+ "
              "special_shifted_chebyshev_polynomial_v+ special_shifted_chebyshev_polynomial_w+",
     .outputs = outputs_as<ResultType::kFloat, 2>,
     .excuse = for_some_values},
    {.words = "special_zeta+",
     .outputs = outputs_as<ResultType::kFloat, 2>,
     .excuse = where_defined},
    {.words = "abs*", .outputs = abs_outputs},
    {.words = "fmod.Scalar* remainder.Scalar* remainder.Scalar_Tensor+ square*",
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "__ilshift__.Scalar __irshift__.Scalar __ixor__.Scalar __lshift__.Scalar "
              "__lshift__.Scalar_out __rshift__.Scalar __rshift__.Scalar_out __xor__.Scalar",
     .outputs = outputs_as<ResultType::kPromoted, 1>,
     .sets = kDTensor},
    {.words = "bitwise_and.Scalar* bitwise_and.Scalar_Tensor+ bitwise_left_shift.Scalar_Tensor+ "
              "bitwise_or.Scalar* bitwise_or.Scalar_Tensor+ bitwise_right_shift.Scalar_Tensor+ "
              "bitwise_xor.Scalar* bitwise_xor.Scalar_Tensor+",
     .outputs = outputs_as<ResultType::kPromoted, 1>,
     .excuse = for_some_values},
    {.words = "fmod.Tensor* gcd* hypot* lcm* remainder.Tensor*",
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "__ilshift__.Tensor __irshift__.Tensor __ixor__.Tensor __lshift__.Tensor "
              "__lshift__.Tensor_out __rshift__.Tensor __rshift__.Tensor_out __xor__.Tensor",
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .sets = kDTensor},
    {.words = "bitwise_xor.Tensor* heaviside*",
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = for_some_values},
    {.words = "igamma* igammac* logit_backward",
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = where_defined},
    {.words = "signbit+", .outputs = outputs_as<ResultType::kTruth, 1>, .excuse = but_for_zero},
    {.words = "eq.Scalar* ne.Scalar*",
     .outputs = outputs_as<ResultType::kTruth, 1>,
     .excuse = for_some_values},
    {.words = "isfinite isinf+ isnan+",
     .outputs = outputs_as<ResultType::kTruth, 1>,
     .excuse = of_finite_values},
    {.words = "logical_xor*", .outputs = outputs_as<ResultType::kTruth, 2>},
    {.words = "eq.Tensor* ne.Tensor*",
     .outputs = outputs_as<ResultType::kTruth, 2>,
     .excuse = for_some_values},
    {.words = "_conj conj_physical*",
     .shardlab = kPreserveUnary,
     .outputs = outputs_as<ResultType::kFirst, 1>},
    {.words = "clone+",
     .shardlab = kPreserveUnary,
     .outputs = outputs_as<ResultType::kFirst, 1>,
     .sets = rows::kBeforeRows | kShardlab},
    // PyTorch since 2.14 passes partials on, as for other ops that keep the values of one tensor.
    {.words = "clone+",
     .dtensor = kPassThroughUnary,
     .outputs = outputs_as<ResultType::kFirst, 1>,
     .sets = rows::kSinceRows},
    {.words = "bitwise_left_shift.Tensor_Scalar*",
     .shardlab = kPreserveUnary,
     .outputs = outputs_as<ResultType::kPromoted, 1>,
     .excuse = for_some_values},
    {.words = "acosh* log* log10* log1p* log2* sqrt*",
     .shardlab = kRisingWhereDefined,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "add.Scalar*",
     .shardlab_rows = added_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "addcmul*",
     .shardlab_rows = added_product_rows,
     .outputs = outputs_as<ResultType::kPromoted, 3>},
    {.words = "addcdiv*",
     .shardlab_rows = added_quotient_rows,
     .outputs = outputs_as<ResultType::kPromoted, 3>},
    {.words = "bitwise_and.Tensor*",
     .shardlab_rows = all_of_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = for_some_values},
    {.words = "logical_and*",
     .shardlab_rows = all_of_rows,
     .outputs = outputs_as<ResultType::kTruth, 2>},
    {.words = "bitwise_or.Tensor*",
     .shardlab_rows = any_of_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = for_some_values},
    {.words = "logical_or*",
     .shardlab_rows = any_of_rows,
     .outputs = outputs_as<ResultType::kTruth, 2>},
    {.words = "true_divide.Tensor~ true_divide.out",
     .shardlab_rows = divided_rows,
     .outputs = outputs_as<ResultType::kFloat, 2>,
     .excuse = for_some_values},
    {.words = "div.Scalar_mode*",
     .shardlab_rows = divided_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>,
     .excuse = for_some_values},
    {.words = "div.Tensor_mode~ div.out_mode",
     .shardlab_rows = divided_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = for_some_values},
    {.words = "elu*", .shardlab_rows = elu_rows, .outputs = outputs_as<ResultType::kFirst, 1>},
    {.words = "leaky_relu*",
     .shardlab_rows = leaky_rows,
     .outputs = outputs_as<ResultType::kFirst, 1>},
    {.words = "lerp.Scalar*", .shardlab_rows = lerp_rows, .outputs = lerp_outputs},
    {.words = "lerp.Tensor*", .shardlab_rows = lerp_rows, .outputs = lerp_outputs},
    {.words = "logit*",
     .shardlab_rows = logit_rows,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "masked_fill.Scalar*", .shardlab_rows = masked_fill_rows, .outputs = masked_outputs},
    {.words = "logical_not*",
     .shardlab_rows = negated_rows,
     .outputs = outputs_as<ResultType::kTruth, 1>},
    {.words = "float_power.Tensor_Scalar+ float_power.Scalar*",
     .shardlab_rows = power_rows,
     .outputs = outputs_as<ResultType::kDouble, 1>,
     .excuse = where_defined},
    {.words = "float_power.Tensor_Tensor+ float_power_.Tensor",
     .shardlab_rows = power_rows,
     .outputs = outputs_as<ResultType::kDouble, 2>,
     .excuse = where_defined},
    {.words = "pow.Tensor_Scalar+ pow.Scalar*",
     .shardlab_rows = power_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>,
     .excuse = where_defined},
    {.words = "pow.Tensor_Tensor+ pow_.Tensor",
     .shardlab_rows = power_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = where_defined},
    {.words = "sub.Scalar*",
     .shardlab_rows = subtracted_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "rsub.Scalar+",
     .shardlab_rows = subtracted_from_rows,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "special_xlog1py.other_scalar_out special_xlog1py.self_scalar+",
     .shardlab_rows = xlog1py_rows,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "special_xlog1py.out",
     .shardlab_rows = xlog1py_rows,
     .outputs = outputs_as<ResultType::kFloat, 2>,
     .excuse = where_defined},
    {.words = "xlogy.OutScalar_Other xlogy.OutScalar_Self xlogy.Scalar_Other~ xlogy.Scalar_Self",
     .shardlab_rows = xlogy_rows,
     .outputs = outputs_as<ResultType::kFloat, 1>,
     .excuse = where_defined},
    {.words = "xlogy.Tensor~ xlogy.OutTensor",
     .shardlab_rows = xlogy_rows,
     .outputs = outputs_as<ResultType::kFloat, 2>,
     .excuse = where_defined},
    // PyTorch has no rule for the form that returns a new tensor, which traces write for x[...] =
    // y.
    {.words = "copy",
     .shardlab = kOverwritten,
     .outputs = copied_outputs,
     .sets = kShardlab,
     .excuse = of_what_is_overwritten},
    {.words = "copy.out",
     .dtensor = kPreserveBinary,
     .shardlab = kPreserveBinary,
     .outputs = outputs_as<ResultType::kFirst, 2>,
     .excuse = of_what_is_overwritten},
    {.words = "copy_",
     .dtensor = kPreserveBinary,
     .shardlab = kPreserveBinary,
     .outputs = outputs_as<ResultType::kFirst, 2>,
     .excuse = of_what_is_overwritten},
    {.words = "positive",
     .dtensor = kPreserveUnary,
     .shardlab = kPreserveUnary,
     .outputs = outputs_as<ResultType::kPromoted, 1>},
    {.words = "to.dtype",
     .dtensor = kPreserveUnary,
     .shardlab_rows = cast_rows,
     .outputs = outputs_as<ResultType::kCast, 1>},
    {.words = "sigmoid_backward.grad_input silu_backward.grad_input tanh_backward.grad_input",
     .shardlab = kFirstLinear,
     .dtensor_rows = replicated_keyword_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>},
    {.words = "logit_backward.grad_input",
     .dtensor_rows = replicated_keyword_rows,
     .outputs = outputs_as<ResultType::kPromoted, 2>,
     .excuse = where_defined},
};

// -- The rule set dtensor-legacy: all arguments follow one ----------------------------------------

enum class Linearity : std::uint8_t { kNone, kUnary, kAdditive, kMultiplicative };

bool is_linear_partial(const Placement& p) {
  return p.kind() == Placement::Kind::kPartial && is_linear(p.reduce_op());
}

// All arguments follow the first one that has the most shards. On each mesh dim, its shard is
// mapped through the broadcast to the others; its P(sum) or P(avg) stays if the op is linear, and
// becomes R otherwise. Additive ops then turn the other arguments into the same partial, for which
// a replica has to be divided; multiplicative ops replicate them.
template <Linearity kLinearity>
std::vector<FollowCandidate> follow_most_sharded(const OpCall& call, const DeviceMesh& mesh) {
  const auto tensors = pointwise_operands(call);
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
      output.push_back(kept ? p.with_dim(dim) : Placement::replicate());
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const int own = operand_dim(tensors[i]->meta.shape, common, dim);
        candidate.inputs[i].push_back(kept && own >= 0 ? p.with_dim(own) : Placement::replicate());
      }
      continue;
    }
    const bool keeps = kLinearity != Linearity::kNone && is_linear_partial(p);
    output.push_back(keeps ? p : Placement::replicate());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const bool partial = keeps && (i == followed || kLinearity == Linearity::kAdditive);
      candidate.inputs[i].push_back(partial ? p : Placement::replicate());
    }
  }
  candidate.outputs.push_back(output);
  if (out_tensors_of(call.op) > 0) candidate.inputs.push_back(output);
  return {candidate};
}

template <Linearity kLinearity>
constexpr OpRule legacy(std::string_view op) {
  return {.op = op,
          .sets = kDTensorLegacy,
          .outputs = outputs_as<ResultType::kPromoted, 3>,
          .follow = follow_most_sharded<kLinearity>,
          .flops = pointwise_flops};
}

constexpr OpRule kOtherRules[] = {
    {.op = "aten.frexp.Tensor",
     .outputs = frexp_outputs,
     .rows = frexp_rows<false>,
     .uneven_in = kEveryRuleSet,
     .flops = pointwise_flops},
    {.op = "aten.frexp.Tensor_out",
     .sets = kDTensor,
     .outputs = frexp_outputs,
     .rows = frexp_rows<true>,
     .uneven_in = kEveryRuleSet,
     .out_tensors = 2,
     .flops = pointwise_flops},
    {.op = "aten.frexp.Tensor_out",
     .sets = kShardlab,
     .outputs = frexp_outputs,
     .rows = frexp_rows<false>,
     .uneven_in = kEveryRuleSet,
     .excuse = of_written_outputs,
     .out_tensors = 2,
     .flops = pointwise_flops},
    {.op = "prims.frexp.default",
     .outputs = frexp_outputs,
     .rows = frexp_rows<false>,
     .uneven_in = kEveryRuleSet,
     .flops = pointwise_flops},
    // The rule set dtensor-legacy.
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

constexpr auto kRules = joined_rules(kPointwiseRules<kOps>, kOtherRules);

}  // namespace pointwise_rules

OP_RULES(pointwise){pointwise_rules::kRules};

}  // namespace shardlab

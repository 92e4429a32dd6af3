// The prims: ops that PyTorch's decompositions write in place of ATen's. They neither broadcast nor
// promote: all tensors have one shape and one dtype, which is the result's too. Source: PyTorch
// 2.13.0, torch/_prims/__init__.py and _ops/_pointwise_ops.py. Reductions of this namespace, frexp
// and view_of are in the families of ATen's ops that they resemble.
#include <algorithm>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/pointwise.h"
#include "strategies/rules/pointwise_choices.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace prims_rules {

using namespace partial_rows;

// A number may stand in the place of the second tensor.
template <std::size_t kOperands>
TensorMeta alike_operands(const OpCall& call) {
  expect_tensors(call, std::max<std::size_t>(1, std::min(kOperands, call.tensors().size())));
  const auto tensors = call.tensors();
  TensorMeta out = tensors[0]->meta;
  for (const TensorSpec* tensor : tensors) {
    if (tensor->meta.shape != out.shape || tensor->meta.dtype != out.dtype) {
      throw InputError(call.op + ": found " + out.text() + " and " + tensor->meta.text() +
                       "; valid: tensors of one shape and one dtype, since prims neither "
                       "broadcast nor promote");
    }
  }
  out.strides.clear();
  return out;
}

template <std::size_t kOperands>
std::vector<TensorMeta> alike_outputs(const OpCall& call) {
  return {alike_operands<kOperands>(call)};
}

std::vector<TensorMeta> compared_outputs(const OpCall& call) {
  TensorMeta out = alike_operands<2>(call);
  out.dtype = DType::kB8;
  return {out};
}

// The absolute value of a complex number is a real one.
std::vector<TensorMeta> magnitude_outputs(const OpCall& call) {
  TensorMeta out = alike_operands<1>(call);
  if (out.dtype == DType::kC64) out.dtype = DType::kF32;
  return {out};
}

std::vector<TensorMeta> conjugate_outputs(const OpCall& call) {
  const TensorMeta out = alike_operands<1>(call);
  if (out.dtype == DType::kC64) return {out};
  throw InputError(call.op + ": found " + out.text() + "; valid: a complex tensor");
}

// The first tensor keeps its shape and dtype, and takes the values of the second one.
std::vector<TensorMeta> copied_outputs(const OpCall& call) {
  expect_tensors(call, 2);
  const TensorMeta& written = call.tensors()[0]->meta;
  const TensorMeta& read = call.tensors()[1]->meta;
  if (written.shape == read.shape) return {written};
  throw InputError(call.op + ": found " + read.text() + " to copy into " + written.text() +
                   "; valid: tensors of one shape");
}

std::vector<TensorMeta> cast_outputs(const OpCall& call) {
  expect_tensors(call, 1);
  TensorMeta out = call.tensors()[0]->meta;
  const std::string name = call.text_arg(0, "");
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) {
    throw InputError(call.op + ": found the dtype \"" + name +
                     "\"; valid: " + std::string(kDTypeNames));
  }
  out.dtype = *dtype;
  return {out};
}

constexpr PointwiseOps kOps[] = {
    {.words = "prims.fmax",
     .dtensor = kMaxPreserving,
     .shardlab = kMaxPreserving,
     .outputs = alike_outputs<2>},
    {.words = "prims.fmin",
     .dtensor = kMinPreserving,
     .shardlab = kMinPreserving,
     .outputs = alike_outputs<2>},
    {.words = "prims.copy_to",
     .dtensor = kPreserveBinary,
     .shardlab = kPreserveBinary,
     .outputs = copied_outputs,
     .excuse = of_what_is_overwritten},
    // PyTorch lists the rest without rows of partials.
    {.words = "prims.convert_element_type", .shardlab_rows = cast_rows, .outputs = cast_outputs},
    {.words = "prims.maximum", .shardlab = kMaxPreserving, .outputs = alike_outputs<2>},
    {.words = "prims.minimum", .shardlab = kMinPreserving, .outputs = alike_outputs<2>},
    {.words = "prims.div",
     .shardlab_rows = divided_rows,
     .outputs = alike_outputs<2>,
     .excuse = for_some_values},
    {.words = "prims.exp2 prims.sign prims.trunc",
     .shardlab = kNonDecreasing,
     .outputs = alike_outputs<1>},
    {.words = "prims.erfcx", .shardlab = kNonIncreasing, .outputs = alike_outputs<1>},
    {.words = "prims.bitwise_not",
     .shardlab = kNonIncreasing,
     .outputs = alike_outputs<1>,
     .excuse = for_some_values},
    {.words = "prims.rsqrt",
     .shardlab = kDecreasingWherePositive,
     .outputs = alike_outputs<1>,
     .excuse = where_defined},
    {.words = "prims.log2",
     .shardlab = kRisingWhereDefined,
     .outputs = alike_outputs<1>,
     .excuse = where_defined},
    {.words = "prims.nextafter",
     .shardlab = kMonotone,
     .outputs = alike_outputs<2>,
     .excuse = for_some_values},
    {.words = "prims.bessel_i1", .shardlab = kNonDecreasing, .outputs = alike_outputs<1>},
    {.words = "prims.abs", .outputs = magnitude_outputs},
    {.words = "prims.conj_physical", .shardlab = kPreserveUnary, .outputs = conjugate_outputs},
    {.words = "prims.bessel_i0e prims.bessel_i1e prims.bessel_j0 prims.bessel_j1 "
              "prims.reciprocal prims.spherical_bessel_j0",
     .outputs = alike_outputs<1>},
    {.words = "prims.digamma prims.ndtri", .outputs = alike_outputs<1>, .excuse = where_defined},
    {.words = "prims.signbit", .outputs = alike_outputs<1>, .excuse = but_for_zero},
    {.words = "prims.gcd prims.hypot", .outputs = alike_outputs<2>},
    {.words = "prims.igamma prims.igammac prims.zeta",
     .outputs = alike_outputs<2>,
     .excuse = where_defined},
    {.words = "prims.ne", .outputs = compared_outputs, .excuse = for_some_values},
};

}  // namespace prims_rules

OP_RULES(prims){kPointwiseRules<prims_rules::kOps>};

}  // namespace shardlab

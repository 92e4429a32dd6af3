// The rules of AutoParallel's own ops, and of ops for which it lists other placements than PyTorch
// 2.13.0. For every other op the rule set autoparallel borrows the rule of DTensor, or else of
// shardlab (find_op_rule in op_rule.h).
//
// An alias may have any placements, a cast keeps those of its input, and products in einsum form
// take no partials. Source: meta-pytorch/autoparallel at a54c252 (propagation_rules.py,
// dtensor_extension.py). The rows equal the strategy lists that it makes for LLaMA3-8B.
#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/einsum.h"
#include "strategies/rules/reduction_args.h"
#include "strategies/rules/rule_rows.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace autoparallel_rules {

using namespace rows;

RowEntry shard(int dim) { return Placement::shard(dim); }

std::vector<TensorMeta> same_outputs(const OpCall& call) { return {only_tensor(call).meta}; }

std::vector<TensorMeta> cast_outputs(const OpCall& call) {
  TensorMeta out = only_tensor(call).meta;
  const std::string name = call.text_arg(0, to_string(out.dtype));
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) {
    throw InputError(call.op + ": found dtype \"" + name +
                     "\"; valid: " + std::string(kDTypeNames));
  }
  out.dtype = *dtype;
  return {out};
}

std::vector<FollowCandidate> follow_input(const OpCall& call, const DeviceMesh&) {
  const Placements& placements = only_tensor(call).layout.placements;
  return {FollowCandidate{.outputs = {placements}, .inputs = {placements}, .keeps_order = true}};
}

Rows shards_of_all_dims(int ndim) {
  Rows all;
  for (int d = 0; d < ndim; ++d) all.push_back(all_alike(2, shard(d)));
  return all;
}

Rows alias_rows(const OpCall& call, const OpRule&) {
  return shards_of_all_dims(only_tensor(call).meta.ndim());
}

Rows clone_rows(const OpCall& call, const OpRule& rule) {
  Rows all = alias_rows(call, rule);
  add_pass_through(all, 2);
  return all;
}

// Ops that make tensors from numbers. Each rank makes its own shard of a tensor whose extents are
// the op's first argument (kOfShape); ranges and single numbers are replicated.
constexpr std::array<std::string_view, 7> kOfShape = {
    "aten.empty.memory_format", "aten.empty_permuted.default", "aten.full.default",
    "aten.ones.default",        "aten.rand.default",           "aten.randn.default",
    "aten.zeros.default"};

std::vector<TensorMeta> made_outputs(const OpCall& call) {
  if (!call.tensors().empty()) throw InputError(call.op + ": takes no tensors");
  TensorMeta out;
  const bool permuted = call.op == "aten.empty_permuted.default";
  if (std::find(kOfShape.begin(), kOfShape.end(), call.op) != kOfShape.end()) {
    out.shape = required_shape(call, 0);
  }
  if (permuted) out.dtype = named_dtype(call, 2, out.dtype);
  if (call.op == "prims.iota.default") {
    const std::int64_t length = required_integer(call, 0);
    if (length < 0 || length > (std::int64_t{1} << 40U)) {
      throw InputError(call.op + ": found " + call.args.dump() + "; valid: a length of 0 to 2^40");
    }
    out.dtype = DType::kI64;
    out.shape = {length};
  }
  if (call.op == "aten.arange.start_step") {
    const ArangeNumbers range = arange_numbers(call);
    out.dtype = range.dtype;
    out.shape = {range.count};
  }
  return {out};
}

Rows full_rows(const OpCall& call, const OpRule&) {
  Rows all;
  const int ndim = static_cast<int>(required_shape(call, 0).size());
  for (int d = 0; d < ndim; ++d) all.push_back(all_alike(1, shard(d)));
  return all;
}

// -- Complex numbers ------------------------------------------------------------------------------
//
// A complex number is a pair of real ones in a last dim of its own, which is never sharded.

std::vector<TensorMeta> complex_outputs(const OpCall& call) {
  TensorMeta out = only_tensor(call).meta;
  if (out.dtype != DType::kF32 || out.shape.empty() || out.shape.back() != 2) {
    throw InputError(call.op + ": found " + out.text() +
                     "; valid: an f32 tensor whose last dim has 2 elements");
  }
  out.dtype = DType::kC64;
  out.shape.pop_back();
  out.strides.clear();
  return {out};
}

std::vector<TensorMeta> real_outputs(const OpCall& call) {
  TensorMeta out = only_tensor(call).meta;
  if (out.dtype != DType::kC64 || out.ndim() == kMaxTensorDims) {
    throw InputError(call.op + ": found " + out.text() + "; valid: a c64 tensor of at most " +
                     std::to_string(kMaxTensorDims - 1) + " dims");
  }
  out.dtype = DType::kF32;
  out.shape.push_back(2);
  out.strides.clear();
  return {out};
}

Rows complex_rows(const OpCall& call, const OpRule&) {
  const TensorMeta& in = only_tensor(call).meta;
  Rows all = shards_of_all_dims(in.dtype == DType::kC64 ? in.ndim() : in.ndim() - 1);
  for (const Placement& p : {kSum, kAvg}) all.push_back(all_alike(2, p));
  return all;
}

// -- Einsums --------------------------------------------------------------------------------------

EinsumEquation equation_of(const OpCall& call) {
  const std::string text = call.text_arg(0, "");
  if (text.empty()) {
    throw InputError(call.op + ": --args must begin with the equation, such as [\"mk,kn->mn\"]");
  }
  try {
    return EinsumEquation::parse(text);
  } catch (const TextError& error) {
    throw InputError(call.op + ": --args: " + error.what());
  }
}

std::vector<Shape> shapes_of(const OpCall& call) {
  std::vector<Shape> shapes;
  for (const TensorSpec* tensor : call.tensors()) shapes.push_back(tensor->meta.shape);
  return shapes;
}

std::vector<TensorMeta> einsum_outputs(const OpCall& call) {
  const std::vector<Shape> shapes = shapes_of(call);
  TensorMeta out{.dtype = DType::kF32,
                 .shape = equation_of(call).output_shape(shapes, call.op),
                 .strides = {}};
  out.dtype = call.tensors()[0]->meta.dtype;
  return {out};
}

Rows einsum_rows(const OpCall& call, const OpRule&) {
  return equation_of(call).rows(EinsumEquation::Linearity::kNone, false);
}

double einsum_flops(std::span<const Shape> local, const OpCall& call) {
  return equation_of(call).flops(local);
}

void einsum_shape(std::span<const Shape> local, const OpCall& call, KernelQuery& query) {
  const auto tensors = call.tensors();
  query.gemm = equation_of(call).gemm(local, {tensors.data(), tensors.size()});
}

// -- Sums and means -------------------------------------------------------------------------------

std::vector<TensorMeta> reduced_outputs(const OpCall& call) {
  constexpr int kDTypeArg = 2;
  TensorMeta out = only_tensor(call).meta;
  out.shape = reduced_dims(call, out.ndim()).output_shape(out.shape);
  out.strides.clear();
  if (call.op.find("sum") != std::string::npos) {
    out.dtype = accumulated_dtype(call, kDTypeArg, out.dtype);
  } else {
    out.dtype = dtype_arg(call, kDTypeArg).value_or(out.dtype);
  }
  return {out};
}

Rows reduced_rows(const OpCall& call, const OpRule&) {
  const int ndim = only_tensor(call).meta.ndim();
  const ReducedDims dims = reduced_dims(call, ndim);
  const Placement joined = call.op.find("mean") != std::string::npos ? kAvg : kSum;
  Rows all;
  for (int d = 0; d < ndim; ++d) {
    const bool reduced = dims.reduced[to_index(d)];
    all.push_back({reduced ? RowEntry(joined) : shard(dims.output_dim(d)), shard(d)});
  }
  all.push_back({joined, joined});
  return all;
}

// -- The table ------------------------------------------------------------------------------------

constexpr OpRule with_rows(std::string_view op, OutputsOf outputs, RowsOf rows, Kernel kernel,
                           decltype(OpRule::flops) flops = nullptr,
                           decltype(OpRule::shape) shape = nullptr) {
  return {.op = op,
          .sets = kAutoParallels,
          .outputs = outputs,
          .rows = rows,
          .kernel = kernel,
          .flops = flops,
          .shape = shape};
}
constexpr OpRule cast(std::string_view op) {
  return {.op = op,
          .sets = kAutoParallels,
          .outputs = cast_outputs,
          .follow = follow_input,
          .kernel = Kernel::kCopy};
}

constexpr OpRule kRules[] = {
    with_rows("aten._conj.default", same_outputs, alias_rows, Kernel::kView),
    with_rows("aten.alias.default", same_outputs, alias_rows, Kernel::kView),
    with_rows("aten.arange.start_step", made_outputs, rows::no_rows, Kernel::kCopy),
    with_rows("aten.clone.default", same_outputs, clone_rows, Kernel::kCopy),
    with_rows("aten.einsum.default", einsum_outputs, einsum_rows, Kernel::kGemm, einsum_flops,
              einsum_shape),
    with_rows("aten.empty.memory_format", made_outputs, full_rows, Kernel::kCopy),
    with_rows("aten.empty_permuted.default", made_outputs, full_rows, Kernel::kCopy),
    with_rows("aten.full.default", made_outputs, full_rows, Kernel::kCopy),
    with_rows("aten.mean.dim", reduced_outputs, reduced_rows, Kernel::kReduction),
    with_rows("aten.ones.default", made_outputs, full_rows, Kernel::kCopy),
    with_rows("aten.rand.default", made_outputs, full_rows, Kernel::kCopy),
    with_rows("aten.randn.default", made_outputs, full_rows, Kernel::kCopy),
    with_rows("aten.scalar_tensor.default", made_outputs, rows::no_rows, Kernel::kCopy),
    with_rows("aten.sum.dim_IntList", reduced_outputs, reduced_rows, Kernel::kReduction),
    with_rows("aten.view_as_complex.default", complex_outputs, complex_rows, Kernel::kView),
    with_rows("aten.view_as_real.default", real_outputs, complex_rows, Kernel::kView),
    with_rows("aten.zeros.default", made_outputs, full_rows, Kernel::kCopy),
    cast("autoparallel.dtype_cast.default"),
    cast("prims.convert_element_type.default"),
    with_rows("prims.iota.default", made_outputs, rows::no_rows, Kernel::kCopy),
};

}  // namespace autoparallel_rules

OP_RULES(autoparallel){autoparallel_rules::kRules};

}  // namespace shardlab

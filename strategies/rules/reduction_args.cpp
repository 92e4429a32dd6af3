#include "strategies/rules/reduction_args.h"

#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"

namespace shardlab {
namespace {

using Dims = ReductionArgs::Dims;

constexpr std::array<ReductionArgs, 46> kArgs = {{
    {"aten._foreach_max.default"},
    {"aten._foreach_norm.Scalar", -1, -1, 1},
    {"aten._foreach_powsum.Scalar", -1, -1, 1},
    {"aten.all.default"},
    {"aten.all.dim", 0, 1, -1, Dims::kOne},
    {"aten.amax.default", 0, 1},
    {"aten.amax.out", 0, 1},
    {"aten.amin.default", 0, 1},
    {"aten.amin.out", 0, 1},
    {"aten.any.default"},
    {"aten.any.dim", 0, 1, -1, Dims::kOne},
    {"aten.any.dims", 0, 1, -1, Dims::kAllOfList},
    {"aten.any.out", 0, 1, -1, Dims::kOne},
    {"aten.argmax.default", 0, 1, -1, Dims::kOneOrAll},
    {"aten.argmin.default", 0, 1, -1, Dims::kOneOrAll},
    {"aten.kthvalue.default", 1, 2, -1, Dims::kOneOrLast},
    {"aten.linalg__powsum.default", 1, 2, 3},
    {"aten.linalg_vector_norm.default", 1, 2, 3},
    {"aten.logsumexp.default", 0, 1},
    {"aten.max.default"},
    {"aten.max.dim", 0, 1, -1, Dims::kOne},
    {"aten.mean.default", -1, -1, 0},
    {"aten.median.default"},
    {"aten.median.dim", 0, 1, -1, Dims::kOne},
    {"aten.min.default"},
    {"aten.min.dim", 0, 1, -1, Dims::kOne},
    {"aten.mode.default", 0, 1, -1, Dims::kOneOrLast},
    {"aten.nanmedian.default"},
    {"aten.nanmedian.dim", 0, 1, -1, Dims::kOne},
    {"aten.norm.Scalar"},
    {"aten.prod.default", -1, -1, 0},
    {"aten.prod.dim_int", 0, 1, 2, Dims::kOne},
    {"aten.prod.int_out", 0, 1, 2, Dims::kOne},
    {"aten.std.correction", 0, 2},
    {"aten.std.correction_out", 0, 2},
    {"aten.sum.default", -1, -1, 0},
    {"aten.sum.dim_IntList", 0, 1, 2},
    {"aten.var.correction", 0, 2},
    {"aten.var.correction_out", 0, 2},
    {"aten.var_mean.correction", 0, 2},
    {"aten.var_mean.correction_out", 0, 2},
    {"prims.amax.default", 0, -1, 1, Dims::kAllOfList},
    {"prims.amin.default", 0, -1, 1, Dims::kAllOfList},
    {"prims.prod.default", 0, -1, 1, Dims::kAllOfList},
    {"prims.sum.default", 0, -1, 1, Dims::kAllOfList},
    {"prims.var.default", 0, -1, 2, Dims::kAllOfList},
}};

}  // namespace

ReductionArgs reduction_args(std::string_view op) {
  for (const ReductionArgs& each : kArgs) {
    if (each.op == op) return each;
  }
  return {op, 0, 1, 2};
}

ReducedDims reduced_dims(const OpCall& call, int ndim) {
  const ReductionArgs args = reduction_args(call.op);
  ReducedDims dims;
  if (args.keepdim >= 0) {
    dims.keepdim = call.boolean_arg(static_cast<std::size_t>(args.keepdim), false);
  }
  if (args.dims < 0) {
    dims.reduced.assign(static_cast<std::size_t>(ndim), true);
    return dims;
  }
  const auto position = static_cast<std::size_t>(args.dims);
  const bool absent = position >= call.args.size() || call.args[position].is_null();
  dims.reduced.assign(static_cast<std::size_t>(ndim), false);
  const bool takes_list = args.takes == Dims::kList || args.takes == Dims::kAllOfList;
  if (takes_list || (args.takes == Dims::kOneOrAll && absent)) {
    const auto listed = call.integers_arg(position);
    const bool all = !listed || (listed->empty() && args.takes != Dims::kAllOfList);
    if (all) dims.reduced.assign(static_cast<std::size_t>(ndim), true);
    for (const std::int64_t dim : listed.value_or(std::vector<std::int64_t>())) {
      const int d = normalize_dim(dim, ndim, call.op);
      if (ndim > 0) dims.reduced[to_index(d)] = true;
    }
    return dims;
  }
  const int dim = args.takes == Dims::kOneOrLast ? dim_arg(call, position, ndim, -1)
                                                 : dim_arg(call, position, ndim);
  if (ndim > 0) dims.reduced[to_index(dim)] = true;
  return dims;
}

int dim_arg(const OpCall& call, std::size_t position, int ndim,
            std::optional<std::int64_t> fallback) {
  const bool absent = position >= call.args.size() || call.args[position].is_null();
  if (absent && !fallback) {
    throw InputError(call.op + ": argument " + std::to_string(position) +
                     " of --args must be the dim");
  }
  return normalize_dim(call.integer_arg(position, fallback.value_or(0)), ndim, call.op);
}

std::optional<DType> dtype_arg(const OpCall& call, std::size_t position) {
  const std::string name = call.text_arg(position, "");
  if (name.empty()) return std::nullopt;
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) {
    throw InputError(call.op + ": argument " + std::to_string(position) + " of --args: found \"" +
                     name + "\"; valid: a dtype, one of " + std::string(kDTypeNames));
  }
  return dtype;
}

DType accumulated_dtype(const OpCall& call, int position, DType input) {
  if (position >= 0) {
    if (const auto asked = dtype_arg(call, static_cast<std::size_t>(position))) return *asked;
  }
  return is_floating_point(input) || input == DType::kC64 ? input : DType::kI64;
}

double norm_order(const OpCall& call, std::size_t position) {
  if (position < call.args.size() && call.args[position].is_string()) {
    const std::string name = call.args[position].get<std::string>();
    if (name == "inf") return kInfinity;
    if (name == "-inf") return -kInfinity;
    throw InputError(call.op + ": found the order \"" + name +
                     "\"; valid: a number, \"inf\" or \"-inf\"");
  }
  return call.number_arg(position, 2.0);
}

}  // namespace shardlab

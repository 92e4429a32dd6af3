// Where reductions have their arguments: the dims, keepdim, dtype and so on. Rules and kernels both
// use it to read a call. Source: the schemas of PyTorch 2.13.0 (native_functions.yaml).
#pragma once

#include <optional>
#include <string_view>

#include "costmodel/base/dtype.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

struct ReductionArgs {
  std::string_view op;
  // Positions among --args, or -1 where the op has no such argument. An op without dims reduces all
  // of them.
  int dims = -1;
  int keepdim = -1;
  int dtype = -1;
  // What `dims` takes: a list, which means all dims where it is empty (kList) or none (kAllOfList),
  // or one integer, which for some ops defaults to all dims or to the last one.
  enum class Dims : std::uint8_t { kList, kAllOfList, kOne, kOneOrAll, kOneOrLast };
  Dims takes = Dims::kList;
};

// An op that is not listed has its dims first, then keepdim and dtype.
[[nodiscard]] ReductionArgs reduction_args(std::string_view op);
// What the call reduces. Throws InputError.
[[nodiscard]] ReducedDims reduced_dims(const OpCall& call, int ndim);
// The dim that is the argument at `position`, or the fallback if it is absent. Throws InputError if
// it is absent and there is no fallback, or if it is out of range.
[[nodiscard]] int dim_arg(const OpCall& call, std::size_t position, int ndim,
                          std::optional<std::int64_t> fallback = std::nullopt);
// The dtype that the argument at `position` names, if it is given. Throws InputError for a word
// that does not name a dtype.
[[nodiscard]] std::optional<DType> dtype_arg(const OpCall& call, std::size_t position);
// The dtype in which sums, products and scans accumulate: the one that the argument at `position`
// asks for (-1: the op has no such argument), else i64 for integers and truth values, else the
// input's, which may be complex.
[[nodiscard]] DType accumulated_dtype(const OpCall& call, int position, DType input);
// The order of a norm, which is the argument at `position`: a number, "inf" or "-inf", or 2 if it
// is absent.
[[nodiscard]] double norm_order(const OpCall& call, std::size_t position);

}  // namespace shardlab

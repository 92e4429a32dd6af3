// Where reductions have their arguments: the dims, keepdim, dtype and so on, by the schemas of
// PyTorch 2.13.0 (native_functions.yaml). Rules and kernels read them here.
#pragma once

#include <optional>
#include <string_view>

#include "costmodel/base/dtype.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

struct ReductionArgs {
  std::string_view op;
  int dims = -1;  // positions among --args; -1: the op has none and reduces every dim
  int keepdim = -1;
  int dtype = -1;
  // One dim, an integer, or a list of them.
  enum class Dims : std::uint8_t { kList, kOne, kOneOrAll, kOneOrLast };
  Dims takes = Dims::kList;
};

// An op that is not listed has its dims first, then keepdim and dtype.
[[nodiscard]] ReductionArgs reduction_args(std::string_view op);
// What the call reduces. An empty list of dims is all of them; of any.dims, none. Throws InputError.
[[nodiscard]] ReducedDims reduced_dims(const OpCall& call, int ndim);
// The one dim of an op that takes one: the argument at `position`, the last dim where it is absent
// and that is the default. Throws InputError: absent without a default, out of range.
[[nodiscard]] int dim_arg(const OpCall& call, std::size_t position, int ndim,
                          std::optional<std::int64_t> fallback = std::nullopt);
// The dtype named at `position`, if one is. Throws InputError: no dtype of that name.
[[nodiscard]] std::optional<DType> dtype_arg(const OpCall& call, std::size_t position);
// Of sums, products, scans and so on: the dtype that is asked for; else whole numbers and truth
// values widen to i64 where the op does so.
[[nodiscard]] DType accumulated_dtype(const OpCall& call, int position, DType input);
// The order of a norm at `position`, 2 where it is absent: a number, "inf" or "-inf".
[[nodiscard]] double norm_order(const OpCall& call, std::size_t position);

}  // namespace shardlab

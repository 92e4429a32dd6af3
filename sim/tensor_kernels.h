// Local kernels on the tensors of one virtual rank: they move boxes and rows of tensors, and
// combine contributions of reductions.
//
//   copy_box(source, {0, 4}, target, {0, 0}, {8, 2});     // 8 rows, columns 4 and 5, to the front
//   combine(ReduceOp::kSum, DType::kBF16, out, in, n);    // out = out + in, each sum rounded
//
// Every result is rounded to the dtype, as in a reduction that keeps its accumulator in the buffer.
// NCCL's ring and tree kernels do so: each hop combines two operands of the buffer's type (NCCL,
// src/device/reduce_kernel.h). Integers wrap around. b8 holds 0 or 1: sum, max and bor are "or";
// min, product and band are "and"; bxor is "xor".
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/base/error.h"
#include "sim/host_tensor.h"
#include "sim/placement.h"

namespace shardlab {

// One element of b8.
struct Bool8 {
  std::uint8_t bit = 0;
};

template <class T>
struct ElementType {
  using Type = T;
};

// Calls work(ElementType<T>()), where T is the type of one element of `dtype`. Assumes
// holds_data(dtype).
template <class Work>
decltype(auto) with_element(DType dtype, Work&& work) {
  switch (dtype) {
    case DType::kF64:
      return work(ElementType<double>());
    case DType::kF32:
      return work(ElementType<float>());
    case DType::kF16:
      return work(ElementType<Eigen::half>());
    case DType::kBF16:
      return work(ElementType<Eigen::bfloat16>());
    case DType::kI64:
      return work(ElementType<std::int64_t>());
    case DType::kI32:
      return work(ElementType<std::int32_t>());
    case DType::kI16:
      return work(ElementType<std::int16_t>());
    case DType::kI8:
      return work(ElementType<std::int8_t>());
    case DType::kU8:
      return work(ElementType<std::uint8_t>());
    case DType::kB8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kU64:
    case DType::kC64:
      break;
  }
  SHARDLAB_CHECK(dtype == DType::kB8, "no elements of dtype ", to_string(dtype));
  return work(ElementType<Bool8>());
}

// Copies a box of this many elements along each dim from one tensor to another of the same dtype
// and number of dims. Offsets count elements along each dim. Assumes that the box lies within both
// tensors, and that `to` may be written.
void copy_box(const HostTensor& from, const Shape& from_offset, HostTensor& to,
              const Shape& to_offset, const Shape& extents);
// Rows [begin, begin + count) of `dim`. Along dim 0 the result shares the tensor's buffer.
[[nodiscard]] HostTensor narrow(HostMemory& memory, const HostTensor& tensor, int dim,
                                std::int64_t begin, std::int64_t count);
// The rows of `dim` with these indices, in the given order.
[[nodiscard]] HostTensor select_rows(HostMemory& memory, const HostTensor& tensor, int dim,
                                     std::span<const std::int64_t> rows);
// Writes row i of `from` to row rows[i] of `to`, along `dim`.
void put_rows(const HostTensor& from, HostTensor& to, int dim, std::span<const std::int64_t> rows);
// The same bytes in a buffer of their own.
[[nodiscard]] HostTensor copy_of(HostMemory& memory, const HostTensor& tensor);
[[nodiscard]] HostTensor zeros(HostMemory& memory, DType dtype, const Shape& shape);
// The tensor with zeros wherever the mask is true. The mask is b8, in the shape of the tensor's
// leading dims.
[[nodiscard]] HostTensor zeros_where(HostMemory& memory, const HostTensor& tensor,
                                     const HostTensor& mask);

// Sets out[i] = op(out[i], in[i]) for `count` elements. avg combines like sum.
void combine(ReduceOp op, DType dtype, std::byte* out, const std::byte* in, std::int64_t count);
// What a collective does to each contribution before it combines them, and to the result after it.
// These functions change nothing unless the reduction is avg. Floating point contributions to an
// avg are first multiplied by 1/n, rounded to the dtype (NCCL's ncclAvg is a pre-multiplied sum).
// Integer results are divided by n at the end, towards zero, and with `divide_last` floating point
// results are divided at the end too.
void scale_contribution(ReduceOp op, DType dtype, std::byte* values, std::int64_t count,
                        std::int64_t ranks, bool divide_last);
void finish_reduction(ReduceOp op, DType dtype, std::byte* values, std::int64_t count,
                      std::int64_t ranks, bool divide_last);
// Divides in the dtype; integers are divided towards zero. Assumes that the dtype is not b8.
void divide(DType dtype, std::byte* values, std::int64_t count, double divisor);
// Replaces each x by |x|^exponent, in the dtype. Assumes a floating point dtype.
void power(DType dtype, std::byte* values, std::int64_t count, double exponent);
[[nodiscard]] HostTensor power_of(HostMemory& memory, const HostTensor& tensor, double exponent);
// Sets `out` to the matrix product of a [rows, inner] and b [inner, columns], all row-major.
void matrix_product(const double* a, const double* b, double* out, std::int64_t rows,
                    std::int64_t inner, std::int64_t columns);

[[nodiscard]] double element_as_double(const HostTensor& tensor, std::int64_t index);
void set_element(HostTensor& tensor, std::int64_t index, double value);
// The same for all elements at once, which looks at the dtype once. Assumes as many values as the
// tensor has elements.
[[nodiscard]] std::vector<double> elements_as_doubles(const HostTensor& tensor);
void set_elements(HostTensor& tensor, std::span<const double> values);

}  // namespace shardlab

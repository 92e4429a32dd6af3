// Reads the arguments of ops that move elements about: slices, diagonals, paddings and indices.
// Also checks how many tensors an op gets.
//
//   SliceRange::of(call, 1, 8)             // start, end and step are arguments 1 to 3; extent 8
//   IndexedDims::of(call, self, indices)   // for index.Tensor and index_put
//
// Rules ask about global shapes, reference kernels about local ones. All functions throw InputError
// for an argument that is of another type or out of range. Source: PyTorch 2.13.0, torch.<op>.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "strategies/rules/op_call.h"

namespace shardlab {

// The dim that argument `arg` gives, made non-negative, or `fallback` if the argument is missing.
// Throws InputError also for a tensor without dims.
[[nodiscard]] int dim_of(const OpCall& call, std::size_t arg, std::int64_t fallback, int ndim);
// Makes the index non-negative; a negative one counts from the end of the extent.
[[nodiscard]] std::int64_t index_in(std::int64_t index, std::int64_t extent, std::string_view op);
// A list of integers. Throws InputError also if the argument is missing.
[[nodiscard]] std::vector<std::int64_t> required_integers(const OpCall& call, std::size_t arg);
// An integer. Throws InputError also if the argument is missing.
[[nodiscard]] std::int64_t required_integer(const OpCall& call, std::size_t arg);
// The numbers of arange(start, end, step), which are the first three arguments: start, start + step
// and so on, before the end. They are integers where all arguments are, otherwise f32. Throws
// InputError for a step that never reaches the end, and for more than 2^40 numbers.
// Source: PyTorch 2.15.0, aten/src/ATen/native/RangeUtils.h, compute_arange_size and
// arange_check_bounds.
struct ArangeNumbers {
  double start = 0.0;
  double step = 1.0;
  std::int64_t count = 0;
  DType dtype = DType::kI64;
};
[[nodiscard]] ArangeNumbers arange_numbers(const OpCall& call);
// The dtype that the argument names, or the fallback if it is missing.
[[nodiscard]] DType named_dtype(const OpCall& call, std::size_t arg, DType fallback);
// A shape. Throws InputError also if the argument is missing.
[[nodiscard]] Shape required_shape(const OpCall& call, std::size_t arg);

inline constexpr std::size_t kEveryTensor = static_cast<std::size_t>(-1);
// Throws InputError if the call has another number of tensors.
void expect_tensors(const OpCall& call, std::size_t count);
// Throws InputError unless the tensors that are given among `count` of them, from the `first` on,
// have one dtype. For operators that promote nothing: products, convolutions, attention, solvers.
void expect_one_dtype(const OpCall& call, std::size_t first = 0, std::size_t count = kEveryTensor);
// The tensor of an op that takes exactly one. Throws InputError if the call has another number of
// tensors.
[[nodiscard]] const TensorSpec& only_tensor(const OpCall& call);

// Throws InputError for a result of more than 2^53 elements, a dim of extent 0 counted as one of 1:
// a double, in which prices count bytes, holds no larger integer exactly.
void expect_countable(const OpCall& call, const Shape& result);

// The length of the rows that a product reads of a local tensor, in elements: the extent of the dim
// whose elements follow each other in memory, which is the last one unless the strides of the
// global tensor say otherwise. `classes` has a letter for each dim; a dim that follows without a
// gap and has the same letter belongs to the rows too, as both free dims of a weight [width, heads,
// head dim] do. The rows are taken to follow each other without gaps. 1 if the tensor is a single
// row.
[[nodiscard]] double row_length(const TensorMeta& global, const Shape& local,
                                std::string_view classes = {});

// The extents of the parts that split and split_with_sizes cut a dim into, which argument 0
// decides. More than kMostParts parts are refused.
inline constexpr std::int64_t kMostParts = 1 << 16;
[[nodiscard]] std::vector<std::int64_t> split_sizes(const OpCall& call, std::int64_t extent);

// `count` indices: start, start + step, and so on.
struct SliceRange {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;

  // Arguments `first` to `first` + 2 are start, end and step. A start or end past the extent is
  // clamped to it.
  [[nodiscard]] static SliceRange of(const OpCall& call, std::size_t first, std::int64_t extent);
  [[nodiscard]] bool is_whole(std::int64_t extent) const {
    return start == 0 && step == 1 && count == extent;
  }
};

// A diagonal of the matrices that two dims of a tensor span, `offset` to the right of the main one.
struct Diagonal {
  int first = 0;
  int second = 1;
  std::int64_t offset = 0;

  // Arguments 0 to 2 are the offset and the two dims, which default to `first` and `second`.
  [[nodiscard]] static Diagonal of(const OpCall& call, int ndim, std::int64_t first = 0,
                                   std::int64_t second = 1);
  // The length of the diagonal in a matrix of so many rows and columns.
  [[nodiscard]] std::int64_t length(std::int64_t rows, std::int64_t columns) const;
  // The dim that `dim` becomes in a tensor whose last dim is the diagonal; -1 for its two own dims.
  [[nodiscard]] int dim_without(int dim) const;
};

// The shape of torch.diagonal's result: the dims that remain, then the diagonal.
[[nodiscard]] Shape diagonal_shape(const Diagonal& diagonal, const Shape& shape);
// For torch.diag_embed of a tensor with `ndim` dims: the diagonal, whose two dims are dims of the
// output, and the output's shape.
[[nodiscard]] Diagonal embedded_diagonal(const OpCall& call, int ndim);
[[nodiscard]] Shape embedded_shape(const Diagonal& diagonal, const Shape& shape);
// The shape of torch.diag's result: the diagonal of a matrix, or the matrix whose diagonal is a
// vector.
[[nodiscard]] Shape diag_shape(const OpCall& call, const Shape& shape);

// roll(self, shifts, dims): how far each of the dims rolls. If no dims are given, all elements roll
// as one row.
struct RollShifts {
  bool flat = false;                                 // whether there are no dims
  std::int64_t shift = 0;                            // the shift of all elements, if `flat`
  std::vector<std::pair<int, std::int64_t>> shifts;  // dim and its shift
};
[[nodiscard]] RollShifts roll_shifts(const OpCall& call, const Shape& shape);

// How many elements constant_pad_nd adds at each end of a dim; a negative number cuts elements off.
// Argument 0 lists them with the last dim first.
struct Padding {
  std::int64_t before = 0;
  std::int64_t after = 0;
};
[[nodiscard]] std::vector<Padding> paddings_of(const OpCall& call, const Shape& shape);

// For index.Tensor and index_put: which dims are indexed, and which dims of the result come from
// the indices.
struct IndexedDims {
  std::vector<int> dims;  // the indexed dims, ascending: one for each index tensor
  std::vector<int> kept;  // the other dims, ascending
  Shape broadcast;        // the shape that the indices broadcast to
  int insert = 0;         // the first dim of the result that has this shape
  Shape result;

  // `self` and `indices` are shapes. Tensor argument 1 of the call says which dims are indexed.
  [[nodiscard]] static IndexedDims of(const OpCall& call, const Shape& self,
                                      std::span<const Shape> indices);
  [[nodiscard]] bool is_indexed(int dim) const;
  // The dim of the result that a dim becomes. Assumes that the dim is not indexed.
  [[nodiscard]] int result_dim(int dim) const;
};

}  // namespace shardlab

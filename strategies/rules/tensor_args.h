// What the arguments of ops that move elements about mean: slices, diagonals, paddings, indices; and
// how many tensors an op takes.
//
//   SliceRange::of(call, 1, 8)       // start, end, step are arguments 1 to 3; of a dim of extent 8
//   IndexedDims::of(call, shapes)    // index.Tensor and index_put
//
// Rules ask about global shapes, reference kernels about local ones. All throw InputError: an
// argument of another type, or out of range. Semantics: PyTorch 2.13.0, torch.<op>.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "strategies/rules/op_call.h"

namespace shardlab {

// A dim of a tensor that has at least one. Throws InputError also for a tensor without dims.
[[nodiscard]] int dim_of(const OpCall& call, std::size_t arg, std::int64_t fallback, int ndim);
// Of an extent that an index (negative: from the end) stands for. Throws InputError.
[[nodiscard]] std::int64_t index_in(std::int64_t index, std::int64_t extent, std::string_view op);
// The integers that an argument must have. Throws InputError where it is missing.
[[nodiscard]] std::vector<std::int64_t> required_integers(const OpCall& call, std::size_t arg);
// The integer that an argument must be.
[[nodiscard]] std::int64_t required_integer(const OpCall& call, std::size_t arg);
// A shape given as an argument.
[[nodiscard]] Shape required_shape(const OpCall& call, std::size_t arg);

// Throws InputError for another number of tensors.
void expect_tensors(const OpCall& call, std::size_t count);
// Of an op that takes one. Throws InputError for another number.
[[nodiscard]] const TensorSpec& only_tensor(const OpCall& call);

// The extents that split and split_with_sizes (argument 0) cut an extent into. At most kMostParts.
inline constexpr std::int64_t kMostParts = 1 << 16;
[[nodiscard]] std::vector<std::int64_t> split_sizes(const OpCall& call, std::int64_t extent);

// Rows start, start + step, ..., `count` of them.
struct SliceRange {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;

  // Arguments `first` to `first` + 2 are start, end and step. Out of range means up to there.
  [[nodiscard]] static SliceRange of(const OpCall& call, std::size_t first, std::int64_t extent);
  [[nodiscard]] bool is_whole(std::int64_t extent) const {
    return start == 0 && step == 1 && count == extent;
  }
};

// Two dims of a tensor and how far right of the main diagonal.
struct Diagonal {
  int first = 0;
  int second = 1;
  std::int64_t offset = 0;

  // Arguments 0 to 2 are the offset and the dims, which default to these.
  [[nodiscard]] static Diagonal of(const OpCall& call, int ndim, std::int64_t first = 0,
                                   std::int64_t second = 1);
  // How long it is in a matrix of so many rows and columns.
  [[nodiscard]] std::int64_t length(std::int64_t rows, std::int64_t columns) const;
  // Dims that remain before the diagonal, which is last: the dim that `dim` becomes, or -1.
  [[nodiscard]] int dim_without(int dim) const;
};

// Of torch.diagonal: the dims that remain, then the diagonal.
[[nodiscard]] Shape diagonal_shape(const Diagonal& diagonal, const Shape& shape);
// Of torch.diag_embed, whose dims are the output's, of a tensor of so many dims; and its output.
[[nodiscard]] Diagonal embedded_diagonal(const OpCall& call, int ndim);
[[nodiscard]] Shape embedded_shape(const Diagonal& diagonal, const Shape& shape);
// Of torch.diag: of a matrix its diagonal, of a vector the matrix that has it.
[[nodiscard]] Shape diag_shape(const OpCall& call, const Shape& shape);

// roll(self, shifts, dims): how far each of the dims rolls; without dims all elements as one row.
struct RollShifts {
  bool flat = false;  // then `shift` elements
  std::int64_t shift = 0;
  std::vector<std::pair<int, std::int64_t>> shifts;
};
[[nodiscard]] RollShifts roll_shifts(const OpCall& call, const Shape& shape);

// How much constant_pad_nd adds to each dim (negative: cuts); argument 0, last dim first.
struct Padding {
  std::int64_t before = 0;
  std::int64_t after = 0;
};
[[nodiscard]] std::vector<Padding> paddings_of(const OpCall& call, const Shape& shape);

// index.Tensor and index_put: which dims are indexed, and where what the indices select stands.
struct IndexedDims {
  std::vector<int> dims;  // indexed, ascending: one for each index tensor
  std::vector<int> kept;  // the others
  Shape broadcast;        // the indices' common shape
  int insert = 0;         // where it stands in the result
  Shape result;

  // `self` and `indices` are the shapes; which dims the indices are of is tensor argument 1.
  [[nodiscard]] static IndexedDims of(const OpCall& call, const Shape& self,
                                      std::span<const Shape> indices);
  [[nodiscard]] bool is_indexed(int dim) const;
  // Of a dim that is not indexed: its place in the result.
  [[nodiscard]] int result_dim(int dim) const;
};

}  // namespace shardlab

// Kernels that cut tensors, write into parts of them or move their elements: slices, diagonals,
// paddings. Semantics: PyTorch 2.13.0, torch.<op>.
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace parts_kernels {

const HostTensor& only_input(const LocalCall& local) {
  expect_operands(local, 1);
  return local.inputs[0];
}

// Makes a tensor of `shape` from the elements of another one: source_of(index) is the flat index
// there, or -1 where the element is `fill`.
template <class SourceOf>
HostTensor moved(const LocalCall& local, const HostTensor& from, const Shape& shape,
                 SourceOf&& source_of, double fill = 0.0) {
  std::vector<double> out = filled(local, shape, fill);
  const std::vector<double> values = as_doubles(from);
  for_each_element(shape, [&](const Shape& index, std::int64_t i) {
    const std::int64_t source = source_of(index);
    if (source >= 0) out[to_index(i)] = values[to_index(source)];
  });
  return from_doubles(local.memory, from.dtype(), shape, out);
}

// Returns `base`, which has the shape `shape`, with each element of `source` written to the flat
// index target_of(index).
template <class TargetOf>
HostTensor written(const LocalCall& local, std::vector<double> base, const Shape& shape,
                   const HostTensor& source, TargetOf&& target_of) {
  const std::vector<double> values = as_doubles(source);
  for_each_element(source.shape(), [&](const Shape& index, std::int64_t i) {
    base[to_index(target_of(index))] = values[to_index(i)];
  });
  return from_doubles(local.memory, source.dtype(), shape, base);
}

void expect_shape(const LocalCall& local, const HostTensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape) return;
  throw InputError(local.call.op + ": found a source or gradient " + tensor_text(tensor) +
                   "; valid: " + tensor_text(tensor.dtype(), shape) +
                   ", the shape of the part that it belongs to");
}

// The shape that an op's arguments give its output or, on a rank, the shape that the layout makes
// of it.
Shape given_shape(const LocalCall& local, std::size_t arg) {
  return local.output_shapes.empty() ? required_shape(local.call, arg) : local.output_shapes[0];
}

LocalResult run_split(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  const int dim = dim_of(local.call, 1, 0, input.ndim());
  const Shape strides = row_major_strides(input.shape());
  LocalResult result;
  std::int64_t offset = 0;
  for (const std::int64_t size : split_sizes(local.call, input.extent(dim))) {
    Shape shape = input.shape();
    shape[to_index(dim)] = size;
    result.outputs.push_back(moved(local, input, shape, [&](const Shape& index) {
      return flat_index(index, strides) + offset * strides[to_index(dim)];
    }));
    offset += size;
  }
  return result;
}

HostTensor selected(const LocalCall& local, const HostTensor& input, int dim, std::int64_t row) {
  const Shape strides = row_major_strides(input.shape());
  Shape shape = input.shape();
  Shape others = strides;
  shape.erase(shape.begin() + dim);
  others.erase(others.begin() + dim);
  return moved(local, input, shape, [&](const Shape& index) {
    return flat_index(index, others) + row * strides[to_index(dim)];
  });
}

LocalResult run_unbind(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  const int dim = dim_of(local.call, 0, 0, input.ndim());
  if (input.extent(dim) > kMostParts) {
    throw InputError(local.call.op + ": found an extent of " + std::to_string(input.extent(dim)) +
                     "; valid: at most " + std::to_string(kMostParts));
  }
  LocalResult result;
  for (std::int64_t row = 0; row < input.extent(dim); ++row) {
    result.outputs.push_back(selected(local, input, dim, row));
  }
  return result;
}

LocalResult run_select(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  const int dim = dim_of(local.call, 0, 0, input.ndim());
  const std::int64_t row = index_in(local.call.integer_arg(1, 0), input.extent(dim), local.call.op);
  return {{selected(local, input, dim, row)}, {}};
}

// Returns `base` with `source` written to row `row` of dim `dim`.
LocalResult with_row(const LocalCall& local, std::vector<double> base, const Shape& shape, int dim,
                     std::size_t row_arg, const HostTensor& source) {
  const std::int64_t row =
      index_in(local.call.integer_arg(row_arg, 0), shape[to_index(dim)], local.call.op);
  const Shape strides = row_major_strides(shape);
  Shape wanted = shape;
  Shape others = strides;
  wanted.erase(wanted.begin() + dim);
  others.erase(others.begin() + dim);
  expect_shape(local, source, wanted);
  return {{written(local, std::move(base), shape, source,
                   [&](const Shape& index) {
                     return flat_index(index, others) + row * strides[to_index(dim)];
                   })},
          {}};
}

LocalResult run_select_backward(const LocalCall& local, const OpKernel&) {
  const Shape shape = given_shape(local, 0);
  const int dim = dim_of(local.call, 1, 0, static_cast<int>(shape.size()));
  return with_row(local, filled(local, shape), shape, dim, 2, only_input(local));
}

LocalResult run_select_scatter(const LocalCall& local, const OpKernel&) {
  expect_operands(local, 2);
  const HostTensor& self = local.inputs[0];
  expect_same_dtype(local, self, local.inputs[1]);
  const int dim = dim_of(local.call, 0, 0, self.ndim());
  return with_row(local, as_doubles(self), self.shape(), dim, 1, local.inputs[1]);
}

LocalResult run_slice(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  const int dim = dim_of(local.call, 0, 0, input.ndim());
  const SliceRange range = SliceRange::of(local.call, 1, input.extent(dim));
  Shape shape = input.shape();
  shape[to_index(dim)] = range.count;
  Shape strides = row_major_strides(input.shape());
  const std::int64_t first = range.start * strides[to_index(dim)];
  strides[to_index(dim)] *= range.step;
  return {{moved(local, input, shape,
                 [&](const Shape& index) { return first + flat_index(index, strides); })},
          {}};
}

// Returns `base` with `source` written to the slice of dim `dim`.
LocalResult with_slice(const LocalCall& local, std::vector<double> base, const Shape& shape,
                       int dim, std::size_t first_arg, const HostTensor& source) {
  const SliceRange range = SliceRange::of(local.call, first_arg, shape[to_index(dim)]);
  Shape wanted = shape;
  wanted[to_index(dim)] = range.count;
  expect_shape(local, source, wanted);
  Shape strides = row_major_strides(shape);
  const std::int64_t first = range.start * strides[to_index(dim)];
  strides[to_index(dim)] *= range.step;
  return {{written(local, std::move(base), shape, source,
                   [&](const Shape& index) { return first + flat_index(index, strides); })},
          {}};
}

LocalResult run_slice_backward(const LocalCall& local, const OpKernel&) {
  const Shape shape = given_shape(local, 0);
  const int dim = dim_of(local.call, 1, 0, static_cast<int>(shape.size()));
  return with_slice(local, filled(local, shape), shape, dim, 2, only_input(local));
}

LocalResult run_slice_scatter(const LocalCall& local, const OpKernel&) {
  expect_operands(local, 2);
  const HostTensor& self = local.inputs[0];
  expect_same_dtype(local, self, local.inputs[1]);
  const int dim = dim_of(local.call, 0, 0, self.ndim());
  return with_slice(local, as_doubles(self), self.shape(), dim, 1, local.inputs[1]);
}

// The flat index of a diagonal's element in the tensor that has the diagonal.
std::int64_t flat_on_diagonal(const Diagonal& diagonal, const Shape& index, const Shape& strides) {
  std::int64_t flat = 0;
  for (int d = 0; d < static_cast<int>(strides.size()); ++d) {
    const int own = diagonal.dim_without(d);
    std::int64_t row = own >= 0 ? index[to_index(own)] : index.back();
    if (d == diagonal.first) row += std::max<std::int64_t>(0, -diagonal.offset);
    if (d == diagonal.second) row += std::max<std::int64_t>(0, diagonal.offset);
    flat += row * strides[to_index(d)];
  }
  return flat;
}

LocalResult take_diagonal(const LocalCall& local, const Diagonal& diagonal) {
  const HostTensor& input = local.inputs[0];
  const Shape strides = row_major_strides(input.shape());
  return {{moved(local, input, diagonal_shape(diagonal, input.shape()),
                 [&](const Shape& index) { return flat_on_diagonal(diagonal, index, strides); })},
          {}};
}

LocalResult put_diagonal(const LocalCall& local, const Diagonal& diagonal, std::vector<double> base,
                         const Shape& shape, const HostTensor& source) {
  expect_shape(local, source, diagonal_shape(diagonal, shape));
  const Shape strides = row_major_strides(shape);
  return {{written(local, std::move(base), shape, source,
                   [&](const Shape& index) { return flat_on_diagonal(diagonal, index, strides); })},
          {}};
}

LocalResult run_diagonal(const LocalCall& local, const OpKernel&) {
  return take_diagonal(local, Diagonal::of(local.call, only_input(local).ndim()));
}

LocalResult run_diagonal_scatter(const LocalCall& local, const OpKernel&) {
  expect_operands(local, 2);
  const HostTensor& self = local.inputs[0];
  expect_same_dtype(local, self, local.inputs[1]);
  return put_diagonal(local, Diagonal::of(local.call, self.ndim()), as_doubles(self), self.shape(),
                      local.inputs[1]);
}

LocalResult run_diag_embed(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  const Diagonal diagonal = embedded_diagonal(local.call, input.ndim());
  const Shape shape = embedded_shape(diagonal, input.shape());
  return put_diagonal(local, diagonal, filled(local, shape), shape, input);
}

LocalResult run_diag(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  const Shape shape = diag_shape(local.call, input.shape());
  const Diagonal diagonal{.offset = local.call.integer_arg(0, 0)};
  if (input.ndim() == 2) return take_diagonal(local, diagonal);
  return put_diagonal(local, diagonal, filled(local, shape), shape, input);
}

template <bool kUpper>
LocalResult run_triangle(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  if (input.ndim() < 2) {
    throw InputError(local.call.op + ": found " + tensor_text(input) +
                     "; valid: a tensor of at least two dims");
  }
  const std::int64_t offset = local.call.integer_arg(0, 0);
  const Shape strides = row_major_strides(input.shape());
  return {{moved(local, input, input.shape(),
                 [&](const Shape& index) {
                   const std::int64_t right = index.back() - index[index.size() - 2];
                   const bool kept = kUpper ? right >= offset : right <= offset;
                   return kept ? flat_index(index, strides) : -1;
                 })},
          {}};
}

LocalResult run_pad(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  const std::vector<Padding> paddings = paddings_of(local.call, input.shape());
  Shape shape = input.shape();
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] += paddings[d].before + paddings[d].after;
  const Shape strides = row_major_strides(input.shape());
  const auto source_of = [&](const Shape& index) {
    std::int64_t source = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t row = index[d] - paddings[d].before;
      if (row < 0 || row >= input.shape()[d]) return std::int64_t{-1};
      source += row * strides[d];
    }
    return source;
  };
  return {{moved(local, input, shape, source_of, local.call.number_arg(1, 0.0))}, {}};
}

// The row that a shift moves to `row`. Rows that leave at one end come back at the other.
std::int64_t around(std::int64_t row, std::int64_t shift, std::int64_t extent) {
  return ((row - shift) % extent + extent) % extent;
}

LocalResult run_roll(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  const RollShifts roll = roll_shifts(local.call, input.shape());
  const Shape strides = row_major_strides(input.shape());
  return {{moved(local, input, input.shape(),
                 [&](Shape index) {
                   if (roll.flat) {
                     return around(flat_index(index, strides), roll.shift, input.elements());
                   }
                   for (const auto& [dim, shift] : roll.shifts) {
                     index[to_index(dim)] = around(index[to_index(dim)], shift, input.extent(dim));
                   }
                   return flat_index(index, strides);
                 })},
          {}};
}

LocalResult run_flip(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  std::vector<bool> flipped(input.shape().size(), false);
  for (const std::int64_t dim : required_integers(local.call, 0)) {
    const int d = normalize_dim(dim, input.ndim(), local.call.op);
    if (input.ndim() > 0) flipped[to_index(d)] = true;
  }
  const Shape strides = row_major_strides(input.shape());
  return {{moved(local, input, input.shape(),
                 [&](Shape index) {
                   for (std::size_t d = 0; d < index.size(); ++d) {
                     if (flipped[d]) index[d] = input.shape()[d] - 1 - index[d];
                   }
                   return flat_index(index, strides);
                 })},
          {}};
}

// Counts the boundaries below each element (with `right`, below or equal to it). Where the
// boundaries ascend, the count is the number of the element's bucket.
LocalResult run_bucketize(const LocalCall& local, const OpKernel&) {
  expect_operands(local, 2);
  const HostTensor& input = local.inputs[0];
  if (local.inputs[1].ndim() != 1) {
    throw InputError(local.call.op + ": found boundaries " + tensor_text(local.inputs[1]) +
                     "; valid: boundaries of one dim");
  }
  const std::vector<double> values = as_doubles(input);
  const std::vector<double> boundaries = as_doubles(local.inputs[1]);
  const bool right = local.call.boolean_arg(1, false);
  std::vector<double> buckets = filled(local, input.shape());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    buckets[i] = static_cast<double>(
        std::count_if(boundaries.begin(), boundaries.end(), [&](double boundary) {
          return right ? !(boundary > values[i]) : !(boundary >= values[i]);
        }));
  }
  const DType dtype = local.call.boolean_arg(0, false) ? DType::kI32 : DType::kI64;
  return {{from_doubles(local.memory, dtype, input.shape(), buckets)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "bucketize", .run = run_bucketize},
    {.name = "constant_pad_nd", .run = run_pad},
    {.name = "diag", .run = run_diag},
    {.name = "diag_embed", .run = run_diag_embed},
    {.name = "diagonal", .run = run_diagonal},
    {.name = "diagonal_copy", .run = run_diagonal},
    {.name = "diagonal_scatter", .run = run_diagonal_scatter},
    {.name = "flip", .run = run_flip},
    {.name = "roll", .run = run_roll},
    {.name = "select", .run = run_select},
    {.name = "select_backward", .run = run_select_backward, .needs_output_shapes = true},
    {.name = "select_scatter", .run = run_select_scatter},
    {.name = "slice", .run = run_slice},
    {.name = "slice_backward", .run = run_slice_backward, .needs_output_shapes = true},
    {.name = "slice_scatter", .run = run_slice_scatter},
    {.name = "split", .run = run_split},
    {.name = "split_with_sizes", .run = run_split},
    {.name = "split_with_sizes_copy", .run = run_split},
    {.name = "tril", .run = run_triangle<false>},
    {.name = "triu", .run = run_triangle<true>},
    {.name = "unbind", .run = run_unbind},
};

}  // namespace parts_kernels

OP_KERNELS(parts){parts_kernels::kKernels};

}  // namespace shardlab

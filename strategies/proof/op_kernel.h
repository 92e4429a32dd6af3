// Reference kernels: what an op computes from the local tensors of one rank, slow and obvious.
//
//   const OpKernel* kernel = find_op_kernel("aten.mm.default");
//   kernel->run({.call = call, .memory = memory, .inputs = locals}, *kernel).outputs
//
// Kernels compute in double precision and round each result once to its dtype, so that a local
// result is off by at most one unit roundoff. Integers are exact below 2^53 and refused beyond.
// Integers keep their dtype where PyTorch would promote it, but sums and products of integers widen
// to i64, as in PyTorch. An op's in-place, out= and foreach forms share a kernel, which is found by
// the name without them: "add" stands for aten.add.Tensor, aten.add_.Tensor, aten.add.out and each
// element of aten._foreach_add.List.
//
// To add a kernel, add a row to kernels/<family>.cpp. Semantics: PyTorch 2.13.0, torch.<op>.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/host_tensor.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

struct LocalCall {
  const OpCall& call;  // the op, its arguments that are not tensors, the global shapes
  HostMemory& memory;
  std::span<const HostTensor> inputs;         // local tensors, lists flattened, `out` last if any
  std::span<const RowLists> input_rows = {};  // by input: the global indices of its rows
  std::span<const Shape> output_shapes = {};  // the local shapes that the outputs' layouts ask for
  // By input: the global shape whose dims the rows count, where a registered placement cuts several
  // dims as one (viewed_shape). Empty: the shapes of the call's tensors.
  std::span<const Shape> input_shapes = {};
  // Where the call has no tensors: the global indices of each output's rows. If this is empty, the
  // call makes the whole outputs.
  std::span<const RowLists> output_rows = {};

  // The i-th tensor argument, or its first tensor if it is a list. Null if it is missing.
  [[nodiscard]] const HostTensor* tensor(std::size_t i) const;
  // The i-th tensor argument, as tensor() finds it. Throws InputError if it is missing.
  [[nodiscard]] const HostTensor& required_tensor(std::size_t i) const;
};

struct LocalResult {
  std::vector<HostTensor> outputs;
  // The mask of a lookup: b8 in the shape of the indices, true where the row is another rank's.
  HostTensor mask;
};

struct OpKernel {
  // The op's name without "aten.", "_foreach_", a trailing "_" and the overload. The overload stays
  // ("max.dim") where overloads of one name compute different things.
  std::string_view name;
  LocalResult (*run)(const LocalCall& call, const OpKernel& kernel) = nullptr;
  // Pointwise kernels compute one element from its operands: tensors first, then numbers.
  double (*element)(std::span<const double> operands) = nullptr;
  std::size_t operands = 0;
  std::size_t optional = 0;  // how many of the last operands are numbers that may be absent
  enum class Result : std::uint8_t {
    kAsFirst,        // the dtype of the first tensor
    kAsSecond,       // the dtype of the second tensor
    kTruth,          // b8
    kFloatingPoint,  // the dtype of the first tensor, or f32 if that is not a floating point type
    kInteger,        // the dtype of the first tensor; all must hold integers or b8
    kDouble,         // f64
  };
  Result result = Result::kAsFirst;
  // Whether the result depends on LocalCall::output_shapes, as a view's does.
  bool needs_output_shapes = false;
};

struct OpKernelFamily {
  std::span<const OpKernel> kernels;
};

// The kernels of all files of kernels/, by file name.
[[nodiscard]] std::span<const OpKernelFamily* const> all_op_kernels();
// The kernel of an op, or null if it has none.
[[nodiscard]] const OpKernel* find_op_kernel(std::string_view op);
// Runs the kernel of the call's op; for a form that a release derives (rule_table.h), the kernel of
// the op that it comes from, without the `out` tensors. Throws InputError if there is none.
[[nodiscard]] LocalResult run_op_kernel(const LocalCall& call);

// -- For kernels -----------------------------------------------------------------------------

// Throws InputError unless the call has `least` to `most` tensors.
void expect_inputs(const LocalCall& local, std::size_t least, std::size_t most);
// Throws InputError unless the call has `count` tensors, not counting the one that an out= op
// writes to.
void expect_operands(const LocalCall& local, std::size_t count);
// The first tensor. Throws InputError if there is none.
[[nodiscard]] const HostTensor& first_input(const LocalCall& local);
// Throws InputError for tensors of different dtypes.
void expect_same_dtype(const LocalCall& local, const HostTensor& a, const HostTensor& b);
// The shape of the tensor that an op makes from no tensor: the first of --args or, on a rank, the
// one that the output's layout asks for. Throws InputError if the call has tensors, or no shape.
[[nodiscard]] Shape made_shape(const LocalCall& local);
[[nodiscard]] std::vector<double> as_doubles(const HostTensor& tensor);
// Rounds the values to the dtype; values of integer dtypes are rounded towards zero.
[[nodiscard]] HostTensor from_doubles(HostMemory& memory, DType dtype, const Shape& shape,
                                      std::span<const double> values);
// Casts the values to the dtype. C++ defines no integer for numbers beyond its range and for NaN;
// here, as on CUDA, the nearest one that kernels hold stands for the former, which is 2^52 so that
// a program may still add to it, and 0 for NaN. T5 casts log(0) and does not use the result.
[[nodiscard]] HostTensor cast_doubles(HostMemory& memory, DType dtype, const Shape& shape,
                                      std::vector<double> values);
// A tensor as messages show it: "f32[2,3]".
[[nodiscard]] std::string tensor_text(DType dtype, const Shape& shape);
[[nodiscard]] std::string tensor_text(const HostTensor& tensor);
// The names of the dtypes that holds_data() accepts, for messages.
[[nodiscard]] std::string data_dtype_names();
// The number of a shape's elements, or the largest std::int64_t if there are more.
[[nodiscard]] std::int64_t elements_of(const Shape& shape);
// The strides of a row-major tensor, in elements.
[[nodiscard]] Shape row_major_strides(const Shape& shape);
// The strides of a row-major tensor that is broadcast to `ndim` dims: 0 in a dim that the tensor
// lacks or has one row in.
[[nodiscard]] Shape broadcast_strides(const Shape& shape, std::size_t ndim);
// For each element of an input, its row-major index in the whole tensor.
[[nodiscard]] std::vector<std::uint64_t> global_indices(const LocalCall& local, std::size_t input);
// The index in the whole tensor of row `row` of dim `dim` of an input.
[[nodiscard]] std::int64_t global_row(const LocalCall& local, std::size_t input, std::size_t dim,
                                      std::int64_t row);
// Calls work(index, i) for each element of a shape, row-major: its index by dim, and i = 0, 1, 2...
template <class Work>
void for_each_element(const Shape& shape, Work&& work) {
  Shape index(shape.size(), 0);
  for (const std::int64_t extent : shape) {
    if (extent == 0) return;
  }
  for (std::int64_t i = 0;; ++i) {
    work(static_cast<const Shape&>(index), i);
    std::size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}
// The offset of the element at `index`, in elements, for these strides.
[[nodiscard]] inline std::int64_t flat_index(const Shape& index, const Shape& strides) {
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < index.size(); ++d) flat += index[d] * strides[d];
  return flat;
}
// A number in (0, 1) that f32 holds exactly, drawn by the place of an element in the whole tensor.
// The draws 1, 2, ... of one place are independent.
[[nodiscard]] double drawn_number(std::uint64_t place, std::uint64_t draw, std::uint64_t seed = 0);
// A list of zeros, or of another value, with as many entries as the shape has elements. Throws
// LimitError.
[[nodiscard]] std::vector<double> filled(const LocalCall& local, const Shape& shape,
                                         double value = 0.0);
// Kernels need memory for doubles besides the tensors' own. Throws LimitError if `elements` doubles
// would exceed the limit of the tensors' memory.
void expect_room(std::string_view op, std::int64_t elements, const HostMemory& memory);

}  // namespace shardlab

#define OP_KERNELS(id)                         \
  extern const OpKernelFamily op_kernels_##id; \
  constinit const OpKernelFamily op_kernels_##id

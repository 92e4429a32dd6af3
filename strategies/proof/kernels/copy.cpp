// Kernels of copies, casts and factories.
#include <algorithm>
#include <cstring>

#include "costmodel/base/error.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace copy_kernels {

// The dtype that argument i of --args names, or the fallback.
DType dtype_at(const LocalCall& local, std::size_t i, DType fallback) {
  const std::string name = local.call.text_arg(i, "");
  const std::optional<DType> dtype = name.empty() ? fallback : dtype_from_name(name);
  if (dtype && holds_data(*dtype)) return *dtype;
  throw InputError(local.call.op + ": found dtype \"" + name + "\"; valid: " + data_dtype_names());
}

LocalResult run_same(const LocalCall& local, const OpKernel&) { return {{first_input(local)}, {}}; }

HostTensor constant(const LocalCall& local, DType dtype, const Shape& shape, double value) {
  return from_doubles(local.memory, dtype, shape, filled(local, shape, value));
}

// Which number fills a new tensor: the one among the arguments, or `value`.
struct Likeness {
  bool from_args = false;
  double value = 0.0;
};
template <Likeness kOf>
LocalResult run_like(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_input(local);
  const DType dtype = dtype_at(local, kOf.from_args ? 1 : 0, input.dtype());
  const double value = kOf.from_args ? local.call.number_arg(0, 0.0) : kOf.value;
  return {{constant(local, dtype, input.shape(), value)}, {}};
}

// Makes a new tensor. Its shape is the one that --args begin with or, on a rank, the one that the
// output's layout asks for.
template <Likeness kOf, std::size_t kDTypeArg>
LocalResult run_new(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_input(local);
  const auto given = local.call.integers_arg(0);
  if (!given || given->size() > kMaxTensorDims ||
      std::any_of(given->begin(), given->end(), [](std::int64_t extent) { return extent < 0; })) {
    throw InputError(local.call.op + ": --args must begin with the shape, a list of extents");
  }
  Shape shape(given->begin(), given->end());
  if (!local.output_shapes.empty()) shape = local.output_shapes[0];
  const double value = kOf.from_args ? local.call.number_arg(1, 0.0) : kOf.value;
  return {{constant(local, dtype_at(local, kDTypeArg, input.dtype()), shape, value)}, {}};
}

// What the elements of an empty tensor are does not matter. The --args are the shape, and of
// empty_permuted also the order of its dims in memory and the dtype.
LocalResult run_empty(const LocalCall& local, const OpKernel&) {
  return {{constant(local, DType::kF32, made_shape(local), 0.0)}, {}};
}
LocalResult run_empty_permuted(const LocalCall& local, const OpKernel&) {
  return {{constant(local, dtype_at(local, 2, DType::kF32), made_shape(local), 0.0)}, {}};
}

// The --args are the shape and the number.
LocalResult run_full(const LocalCall& local, const OpKernel&) {
  const Shape shape = made_shape(local);
  const nlohmann::json& args = local.call.args;
  const bool is_truth = args.size() > 1 && args[1].is_boolean();
  const double value = local.call.number_arg(1, 0.0);
  return {{constant(local, is_truth ? DType::kB8 : DType::kF32, shape, value)}, {}};
}
LocalResult run_scalar_tensor(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 0, 0);
  return {{constant(local, DType::kF32, {}, local.call.number_arg(0, 0.0))}, {}};
}
// Every rank holds all numbers of the range.
LocalResult run_arange(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 0, 0);
  const ArangeNumbers range = arange_numbers(local.call);
  expect_room(local.call.op, range.count, local.memory);
  std::vector<double> values;
  for (std::int64_t i = 0; i < range.count; ++i) {
    values.push_back(range.start + static_cast<double>(i) * range.step);
  }
  return {{from_doubles(local.memory, range.dtype, {range.count}, values)}, {}};
}

LocalResult run_fill(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_input(local);
  expect_inputs(local, 1, 2);
  double value = local.call.number_arg(0, 0.0);
  if (local.inputs.size() == 2) {
    if (local.inputs[1].elements() != 1) {
      throw InputError(local.call.op + ": found a value " + tensor_text(local.inputs[1]) +
                       "; valid: one number");
    }
    value = as_doubles(local.inputs[1])[0];
  }
  return {{constant(local, input.dtype(), input.shape(), value)}, {}};
}

LocalResult run_cast(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_input(local);
  const DType dtype = dtype_at(local, 0, input.dtype());
  return {{cast_doubles(local.memory, dtype, input.shape(), as_doubles(input))}, {}};
}

LocalResult run_equal(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  const bool equal = local.inputs[0].shape() == local.inputs[1].shape() &&
                     as_doubles(local.inputs[0]) == as_doubles(local.inputs[1]);
  return {{constant(local, DType::kB8, {}, equal ? 1.0 : 0.0)}, {}};
}
LocalResult run_same_size(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  const bool equal = local.inputs[0].shape() == local.inputs[1].shape();
  return {{constant(local, DType::kB8, {}, equal ? 1.0 : 0.0)}, {}};
}

// Reads the bytes of the last dim as another dtype.
LocalResult run_retype(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_input(local);
  const DType dtype = dtype_at(local, 0, input.dtype());
  Shape shape = input.shape();
  if (itemsize(dtype) != itemsize(input.dtype())) {
    const std::int64_t bytes = shape.empty() ? 1 : shape.back() * itemsize(input.dtype());
    if (shape.empty() || bytes % itemsize(dtype) != 0) {
      throw InputError(local.call.op + ": found " + tensor_text(input) +
                       "; valid: a last dim that holds whole elements of " +
                       std::string(to_string(dtype)));
    }
    shape.back() = bytes / itemsize(dtype);
  }
  HostTensor out = HostTensor::make(local.memory, dtype, shape);
  if (out.bytes() > 0)
    std::memcpy(out.writable(), input.data(), static_cast<std::size_t>(out.bytes()));
  return {{std::move(out)}, {}};
}

constexpr Likeness kZeros{};
constexpr Likeness kOnes{.value = 1.0};
constexpr Likeness kFull{.from_args = true};

constexpr OpKernel kKernels[] = {
    {.name = "alias", .run = run_same},
    {.name = "arange.start_step", .run = run_arange},
    {.name = "contiguous", .run = run_same},
    {.name = "detach", .run = run_same},
    {.name = "empty", .run = run_empty, .needs_output_shapes = true},
    {.name = "empty_like", .run = run_like<kZeros>},
    {.name = "empty_permuted", .run = run_empty_permuted, .needs_output_shapes = true},
    {.name = "equal", .run = run_equal},
    {.name = "fill", .run = run_fill},
    {.name = "full", .run = run_full, .needs_output_shapes = true},
    {.name = "full_like", .run = run_like<kFull>},
    {.name = "is_same_size", .run = run_same_size},
    {.name = "new_empty", .run = run_new<kZeros, 1>, .needs_output_shapes = true},
    {.name = "new_empty_strided", .run = run_new<kZeros, 2>, .needs_output_shapes = true},
    {.name = "new_full", .run = run_new<kFull, 2>, .needs_output_shapes = true},
    {.name = "new_ones", .run = run_new<kOnes, 1>, .needs_output_shapes = true},
    {.name = "new_zeros", .run = run_new<kZeros, 1>, .needs_output_shapes = true},
    {.name = "ones_like", .run = run_like<kOnes>},
    {.name = "scalar_tensor", .run = run_scalar_tensor},
    {.name = "to", .run = run_cast},
    {.name = "view.dtype", .run = run_retype},
    {.name = "zeros_like", .run = run_like<kZeros>},
};

}  // namespace copy_kernels

OP_KERNELS(copy){copy_kernels::kKernels};

}  // namespace shardlab

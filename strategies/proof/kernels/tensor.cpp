// Kernels that join and cast tensors, and one that draws numbers by their index in the whole
// tensor.
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace tensor_kernels {

// Joins the parts, one after the other, along `dim`.
HostTensor joined(const LocalCall& local, int dim, const std::vector<HostTensor>& parts) {
  Shape shape = parts[0].shape();
  std::int64_t& rows = shape[to_index(dim)];
  rows = 0;
  for (const HostTensor& part : parts) {
    bool fits = part.dtype() == parts[0].dtype() && part.ndim() == parts[0].ndim();
    for (int d = 0; fits && d < part.ndim(); ++d) {
      fits = d == dim || part.extent(d) == parts[0].extent(d);
    }
    if (!fits) {
      throw InputError(local.call.op + ": found " + tensor_text(parts[0]) + " and " +
                       tensor_text(part) +
                       "; valid: tensors of one dtype whose shapes differ in dim " +
                       std::to_string(dim) + " only");
    }
    rows += part.extent(dim);
  }
  HostTensor out = HostTensor::make(local.memory, parts[0].dtype(), shape);
  Shape offset(shape.size(), 0);
  for (const HostTensor& part : parts) {
    copy_box(part, Shape(shape.size(), 0), out, offset, part.shape());
    offset[to_index(dim)] += part.extent(dim);
  }
  return out;
}

LocalResult run_cat(const LocalCall& local, const OpKernel&) {
  const HostTensor& first = first_input(local);
  const int dim = normalize_dim(local.call.integer_arg(0, 0), first.ndim(), local.call.op);
  if (first.ndim() == 0) throw InputError(local.call.op + ": takes tensors of at least one dim");
  return {{joined(local, dim, {local.inputs.begin(), local.inputs.end()})}, {}};
}

LocalResult run_stack(const LocalCall& local, const OpKernel&) {
  const HostTensor& first = first_input(local);
  const int dim = normalize_dim(local.call.integer_arg(0, 0), first.ndim() + 1, local.call.op);
  if (first.ndim() == kMaxTensorDims) {
    throw InputError(local.call.op + ": found " + tensor_text(first) + "; valid: fewer than " +
                     std::to_string(kMaxTensorDims) + " dims, because the result has one more");
  }
  std::vector<HostTensor> parts;
  for (const HostTensor& input : local.inputs) {
    if (input.shape() != first.shape()) {
      throw InputError(local.call.op + ": found " + tensor_text(first) + " and " +
                       tensor_text(input) + "; valid: tensors of one shape");
    }
    Shape shape = input.shape();
    shape.insert(shape.begin() + dim, 1);
    parts.push_back(input.reshape(shape));
  }
  return {{joined(local, dim, parts)}, {}};
}

// Numbers in (0, 1), drawn by their index in the whole tensor and therefore the same in every
// layout. The seed is in --args.
LocalResult run_rand_like(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_input(local);
  const auto seed = static_cast<std::uint64_t>(local.call.integer_arg(0, 0));
  std::vector<double> values;
  for (const std::uint64_t index : global_indices(local, 0)) {
    values.push_back(drawn_number(index, 1, seed));
  }
  return {{from_doubles(local.memory, input.dtype(), input.shape(), values)}, {}};
}

// Casts to the dtype that --args begin with.
LocalResult run_to_copy(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_input(local);
  const std::string name = local.call.args.empty() || !local.call.args[0].is_string()
                               ? ""
                               : local.call.args[0].get<std::string>();
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype || !holds_data(*dtype)) {
    throw InputError(local.call.op +
                     ": --args must begin with a dtype; valid: " + data_dtype_names());
  }
  return {{cast_doubles(local.memory, *dtype, input.shape(), as_doubles(input))}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_to_copy", .run = run_to_copy},
    {.name = "autoparallel.dtype_cast.default", .run = run_to_copy},
    {.name = "cat", .run = run_cat},
    {.name = "rand_like", .run = run_rand_like},
    {.name = "stack", .run = run_stack},
};

}  // namespace tensor_kernels

OP_KERNELS(tensor){tensor_kernels::kKernels};

}  // namespace shardlab

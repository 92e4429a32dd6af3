// Kernels that move elements: joins and views; and numbers drawn by their place.
#include <algorithm>

#include "costmodel/error.h"
#include "sim/counter_hash.h"
#include "sim/tensor_kernels.h"
#include "strategies/op_kernel.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMostExtent = std::int64_t{1} << 53U;

const HostTensor& first_of(const LocalCall& local) {
  if (local.inputs.empty()) throw InputError(local.call.op + ": takes at least one tensor");
  return local.inputs[0];
}

// One after the other along `dim`.
HostTensor joined(const LocalCall& local, int dim, const std::vector<HostTensor>& parts) {
  Shape shape = parts[0].shape();
  std::int64_t& rows = shape[static_cast<std::size_t>(dim)];
  rows = 0;
  for (const HostTensor& part : parts) {
    bool fits = part.dtype() == parts[0].dtype() && part.ndim() == parts[0].ndim();
    for (int d = 0; fits && d < part.ndim(); ++d) {
      fits = d == dim || part.extent(d) == parts[0].extent(d);
    }
    if (!fits) {
      throw InputError(local.call.op + ": tensors of one dtype whose shapes differ in dim " +
                       std::to_string(dim) + " only");
    }
    rows += part.extent(dim);
  }
  HostTensor out = HostTensor::make(local.memory, parts[0].dtype(), shape);
  Shape offset(shape.size(), 0);
  for (const HostTensor& part : parts) {
    copy_box(part, Shape(shape.size(), 0), out, offset, part.shape());
    offset[static_cast<std::size_t>(dim)] += part.extent(dim);
  }
  return out;
}

LocalResult run_cat(const LocalCall& local, const OpKernel&) {
  const HostTensor& first = first_of(local);
  const int dim = normalize_dim(local.call.integer_arg(0, 0), first.ndim(), local.call.op);
  if (first.ndim() == 0) throw InputError(local.call.op + ": tensors of at least one dim");
  return {{joined(local, dim, {local.inputs.begin(), local.inputs.end()})}, {}};
}

LocalResult run_stack(const LocalCall& local, const OpKernel&) {
  const HostTensor& first = first_of(local);
  const int dim = normalize_dim(local.call.integer_arg(0, 0), first.ndim() + 1, local.call.op);
  if (first.ndim() == kMaxTensorDims) throw InputError(local.call.op + ": too many dims");
  std::vector<HostTensor> parts;
  for (const HostTensor& input : local.inputs) {
    if (input.shape() != first.shape()) {
      throw InputError(local.call.op + ": tensors of one shape");
    }
    Shape shape = input.shape();
    shape.insert(shape.begin() + dim, 1);
    parts.push_back(input.reshape(shape));
  }
  return {{joined(local, dim, parts)}, {}};
}

// The elements in row-major order, in the shape that --args begin with; on a rank, in the shape that
// the output's layout gives it.
LocalResult run_view(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_of(local);
  Shape shape;
  if (!local.output_shapes.empty()) {
    shape = local.output_shapes[0];
  } else {
    const auto extents = local.call.integers_arg(0);
    if (!extents || extents->size() > kMaxTensorDims) {
      throw InputError(local.call.op + ": --args must begin with the shape");
    }
    shape.assign(extents->begin(), extents->end());
    // One -1 stands for what the others leave.
    const auto open = std::find(shape.begin(), shape.end(), -1);
    std::int64_t others = 1;
    for (auto extent = shape.begin(); extent != shape.end(); ++extent) {
      if (extent == open) continue;
      if (*extent < 0 || *extent > kMostExtent) {
        throw InputError(local.call.op + ": found an extent of " + std::to_string(*extent) +
                         "; valid: 0 to 2^53, or one -1");
      }
      others = *extent == 0 ? 0 : saturating_product(others, *extent);
    }
    if (open != shape.end()) *open = others == 0 ? 0 : input.elements() / others;
  }
  std::int64_t elements = 1;
  std::int64_t capacity = 1;
  for (const std::int64_t extent : shape) {
    elements = extent == 0 ? 0 : saturating_product(elements, extent);
    capacity = saturating_product(capacity, std::max<std::int64_t>(extent, 1));
  }
  if (capacity > kMostExtent) throw InputError(local.call.op + ": extents past 2^53 elements");
  if (elements != input.elements()) {
    throw InputError(local.call.op + ": a tensor of " + std::to_string(input.elements()) +
                     " elements can't be seen as one of " + std::to_string(elements));
  }
  return {{input.reshape(shape)}, {}};
}

// Numbers in (0, 1) by their global index, the same whatever the layout. --args: the seed.
LocalResult run_rand_like(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_of(local);
  const auto seed = static_cast<std::uint64_t>(local.call.integer_arg(0, 0));
  const Shape& global = local.call.tensors()[0]->meta.shape;
  std::vector<double> values(static_cast<std::size_t>(input.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t place = 0;
    std::int64_t stride = 1;
    for (std::size_t d = global.size(); d-- > 0;) {
      const std::int64_t row = rest % input.shape()[d];
      rest /= input.shape()[d];
      const bool known = !local.input_rows.empty();
      place += stride * (known ? local.input_rows[0][d][static_cast<std::size_t>(row)] : row);
      stride *= global[d];
    }
    const std::uint64_t hash = counter_hash(seed, static_cast<std::uint64_t>(place), 1);
    values[i] = (static_cast<double>(hash >> 42U) + 0.5) * 0x1p-22;  // exact in f32
  }
  return {{from_doubles(local.memory, input.dtype(), input.shape(), values)}, {}};
}

// To another dtype: the first of --args.
LocalResult run_to_copy(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = first_of(local);
  const std::string name = local.call.args.empty() || !local.call.args[0].is_string()
                               ? ""
                               : local.call.args[0].get<std::string>();
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype || !holds_data(*dtype)) {
    throw InputError(local.call.op +
                     ": --args must begin with a dtype: " + std::string(kDTypeNames));
  }
  return {{from_doubles(local.memory, *dtype, input.shape(), as_doubles(input))}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_to_copy", .run = run_to_copy},
    {.name = "cat", .run = run_cat},
    {.name = "rand_like", .run = run_rand_like},
    {.name = "stack", .run = run_stack},
    {.name = "view", .run = run_view, .needs_output_shapes = true},
};

}  // namespace

OP_KERNELS(tensor){kKernels};

}  // namespace shardlab

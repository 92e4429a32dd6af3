// Kernels of views, which show a rank's elements in the shape of its part of the result.
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace view_kernels {

constexpr std::int64_t kMostExtent = std::int64_t{1} << 53U;

const HostTensor& only_input(const LocalCall& local) {
  expect_inputs(local, 1, 1);
  return local.inputs[0];
}

const Shape& global_shape(const LocalCall& local) {
  return local.call.required_tensor(0).meta.shape;
}

void expect_global_rank(const LocalCall& local) {
  if (only_input(local).ndim() != static_cast<int>(global_shape(local).size())) {
    throw InputError(local.call.op + ": found a local tensor " + tensor_text(local.inputs[0]) +
                     "; valid: " + std::to_string(global_shape(local).size()) +
                     " dims, as many as the whole tensor has");
  }
}

// The number of a shape's elements. Throws InputError for an extent or a product past 2^53.
std::int64_t checked_elements(const LocalCall& local, const Shape& shape) {
  std::int64_t elements = 1;
  std::int64_t capacity = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || extent > kMostExtent) {
      throw InputError(local.call.op + ": found an extent of " + std::to_string(extent) +
                       "; valid: 0 to 2^53, or one -1");
    }
    elements *= extent;
    capacity = saturating_product(capacity, std::max<std::int64_t>(extent, 1));
    if (capacity > kMostExtent) {
      throw InputError(local.call.op + ": the result would have more than 2^53 elements");
    }
  }
  return elements;
}

LocalResult shown_as(const LocalCall& local, const Shape& shape) {
  const HostTensor& input = only_input(local);
  const std::int64_t elements = checked_elements(local, shape);
  if (elements != input.elements()) {
    throw InputError(local.call.op + ": a tensor of " + std::to_string(input.elements()) +
                     " elements can't be seen as one of " + std::to_string(elements));
  }
  return {{input.reshape(shape)}, {}};
}

std::vector<std::int64_t> integers(const LocalCall& local) {
  const auto found = local.call.integers_arg(0);
  if (!found || found->size() > static_cast<std::size_t>(kMaxTensorDims)) {
    throw InputError(local.call.op + ": --args must begin with a list of at most " +
                     std::to_string(kMaxTensorDims) + " integers");
  }
  return *found;
}

// The elements in row-major order, in the shape that --args begin with or, on a rank, that the
// output's layout asks for.
LocalResult run_view(const LocalCall& local, const OpKernel&) {
  const HostTensor& input = only_input(local);
  if (!local.output_shapes.empty()) return shown_as(local, local.output_shapes[0]);
  const std::vector<std::int64_t> extents = integers(local);
  Shape shape(extents.begin(), extents.end());
  // One extent may be -1, which stands for the number of elements that the others leave.
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) {
    *open = 1;
    const std::int64_t others = checked_elements(local, shape);
    *open = others == 0 ? 0 : input.elements() / others;
  }
  return shown_as(local, shape);
}

// Where a row of an output dim comes from: a row of an input dim, or no input dim (-1).
struct Source {
  int dim;
  std::int64_t row;
};

// Each element of the result is an element of the input: source_of(output dim, row) gives its row
// in an input dim.
template <class SourceOf>
LocalResult gathered(const LocalCall& local, const Shape& shape, SourceOf&& source_of) {
  const HostTensor& input = only_input(local);
  const std::int64_t elements = checked_elements(local, shape);
  expect_room(local.call.op, elements + input.elements(), local.memory);
  const std::vector<double> from = as_doubles(input);
  const Shape strides = row_major_strides(input.shape());
  std::vector<double> to(static_cast<std::size_t>(elements));
  for_each_element(shape, [&](const Shape& index, std::int64_t i) {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Source source = source_of(static_cast<int>(d), index[d]);
      if (source.dim >= 0) flat += source.row * strides[to_index(source.dim)];
    }
    to[to_index(i)] = from[to_index(flat)];
  });
  return {{from_doubles(local.memory, input.dtype(), shape, to)}, {}};
}

LocalResult permuted(const LocalCall& local, const std::vector<int>& dims) {
  Shape shape;
  for (const int d : dims) shape.push_back(only_input(local).extent(d));
  return gathered(local, shape, [&](int d, std::int64_t row) {
    return Source{dims[to_index(d)], row};
  });
}

LocalResult run_permute(const LocalCall& local, const OpKernel&) {
  expect_global_rank(local);
  const int ndim = local.inputs[0].ndim();
  std::vector<int> dims;
  for (const std::int64_t dim : integers(local)) {
    const int d = normalize_dim(dim, ndim, local.call.op);
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) dims.push_back(d);
  }
  if (static_cast<int>(dims.size()) != ndim) {
    throw InputError(local.call.op + ": --args must name each dim once");
  }
  return permuted(local, dims);
}

LocalResult exchanged(const LocalCall& local, int a, int b) {
  std::vector<int> dims;
  for (int d = 0; d < local.inputs[0].ndim(); ++d) dims.push_back(d == a ? b : d == b ? a : d);
  return permuted(local, dims);
}

LocalResult run_transpose(const LocalCall& local, const OpKernel&) {
  expect_global_rank(local);
  const int ndim = local.inputs[0].ndim();
  if (local.call.args.size() < 2) {
    throw InputError(local.call.op + ": --args must begin with the two dims");
  }
  return exchanged(local, normalize_dim(local.call.integer_arg(0, 0), ndim, local.call.op),
                   normalize_dim(local.call.integer_arg(1, 0), ndim, local.call.op));
}

LocalResult run_t(const LocalCall& local, const OpKernel&) {
  expect_global_rank(local);
  if (local.inputs[0].ndim() > 2) {
    throw InputError(local.call.op + ": found " + tensor_text(local.inputs[0]) +
                     "; valid: a tensor of at most 2 dims");
  }
  return exchanged(local, 0, local.inputs[0].ndim() - 1);
}

LocalResult run_unsqueeze(const LocalCall& local, const OpKernel&) {
  expect_global_rank(local);
  Shape shape = local.inputs[0].shape();
  if (local.call.args.empty()) {
    throw InputError(local.call.op + ": --args must begin with the dim");
  }
  if (shape.size() == kMaxTensorDims) {
    throw InputError(local.call.op + ": found " + tensor_text(local.inputs[0]) +
                     "; valid: fewer than " + std::to_string(kMaxTensorDims) +
                     " dims, because the result has one more");
  }
  const int dim =
      normalize_dim(local.call.integer_arg(0, 0), local.inputs[0].ndim() + 1, local.call.op);
  shape.insert(shape.begin() + dim, 1);
  return shown_as(local, shape);
}

// Drops the dims whose extent in the whole tensor is 1. A longer dim stays even where the rank has
// one row of it.
LocalResult run_squeeze(const LocalCall& local, const OpKernel&) {
  expect_global_rank(local);
  const HostTensor& input = local.inputs[0];
  const Shape& global = global_shape(local);
  const auto listed = local.call.integers_arg(0);
  std::vector<bool> asked(global.size(), !listed);
  for (const std::int64_t dim : listed.value_or(std::vector<std::int64_t>())) {
    const int d = normalize_dim(dim, input.ndim(), local.call.op);
    if (input.ndim() > 0) asked[to_index(d)] = true;
  }
  Shape shape;
  for (std::size_t d = 0; d < global.size(); ++d) {
    if (!asked[d] || global[d] != 1) shape.push_back(input.shape()[d]);
  }
  return shown_as(local, shape);
}

// Repeats dims of one row as often as --args or, on a rank, the output's layout ask for.
LocalResult run_expand(const LocalCall& local, const OpKernel&) {
  expect_global_rank(local);
  const HostTensor& input = local.inputs[0];
  const std::vector<std::int64_t> extents = integers(local);
  const int added = static_cast<int>(extents.size()) - input.ndim();
  if (added < 0) throw InputError(local.call.op + ": the tensor has more dims than --args list");
  const bool is_local = !local.output_shapes.empty();
  if (is_local && local.output_shapes[0].size() != extents.size()) {
    throw InputError(
        local.call.op + ": found an output of " + std::to_string(local.output_shapes[0].size()) +
        " dims; valid: " + std::to_string(extents.size()) + ", as many as --args list");
  }
  Shape shape;
  for (int out = 0; out < static_cast<int>(extents.size()); ++out) {
    const auto o = static_cast<std::size_t>(out);
    const int d = out - added;
    const std::int64_t have = d < 0 ? 1 : input.extent(d);
    const bool keeps =
        d >= 0 && (extents[o] == -1 || extents[o] == global_shape(local)[to_index(d)]);
    const std::int64_t want = keeps ? have : is_local ? local.output_shapes[0][o] : extents[o];
    if (have != 1 && have != want) {
      throw InputError(local.call.op + ": dim " + std::to_string(d) + " of extent " +
                       std::to_string(have) + " can't be expanded to " + std::to_string(want));
    }
    shape.push_back(want);
  }
  return gathered(local, shape, [&](int out, std::int64_t row) {
    const int d = out - added;
    return Source{d, d >= 0 && input.extent(d) != 1 ? row : 0};
  });
}

LocalResult run_repeat(const LocalCall& local, const OpKernel&) {
  expect_global_rank(local);
  const HostTensor& input = local.inputs[0];
  const std::vector<std::int64_t> repeats = integers(local);
  const int added = static_cast<int>(repeats.size()) - input.ndim();
  if (added < 0) throw InputError(local.call.op + ": the tensor has more dims than --args list");
  Shape shape;
  for (int out = 0; out < static_cast<int>(repeats.size()); ++out) {
    const std::int64_t times = repeats[to_index(out)];
    const std::int64_t have = out < added ? 1 : input.extent(out - added);
    if (times < 0 || times > kMostExtent) {
      throw InputError(local.call.op + ": found a repeat of " + std::to_string(times) +
                       "; valid: 0 to 2^53");
    }
    shape.push_back(have == 0 || times == 0 ? 0 : saturating_product(have, times));
  }
  return gathered(local, shape, [&](int out, std::int64_t row) {
    const int d = out - added;
    return Source{d, d >= 0 ? row % input.extent(d) : 0};
  });
}

constexpr OpKernel kKernels[] = {
    {.name = "_unsafe_view", .run = run_view, .needs_output_shapes = true},
    {.name = "expand", .run = run_expand, .needs_output_shapes = true},
    {.name = "expand_copy", .run = run_expand, .needs_output_shapes = true},
    {.name = "permute", .run = run_permute},
    {.name = "repeat", .run = run_repeat},
    {.name = "reshape", .run = run_view, .needs_output_shapes = true},
    {.name = "squeeze", .run = run_squeeze},
    {.name = "t", .run = run_t},
    {.name = "transpose", .run = run_transpose},
    {.name = "unsqueeze", .run = run_unsqueeze},
    {.name = "view", .run = run_view, .needs_output_shapes = true},
    {.name = "view_copy", .run = run_view, .needs_output_shapes = true},
};

}  // namespace view_kernels

OP_KERNELS(view){view_kernels::kKernels};

}  // namespace shardlab

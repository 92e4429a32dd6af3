// as_strided and as_strided_scatter, which read and write a tensor by the places of its elements in
// memory. They need the whole tensor, since a rank's part lies in memory in another way.
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace strided_kernels {

// Returns the place in memory of each element of a box, in row-major order of the elements.
std::vector<std::int64_t> places_in_memory(const Shape& shape, const Shape& strides,
                                           std::int64_t offset) {
  std::vector<std::int64_t> places;
  for_each_element(shape, [&](const Shape& index, std::int64_t) {
    places.push_back(offset + flat_index(index, strides));
  });
  return places;
}

// The first tensor, as it lies in memory.
struct Memory {
  explicit Memory(const LocalCall& local) {
    const HostTensor& input = first_input(local);
    const TensorMeta& meta = local.call.tensors()[0]->meta;
    if (input.shape() != meta.shape) {
      throw InputError(local.call.op + ": found " + tensor_text(input) + " on a rank, a part of " +
                       meta.text() +
                       "; valid: the whole tensor, because its places in memory count");
    }
    places = places_in_memory(
        meta.shape, meta.strides.empty() ? row_major_strides(meta.shape) : meta.strides, 0);
    const std::int64_t last = places.empty() ? -1 : *std::max_element(places.begin(), places.end());
    expect_room(local.call.op, last + 1, local.memory);
    values.resize(to_index(last + 1), 0.0);
    const std::vector<double> elements = as_doubles(input);
    for (std::size_t i = 0; i < elements.size(); ++i) values[to_index(places[i])] = elements[i];
  }

  std::vector<std::int64_t> places;  // by element of the tensor
  std::vector<double> values;        // by place
};

// The box that --args name: its shape, its strides, and the place of its first element.
struct Box {
  explicit Box(const LocalCall& local, const Memory& memory) {
    const auto extents = local.call.integers_arg(0);
    const auto strides = local.call.integers_arg(1);
    const auto is_count = [](std::int64_t n) { return n >= 0; };
    if (!extents || !strides || extents->size() != strides->size() ||
        extents->size() > kMaxTensorDims ||
        !std::all_of(extents->begin(), extents->end(), is_count) ||
        !std::all_of(strides->begin(), strides->end(), is_count)) {
      throw InputError(
          local.call.op +
          ": --args must begin with a shape and its strides, such as [[4, 2], [2, 1]]");
    }
    shape.assign(extents->begin(), extents->end());
    expect_room(local.call.op, elements_of(shape), local.memory);
    places =
        places_in_memory(shape, {strides->begin(), strides->end()}, local.call.integer_arg(2, 0));
    for (const std::int64_t place : places) {
      if (place >= 0 && place < std::ssize(memory.values)) continue;
      throw InputError(local.call.op + ": found an element at place " + std::to_string(place) +
                       " of memory; valid: 0 to " + std::to_string(std::ssize(memory.values) - 1));
    }
  }

  Shape shape;
  std::vector<std::int64_t> places;  // by element of the box
};

LocalResult run_read(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const Memory memory(local);
  const Box box(local, memory);
  std::vector<double> values;
  for (const std::int64_t place : box.places) values.push_back(memory.values[to_index(place)]);
  return {{from_doubles(local.memory, local.inputs[0].dtype(), box.shape, values)}, {}};
}

// The first tensor, of which the box has the elements of the second.
LocalResult run_write(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  Memory memory(local);
  const Box box(local, memory);
  const HostTensor& written = local.inputs[1];
  if (written.shape() != box.shape) {
    throw InputError(local.call.op + ": found " + tensor_text(written) + "; valid: " +
                     tensor_text(written.dtype(), box.shape) + ", the shape that --args name");
  }
  const std::vector<double> elements = as_doubles(written);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    memory.values[to_index(box.places[i])] = elements[i];
  }
  std::vector<double> values;
  for (const std::int64_t place : memory.places) values.push_back(memory.values[to_index(place)]);
  const HostTensor& input = local.inputs[0];
  return {{from_doubles(local.memory, input.dtype(), input.shape(), values)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "as_strided", .run = run_read},
    {.name = "as_strided_scatter", .run = run_write},
};

}  // namespace strided_kernels

OP_KERNELS(strided){strided_kernels::kKernels};

}  // namespace shardlab

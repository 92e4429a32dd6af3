// Kernels of embedding bags: sums, means or maxima of the rows of a table that each bag looks up,
// and their gradient. A bag holds the lookups from its offset to that of the next bag. Lookups of
// the padding row count for nothing.
//
// What the forward op saves for its backward has the shapes that PyTorch 2.13.0 gives it on a CPU.
// Where a bag is no maximum, the last of these tensors repeats the sizes of the bags, and nothing
// reads it. The sizes are counted for sums too, where PyTorch leaves zeros that nothing reads
// (ATen/native/EmbeddingBag.cpp).
#include <algorithm>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace embedding_bag_kernels {

constexpr std::int64_t kSum = 0;
constexpr std::int64_t kMean = 1;
constexpr std::int64_t kMax = 2;

std::vector<std::int64_t> whole_numbers(const HostTensor& tensor) {
  std::vector<std::int64_t> numbers;
  for (const double value : as_doubles(tensor)) numbers.push_back(static_cast<std::int64_t>(value));
  return numbers;
}

void expect_below(const LocalCall& local, std::int64_t found, std::int64_t extent) {
  if (found >= 0 && found < extent) return;
  throw InputError(local.call.op + ": found index " + std::to_string(found) + "; valid: 0 to " +
                   std::to_string(extent - 1));
}

// Every rank must hold the tensor argument as a whole.
void expect_whole(const LocalCall& local, std::size_t i) {
  if (local.required_tensor(i).shape() == local.call.required_tensor(i).meta.shape) return;
  throw InputError(local.call.op + ": found a part of tensor argument " + std::to_string(i) +
                   " on a rank; valid: the whole tensor, which every rank needs");
}

// The bag of each lookup: how many bags behind the first begin at it or before it.
std::vector<std::int64_t> bags_of(const std::vector<std::int64_t>& offsets, std::int64_t bags,
                                  std::int64_t lookups) {
  std::vector<std::int64_t> found(to_index(lookups), 0);
  for (std::int64_t i = 0; i < lookups; ++i) {
    for (std::int64_t b = 1; b < bags; ++b) {
      if (offsets[to_index(b)] <= i) ++found[to_index(i)];
    }
  }
  return found;
}

std::vector<double> weights_of(const LocalCall& local, std::size_t i, std::size_t lookups) {
  const HostTensor* weights = local.tensor(i);
  std::vector<double> values(lookups, 1.0);
  if (weights != nullptr) values = as_doubles(*weights);
  if (values.size() == lookups) return values;
  throw InputError(local.call.op + ": found weights " + tensor_text(*weights) +
                   "; valid: a weight for each of " + std::to_string(lookups) + " lookups");
}

LocalResult run_bags(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 4);
  const HostTensor& table = local.inputs[0];
  const HostTensor& offset = local.inputs[2];
  if (table.ndim() != 2 || local.inputs[1].ndim() != 1 || offset.ndim() != 1) {
    throw InputError(local.call.op + ": found a weight " + tensor_text(table) + ", indices " +
                     tensor_text(local.inputs[1]) + " and offsets " + tensor_text(offset) +
                     "; valid: a weight of 2 dims, indices and offsets of 1 dim");
  }
  const std::int64_t mode = local.call.integer_arg(1, kSum);
  const std::int64_t padding = local.call.integer_arg(4, -1);
  const std::int64_t bags = offset.extent(0) - (local.call.boolean_arg(3, false) ? 1 : 0);
  const std::int64_t columns = table.extent(1);
  const std::vector<std::int64_t> rows = whole_numbers(local.inputs[1]);
  const std::vector<std::int64_t> bag = bags_of(whole_numbers(offset), bags, std::ssize(rows));
  const std::vector<double> weights = weights_of(local, 3, rows.size());
  const std::vector<double> values = as_doubles(table);
  std::vector<double> out = filled(local, {bags, columns});
  std::vector<double> maxima = filled(local, {bags, columns});
  std::vector<double> sizes = filled(local, {bags});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    expect_below(local, rows[i], table.extent(0));
    if (rows[i] == padding || bags == 0) continue;
    const bool first = sizes[to_index(bag[i])]++ == 0.0;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::size_t to = to_index(bag[i] * columns + c);
      const double value = weights[i] * values[to_index(rows[i] * columns + c)];
      if (mode != kMax) {
        out[to] += value;
      } else if (first || value > out[to]) {
        out[to] = value;
        maxima[to] = static_cast<double>(rows[i]);
      }
    }
  }
  for (std::size_t i = 0; mode == kMean && i < out.size(); ++i) {
    out[i] /= std::max(1.0, sizes[i / to_index(columns)]);
  }
  // A sum may take a path that does not say which bag each lookup is in. The output's layout tells,
  // also where a program computes in a wider dtype than it was traced in; else the dtype of the
  // call does.
  const DType dtype = local.call.required_tensor(0).meta.dtype;
  const bool may_be_short =
      mode == kSum && padding < 0 && (dtype == DType::kF32 || dtype == DType::kF16);
  const bool short_path =
      local.output_shapes.size() > 1 ? local.output_shapes[1] == Shape{0} : may_be_short;
  const std::vector<double> kept(bag.begin(), short_path ? bag.begin() : bag.end());
  const DType whole = offset.dtype();
  LocalResult result;
  result.outputs = {from_doubles(local.memory, table.dtype(), {bags, columns}, out),
                    from_doubles(local.memory, whole, {std::ssize(kept)}, kept),
                    from_doubles(local.memory, whole, {bags}, sizes)};
  result.outputs.push_back(mode == kMax ? from_doubles(local.memory, whole, {bags, columns}, maxima)
                                        : from_doubles(local.memory, whole, {bags}, sizes));
  return result;
}

// The gradient of a maximum goes to the row that it comes from. Otherwise each lookup adds the
// gradient of its bag to its row: times its weight, divided by the size of the bag if that is a
// mean, and divided by how often the row is looked up if gradients are scaled.
LocalResult run_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 6, 7);
  const HostTensor& grad = local.inputs[0];
  const std::int64_t mode = local.call.integer_arg(2, kSum);
  const std::int64_t rows = local.call.integer_arg(0, 0);
  const std::int64_t padding = local.call.integer_arg(4, -1);
  const std::vector<std::int64_t> indices = whole_numbers(local.inputs[1]);
  std::vector<std::int64_t> bag = whole_numbers(local.inputs[3]);
  const std::vector<std::int64_t> sizes = whole_numbers(local.inputs[4]);
  if (grad.ndim() != 2 || std::ssize(sizes) != grad.extent(0)) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(grad) + " and sizes " +
                     tensor_text(local.inputs[4]) + "; valid: a gradient and a size for each bag");
  }
  const std::int64_t columns = grad.extent(1);
  const std::vector<double> values = as_doubles(grad);
  std::vector<double> out = filled(local, {rows, columns});
  expect_whole(local, 2);
  if (mode == kMax) {
    for (const std::size_t i : {1U, 3U}) expect_whole(local, i);
    const std::vector<std::int64_t> from = whole_numbers(local.inputs[5]);
    if (local.inputs[5].shape() != grad.shape()) {
      throw InputError(local.call.op + ": found rows of maxima " + tensor_text(local.inputs[5]) +
                       "; valid: the gradient's shape, " + tensor_text(grad));
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (sizes[i / to_index(columns)] == 0) continue;
      expect_below(local, from[i], rows);
      out[to_index(from[i]) * to_index(columns) + i % to_index(columns)] += values[i];
    }
    return {{from_doubles(local.memory, grad.dtype(), {rows, columns}, out)}, {}};
  }
  expect_whole(local, 4);
  expect_whole(local, 5);
  if (bag.empty() && !indices.empty()) {
    expect_whole(local, 1);
    bag = bags_of(whole_numbers(local.inputs[2]), std::ssize(sizes), std::ssize(indices));
  }
  if (bag.size() != indices.size()) {
    throw InputError(local.call.op + ": found indices " + tensor_text(local.inputs[1]) +
                     " and their bags " + tensor_text(local.inputs[3]) +
                     "; valid: a bag for each index, or none");
  }
  const std::vector<double> weights = weights_of(local, 6, indices.size());
  std::vector<double> lookups = filled(local, {rows});
  for (const std::int64_t index : indices) {
    expect_below(local, index, rows);
    lookups[to_index(index)] += 1.0;
  }
  const bool scales = local.call.boolean_arg(1, false);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] == padding) continue;
    expect_below(local, bag[i], std::ssize(sizes));
    double scale = weights[i];
    if (mode == kMean) {
      scale /= static_cast<double>(std::max<std::int64_t>(1, sizes[to_index(bag[i])]));
    }
    if (scales) scale /= lookups[to_index(indices[i])];
    for (std::int64_t c = 0; c < columns; ++c) {
      out[to_index(indices[i] * columns + c)] += scale * values[to_index(bag[i] * columns + c)];
    }
  }
  return {{from_doubles(local.memory, grad.dtype(), {rows, columns}, out)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_embedding_bag", .run = run_bags, .needs_output_shapes = true},
    {.name = "_embedding_bag_backward", .run = run_backward},
    {.name = "_embedding_bag_forward_only", .run = run_bags, .needs_output_shapes = true},
};

}  // namespace embedding_bag_kernels

OP_KERNELS(embedding_bag){embedding_bag_kernels::kKernels};

}  // namespace shardlab

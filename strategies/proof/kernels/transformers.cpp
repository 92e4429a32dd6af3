// Kernels of the custom ops of Hugging Face's transformers 5.23.0 (integrations/moe.py): products
// of groups of rows with one matrix for each group, and their gradients. Rows behind the last group
// are zeros.
#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace transformers_kernels {

// The extents of one rank's products, and the group of each row, -1 for those behind the last one.
struct Groups {
  explicit Groups(const LocalCall& local) {
    const HostTensor& input = local.inputs[0];
    const HostTensor& weight = local.inputs[1];
    const HostTensor& offsets = local.inputs[2];
    if (input.ndim() != 2 || weight.ndim() != 3 || offsets.ndim() != 1 ||
        input.extent(1) != weight.extent(1) || offsets.extent(0) != weight.extent(0)) {
      throw InputError(local.call.op + ": found " + tensor_text(input) + ", " +
                       tensor_text(weight) + " and offsets " + tensor_text(offsets) +
                       "; valid: rows as long as the matrices have rows, and an offset for each "
                       "matrix");
    }
    rows = input.extent(0);
    in = weight.extent(1);
    out = weight.extent(2);
    of_row.assign(to_index(rows), -1);
    std::int64_t begin = 0;
    std::int64_t group = 0;
    for (const double offset : as_doubles(offsets)) {
      const auto end = static_cast<std::int64_t>(offset);
      if (end < 0 || end > rows) {
        throw InputError(local.call.op + ": found the offset " + std::to_string(end) +
                         "; valid: 0 to " + std::to_string(rows));
      }
      for (std::int64_t row = begin; row < end; ++row) of_row[to_index(row)] = group;
      begin = std::max(begin, end);
      ++group;
    }
  }

  // Calls visit(input, weight, product) with the flat indices of the elements that meet.
  template <class Visit>
  void for_each_product(Visit&& visit) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t group = of_row[to_index(row)];
      for (std::int64_t i = 0; group >= 0 && i < in; ++i) {
        for (std::int64_t o = 0; o < out; ++o) {
          visit(to_index(row * in + i), to_index((group * in + i) * out + o),
                to_index(row * out + o));
        }
      }
    }
  }

  std::int64_t rows;
  std::int64_t in;
  std::int64_t out;
  std::vector<std::int64_t> of_row;
};

LocalResult run_product(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 3);
  const Groups groups(local);
  const std::vector<double> x = as_doubles(local.inputs[0]);
  const std::vector<double> w = as_doubles(local.inputs[1]);
  const Shape shape = {groups.rows, groups.out};
  std::vector<double> y = filled(local, shape);
  groups.for_each_product(
      [&](std::size_t i, std::size_t k, std::size_t o) { y[o] += x[i] * w[k]; });
  return {{from_doubles(local.memory, local.inputs[0].dtype(), shape, y)}, {}};
}

LocalResult run_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 4, 4);
  const Groups groups(local);
  const HostTensor& gradient = local.inputs[3];
  if (gradient.shape() != Shape{groups.rows, groups.out}) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(gradient) +
                     "; valid: " + tensor_text(gradient.dtype(), {groups.rows, groups.out}));
  }
  const std::vector<double> x = as_doubles(local.inputs[0]);
  const std::vector<double> w = as_doubles(local.inputs[1]);
  const std::vector<double> g = as_doubles(gradient);
  std::vector<double> of_input(x.size(), 0.0);
  std::vector<double> of_weight(w.size(), 0.0);
  groups.for_each_product([&](std::size_t i, std::size_t k, std::size_t o) {
    of_input[i] += g[o] * w[k];
    of_weight[k] += g[o] * x[i];
  });
  LocalResult result;
  for (std::size_t t = 0; t < 2; ++t) {
    const HostTensor& like = local.inputs[t];
    result.outputs.push_back(
        from_doubles(local.memory, like.dtype(), like.shape(), t == 0 ? of_input : of_weight));
  }
  return result;
}

constexpr OpKernel kKernels[] = {
    {.name = "transformers.grouped_mm_fallback.default", .run = run_product},
    {.name = "transformers.grouped_mm_fallback_backward.default", .run = run_backward},
};

}  // namespace transformers_kernels

OP_KERNELS(transformers){transformers_kernels::kKernels};

}  // namespace shardlab

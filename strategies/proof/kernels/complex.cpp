// Kernels for complex numbers, which are held as pairs of real ones in a last dim of two
// (wide_program.h). The ops are ours: PyTorch has none of these names.
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"

namespace shardlab {
namespace complex_kernels {

void expect_pairs(const LocalCall& local) {
  for (const HostTensor& input : local.inputs) {
    if (input.ndim() > 0 && input.shape().back() == 2) continue;
    throw InputError(local.call.op + ": found " + tensor_text(input) +
                     "; valid: a last dim of extent 2, which holds the parts of complex numbers");
  }
}

LocalResult run_conjugate(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  expect_pairs(local);
  std::vector<double> values = as_doubles(local.inputs[0]);
  for (std::size_t i = 1; i < values.size(); i += 2) values[i] = -values[i];
  const HostTensor& input = local.inputs[0];
  return {{from_doubles(local.memory, input.dtype(), input.shape(), values)}, {}};
}

void expect_broadcast(const LocalCall& local, const Shape& operand, const Shape& result) {
  const std::size_t added = result.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (operand[d] != 1 && operand[d] != result[added + d]) {
      throw InputError(local.call.op + ": found " + tensor_text(local.inputs[0]) + " and " +
                       tensor_text(local.inputs[1]) +
                       "; valid: tensors that can be broadcast to each other");
    }
  }
}

// Computes (a + bi) (c + di), broadcast over all dims but the pair's.
LocalResult run_product(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  expect_pairs(local);
  const Shape& a = local.inputs[0].shape();
  const Shape& b = local.inputs[1].shape();
  Shape shape = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  for (std::size_t d = 0; d < shorter.size(); ++d) {
    std::int64_t& extent = shape[shape.size() - shorter.size() + d];
    if (extent == 1) extent = shorter[d];
  }
  const std::vector<double> x = as_doubles(local.inputs[0]);
  const std::vector<double> y = as_doubles(local.inputs[1]);
  expect_broadcast(local, a, shape);
  expect_broadcast(local, b, shape);
  const Shape x_strides = broadcast_strides(a, shape.size());
  const Shape y_strides = broadcast_strides(b, shape.size());
  std::vector<double> out = filled(local, shape);
  Shape pairs = shape;
  pairs.back() = 1;
  for_each_element(pairs, [&](const Shape& index, std::int64_t pair) {
    const std::size_t i = to_index(flat_index(index, x_strides));
    const std::size_t j = to_index(flat_index(index, y_strides));
    const std::size_t to = to_index(2 * pair);
    out[to] = x[i] * y[j] - x[i + 1] * y[j + 1];
    out[to + 1] = x[i] * y[j + 1] + x[i + 1] * y[j];
  });
  return {{from_doubles(local.memory, local.inputs[0].dtype(), shape, out)}, {}};
}

// The complex numbers of these magnitudes and angles.
LocalResult run_polar(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  const HostTensor& magnitude = local.inputs[0];
  const HostTensor& angle = local.inputs[1];
  if (magnitude.shape() != angle.shape() || magnitude.ndim() == kMaxTensorDims) {
    throw InputError(local.call.op + ": found " + tensor_text(magnitude) + " and " +
                     tensor_text(angle) + "; valid: two tensors of one shape, of at most " +
                     std::to_string(kMaxTensorDims - 1) + " dims");
  }
  const std::vector<double> lengths = as_doubles(magnitude);
  const std::vector<double> angles = as_doubles(angle);
  Shape shape = magnitude.shape();
  shape.push_back(2);
  std::vector<double> out = filled(local, shape);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    out[2 * i] = lengths[i] * std::cos(angles[i]);
    out[2 * i + 1] = lengths[i] * std::sin(angles[i]);
  }
  return {{from_doubles(local.memory, magnitude.dtype(), shape, out)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "shardlab.complex_conjugate", .run = run_conjugate},
    {.name = "shardlab.complex_polar", .run = run_polar},
    {.name = "shardlab.complex_product", .run = run_product},
};

}  // namespace complex_kernels

OP_KERNELS(complex){complex_kernels::kKernels};

}  // namespace shardlab

// Softmax and its backward, along the dim that --args begin with.
#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"
#include "strategies/proof/kernel_lanes.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/reduction_args.h"

namespace shardlab {
namespace softmax_kernels {

void expect_floating(const LocalCall& local) {
  for (const HostTensor& input : local.inputs) {
    if (is_floating_point(input.dtype())) continue;
    throw InputError(local.call.op + ": found " + tensor_text(input) +
                     "; valid: a floating point tensor, because the result is floating point");
  }
}

enum class Softmax : std::uint8_t { kPlain, kLog, kSafe };

DType softmax_dtype(const LocalCall& local, Softmax kind) {
  const DType in = local.inputs[0].dtype();
  if (kind == Softmax::kSafe) return dtype_arg(local.call, 1).value_or(in);
  return local.call.boolean_arg(1, false) ? DType::kF32 : in;
}

template <Softmax kKind>
LocalResult run_softmax(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  expect_floating(local);
  const HostTensor& input = local.inputs[0];
  const Lanes lanes(input.shape(), dim_arg(local.call, 0, input.ndim(), -1));
  std::vector<double> values = as_doubles(input);
  for (const std::size_t first : lanes.firsts) {
    const auto lane = [&](std::int64_t i) -> double& { return values[lanes.flat_index(first, i)]; };
    double most = lane(0);
    for (std::int64_t i = 1; i < lanes.extent; ++i) most = std::max(most, lane(i));
    double total = 0.0;
    for (std::int64_t i = 0; i < lanes.extent; ++i) total += std::exp(lane(i) - most);
    for (std::int64_t i = 0; i < lanes.extent; ++i) {
      lane(i) = kKind == Softmax::kLog ? lane(i) - most - std::log(total)
                                       : std::exp(lane(i) - most) / total;
      // The safe softmax makes zeros of a row that is minus infinity throughout.
      if (kKind == Softmax::kSafe && most == -kInfinity) lane(i) = 0.0;
    }
  }
  return {{from_doubles(local.memory, softmax_dtype(local, kKind), input.shape(), values)}, {}};
}

// With g the gradient of the output y, computes y (g - sum(g y)) or, for the logarithm, g - exp(y)
// sum(g).
template <Softmax kKind>
LocalResult run_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  expect_floating(local);
  const HostTensor& gradient = local.inputs[0];
  if (gradient.shape() != local.inputs[1].shape()) {
    throw InputError(local.call.op + ": found " + tensor_text(gradient) + " and " +
                     tensor_text(local.inputs[1]) + "; valid: tensors of one shape");
  }
  const Lanes lanes(gradient.shape(), dim_arg(local.call, 0, gradient.ndim(), -1));
  const std::vector<double> g = as_doubles(gradient);
  const std::vector<double> y = as_doubles(local.inputs[1]);
  std::vector<double> result(g.size());
  constexpr bool kLog = kKind == Softmax::kLog;
  for (const std::size_t first : lanes.firsts) {
    double total = 0.0;
    for (std::int64_t i = 0; i < lanes.extent; ++i) {
      const std::size_t flat = lanes.flat_index(first, i);
      total += kLog ? g[flat] : g[flat] * y[flat];
    }
    for (std::int64_t i = 0; i < lanes.extent; ++i) {
      const std::size_t flat = lanes.flat_index(first, i);
      result[flat] = kLog ? g[flat] - std::exp(y[flat]) * total : y[flat] * (g[flat] - total);
    }
  }
  const DType dtype = dtype_arg(local.call, 1).value_or(gradient.dtype());
  return {{from_doubles(local.memory, dtype, gradient.shape(), result)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_log_softmax", .run = run_softmax<Softmax::kLog>},
    {.name = "_log_softmax_backward_data", .run = run_backward<Softmax::kLog>},
    {.name = "_safe_softmax", .run = run_softmax<Softmax::kSafe>},
    {.name = "_softmax", .run = run_softmax<Softmax::kPlain>},
    {.name = "_softmax_backward_data", .run = run_backward<Softmax::kPlain>},
};

}  // namespace softmax_kernels

OP_KERNELS(softmax){softmax_kernels::kKernels};

}  // namespace shardlab

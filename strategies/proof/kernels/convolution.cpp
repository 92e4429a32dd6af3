// Kernels of convolutions, forward and backward, in 1 to 3 spatial dims. They visit every pair of
// elements that a window brings together. The window has one position for each spatial element of
// the small side, which is the output or, in a transposed convolution, the input; it covers
// elements of the big side.
#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/window.h"

namespace shardlab {
namespace convolution_kernels {

TensorMeta meta_of(const HostTensor& tensor) {
  return {.dtype = tensor.dtype(), .shape = tensor.shape(), .strides = {}};
}

std::int64_t product_of(const Shape& shape, std::size_t first = 0) {
  std::int64_t product = 1;
  for (std::size_t d = first; d < shape.size(); ++d) product *= shape[d];
  return product;
}

void expect_one_dtype(const LocalCall& local) {
  for (const HostTensor& tensor : local.inputs) expect_same_dtype(local, local.inputs[0], tensor);
}

// Calls visit(small, big, weight) with the flat indices of the elements that meet.
template <class Visit>
void for_each_pair(const ConvolutionWindow& window, const Shape& small, const Shape& big,
                   const Shape& weight, Visit&& visit) {
  const std::int64_t positions = product_of(small, 2);
  const std::int64_t reach = product_of(weight, 2);
  const std::int64_t extent = product_of(big, 2);
  const std::int64_t in_group = weight[0] / window.groups;
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t k = 0; k < reach; ++k) {
      std::int64_t covered = 0;  // elements of the big side that the window covers
      std::int64_t stride = 1;
      std::int64_t position_left = position;
      std::int64_t k_left = k;
      bool inside = true;
      for (std::size_t d = small.size(); inside && d-- > 2;) {
        const Window& w = window.windows[d - 2];
        const std::int64_t x =
            position_left % small[d] * w.stride - w.padding + k_left % weight[d] * w.dilation;
        inside = x >= 0 && x < big[d];
        covered += x * stride;
        stride *= big[d];
        position_left /= small[d];
        k_left /= weight[d];
      }
      if (!inside) continue;
      for (std::int64_t n = 0; n < small[0]; ++n) {
        for (std::int64_t o = 0; o < weight[0]; ++o) {
          for (std::int64_t c = 0; c < weight[1]; ++c) {
            const std::int64_t channel = o / in_group * weight[1] + c;
            visit(static_cast<std::size_t>((n * small[1] + o) * positions + position),
                  static_cast<std::size_t>((n * big[1] + channel) * extent + covered),
                  static_cast<std::size_t>((o * weight[1] + c) * reach + k));
          }
        }
      }
    }
  }
}

LocalResult run_convolution(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 3);
  expect_one_dtype(local);
  const HostTensor& input = local.required_tensor(0);
  const HostTensor& weight = local.required_tensor(1);
  const HostTensor* bias = local.tensor(2);
  const ConvolutionWindow window(local.call, meta_of(input), meta_of(weight), 0);
  const Shape& shape = window.output;
  if (bias != nullptr && (bias->ndim() != 1 || bias->extent(0) != shape[1])) {
    throw InputError(local.call.op + ": found a bias " + tensor_text(*bias) + "; valid: " +
                     tensor_text(bias->dtype(), {shape[1]}) + ", a number for each output channel");
  }
  expect_room(local.call.op, product_of(shape) + input.elements() + weight.elements(),
              local.memory);
  const std::vector<double> x = as_doubles(input);
  const std::vector<double> w = as_doubles(weight);
  std::vector<double> y(static_cast<std::size_t>(product_of(shape)));
  if (window.transposed) {
    for_each_pair(window, input.shape(), shape, weight.shape(),
                  [&](std::size_t s, std::size_t b, std::size_t k) { y[b] += x[s] * w[k]; });
  } else {
    for_each_pair(window, shape, input.shape(), weight.shape(),
                  [&](std::size_t s, std::size_t b, std::size_t k) { y[s] += x[b] * w[k]; });
  }
  if (bias != nullptr) {
    const std::vector<double> added = as_doubles(*bias);
    const auto positions = static_cast<std::size_t>(product_of(shape, 2));
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += added[i / positions % added.size()];
  }
  return {{from_doubles(local.memory, input.dtype(), shape, y)}, {}};
}

// The --args are the extents of the bias (null or [0] if there is none), then the arguments of the forward op, then which
// gradients are asked for.
LocalResult run_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 3);
  expect_one_dtype(local);
  const HostTensor& gradient = local.inputs[0];
  const HostTensor& input = local.inputs[1];
  const HostTensor& weight = local.inputs[2];
  const ConvolutionWindow window(local.call, meta_of(input), meta_of(weight), 1);
  if (gradient.shape() != window.output) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(gradient) +
                     "; valid: the output's shape, " +
                     tensor_text(gradient.dtype(), window.output));
  }
  std::vector<bool> mask = {true, true, true};
  const nlohmann::json& args = local.call.args;
  if (args.size() > 7 && args[7].is_array() && args[7].size() == 3) {
    for (std::size_t i = 0; i < 3; ++i) mask[i] = args[7][i].is_boolean() && args[7][i].get<bool>();
  }
  if (args.empty() || args[0].is_null() || args[0] == nlohmann::json{0}) mask[2] = false;
  expect_room(local.call.op, 2 * (gradient.elements() + input.elements() + weight.elements()),
              local.memory);
  const std::vector<double> g = as_doubles(gradient);
  const std::vector<double> x = as_doubles(input);
  const std::vector<double> w = as_doubles(weight);
  std::vector<double> of_input(x.size());
  std::vector<double> of_weight(w.size());
  std::vector<double> of_bias(static_cast<std::size_t>(gradient.extent(1)));
  const auto visit = [&](std::size_t out, std::size_t in, std::size_t k) {
    of_input[in] += g[out] * w[k];
    of_weight[k] += g[out] * x[in];
  };
  if (window.transposed) {
    for_each_pair(window, input.shape(), gradient.shape(), weight.shape(),
                  [&](std::size_t s, std::size_t b, std::size_t k) { visit(b, s, k); });
  } else {
    for_each_pair(window, gradient.shape(), input.shape(), weight.shape(), visit);
  }
  const auto positions = static_cast<std::size_t>(product_of(gradient.shape(), 2));
  for (std::size_t i = 0; i < g.size(); ++i) of_bias[i / positions % of_bias.size()] += g[i];
  LocalResult result;
  const auto add = [&](bool asked, const Shape& shape, const std::vector<double>& values) {
    if (!asked) return;
    result.outputs.push_back(from_doubles(local.memory, input.dtype(), shape, values));
  };
  add(mask[0], input.shape(), of_input);
  add(mask[1], weight.shape(), of_weight);
  add(mask[2], Shape{gradient.extent(1)}, of_bias);
  return result;
}

constexpr OpKernel kKernels[] = {
    {.name = "convolution", .run = run_convolution},
    {.name = "convolution_backward", .run = run_backward},
};

}  // namespace convolution_kernels

OP_KERNELS(convolution){convolution_kernels::kKernels};

}  // namespace shardlab

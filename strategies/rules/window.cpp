#include "strategies/rules/window.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/rules/tensor_args.h"

namespace shardlab {
namespace {

// Sums and products of two numbers up to this one don't overflow.
constexpr std::int64_t kMostWindow = std::int64_t{1} << 30U;

}  // namespace

std::vector<std::int64_t> by_spatial_dim(const OpCall& call, const SpatialArg& spatial) {
  std::vector<std::int64_t> values =
      call.integers_arg(spatial.arg).value_or(std::vector<std::int64_t>());
  if (values.empty()) values = spatial.fallback;
  if (values.size() == 1) values.resize(spatial.dims, values[0]);
  if (values.size() != spatial.dims) {
    throw InputError(call.op + ": argument " + std::to_string(spatial.arg) + " of --args: found " +
                     std::to_string(values.size()) + " numbers; valid: one for each of " +
                     std::to_string(spatial.dims) + " spatial dims, or one for all");
  }
  for (const std::int64_t value : values) {
    if (value < spatial.least || value > kMostWindow) {
      throw InputError(call.op + ": argument " + std::to_string(spatial.arg) +
                       " of --args: found " + std::to_string(value) +
                       "; valid: " + std::to_string(spatial.least) + " to 2^30");
    }
  }
  return values;
}

std::int64_t Window::count(std::int64_t extent, bool rounds_up) const {
  const std::int64_t free = extent + 2 * padding - dilation * (kernel - 1) - 1;
  if (free < 0) return 0;
  std::int64_t count = free / stride + 1;
  // No window may begin in the padding after the end.
  if (rounds_up && free % stride != 0 && count * stride < extent + padding) ++count;
  return count;
}

std::size_t spatial_dims_of(std::string_view op) {
  const std::string_view base = split_op_name(op).base;
  return to_index(base[base.find_first_of("123")] - '0');
}

std::vector<std::int64_t> spatial_extents(std::string_view op, const Shape& shape) {
  return {shape.end() - static_cast<std::ptrdiff_t>(spatial_dims_of(op)), shape.end()};
}

PoolingWindow::PoolingWindow(const OpCall& call, const TensorMeta& image) {
  const std::size_t dims = spatial_dims_of(call.op);
  const bool dilates = call.op.find("max") != std::string::npos;
  const auto kernel = by_spatial_dim(call, {0, dims, {}, 1});
  const auto stride = by_spatial_dim(call, {1, dims, kernel, 1});
  const auto padding = by_spatial_dim(call, {2, dims, {0}, 0});
  const auto dilation = dilates ? by_spatial_dim(call, {3, dims, {1}, 1})
                                : std::vector<std::int64_t>(dims, std::int64_t{1});
  const bool rounds_up = call.boolean_arg(dilates ? 4 : 3, false);
  for (std::size_t i = 0; i < dims; ++i) {
    const Window& window = windows.emplace_back(Window{
        .kernel = kernel[i], .stride = stride[i], .padding = padding[i], .dilation = dilation[i]});
    if (window.padding * 2 > window.kernel) {
      throw InputError(call.op + ": found a padding of " + std::to_string(window.padding) +
                       "; valid: at most half of the kernel's extent, " +
                       std::to_string(window.kernel));
    }
    counts.push_back(window.count(image.shape[image.shape.size() - dims + i], rounds_up));
    if (counts.back() < 1) {
      throw InputError(call.op + ": the window does not fit into " + image.text());
    }
  }
}

PooledRange adaptive_range(std::int64_t i, std::int64_t count, std::int64_t extent) {
  return {.begin = i * extent / count, .end = ((i + 1) * extent + count - 1) / count};
}

ConvolutionWindow::ConvolutionWindow(const OpCall& call, const TensorMeta& input,
                                     const TensorMeta& weight, std::size_t first) {
  if (input.ndim() < 3 || input.ndim() > 5 || weight.ndim() != input.ndim()) {
    throw InputError(call.op +
                     ": takes an input [N,C,...] of 1 to 3 spatial dims and a weight of the same "
                     "number of dims, found " +
                     input.text() + " and " + weight.text());
  }
  const auto dims = static_cast<std::size_t>(input.ndim()) - 2;
  const auto stride = by_spatial_dim(call, {first, dims, {1}, 1});
  const auto padding = by_spatial_dim(call, {first + 1, dims, {0}, 0});
  const auto dilation = by_spatial_dim(call, {first + 2, dims, {1}, 1});
  transposed = call.boolean_arg(first + 3, false);
  const auto output_padding = by_spatial_dim(call, {first + 4, dims, {0}, 0});
  groups = call.integer_arg(first + 5, 1);
  const std::int64_t channels = input.shape[1];
  const bool fits =
      groups >= 1 && groups <= kMostWindow && channels % groups == 0 &&
      weight.shape[0] % groups == 0 &&
      (transposed ? weight.shape[0] == channels : weight.shape[1] == channels / groups);
  if (!fits) {
    throw InputError(call.op + ": the weight " + weight.text() + " in " + std::to_string(groups) +
                     " groups does not fit the input " + input.text());
  }
  output = {input.shape[0],
            transposed ? saturating_product(groups, std::max<std::int64_t>(weight.shape[1], 1))
                       : weight.shape[0]};
  if (transposed && weight.shape[1] == 0) output[1] = 0;
  for (std::size_t i = 0; i < dims; ++i) {
    const Window window{weight.shape[i + 2], stride[i], padding[i], dilation[i]};
    const std::int64_t extent = input.shape[i + 2];
    std::int64_t count = 0;
    if (extent >= 1 && extent <= kMostWindow && window.kernel >= 1 &&
        window.kernel <= kMostWindow) {
      count = transposed ? (extent - 1) * window.stride - 2 * window.padding +
                               window.dilation * (window.kernel - 1) + output_padding[i] + 1
                         : window.count(extent);
    }
    if (count < 1) {
      throw InputError(call.op + ": a kernel of extent " + std::to_string(window.kernel) +
                       " does not fit into " + input.text());
    }
    windows.push_back(window);
    output.push_back(count);
  }
  expect_countable(call, output);
}

}  // namespace shardlab

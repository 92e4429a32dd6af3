// Kernels of pooling in two spatial dims.
#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/json_reader.h"
#include "costmodel/base/text.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/window.h"

namespace shardlab {
namespace pooling_kernels {

constexpr std::size_t kSpatial = 2;

// The spatial dims of an image, and how many planes of them there are.
struct Planes {
  std::int64_t count;
  std::int64_t rows;
  std::int64_t columns;
};

Planes planes_of(const LocalCall& local, const HostTensor& image) {
  if (image.ndim() < 3 || image.ndim() > 4) {
    throw InputError(local.call.op + ": found " + tensor_text(image) +
                     "; valid: an image [N,C,H,W] or [C,H,W]");
  }
  const int d = image.ndim() - 2;
  const std::int64_t channels = image.extent(d - 1);
  return {d == 2 ? image.extent(0) * channels : channels, image.extent(d), image.extent(d + 1)};
}

Shape resized(const HostTensor& image, std::int64_t rows, std::int64_t columns) {
  Shape shape = image.shape();
  shape[shape.size() - 2] = rows;
  shape[shape.size() - 1] = columns;
  return shape;
}

struct PoolWindows {
  Window rows;
  Window columns;
  std::int64_t out_rows;
  std::int64_t out_columns;
};

PoolWindows windows_of(const LocalCall& local, const Planes& in, bool dilates) {
  const OpCall& call = local.call;
  const auto kernel = by_spatial_dim(call, {0, kSpatial, {}, 1});
  const auto stride = by_spatial_dim(call, {1, kSpatial, kernel, 1});
  const auto padding = by_spatial_dim(call, {2, kSpatial, {0}, 0});
  const auto dilation =
      dilates ? by_spatial_dim(call, {3, kSpatial, {1}, 1}) : std::vector<std::int64_t>{1, 1};
  const bool rounds_up = call.boolean_arg(dilates ? 4 : 3, false);
  PoolWindows windows{{kernel[0], stride[0], padding[0], dilation[0]},
                      {kernel[1], stride[1], padding[1], dilation[1]},
                      0,
                      0};
  for (const Window& window : {windows.rows, windows.columns}) {
    if (window.padding * 2 > window.kernel || window.kernel > std::int64_t{1} << 12U) {
      throw InputError(call.op + ": found a kernel of " + std::to_string(window.kernel) +
                       " with padding " + std::to_string(window.padding) +
                       "; valid: a kernel of at most 4096, and padding of at most half the kernel");
    }
  }
  windows.out_rows = windows.rows.count(in.rows, rounds_up);
  windows.out_columns = windows.columns.count(in.columns, rounds_up);
  if (windows.out_rows < 1 || windows.out_columns < 1) {
    throw InputError(call.op + ": the window does not fit into an image of " +
                     std::to_string(in.rows) + " x " + std::to_string(in.columns));
  }
  return windows;
}

// Calls visit(i) with the flat index in the plane of each element of the window at (row, column).
template <class Visit>
void for_each_in_window(const PoolWindows& w, const Planes& in, std::int64_t row,
                        std::int64_t column, Visit&& visit) {
  for (std::int64_t k = 0; k < w.rows.kernel; ++k) {
    const std::int64_t y = row * w.rows.stride - w.rows.padding + k * w.rows.dilation;
    if (y < 0 || y >= in.rows) continue;
    for (std::int64_t l = 0; l < w.columns.kernel; ++l) {
      const std::int64_t x = column * w.columns.stride - w.columns.padding + l * w.columns.dilation;
      if (x >= 0 && x < in.columns) visit(y * in.columns + x);
    }
  }
}

// Finds the first maximum, as PyTorch does. NaN counts as greater than any number, and of several
// NaN the last one is taken.
LocalResult run_max_pool(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const HostTensor& image = local.inputs[0];
  const Planes in = planes_of(local, image);
  const PoolWindows w = windows_of(local, in, true);
  const Shape shape = resized(image, w.out_rows, w.out_columns);
  const std::vector<double> from = as_doubles(image);
  std::vector<double> values;
  std::vector<double> indices;
  for (std::int64_t p = 0; p < in.count; ++p) {
    for (std::int64_t out = 0; out < w.out_rows * w.out_columns; ++out) {
      double best = -std::numeric_limits<double>::infinity();
      std::int64_t best_index = -1;
      for_each_in_window(w, in, out / w.out_columns, out % w.out_columns, [&](std::int64_t i) {
        const double value = from[to_index(p * in.rows * in.columns + i)];
        if (best_index < 0 || value > best || std::isnan(value)) {
          best = value;
          best_index = i;
        }
      });
      if (best_index < 0) {
        throw InputError(local.call.op +
                         ": found a window that lies on padding alone; valid: windows that hold "
                         "at least one element");
      }
      values.push_back(best);
      indices.push_back(static_cast<double>(best_index));
    }
  }
  return {{from_doubles(local.memory, image.dtype(), shape, values),
           from_doubles(local.memory, DType::kI64, shape, indices)},
          {}};
}

LocalResult run_avg_pool(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const HostTensor& image = local.inputs[0];
  const Planes in = planes_of(local, image);
  const PoolWindows w = windows_of(local, in, false);
  const bool counts_padding = local.call.boolean_arg(4, true);
  const auto divisor = static_cast<double>(local.call.integer_arg(5, 0));
  const std::vector<double> from = as_doubles(image);
  std::vector<double> values;
  for (std::int64_t p = 0; p < in.count; ++p) {
    for (std::int64_t out = 0; out < w.out_rows * w.out_columns; ++out) {
      const std::int64_t row = out / w.out_columns;
      const std::int64_t column = out % w.out_columns;
      double sum = 0.0;
      double count = 0.0;
      for_each_in_window(w, in, row, column, [&](std::int64_t i) {
        sum += from[to_index(p * in.rows * in.columns + i)];
        count += 1.0;
      });
      if (counts_padding) {  // elements in the padding count; those past it do not
        const auto covered = [](const Window& window, std::int64_t position, std::int64_t extent) {
          const std::int64_t begin = position * window.stride - window.padding;
          const std::int64_t end = std::min(begin + window.kernel, extent + window.padding);
          return static_cast<double>(end - begin);
        };
        count = covered(w.rows, row, in.rows) * covered(w.columns, column, in.columns);
      }
      values.push_back(sum / (divisor != 0.0 ? divisor : count));
    }
  }
  return {{from_doubles(local.memory, image.dtype(), resized(image, w.out_rows, w.out_columns),
                        values)},
          {}};
}

// The spatial extents that --args begin with or, on a rank, that the output's layout asks for.
std::vector<std::int64_t> extents_of(const LocalCall& local, const HostTensor& image) {
  std::vector<std::int64_t> extents = by_spatial_dim(local.call, {0, kSpatial, {}, 1});
  if (!local.output_shapes.empty()) {
    const Shape& shape = local.output_shapes[0];
    if (static_cast<int>(shape.size()) != image.ndim()) {
      throw InputError(local.call.op + ": found an output of " + std::to_string(shape.size()) +
                       " dims; valid: " + std::to_string(image.ndim()) +
                       ", as many as the image has");
    }
    extents.assign(shape.end() - 2, shape.end());
  }
  return extents;
}

// Each output is the average over rows [begin, end) and columns [begin, end): span(i, count,
// extent) is the range that the i-th of `count` outputs covers of `extent` rows or columns.
template <class Span>
LocalResult averaged(const LocalCall& local, Span&& span) {
  expect_inputs(local, 1, 1);
  const HostTensor& image = local.inputs[0];
  const Planes in = planes_of(local, image);
  const std::vector<std::int64_t> extents = extents_of(local, image);
  if (in.rows * in.columns == 0 && extents[0] * extents[1] > 0) {
    throw InputError(local.call.op + ": found an image " + tensor_text(image) +
                     "; valid: at least one pixel");
  }
  expect_room(local.call.op, elements_of({in.count, extents[0], extents[1]}), local.memory);
  const std::vector<double> from = as_doubles(image);
  std::vector<double> values;
  for (std::int64_t p = 0; p < in.count; ++p) {
    for (std::int64_t row = 0; row < extents[0]; ++row) {
      for (std::int64_t column = 0; column < extents[1]; ++column) {
        const auto [top, bottom] = span(row, extents[0], in.rows);
        const auto [left, right] = span(column, extents[1], in.columns);
        double sum = 0.0;
        for (std::int64_t y = top; y < bottom; ++y) {
          for (std::int64_t x = left; x < right; ++x) {
            sum += from[to_index((p * in.rows + y) * in.columns + x)];
          }
        }
        values.push_back(sum / static_cast<double>((bottom - top) * (right - left)));
      }
    }
  }
  return {
      {from_doubles(local.memory, image.dtype(), resized(image, extents[0], extents[1]), values)},
      {}};
}

using Range = std::pair<std::int64_t, std::int64_t>;

LocalResult run_adaptive(const LocalCall& local, const OpKernel&) {
  return averaged(local, [](std::int64_t i, std::int64_t count, std::int64_t extent) {
    return Range(i * extent / count, ((i + 1) * extent + count - 1) / count);
  });
}

LocalResult run_max_pool_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 3);
  const HostTensor& gradient = local.inputs[0];
  const HostTensor& image = local.inputs[1];
  const HostTensor& indices = local.inputs[2];
  const Planes in = planes_of(local, image);
  const PoolWindows w = windows_of(local, in, true);
  if (gradient.shape() != resized(image, w.out_rows, w.out_columns) ||
      indices.shape() != gradient.shape()) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(gradient) +
                     " and indices " + tensor_text(indices) + "; valid: the output's shape, " +
                     tensor_text(gradient.dtype(), resized(image, w.out_rows, w.out_columns)));
  }
  const std::vector<double> from = as_doubles(gradient);
  const std::vector<double> places = as_doubles(indices);
  const std::int64_t plane = in.rows * in.columns;
  std::vector<double> values(static_cast<std::size_t>(image.elements()));
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!(places[i] >= 0 && places[i] < static_cast<double>(plane))) {
      throw InputError(local.call.op + ": found index " + format_double(places[i]) +
                       "; valid: 0 to " + std::to_string(plane - 1));
    }
    const std::int64_t p = static_cast<std::int64_t>(i) / (w.out_rows * w.out_columns);
    values[to_index(p * plane + static_cast<std::int64_t>(places[i]))] += from[i];
  }
  return {{from_doubles(local.memory, gradient.dtype(), image.shape(), values)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_adaptive_avg_pool2d", .run = run_adaptive, .needs_output_shapes = true},
    {.name = "avg_pool2d", .run = run_avg_pool},
    {.name = "max_pool2d_with_indices", .run = run_max_pool},
    {.name = "max_pool2d_with_indices_backward", .run = run_max_pool_backward},
};

}  // namespace pooling_kernels

OP_KERNELS(pooling){pooling_kernels::kKernels};

}  // namespace shardlab

// Kernels of pooling in two and three spatial dims, of its gradients and of unpooling.
#include <algorithm>
#include <array>
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

// All images have three spatial dims here; those with two have a first one of extent 1.
constexpr std::size_t kSpatial = 3;
using Extents = std::array<std::int64_t, kSpatial>;

std::int64_t product(const Extents& extents) { return extents[0] * extents[1] * extents[2]; }

Extents widened(std::span<const std::int64_t> extents) {
  Extents wide = {1, 1, 1};
  std::ranges::copy(extents, wide.end() - std::ssize(extents));
  return wide;
}

bool takes_maximum(const LocalCall& local) {
  return local.call.op.find("max") != std::string::npos;
}

struct Images {
  std::int64_t count = 0;  // the product of batch and channels
  Extents extents = {};

  [[nodiscard]] std::int64_t size() const { return product(extents); }  // elements of one
};

Images images_of(const LocalCall& local, const HostTensor& tensor) {
  const std::size_t dims = spatial_dims_of(local.call.op);
  const Shape& shape = tensor.shape();
  if (shape.size() != dims + 1 && shape.size() != dims + 2) {
    throw InputError(local.call.op + ": found " + tensor_text(tensor) + "; valid: an image " +
                     (dims == 2 ? "[N,C,H,W] or [C,H,W]" : "[N,C,D,H,W] or [C,D,H,W]"));
  }
  Images images{.count = 1, .extents = widened(spatial_extents(local.call.op, shape))};
  for (std::size_t d = 0; d < shape.size() - dims; ++d) images.count *= shape[d];
  return images;
}

Shape resized(const LocalCall& local, const HostTensor& image, const Extents& extents) {
  const auto dims = static_cast<std::ptrdiff_t>(spatial_dims_of(local.call.op));
  Shape shape = image.shape();
  std::copy(extents.end() - dims, extents.end(), shape.end() - dims);
  return shape;
}

// Calls visit(i) with the index in an image of these extents of each element in [begin, end).
template <class Visit>
void for_each_between(const Extents& extents, const Extents& begin, const Extents& end,
                      Visit&& visit) {
  for (std::int64_t z = begin[0]; z < end[0]; ++z) {
    for (std::int64_t y = begin[1]; y < end[1]; ++y) {
      for (std::int64_t x = begin[2]; x < end[2]; ++x) {
        visit((z * extents[1] + y) * extents[2] + x);
      }
    }
  }
}

// Calls visit(image, place, out) for each output of so many images: its index by dim, and
// where it lies in the tensor of all outputs.
template <class Visit>
void for_each_output(std::int64_t images, const Extents& extents, Visit&& visit) {
  std::int64_t out = 0;
  for (std::int64_t image = 0; image < images; ++image) {
    Extents place = {};
    for (place[0] = 0; place[0] < extents[0]; ++place[0]) {
      for (place[1] = 0; place[1] < extents[1]; ++place[1]) {
        for (place[2] = 0; place[2] < extents[2]; ++place[2]) visit(image, place, out++);
      }
    }
  }
}

// What the outputs of a pooling are computed from: a window of each image, or for an adaptive
// pooling a range of each dim.
class Pooling {
 public:
  Pooling(const LocalCall& local, const HostTensor& image, std::span<const std::int64_t> adaptive)
      : in_(images_of(local, image)) {
    if (!adaptive.empty()) {
      counts_ = widened(adaptive);
      if (in_.size() == 0 && product(counts_) > 0) {
        throw InputError(local.call.op + ": found an image " + tensor_text(image) +
                         "; valid: at least one pixel");
      }
      return;
    }
    const PoolingWindow pooling(local.call,
                                {.dtype = image.dtype(), .shape = image.shape(), .strides = {}});
    windows_.resize(kSpatial - pooling.windows.size());
    windows_.insert(windows_.end(), pooling.windows.begin(), pooling.windows.end());
    counts_ = widened(pooling.counts);
    for (const Window& window : windows_) {
      if (window.kernel <= std::int64_t{1} << 12U) continue;
      throw InputError(local.call.op + ": found a kernel of " + std::to_string(window.kernel) +
                       "; valid: a kernel of at most 4096");
    }
  }

  [[nodiscard]] const Images& in() const { return in_; }
  [[nodiscard]] const Extents& counts() const { return counts_; }

  // Calls visit(i) with the index in the image of each element that the output at `place` reads.
  template <class Visit>
  void for_each_read(const Extents& place, Visit&& visit) const {
    if (windows_.empty()) {
      Extents begin = {};
      Extents end = {};
      for (std::size_t d = 0; d < kSpatial; ++d) {
        const PooledRange range = adaptive_range(place[d], counts_[d], in_.extents[d]);
        begin[d] = range.begin;
        end[d] = range.end;
      }
      for_each_between(in_.extents, begin, end, visit);
      return;
    }
    const auto at = [&](std::size_t d, std::int64_t k) {
      return place[d] * windows_[d].stride - windows_[d].padding + k * windows_[d].dilation;
    };
    const auto is_inside = [&](std::size_t d, std::int64_t i) {
      return i >= 0 && i < in_.extents[d];
    };
    for (std::int64_t k = 0; k < windows_[0].kernel; ++k) {
      if (!is_inside(0, at(0, k))) continue;
      for (std::int64_t l = 0; l < windows_[1].kernel; ++l) {
        if (!is_inside(1, at(1, l))) continue;
        for (std::int64_t m = 0; m < windows_[2].kernel; ++m) {
          if (!is_inside(2, at(2, m))) continue;
          visit((at(0, k) * in_.extents[1] + at(1, l)) * in_.extents[2] + at(2, m));
        }
      }
    }
  }

  // By how much the sum over the elements that the output at `place` reads is divided.
  [[nodiscard]] double divisor(const OpCall& call, const Extents& place) const {
    const auto given = windows_.empty() ? 0.0 : static_cast<double>(call.integer_arg(5, 0));
    if (given != 0.0) return given;
    double count = 0.0;
    if (windows_.empty() || !call.boolean_arg(4, true)) {
      for_each_read(place, [&](std::int64_t) { count += 1.0; });
      return count;
    }
    count = 1.0;  // elements in the padding count; those past it do not
    for (std::size_t d = 0; d < kSpatial; ++d) {
      const Window& window = windows_[d];
      const std::int64_t begin = place[d] * window.stride - window.padding;
      const std::int64_t end = std::min(begin + window.kernel, in_.extents[d] + window.padding);
      count *= static_cast<double>(end - begin);
    }
    return count;
  }

 private:
  Images in_;
  std::vector<Window> windows_;  // none for an adaptive pooling
  Extents counts_ = {};
};

// The spatial extents that an adaptive pooling's --args begin with or, on a rank, that the output's
// layout asks for. None for other poolings.
std::vector<std::int64_t> adaptive_extents(const LocalCall& local, const HostTensor& image) {
  if (local.call.op.find("adaptive") == std::string::npos) return {};
  const std::size_t dims = spatial_dims_of(local.call.op);
  if (local.output_shapes.empty()) return by_spatial_dim(local.call, {0, dims, {}, 1});
  const Shape& shape = local.output_shapes[0];
  if (static_cast<int>(shape.size()) != image.ndim()) {
    throw InputError(local.call.op + ": found an output of " + std::to_string(shape.size()) +
                     " dims; valid: " + std::to_string(image.ndim()) +
                     ", as many as the image has");
  }
  return spatial_extents(local.call.op, shape);
}

// Finds the first maximum, as PyTorch does. NaN counts as greater than any number, and of several
// NaN the last one is taken.
LocalResult run_max_pool(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const HostTensor& image = local.inputs[0];
  const Pooling pooling(local, image, adaptive_extents(local, image));
  const Images& in = pooling.in();
  expect_room(local.call.op, in.count * product(pooling.counts()), local.memory);
  const std::vector<double> from = as_doubles(image);
  std::vector<double> values;
  std::vector<double> indices;
  for_each_output(
      in.count, pooling.counts(), [&](std::int64_t of, const Extents& place, std::int64_t) {
        double best = -std::numeric_limits<double>::infinity();
        std::int64_t best_index = -1;
        pooling.for_each_read(place, [&](std::int64_t i) {
          const double value = from[to_index(of * in.size() + i)];
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
      });
  const Shape shape = resized(local, image, pooling.counts());
  return {{from_doubles(local.memory, image.dtype(), shape, values),
           from_doubles(local.memory, DType::kI64, shape, indices)},
          {}};
}

LocalResult run_average(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 1, 1);
  const HostTensor& image = local.inputs[0];
  const Pooling pooling(local, image, adaptive_extents(local, image));
  const Images& in = pooling.in();
  expect_room(local.call.op, in.count * product(pooling.counts()), local.memory);
  const std::vector<double> from = as_doubles(image);
  std::vector<double> values;
  for_each_output(in.count, pooling.counts(),
                  [&](std::int64_t of, const Extents& place, std::int64_t) {
                    double sum = 0.0;
                    pooling.for_each_read(
                        place, [&](std::int64_t i) { sum += from[to_index(of * in.size() + i)]; });
                    values.push_back(sum / pooling.divisor(local.call, place));
                  });
  return {
      {from_doubles(local.memory, image.dtype(), resized(local, image, pooling.counts()), values)},
      {}};
}

// The pooling that the gradient of an output belongs to.
Pooling pooling_of_gradient(const LocalCall& local) {
  const HostTensor& gradient = local.inputs[0];
  const HostTensor& image = local.inputs[1];
  std::vector<std::int64_t> adaptive;
  if (local.call.op.find("adaptive") != std::string::npos) {
    static_cast<void>(images_of(local, gradient));
    adaptive = spatial_extents(local.call.op, gradient.shape());
  }
  Pooling pooling(local, image, adaptive);
  const Shape output = resized(local, image, pooling.counts());
  const bool has_indices = takes_maximum(local);
  if (gradient.shape() != output || (has_indices && local.inputs[2].shape() != output)) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(gradient) +
                     (has_indices ? " and indices " + tensor_text(local.inputs[2]) : "") +
                     "; valid: the output's shape, " + tensor_text(gradient.dtype(), output));
  }
  return pooling;
}

LocalResult run_average_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  const Pooling pooling = pooling_of_gradient(local);
  const Images& in = pooling.in();
  const std::vector<double> from = as_doubles(local.inputs[0]);
  std::vector<double> values = filled(local, local.inputs[1].shape());
  for_each_output(
      in.count, pooling.counts(), [&](std::int64_t of, const Extents& place, std::int64_t out) {
        const double each = from[to_index(out)] / pooling.divisor(local.call, place);
        pooling.for_each_read(
            place, [&](std::int64_t i) { values[to_index(of * in.size() + i)] += each; });
      });
  return {{from_doubles(local.memory, local.inputs[0].dtype(), local.inputs[1].shape(), values)},
          {}};
}

// The place in all images of element `i` of a tensor with `each` elements for one image, whose
// index in the image is `index`.
std::size_t place_of(const LocalCall& local, const Images& in, std::size_t i, std::int64_t each,
                     double index) {
  if (!(index >= 0 && index < static_cast<double>(in.size()))) {
    throw InputError(local.call.op + ": found index " + format_double(index) + "; valid: 0 to " +
                     std::to_string(in.size() - 1));
  }
  return to_index(static_cast<std::int64_t>(i) / each * in.size() +
                  static_cast<std::int64_t>(index));
}

LocalResult run_max_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 3);
  const Pooling pooling = pooling_of_gradient(local);
  const std::vector<double> from = as_doubles(local.inputs[0]);
  const std::vector<double> indices = as_doubles(local.inputs[2]);
  std::vector<double> values = filled(local, local.inputs[1].shape());
  const std::int64_t each = product(pooling.counts());
  for (std::size_t i = 0; i < from.size(); ++i) {
    values[place_of(local, pooling.in(), i, each, indices[i])] += from[i];
  }
  return {{from_doubles(local.memory, local.inputs[0].dtype(), local.inputs[1].shape(), values)},
          {}};
}

// Where several elements have the same index, the last of them stays in the output.
LocalResult run_unpool(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  const HostTensor& image = local.inputs[0];
  const Images in = images_of(local, image);
  if (local.inputs[1].shape() != image.shape()) {
    throw InputError(local.call.op + ": found indices " + tensor_text(local.inputs[1]) +
                     "; valid: the input's shape, " + tensor_text(image));
  }
  const std::size_t dims = spatial_dims_of(local.call.op);
  const Images out{.count = in.count,
                   .extents = widened(by_spatial_dim(local.call, {0, dims, {}, 1}))};
  const Shape shape = resized(local, image, out.extents);
  const std::vector<double> from = as_doubles(image);
  const std::vector<double> indices = as_doubles(local.inputs[1]);
  std::vector<double> values = filled(local, shape);
  for (std::size_t i = 0; i < from.size(); ++i) {
    values[place_of(local, out, i, in.size(), indices[i])] = from[i];
  }
  return {{from_doubles(local.memory, image.dtype(), shape, values)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_adaptive_avg_pool2d", .run = run_average, .needs_output_shapes = true},
    {.name = "_adaptive_avg_pool2d_backward", .run = run_average_backward},
    {.name = "_adaptive_avg_pool3d", .run = run_average, .needs_output_shapes = true},
    {.name = "_adaptive_avg_pool3d_backward", .run = run_average_backward},
    {.name = "adaptive_max_pool2d", .run = run_max_pool},
    {.name = "adaptive_max_pool2d_backward", .run = run_max_backward},
    {.name = "adaptive_max_pool3d", .run = run_max_pool},
    {.name = "adaptive_max_pool3d_backward", .run = run_max_backward},
    {.name = "avg_pool2d", .run = run_average},
    {.name = "avg_pool2d_backward", .run = run_average_backward},
    {.name = "avg_pool3d", .run = run_average},
    {.name = "avg_pool3d_backward", .run = run_average_backward},
    {.name = "max_pool2d_with_indices", .run = run_max_pool},
    {.name = "max_pool2d_with_indices_backward", .run = run_max_backward},
    {.name = "max_pool3d_with_indices", .run = run_max_pool},
    {.name = "max_pool3d_with_indices_backward", .run = run_max_backward},
    {.name = "max_unpool2d", .run = run_unpool},
    {.name = "max_unpool3d", .run = run_unpool},
};

}  // namespace pooling_kernels

OP_KERNELS(pooling){pooling_kernels::kKernels};

}  // namespace shardlab

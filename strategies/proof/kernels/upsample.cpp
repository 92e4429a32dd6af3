// Kernels of upsampling in one, two or three spatial dims, and of its gradient. Upsampling mixes
// the elements of one dim after the other, by weights that depend on the extents alone; the
// gradient is handed back by the same weights. Source: PyTorch 2.13.0, the documentation of
// torch.nn.functional.interpolate; R. Keys, "Cubic convolution interpolation for digital image
// processing", IEEE TASSP 29 (1981).
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/upsampling.h"

namespace shardlab {
namespace upsample_kernels {

// The whole part of a number, from 0 to the largest value.
std::int64_t whole_up_to(std::int64_t most, double number) {
  if (!(number > 0.0)) return 0;
  return number < static_cast<double>(most) ? static_cast<std::int64_t>(number) : most;
}

// One dim of an image: its extents, and how far the centres of two outputs lie apart, in inputs.
struct Line {
  std::int64_t inputs;
  std::int64_t outputs;
  double step;
  bool aligns_corners;

  // Where an output lies among the inputs, whose centres are at 0, 1, ... Aligned corners divide
  // last, so that an output which lies on an input does so exactly.
  [[nodiscard]] double place(std::int64_t output) const {
    const auto i = static_cast<double>(output);
    if (!aligns_corners) return (i + 0.5) * step - 0.5;
    return i * static_cast<double>(inputs - 1) /
           static_cast<double>(std::max<std::int64_t>(outputs - 1, 1));
  }
  // The whole part of a place, which may lie far outside where the call names its own scale.
  [[nodiscard]] std::int64_t clamped(double at) const { return whole_up_to(inputs - 1, at); }
};

struct Weight {
  std::int64_t input;
  double weight;
};
using Weights = std::vector<Weight>;  // the weights of one output; they add up to 1
using Mix = Weights (*)(const Line&, std::int64_t output);

Weights nearest(const Line& line, std::int64_t output) {
  const double place = static_cast<double>(output) * line.step;
  return {{line.clamped(place), 1.0}};
}

Weights nearest_exact(const Line& line, std::int64_t output) {
  const double place = (static_cast<double>(output) + 0.5) * line.step;
  return {{line.clamped(place), 1.0}};
}

Weights linear(const Line& line, std::int64_t output) {
  const double place = std::max(0.0, line.place(output));
  const std::int64_t first = line.clamped(place);
  const double of_second = std::min(1.0, place - static_cast<double>(first));
  return {{first, 1.0 - of_second}, {std::min(first + 1, line.inputs - 1), of_second}};
}

// Keys' cubic convolution with the slope `a` at distance 1: -0.5 in the antialiased op, as Keys
// takes it, and -0.75 in the other one.
double cubic(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

Weights bicubic(const Line& line, std::int64_t output) {
  const double place = line.place(output);
  const double below = std::floor(place);
  Weights weights;
  for (int tap = -1; tap <= 2; ++tap) {
    const double at = below + tap;
    weights.push_back({line.clamped(at), cubic(place - at, -0.75)});
  }
  return weights;
}

// Filters of the antialiased ops: they stretch with the step where the image shrinks.
double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }
double smooth_cubic(double x) { return cubic(x, -0.5); }
double lanczos(double x) {
  constexpr double kLobes = 3.0;
  const auto sinc = [](double t) {
    return t == 0.0 ? 1.0 : std::sin(std::numbers::pi * t) / (std::numbers::pi * t);
  };
  return std::abs(x) < kLobes ? sinc(x) * sinc(x / kLobes) : 0.0;
}

template <double (*kFilter)(double), int kReach>
Weights antialiased(const Line& line, std::int64_t output) {
  const double stretch = std::max(line.step, 1.0);
  const double reach = kReach * stretch;
  const double center = line.step * (static_cast<double>(output) + 0.5);
  const std::int64_t begin = whole_up_to(line.inputs, center - reach + 0.5);
  const std::int64_t end = whole_up_to(line.inputs, center + reach + 0.5);
  Weights weights;
  double sum = 0.0;
  for (std::int64_t i = begin; i < end; ++i) {
    weights.push_back({i, kFilter((static_cast<double>(i) - center + 0.5) / stretch)});
    sum += weights.back().weight;
  }
  for (Weight& each : weights) each.weight /= sum;
  return weights;
}

Mix mix_of(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("nearest_exact")) return nearest_exact;
  if (has("nearest")) return nearest;
  if (has("bilinear2d_aa")) return antialiased<triangle, 1>;
  if (has("bicubic2d_aa")) return antialiased<smooth_cubic, 2>;
  if (has("lanczos2d_aa")) return antialiased<lanczos, 3>;
  return has("bicubic") ? bicubic : linear;
}

// Mixes along the dim `d`: along each line of `shape` in that dim, from the inputs to the outputs
// of a forward op, or back.
std::vector<double> mixed(const std::vector<double>& from, const Shape& shape, std::size_t d,
                          const std::vector<Weights>& weights, std::int64_t extent,
                          bool is_backward) {
  std::int64_t before = 1;
  std::int64_t after = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    (i < d ? before : after) *= i == d ? 1 : shape[i];
  }
  std::vector<double> to(to_index(before * extent * after));
  for (std::int64_t b = 0; b < before; ++b) {
    for (std::int64_t output = 0; output < std::ssize(weights); ++output) {
      for (const auto& [input, weight] : weights[to_index(output)]) {
        const std::int64_t source = is_backward ? output : input;
        const std::int64_t target = is_backward ? input : output;
        for (std::int64_t a = 0; a < after; ++a) {
          to[to_index((b * extent + target) * after + a)] +=
              weight * from[to_index((b * shape[d] + source) * after + a)];
        }
      }
    }
  }
  return to;
}

LocalResult run(const LocalCall& local, const OpKernel& kernel) {
  expect_inputs(local, 1, local.call.op.ends_with(".default") ? 1 : 2);
  const HostTensor& tensor = local.inputs[0];
  const Upsampling up(local.call);
  const std::size_t ndim = up.spatial + 2;
  if (tensor.shape().size() != ndim ||
      (!local.output_shapes.empty() && local.output_shapes[0].size() != ndim)) {
    throw InputError(local.call.op + ": found " + tensor_text(tensor) + "; valid: a tensor of " +
                     std::to_string(ndim) + " dims");
  }
  Shape shape = tensor.shape();
  std::vector<double> values = as_doubles(tensor);
  for (std::size_t d = 2; d < ndim; ++d) {
    const std::size_t i = d - 2;
    const std::int64_t wanted = !local.output_shapes.empty() ? local.output_shapes[0][d]
                                : up.is_backward             ? up.input_shape[d]
                                                             : up.extents[i];
    Line line{.inputs = up.is_backward ? wanted : shape[d],
              .outputs = up.is_backward ? shape[d] : wanted,
              .step = 0.0,
              .aligns_corners = up.aligns_corners};
    if (line.inputs < 1 && line.outputs > 0) {
      throw InputError(local.call.op + ": found an image without pixels in dim " +
                       std::to_string(d) + "; valid: at least one");
    }
    if (!up.aligns_corners) {
      line.step = up.scales[i] > 0.0
                      ? 1.0 / up.scales[i]
                      : static_cast<double>(line.inputs) /
                            static_cast<double>(std::max<std::int64_t>(line.outputs, 1));
    } else if (line.outputs > 1) {
      line.step = static_cast<double>(line.inputs - 1) / static_cast<double>(line.outputs - 1);
    }
    Shape next = shape;
    next[d] = wanted;
    expect_room(local.call.op, elements_of(next), local.memory);
    std::vector<Weights> weights;
    for (std::int64_t output = 0; output < line.outputs; ++output) {
      weights.push_back(mix_of(kernel.name)(line, output));
    }
    values = mixed(values, shape, d, weights, wanted, up.is_backward);
    shape = next;
  }
  return {{from_doubles(local.memory, tensor.dtype(), shape, values)}, {}};
}

constexpr OpKernel kernel_of(std::string_view name) {
  return {.name = name, .run = run, .needs_output_shapes = true};
}

constexpr OpKernel kKernels[] = {
    kernel_of("_upsample_bicubic2d_aa"),    kernel_of("_upsample_bicubic2d_aa_backward"),
    kernel_of("_upsample_bilinear2d_aa"),   kernel_of("_upsample_bilinear2d_aa_backward"),
    kernel_of("_upsample_lanczos2d_aa"),    kernel_of("_upsample_lanczos2d_aa_backward"),
    kernel_of("_upsample_nearest_exact1d"), kernel_of("_upsample_nearest_exact1d_backward"),
    kernel_of("_upsample_nearest_exact2d"), kernel_of("_upsample_nearest_exact2d_backward"),
    kernel_of("_upsample_nearest_exact3d"), kernel_of("_upsample_nearest_exact3d_backward"),
    kernel_of("upsample_bicubic2d"),        kernel_of("upsample_bicubic2d_backward"),
    kernel_of("upsample_bilinear2d"),       kernel_of("upsample_bilinear2d_backward"),
    kernel_of("upsample_linear1d"),         kernel_of("upsample_linear1d_backward"),
    kernel_of("upsample_nearest1d"),        kernel_of("upsample_nearest1d_backward"),
    kernel_of("upsample_nearest2d"),        kernel_of("upsample_nearest2d_backward"),
    kernel_of("upsample_nearest3d"),        kernel_of("upsample_nearest3d_backward"),
    kernel_of("upsample_trilinear3d"),      kernel_of("upsample_trilinear3d_backward"),
};

}  // namespace upsample_kernels

OP_KERNELS(upsample){upsample_kernels::kKernels};

}  // namespace shardlab

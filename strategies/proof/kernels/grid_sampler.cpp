// Kernels of grid_sample and its gradients. Semantics: PyTorch 2.13.0,
// torch.nn.functional.grid_sample. In each dim a sample is a weighted sum over a few rows, so that
// its weights in the image are products of one weight for each dim.
#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/window.h"

namespace shardlab {
namespace grid_sampler_kernels {

enum class Mode : std::uint8_t { kLinear, kNearest, kCubic };
enum class Beyond : std::uint8_t { kZeros, kBorder, kReflection };  // where a place is outside

struct Sampling {
  Mode mode = Mode::kLinear;
  Beyond beyond = Beyond::kZeros;
  bool aligns_corners = false;  // whether -1 and 1 are the middles of the outer pixels
};

Sampling sampling_of(const LocalCall& local) {
  const std::int64_t mode = local.call.integer_arg(0, 0);
  const std::int64_t beyond = local.call.integer_arg(1, 0);
  const bool is_cubic = mode == 2 && spatial_dims_of(local.call.op) == 2;
  if (mode < 0 || (mode > 1 && !is_cubic) || beyond < 0 || beyond > 2) {
    throw InputError(local.call.op + ": found interpolation mode " + std::to_string(mode) +
                     " and padding mode " + std::to_string(beyond) +
                     "; valid: interpolation modes 0 (bilinear), 1 (nearest) and, in two dims, 2 "
                     "(bicubic), padding modes 0 (zeros), 1 (border) and 2 (reflection)");
  }
  return {static_cast<Mode>(mode), static_cast<Beyond>(beyond), local.call.boolean_arg(2, false)};
}

// A place along one dim of the image, and its derivative by the place that it was made from.
struct Place {
  double at = 0.0;
  double slope = 1.0;
};

Place clipped(const Place& place, std::int64_t extent) {
  const auto last = static_cast<double>(extent - 1);
  if (place.at <= 0.0) return {0.0, 0.0};
  if (place.at >= last) return {last, 0.0};
  return place;
}

// Reflects a place at `low` and at `high` until it lies between them.
Place reflected(const Place& place, double low, double high) {
  if (low == high) return {0.0, 0.0};
  const double span = high - low;
  const bool is_below = place.at < low;
  const double distance = std::abs(place.at - low);
  const double rest = std::fmod(distance, span);
  const bool turns = std::fmod(std::floor(distance / span), 2.0) != 0.0;
  return {low + (turns ? span - rest : rest), is_below == turns ? place.slope : -place.slope};
}

Place brought_inside(const Sampling& sampling, const Place& place, std::int64_t extent) {
  if (sampling.beyond == Beyond::kZeros) return place;
  if (sampling.beyond == Beyond::kBorder) return clipped(place, extent);
  const double margin = sampling.aligns_corners ? 0.0 : 0.5;
  return clipped(reflected(place, -margin, static_cast<double>(extent - 1) + margin), extent);
}

// A row that a sample reads, its weight, and the weight's derivative by the grid's coordinate.
struct Tap {
  std::int64_t row = 0;
  double weight = 0.0;
  double slope = 0.0;
};
using Taps = std::vector<Tap>;

// The weight of a row at a distance from the sample in cubic convolution, and its derivative.
// Source: Keys, "Cubic convolution interpolation for digital image processing" (1981), with a =
// -3/4.
Place cubic_weight(double distance) {
  constexpr double kA = -0.75;
  const double x = std::abs(distance);
  const double sign = distance < 0.0 ? -1.0 : 1.0;
  if (x <= 1.0) {
    return {((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0,
            sign * (3.0 * (kA + 2.0) * x - 2.0 * (kA + 3.0)) * x};
  }
  return {((kA * x - 5.0 * kA) * x + 8.0 * kA) * x - 4.0 * kA,
          sign * ((3.0 * kA * x - 10.0 * kA) * x + 8.0 * kA)};
}

// What a sample at this coordinate of the grid, from -1 to 1, reads of a dim.
Taps taps_of(const Sampling& sampling, double coordinate, std::int64_t extent) {
  const auto rows = static_cast<double>(extent);
  Place place = sampling.aligns_corners
                    ? Place{(coordinate + 1.0) / 2.0 * (rows - 1.0), (rows - 1.0) / 2.0}
                    : Place{((coordinate + 1.0) * rows - 1.0) / 2.0, rows / 2.0};
  if (sampling.mode != Mode::kCubic) place = brought_inside(sampling, place, extent);
  // A coordinate that does not fit an int counts as a row outside of the tensor, as in PyTorch.
  if (!(std::abs(place.at) < 0x1p31)) place.at = -100.0;
  Taps taps;
  const auto add = [&](double row, double weight, double slope) {
    if (row >= 0.0 && row < rows) taps.push_back({static_cast<std::int64_t>(row), weight, slope});
  };
  const double low = std::floor(place.at);
  const double part = place.at - low;
  switch (sampling.mode) {
    case Mode::kLinear:
      add(low, 1.0 - part, -place.slope);
      add(low + 1.0, part, place.slope);
      break;
    case Mode::kNearest:
      add(std::nearbyint(place.at), 1.0, 0.0);
      break;
    case Mode::kCubic:
      for (const double offset : {-1.0, 0.0, 1.0, 2.0}) {
        const Place weight = cubic_weight(part - offset);
        add(std::floor(brought_inside(sampling, {low + offset, 1.0}, extent).at), weight.at,
            weight.slope * place.slope);
      }
      break;
  }
  return taps;
}

struct Sampler {
  Sampling sampling;
  std::size_t spatial;
  Shape image;   // [N,C,...]
  Shape places;  // [N,...], the grid without its coordinates

  [[nodiscard]] std::int64_t pixels() const {
    return elements_of(Shape(image.begin() + 2, image.end()));
  }
  [[nodiscard]] std::int64_t places_of_one() const {
    return elements_of(Shape(places.begin() + 1, places.end()));
  }

  // The taps of each spatial dim for the place whose coordinates are at `first` in the grid. The
  // first coordinate is that of the last dim.
  [[nodiscard]] std::array<Taps, 3> taps(const std::vector<double>& grid, std::size_t first) const {
    std::array<Taps, 3> all;
    for (std::size_t d = 0; d < spatial; ++d) {
      all[d] = taps_of(sampling, grid[first + spatial - 1 - d], image[d + 2]);
    }
    for (std::size_t d = spatial; d < 3; ++d) all[d] = {Tap{.row = 0, .weight = 1.0, .slope = 0.0}};
    return all;
  }

  // Calls visit(pixel, taps) for each combination of one tap of each dim.
  template <class Visit>
  void for_each_pixel(const std::array<Taps, 3>& taps, Visit&& visit) const {
    const auto extent = [&](std::size_t d) { return d < spatial ? image[d + 2] : 1; };
    for (const Tap& a : taps[0]) {
      for (const Tap& b : taps[1]) {
        for (const Tap& c : taps[2]) {
          visit((a.row * extent(1) + b.row) * extent(2) + c.row, std::array<Tap, 3>{a, b, c});
        }
      }
    }
  }
};

Sampler sampler_of(const LocalCall& local, const HostTensor& image, const HostTensor& grid) {
  const std::size_t spatial = spatial_dims_of(local.call.op);
  const bool fits = to_index(image.ndim()) == spatial + 2 && to_index(grid.ndim()) == spatial + 2 &&
                    image.extent(0) == grid.extent(0) &&
                    grid.shape().back() == static_cast<std::int64_t>(spatial);
  if (!fits) {
    throw InputError(local.call.op + ": found " + tensor_text(image) + " and " + tensor_text(grid) +
                     "; valid: an image [N,C,...] and a grid [N,...," + std::to_string(spatial) +
                     "]");
  }
  Shape places = grid.shape();
  places.pop_back();
  return {sampling_of(local), spatial, image.shape(), places};
}

double weight_of(const std::array<Tap, 3>& taps) {
  return taps[0].weight * taps[1].weight * taps[2].weight;
}

LocalResult run_samples(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 2);
  const Sampler sampler = sampler_of(local, local.inputs[0], local.inputs[1]);
  const std::vector<double> image = as_doubles(local.inputs[0]);
  const std::vector<double> grid = as_doubles(local.inputs[1]);
  Shape shape = {sampler.image[0], sampler.image[1]};
  shape.insert(shape.end(), sampler.places.begin() + 1, sampler.places.end());
  std::vector<double> values = filled(local, shape);
  const std::int64_t channels = sampler.image[1];
  const std::int64_t places = sampler.places_of_one();
  for (std::int64_t n = 0; n < sampler.image[0]; ++n) {
    for (std::int64_t p = 0; p < places; ++p) {
      const auto taps = sampler.taps(grid, to_index(n * places + p) * sampler.spatial);
      sampler.for_each_pixel(taps, [&](std::int64_t pixel, const std::array<Tap, 3>& each) {
        for (std::int64_t c = n * channels; c < (n + 1) * channels; ++c) {
          values[to_index(c * places + p)] +=
              image[to_index(c * sampler.pixels() + pixel)] * weight_of(each);
        }
      });
    }
  }
  return {{from_doubles(local.memory, local.inputs[0].dtype(), shape, values)}, {}};
}

LocalResult run_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 3);
  const Sampler sampler = sampler_of(local, local.inputs[1], local.inputs[2]);
  const std::vector<double> gradient = as_doubles(local.inputs[0]);
  const std::vector<double> image = as_doubles(local.inputs[1]);
  const std::vector<double> grid = as_doubles(local.inputs[2]);
  const std::int64_t channels = sampler.image[1];
  const std::int64_t places = sampler.places_of_one();
  if (local.inputs[0].elements() != sampler.image[0] * channels * places) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(local.inputs[0]) +
                     "; valid: one element for each sample");
  }
  std::vector<double> by_image = filled(local, local.inputs[1].shape());
  std::vector<double> by_grid = filled(local, local.inputs[2].shape());
  for (std::int64_t n = 0; n < sampler.image[0]; ++n) {
    for (std::int64_t p = 0; p < places; ++p) {
      const std::size_t first = to_index(n * places + p) * sampler.spatial;
      const auto taps = sampler.taps(grid, first);
      sampler.for_each_pixel(taps, [&](std::int64_t pixel, const std::array<Tap, 3>& each) {
        for (std::int64_t c = n * channels; c < (n + 1) * channels; ++c) {
          const double arriving = gradient[to_index(c * places + p)];
          const std::size_t at = to_index(c * sampler.pixels() + pixel);
          by_image[at] += arriving * weight_of(each);
          for (std::size_t d = 0; d < sampler.spatial; ++d) {
            std::array<Tap, 3> derived = each;
            derived[d].weight = derived[d].slope;
            by_grid[first + sampler.spatial - 1 - d] += arriving * image[at] * weight_of(derived);
          }
        }
      });
    }
  }
  LocalResult result;
  const bool is_masked = local.call.args.size() > 3 && local.call.args[3].is_array() &&
                         !local.call.args[3].empty() && local.call.args[3][0] == false;
  const DType dtype = local.inputs[0].dtype();
  if (!is_masked) {
    result.outputs.push_back(from_doubles(local.memory, dtype, local.inputs[1].shape(), by_image));
  }
  result.outputs.push_back(from_doubles(local.memory, dtype, local.inputs[2].shape(), by_grid));
  return result;
}

constexpr OpKernel kKernels[] = {
    {.name = "grid_sampler_2d", .run = run_samples},
    {.name = "grid_sampler_2d_backward", .run = run_backward},
    {.name = "grid_sampler_3d", .run = run_samples},
    {.name = "grid_sampler_3d_backward", .run = run_backward},
};

}  // namespace grid_sampler_kernels

OP_KERNELS(grid_sampler){grid_sampler_kernels::kKernels};

}  // namespace shardlab

// The windows of convolutions and poolings, which slide over the spatial dims of a tensor [N, C,
// ...].
//
//   ConvolutionWindow window(call, input, weight, 0);   // --args 0 to 5: stride, padding, ...
//   window.output                                       // [N, out channels, ...]
//   PoolingWindow(call, image).counts                   // how many windows fit, by spatial dim
//
// Source of the formulas: PyTorch 2.13.0, torch.nn.Conv2d, torch.nn.ConvTranspose2d,
// torch.nn.MaxPool2d, torch.nn.AvgPool2d and torch.nn.AdaptiveAvgPool2d, on the extents of the
// output.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "strategies/rules/op_call.h"

namespace shardlab {

// An argument that gives a number for each spatial dim, or one number for all of them.
struct SpatialArg {
  std::size_t arg = 0;                 // its position among --args
  std::size_t dims = 0;                // how many spatial dims there are
  std::vector<std::int64_t> fallback;  // used if the argument is left out or empty
  std::int64_t least = 0;              // the smallest valid number
};
// Throws InputError for another count of numbers, or a number that is too small.
[[nodiscard]] std::vector<std::int64_t> by_spatial_dim(const OpCall& call,
                                                       const SpatialArg& spatial);

// A window along one dim.
struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;

  // How many windows fit; 0 if the extent is too small. With `rounds_up` the last window may reach
  // past the end.
  [[nodiscard]] std::int64_t count(std::int64_t extent, bool rounds_up = false) const;
  // Whether a window stays within its stride. If it does, a shard of whole strides needs no
  // elements of its neighbours.
  [[nodiscard]] bool lies_within_stride() const {
    return padding == 0 && dilation * (kernel - 1) + 1 <= stride;
  }
};

// How many spatial dims an op works on, which its name says: 3 for "aten.avg_pool3d.default".
[[nodiscard]] std::size_t spatial_dims_of(std::string_view op);
// The last extents of a shape, one for each spatial dim of the op.
[[nodiscard]] std::vector<std::int64_t> spatial_extents(std::string_view op, const Shape& shape);

// The arguments of a pooling with windows: the kernel's extents, the stride (if it is left out, the
// kernel's extents) and the padding, then for a maximum the dilation, and last whether a window may
// reach past the end.
struct PoolingWindow {
  std::vector<Window> windows;       // for each spatial dim
  std::vector<std::int64_t> counts;  // how many of them fit

  // The last dims of `image` are the spatial ones. Throws InputError for windows that do not fit,
  // and for a padding of more than half a window.
  PoolingWindow(const OpCall& call, const TensorMeta& image);
};

// The elements [begin, end) of a dim that one output of an adaptive pooling is computed from.
struct PooledRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
// The range of the i-th of `count` outputs of a dim of this extent.
[[nodiscard]] PooledRange adaptive_range(std::int64_t i, std::int64_t count, std::int64_t extent);

// The arguments of a convolution: stride, padding, dilation, transposed, output padding and groups.
struct ConvolutionWindow {
  std::vector<Window> windows;  // for each spatial dim
  bool transposed = false;
  std::int64_t groups = 1;
  Shape output;

  // Reads --args from index `first` on. The weight is [out, in / groups, ...], or for a transposed
  // convolution [in, out / groups, ...]. Throws InputError for tensors whose shapes don't fit each
  // other.
  ConvolutionWindow(const OpCall& call, const TensorMeta& input, const TensorMeta& weight,
                    std::size_t first);
};

}  // namespace shardlab

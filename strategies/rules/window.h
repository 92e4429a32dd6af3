// The windows of convolutions and poolings, which slide over the spatial dims of a tensor [N, C,
// ...].
//
//   ConvolutionWindow window(call, input, weight, 0);   // --args 0 to 5: stride, padding, ...
//   window.output                                       // [N, out channels, ...]
//
// Source of the formulas: PyTorch 2.13.0, torch.nn.Conv2d, torch.nn.ConvTranspose2d and
// torch.nn.MaxPool2d, on the extents of the output.
#pragma once

#include <cstdint>
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

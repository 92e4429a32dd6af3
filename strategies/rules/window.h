// Windows that slide over the spatial dims of a tensor [N, C, ...]: what convolutions and poolings
// share.
//
//   ConvolutionWindow window(call, input, weight, 0);   // --args 0 to 5: stride, padding, ...
//   window.output                                       // [N, out channels, ...]
//
// Source: PyTorch 2.13.0, torch.nn.Conv2d, torch.nn.ConvTranspose2d, torch.nn.MaxPool2d (formulas of
// the output's extents).
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/rules/op_call.h"

namespace shardlab {

// --args `arg`: a number for each spatial dim, or one for all; `fallback` where it is left out (and,
// where that is allowed, where the list is empty). Throws InputError: another count, a number below
// `least`.
struct SpatialArg {
  std::size_t arg = 0;
  std::size_t dims = 0;
  std::vector<std::int64_t> fallback;
  std::int64_t least = 0;
};
[[nodiscard]] std::vector<std::int64_t> by_spatial_dim(const OpCall& call,
                                                       const SpatialArg& spatial);

// One window along one dim.
struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;

  // How many places it has; less than 1 where it does not fit. `rounds_up`: a last one may reach past
  // the end.
  [[nodiscard]] std::int64_t places(std::int64_t extent, bool rounds_up = false) const;
  // Whether every window lies within one stride: then a shard of whole strides needs nothing of its
  // neighbours.
  [[nodiscard]] bool lies_within_stride() const {
    return padding == 0 && dilation * (kernel - 1) + 1 <= stride;
  }
};

// --args from `first` on: stride, padding, dilation, transposed, output padding, groups.
struct ConvolutionWindow {
  std::vector<Window> windows;  // by spatial dim
  bool transposed = false;
  std::int64_t groups = 1;
  Shape output;

  // Throws InputError for tensors that don't go together. The weight is [out, in / groups, ...],
  // transposed [in, out / groups, ...].
  ConvolutionWindow(const OpCall& call, const TensorMeta& input, const TensorMeta& weight,
                    std::size_t first);
};

}  // namespace shardlab

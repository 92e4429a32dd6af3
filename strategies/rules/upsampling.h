// The arguments of upsampling in one, two or three spatial dims, and of its gradient.
//
//   const Upsampling up(call);   // aten._upsample_bicubic2d_aa_backward.default
//   up.spatial                   // 2
//
// The --args are the spatial extents of the output; for a gradient, the shape of the input; whether
// corners are aligned, unless the nearest element is taken; and a scale factor for each spatial
// dim, or null. Source: PyTorch 2.13.0, the schemas of these ops.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "strategies/rules/op_call.h"

namespace shardlab {

struct Upsampling {
  std::size_t spatial;  // how many spatial dims there are: 1 to 3
  bool is_backward;
  bool takes_nearest;                 // whether an output is one of the inputs
  bool aligns_corners;                // whether the outermost pixels lie on those of the input
  std::vector<std::int64_t> extents;  // extents of the output's spatial dims
  Shape input_shape;                  // for a gradient, the input's shape [N, C, ...]; else empty
  std::vector<double> scales;         // for each spatial dim; 0 where none is given

  // Throws InputError for arguments that do not fit.
  explicit Upsampling(const OpCall& call);
};

}  // namespace shardlab

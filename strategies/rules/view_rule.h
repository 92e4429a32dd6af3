// What happens to shards in a view, an op that shows the same elements in another shape.
//
//   ViewRule rule = reshape_rule(call.op, {2, 3, 4}, {6, 4});    // dims 0 and 1 flattened; dim 2
//   ViewLayouts layouts = dtensor_view(call.op, rule, shape, placements, mesh, strict);
//   ViewLayouts exact = exact_view({2, 3, 4}, {6, 4}, placements, mesh);
//
// Mesh dims are taken from left to right, each on the local tensor that the ones before it leave.
// When dims are flattened, a shard of any of them but the first becomes a strided shard: if the
// columns of a [2,4] tensor are sharded and it is viewed as [8], then each rank has a part of each
// of two pieces, which is _S(0,2). Here strided shards are placements of their own, which need not
// encode a shard order.
//
// dtensor_view does what PyTorch 2.13.0 does, faults included. exact_view keeps a shard if what
// each rank holds is a shard of the result too, and replicates it otherwise. Source: PyTorch
// 2.13.0, _ops/_view_ops.py (view_groups, _ViewShardingPropagator); #166483, #179502, #179632.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/tensor_spec.h"

namespace shardlab {

// Where one output dim comes from.
struct ViewDim {
  enum class Kind : std::uint8_t {
    kNew,        // comes from no input dim: its extent is 1, or it holds copies
    kInput,      // an input dim as it is
    kBroadcast,  // copies of an input dim of extent 1
    kRepeat,     // an input dim repeated end to end
    kFlatten,    // several input dims in one, of which the last changes fastest
    kSplit,      // one factor of an input dim, or of several that are flattened first
  };
  Kind kind = Kind::kNew;
  boost::container::small_vector<int, 4> inputs = {};
  Shape parts = {};  // kSplit: the extents of all factors except those of extent 1
  int part = 0;      // kSplit: which factor this dim is

  [[nodiscard]] static ViewDim input(int dim) { return {.kind = Kind::kInput, .inputs = {dim}}; }
  friend bool operator==(const ViewDim&, const ViewDim&) = default;
};
using ViewRule = std::vector<ViewDim>;  // by output dim

struct ViewLayouts {
  Placements input;   // the placements that the input must be brought to
  Placements output;  // the placements that the result then has
};

// Cuts the dims of both shapes into the smallest groups that hold the same elements. Throws
// InputError for empty tensors whose dims PyTorch can't match, because PyTorch fails there too.
[[nodiscard]] ViewRule reshape_rule(std::string_view op, const Shape& from, const Shape& to);

// If a shard does not fit the result, the input would have to be redistributed, which a view must
// not do. With `strict` this throws InputError; otherwise the shard is gathered. Also throws
// InputError where PyTorch's own rule fails.
[[nodiscard]] ViewLayouts dtensor_view(std::string_view op, const ViewRule& rule,
                                       const Shape& shape, const Placements& placements,
                                       const DeviceMesh& mesh, bool strict);

// Keeps a shard if and only if the elements of every rank are a shard of the result, plain or
// strided, and replicates the other mesh dims. Assumes that both shapes have the same number of
// elements.
[[nodiscard]] ViewLayouts exact_view(const Shape& from, const Shape& to,
                                     const Placements& placements, const DeviceMesh& mesh);
// Whether every rank holds the same elements in both layouts. False for strided shards whose pieces
// are not equally long. Assumes that both shapes have the same number of elements.
[[nodiscard]] bool shows_alike(const Shape& from, const Shape& to, const ViewLayouts& layouts,
                               const DeviceMesh& mesh);

}  // namespace shardlab

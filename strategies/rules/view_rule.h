// How shards come through a view: an op that shows the same elements in another shape.
//
//   ViewRule rule = reshape_rule({2, 3, 4}, {6, 4});    // dims 0 and 1 flattened; dim 2
//   ViewLayouts layouts = dtensor_view(call.op, rule, shape, placements, mesh, strict);
//   ViewLayouts exact = exact_view({2, 3, 4}, {6, 4}, placements, mesh);
//
// Mesh dims are taken left to right, each on the local tensor that the ones before it leave. A shard
// of a flattened dim other than the first makes a strided shard: [2,4] by columns is, as [8], the
// k-th part of each of two pieces, _S(0,2). Strided shards of views are placements of their own: they
// need not encode a shard order.
//
// dtensor_view does what PyTorch 2.13.0 does, faults included; exact_view keeps what is a layout of
// the result and replicates the rest. Source: PyTorch 2.13.0, _ops/_view_ops.py (view_groups,
// _ViewShardingPropagator); #166483, #179502, #179632.
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
    kNew,        // of extent 1, or filled with copies of a new dim
    kInput,      // an input dim as it is
    kBroadcast,  // copies of an input dim of extent 1
    kRepeat,     // an input dim several times over
    kFlatten,    // input dims as one, the last fastest
    kSplit,      // one part of an input dim, or of several that are flattened first
  };
  Kind kind = Kind::kNew;
  boost::container::small_vector<int, 4> inputs = {};
  Shape parts = {};  // of kSplit: extents of all parts, without those of extent 1
  int part = 0;      // which of them

  [[nodiscard]] static ViewDim input(int dim) { return {.kind = Kind::kInput, .inputs = {dim}}; }
  friend bool operator==(const ViewDim&, const ViewDim&) = default;
};
using ViewRule = std::vector<ViewDim>;  // by output dim

struct ViewLayouts {
  Placements input;   // what the input must be brought to
  Placements output;  // what the result then is
};

// Two shapes of the same elements, cut into the least groups of dims that hold the same elements.
// Throws InputError where PyTorch fails: empty tensors whose dims it can't match.
[[nodiscard]] ViewRule reshape_rule(std::string_view op, const Shape& from, const Shape& to);

// `strict`: throws InputError where the input would have to be redistributed, as a view must not;
// else unfit shards are gathered. Throws InputError also where PyTorch fails on its own rule.
[[nodiscard]] ViewLayouts dtensor_view(std::string_view op, const ViewRule& rule,
                                       const Shape& shape, const Placements& placements,
                                       const DeviceMesh& mesh, bool strict);

// Keeps a shard exactly where every rank's elements are a shard, plain or strided, of the result; a
// mesh dim on which they are not is replicated. Assumes shapes of the same elements.
[[nodiscard]] ViewLayouts exact_view(const Shape& from, const Shape& to,
                                     const Placements& placements, const DeviceMesh& mesh);
// Whether every rank holds the same elements in both layouts; false for strided shards whose pieces are
// not equally long. Assumes shapes of the same elements.
[[nodiscard]] bool shows_alike(const Shape& from, const Shape& to, const ViewLayouts& layouts,
                               const DeviceMesh& mesh);

}  // namespace shardlab

// Random meshes, tensors and layouts. They are small and legal, and have every kind of placement
// and shard order.
#pragma once

#include <string>
#include <vector>

#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/tensor_spec.h"
#include "tests/support/random_source.h"

namespace shardlab::testing_support {

struct LayoutKinds {
  bool partials = true;
  bool orders = true;    // layouts may also have shard orders other than the default
  bool strided = false;  // layouts may have strided shards, whatever those encode
};

// A mesh of 1 to `max_dims` dims, with `min_size` to `max_size` ranks each and at most `max_ranks`
// in all.
DeviceMesh random_mesh(Random& random, int max_dims, int max_size, std::int64_t max_ranks = 512,
                       int min_size = 1);
// A tensor of 1 to `max_dims` dims, with extents from 1 to `max_extent`.
TensorMeta random_tensor(Random& random, int max_dims, int max_extent);
Layout random_layout(Random& random, const DeviceMesh& mesh, int tensor_dims,
                     LayoutKinds kinds = {});

// All layouts of R, S(d) for d < tensor_dims, and the given partials, in default order and without
// forbidden mixes.
std::vector<Layout> all_layouts(int mesh_ndim, int tensor_dims, const std::vector<ReduceOp>& ops);
// Every shard order of a layout's placements.
std::vector<Layout> all_orders(const Layout& layout);

}  // namespace shardlab::testing_support

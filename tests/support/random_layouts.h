// Random meshes, tensors and layouts: small, legal, every kind of placement and shard order.
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
  bool orders = true;    // other shard orders than the default
  bool strided = false;  // strided shards, whatever they encode
};

// 1 to `max_dims` mesh dims of `min_size` to `max_size` ranks, at most `max_ranks` in all.
DeviceMesh random_mesh(Random& random, int max_dims, int max_size, std::int64_t max_ranks = 512,
                       int min_size = 1);
// 1 to `max_dims` tensor dims of 1 to `max_extent`.
TensorMeta random_tensor(Random& random, int max_dims, int max_extent);
Layout random_layout(Random& random, const DeviceMesh& mesh, int tensor_dims,
                     LayoutKinds kinds = {});

// Every placement row of R, S(d) for d < tensor_dims and the given partials, without forbidden
// mixes; default order.
std::vector<Layout> all_layouts(int mesh_ndim, int tensor_dims, const std::vector<ReduceOp>& ops);
// Every shard order of a layout's placements.
std::vector<Layout> all_orders(const Layout& layout);

}  // namespace shardlab::testing_support

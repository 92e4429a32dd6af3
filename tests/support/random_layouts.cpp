#include "tests/support/random_layouts.h"

#include <algorithm>

namespace shardlab::testing_support {

DeviceMesh random_mesh(Random& random, int max_dims, int max_size, std::int64_t max_ranks,
                       int min_size) {
  std::vector<std::int64_t> sizes;
  std::int64_t ranks = 1;
  const int dims = 1 + random.below(max_dims);
  for (int i = 0; i < dims; ++i) {
    const std::int64_t size = random.between(min_size, max_size);
    if (size * ranks > max_ranks) break;
    sizes.push_back(size);
    ranks *= size;
  }
  return DeviceMesh::make(sizes);
}

TensorMeta random_tensor(Random& random, int max_dims, int max_extent) {
  TensorMeta meta;
  meta.dtype = random.percent(50) ? DType::kF32 : DType::kBF16;
  const int dims = 1 + random.below(max_dims);
  for (int i = 0; i < dims; ++i) meta.shape.push_back(random.between(1, max_extent));
  return meta;
}

Layout random_layout(Random& random, const DeviceMesh& mesh, int tensor_dims, LayoutKinds kinds) {
  const std::vector<std::vector<ReduceOp>> families = {
      {ReduceOp::kSum, ReduceOp::kAvg}, {ReduceOp::kMax}, {ReduceOp::kMin}, {ReduceOp::kProduct}};
  // Most partials are sums and averages, as in practice.
  const auto& ops = random.percent(70) ? families[0] : random.pick(families);
  Placements placements;
  for (int m = 0; m < mesh.ndim(); ++m) {
    const int kind = random.below(100);
    const int dim = random.below(tensor_dims);
    if (kind < 25) {
      placements.push_back(Placement::replicate());
    } else if (kind < 45 && kinds.partials) {
      placements.push_back(Placement::partial(random.pick(ops)));
    } else if (kind < 65 && kinds.strided) {
      placements.push_back(Placement::strided_shard(dim, static_cast<int>(random.between(1, 4))));
    } else {
      placements.push_back(Placement::shard(dim));
    }
  }
  Layout layout(placements);
  if (kinds.orders && random.percent(50)) layout = random.pick(all_orders(layout));
  return layout;
}

std::vector<Layout> all_layouts(int mesh_ndim, int tensor_dims, const std::vector<ReduceOp>& ops) {
  std::vector<Placement> choices = {Placement::replicate()};
  for (int d = 0; d < tensor_dims; ++d) choices.push_back(Placement::shard(d));
  for (const ReduceOp op : ops) choices.push_back(Placement::partial(op));
  std::vector<Placements> rows = {{}};
  for (int m = 0; m < mesh_ndim; ++m) {
    std::vector<Placements> longer;
    for (const Placements& row : rows) {
      for (const Placement& choice : choices) {
        longer.push_back(row);
        longer.back().push_back(choice);
      }
    }
    rows = std::move(longer);
  }
  std::vector<Layout> layouts;
  for (const Placements& row : rows) {
    if (!has_mixed_partials(row)) layouts.emplace_back(row);
  }
  return layouts;
}

std::vector<Layout> all_orders(const Layout& layout) {
  std::vector<Layout> orders = {layout};
  for (int dim = 0; dim < kMaxTensorDims; ++dim) {
    std::vector<int> mesh_dims;
    for (int m = 0; m < layout.ndim(); ++m) {
      if (layout[m].is_shard_like() && layout[m].dim() == dim) mesh_dims.push_back(m);
    }
    if (mesh_dims.size() < 2) continue;
    std::vector<Layout> more;
    std::vector<int> permuted = mesh_dims;
    do {
      for (Layout next : orders) {
        for (std::size_t i = 0; i < permuted.size(); ++i) {
          next.order.set(permuted[i], static_cast<int>(i));
        }
        more.push_back(next);
      }
    } while (std::next_permutation(permuted.begin(), permuted.end()));
    orders = std::move(more);
  }
  return orders;
}

}  // namespace shardlab::testing_support

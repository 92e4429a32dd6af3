#include "sim/traffic.h"

#include <algorithm>
#include <map>
#include <string>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "sim/fake_group.h"
#include "sim/registered_exchange.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMostEnumerated = std::int64_t{1} << 22U;

// A function of a coordinate that changes at few coordinates: where it changes, and by how much.
using Changes = std::map<std::int64_t, std::int64_t>;

// Adds `weight` times the size of each coordinate's chunk. The first chunks are full, at most one
// is shorter, and the rest are empty.
void add_chunks(Changes& changes, std::int64_t extent, std::int64_t chunks, std::int64_t weight) {
  const std::int64_t full = chunk_of(extent, chunks, 0).size;
  if (full == 0 || weight == 0) return;
  const std::int64_t count = extent / full;
  const std::int64_t rest = extent % full;
  changes[0] += weight * full;
  changes[count] += weight * (rest - full);
  if (rest > 0) changes[count + 1] -= weight * rest;
}

// Adds `weight` times the number of rows of each coordinate's shard.
void add_shards(Changes& changes, const DimSharding& sharding, std::int64_t chunks,
                std::int64_t weight) {
  const std::int64_t piece = chunk_of(sharding.extent, sharding.factor, 0).size;
  if (piece == 0) return;
  add_chunks(changes, piece, chunks, weight * (sharding.extent / piece));
  add_chunks(changes, sharding.extent % piece, chunks, weight);
}

// Calls visit(value, count) for each stretch of `count` coordinates with equal values; there are
// `chunks` coordinates in all.
template <class Visit>
void for_each_stretch(const Changes& changes, std::int64_t chunks, Visit&& visit) {
  std::int64_t value = 0;
  std::int64_t begin = 0;
  for (const auto& [coordinate, change] : changes) {
    const std::int64_t end = std::min(coordinate, chunks);
    if (end > begin) visit(value, end - begin);
    begin = end;
    value += change;
  }
  if (chunks > begin) visit(value, chunks - begin);
}

// The extents that shards of one tensor dim have, and how many coordinates of the mesh dims that
// shard it have each of them.
std::map<std::int64_t, std::int64_t> extents_of(std::int64_t extent, int dim, const Layout& layout,
                                                const DeviceMesh& mesh) {
  std::map<std::int64_t, std::int64_t> extents = {{extent, 1}};
  for (const int m : layout.mesh_dims_of(dim)) {
    std::map<std::int64_t, std::int64_t> shards;
    for (const auto& extent_and_count : extents) {
      Changes sizes;
      add_shards(sizes, DimSharding::of(layout[m], extent_and_count.first), mesh.size(m), 1);
      for_each_stretch(sizes, mesh.size(m), [&](std::int64_t size, std::int64_t coordinates) {
        shards[size] += extent_and_count.second * coordinates;
      });
    }
    extents = std::move(shards);
  }
  return extents;
}

// How many elements of an all-to-all's results their ranks had before. They are counted over the
// coordinates of the groups, and only over the tensor dims that the step changes.
std::int64_t elements_kept(const PlanStep& step, const Layout& others, const TensorMeta& meta,
                           const DeviceMesh& mesh, std::int64_t members) {
  const auto whole = [&](int dim) {
    return extents_of(meta.shape[to_index(dim)], dim, others, mesh);
  };
  const int from = step.from.dim();
  const int to = step.to.dim();
  std::int64_t kept = 0;
  if (from == to) {
    for (const auto& [extent, count] : whole(from)) {
      const std::int64_t with_rows = std::min(members, extent);  // other shards are empty
      if (with_rows > kMostEnumerated) {
        throw LimitError(
            "the bytes of an exchange between strided shards of one tensor dim are "
            "counted rank by rank: found " +
            std::to_string(with_rows) + " ranks with rows; valid: at most " +
            std::to_string(kMostEnumerated));
      }
      for (std::int64_t i = 0; i < with_rows; ++i) {
        kept += count * rows_kept(DimSharding::of(step.from, extent),
                                  DimSharding::of(step.to, extent), members, i);
      }
    }
    return kept;
  }
  // The rows of both tensor dims as functions of the coordinate on the step's mesh dim, summed over
  // all other coordinates.
  Changes had;
  Changes wanted;
  for (const auto& [extent, count] : whole(from)) {
    add_shards(had, DimSharding::of(step.from, extent), members, count);
  }
  for (const auto& [extent, count] : whole(to)) {
    add_shards(wanted, DimSharding::of(step.to, extent), members, count);
  }
  for (const auto& [coordinate, change] : had) wanted.try_emplace(coordinate, 0);
  std::int64_t rows_had = 0;
  std::int64_t rows_wanted = 0;
  std::int64_t begin = 0;
  auto next = had.begin();
  for (const auto& [coordinate, change] : wanted) {
    kept += (std::min(coordinate, members) - begin) * rows_had * rows_wanted;
    begin = std::min(coordinate, members);
    for (; next != had.end() && next->first <= coordinate; ++next) rows_had += next->second;
    rows_wanted += change;
  }
  return kept + (members - begin) * rows_had * rows_wanted;
}

// The bytes of an all-to-all of which one side is a registered placement, group by group.
std::int64_t registered_exchange_bytes(const PlanStep& step, const Layout& others,
                                       const TensorMeta& meta, const DeviceMesh& mesh) {
  const int along = step.mesh_dims.front();
  const std::int64_t members = mesh.size(along);
  if (mesh.size() > kMostEnumerated) {
    throw LimitError(
        "the bytes of an exchange with a registered placement are counted group by group: found a "
        "mesh of " +
        std::to_string(mesh.size()) + " ranks; valid: at most " + std::to_string(kMostEnumerated));
  }
  std::map<std::vector<std::int64_t>, std::int64_t> sent_by_shape;
  std::int64_t sent = 0;
  for (std::int64_t r = 0; r < mesh.size(); ++r) {
    const std::vector<std::int64_t> coordinate = mesh.coordinate(r);
    if (coordinate[to_index(along)] != 0) continue;  // one rank stands for its group
    const Shape whole = local_shape(meta.shape, others, mesh, coordinate);
    const auto [known, is_new] =
        sent_by_shape.try_emplace(std::vector<std::int64_t>(whole.begin(), whole.end()));
    if (is_new) {
      std::int64_t elements = 1;
      for (const std::int64_t extent : whole) elements *= extent;
      known->second = elements - elements_kept(step.from, step.to, whole, members);
    }
    sent += known->second;
  }
  return sent == 0 ? 0 : saturating_product(sent, itemsize(meta.dtype));
}

}  // namespace

std::int64_t bytes_moved(const PlanStep& step, const Layout& before, const TensorMeta& meta,
                         const DeviceMesh& mesh) {
  std::int64_t members = 1;
  Layout others = before;
  for (const int m : step.mesh_dims) {
    members *= mesh.size(m);
    others.placements[to_index(m)] = Placement::replicate();
  }
  if (members == 1 || step.from == step.to || step.collective == Collective::kLocal) return 0;
  if (step.collective == Collective::kAllToAll &&
      (step.from.is_registered() || step.to.is_registered())) {
    return registered_exchange_bytes(step, others, meta, mesh);
  }
  // The bytes that the groups hold, each group counted once, all groups together: shards partition
  // the tensor, and every mesh dim that does not shard repeats it.
  std::int64_t groups = 1;
  for (int m = 0; m < mesh.ndim(); ++m) {
    const bool in_step =
        std::find(step.mesh_dims.begin(), step.mesh_dims.end(), m) != step.mesh_dims.end();
    if (!in_step && !before[m].cuts()) groups = saturating_product(groups, mesh.size(m));
  }
  std::int64_t bytes = saturating_product(groups, itemsize(meta.dtype));
  const bool exchanges = step.from.is_shard_like() && step.to.is_shard_like();
  for (int dim = 0; dim < meta.ndim(); ++dim) {
    const std::int64_t extent = meta.shape[to_index(dim)];
    if (extent == 0) return 0;
    if (exchanges && (dim == step.from.dim() || dim == step.to.dim())) continue;
    bytes = saturating_product(bytes, extent);
  }
  if (!exchanges) {
    const std::int64_t rounds = step.from.is_partial() && step.to.is_replicate() ? 2 : 1;
    return saturating_product(bytes, rounds * (members - 1));
  }
  const auto extent_of = [&](const Placement& p) { return meta.shape[to_index(p.dim())]; };
  const std::int64_t elements = step.from.dim() == step.to.dim()
                                    ? extent_of(step.from)
                                    : extent_of(step.from) * extent_of(step.to);
  const std::int64_t sent = elements - elements_kept(step, others, meta, mesh, members);
  return sent <= 0 ? 0 : saturating_product(bytes, sent);
}

}  // namespace shardlab

// DTensor's greedy planner. From the innermost mesh dim outwards, it replicates shards that nest in
// others that will change; then it changes the rest from the outermost mesh dim inwards. Its plans
// are quick to find, but not always the cheapest ones.
//
//   for_each_greedy_step(from, to, shards > 1,
//                        [](int mesh_dim, const Placement& from, const Placement& to) { ... });
//
// Source: PyTorch 2.13.0, _redistribute.py, generate_greedy_transform_infos. Sources that are all
// partials are reduced from the outermost mesh dim inwards, and sources with a shard from the
// innermost outwards.
//
// DTensor looks only at plain shards. It may therefore gather or cut a mesh dim under a strided
// shard that was cut from it, which scrambles the rows. With Nesting::kAllShards strided shards
// count as well: _S(0,8)S(0) to RS(0) gathers both mesh dims.
#pragma once

#include <cstdint>

#include "costmodel/base/index.h"
#include "sim/placement.h"

namespace shardlab {

enum class Nesting : std::uint8_t { kPlainShards, kAllShards };

// Calls emit(mesh dim, from, to) for each step. `source_is_sharded` says whether the source has
// more than one shard.
template <Nesting kNesting = Nesting::kPlainShards, class Emit>
void for_each_greedy_step(const Placements& from, const Placements& to, bool source_is_sharded,
                          Emit&& emit) {
  const int ndim = static_cast<int>(from.size());
  const auto on = [](const Placements& placements, int mesh_dim) -> const Placement& {
    return placements[to_index(mesh_dim)];
  };
  if (ndim == 1) {
    if (from[0] != to[0]) emit(0, from[0], to[0]);
    return;
  }
  Placements current = from;
  if (source_is_sharded) {
    for (int i = ndim - 1; i >= 0; --i) {
      Placement target = on(to, i);
      const auto nests = [](const Placement& p) {
        return kNesting == Nesting::kAllShards ? p.is_shard_like() : p.is_shard();
      };
      if (nests(target)) {
        const auto cuts = [&](const Placement& p) { return nests(p) && p.dim() == target.dim(); };
        // The shard is misaligned if the outer mesh dims do not cut this tensor dim as they do in
        // the target.
        for (int j = 0; j < i; ++j) {
          const Placement& now = on(current, j);
          if (cuts(now) != cuts(on(to, j)) || (cuts(now) && now != on(to, j))) {
            target = Placement::replicate();
            break;
          }
        }
      }
      if (on(current, i) != target) {
        emit(i, on(current, i), target);
        current[to_index(i)] = target;
      }
    }
  }
  for (int i = 0; i < ndim; ++i) {
    if (on(current, i) != on(to, i)) emit(i, on(current, i), on(to, i));
  }
}

}  // namespace shardlab

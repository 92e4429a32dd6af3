// DTensor's greedy planner: replicate misaligned nested shards from the innermost mesh dim
// outwards, then change the rest from the outermost inwards. Cheap, not optimal.
//
//   for_each_greedy_step(from, to, shards > 1,
//                        [](int mesh_dim, const Placement& from, const Placement& to) { ... });
//
// Source: PyTorch 2.13.0, _redistribute.py, generate_greedy_transform_infos. Consequences worth
// knowing: pure partial sources reduce outermost first, sources with a shard innermost first.
//
// DTensor looks at plain shards alone, and so gathers or cuts a mesh dim under a strided shard that was cut
// from it, which scrambles the rows. Nesting::kAllShards does not: _S(0,8)S(0) to RS(0) gathers both.
#pragma once

#include <cstdint>

#include "costmodel/base/index.h"
#include "sim/placement.h"

namespace shardlab {

enum class Nesting : std::uint8_t { kPlainShards, kAllShards };

// `source_is_sharded`: the source has more than one shard.
template <Nesting kNesting = Nesting::kPlainShards, class Emit>
void for_each_greedy_step(const Placements& from, const Placements& to, bool source_is_sharded,
                          Emit&& emit) {
  const int ndim = static_cast<int>(from.size());
  const auto at = [](const Placements& p, int i) -> const Placement& { return p[to_index(i)]; };
  if (ndim == 1) {
    if (from[0] != to[0]) emit(0, from[0], to[0]);
    return;
  }
  Placements current = from;
  if (source_is_sharded) {
    for (int i = ndim - 1; i >= 0; --i) {
      Placement target = at(to, i);
      const auto nests = [](const Placement& p) {
        return kNesting == Nesting::kAllShards ? p.is_shard_like() : p.is_shard();
      };
      if (nests(target)) {
        const auto cuts = [&](const Placement& p) { return nests(p) && p.dim() == target.dim(); };
        // Misaligned: the outer mesh dims do not cut this tensor dim now as they will.
        for (int j = 0; j < i; ++j) {
          const Placement& now = at(current, j);
          if (cuts(now) != cuts(at(to, j)) || (cuts(now) && now != at(to, j))) {
            target = Placement::replicate();
            break;
          }
        }
      }
      if (at(current, i) != target) {
        emit(i, at(current, i), target);
        current[to_index(i)] = target;
      }
    }
  }
  for (int i = 0; i < ndim; ++i) {
    if (at(current, i) != at(to, i)) emit(i, at(current, i), at(to, i));
  }
}

}  // namespace shardlab

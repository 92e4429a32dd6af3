// Bytes that one step of a plan moves between ranks, from shapes alone: the same number as the
// executor counts while it moves them, for any number of ranks.
//
// A ring's: an all_gather of S bytes among n ranks moves (n - 1) S, a reduce_scatter as much, an
// all_reduce twice as much (Patarasuk and Yuan 2009); an all_to_all moves what its members do not
// have yet. Padding is not counted.
//
// Groups need not be enumerated: shards of a tensor dim partition it, so extents sum to the whole
// over the mesh dims that shard it, and every other mesh dim counts as often as it has ranks. Only
// an all_to_all of uneven shards needs the distribution of the extents; between two kinds of shards
// of one tensor dim it is counted rank by rank.
#pragma once

#include <cstdint>

#include "sim/plan.h"

namespace shardlab {

// `before`: the layout in which the step finds the tensor. At most 2^63 - 1 (more is that). Throws
// LimitError where it would have to look at more than 2^22 ranks.
[[nodiscard]] std::int64_t bytes_moved(const PlanStep& step, const Layout& before,
                                       const TensorMeta& meta, const DeviceMesh& mesh);

}  // namespace shardlab

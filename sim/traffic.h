// How many bytes one step of a plan moves between ranks, computed from shapes alone for any number
// of ranks. The executor counts the same number while it moves them.
//
//   bytes_moved(step, before, meta, mesh)     // an all_gather of 1 MiB among 4 ranks: 3 MiB
//
// Collectives move what a ring moves: an all_gather of S bytes among n ranks moves (n - 1) S, a
// reduce_scatter as much, and an all_reduce twice as much (Patarasuk and Yuan 2009). An all_to_all
// moves what its members do not have yet. Padding is not counted.
//
// Groups need not be listed. The shards of a tensor dim partition it, so their extents add up to
// the whole over the mesh dims that shard it; any other mesh dim multiplies the bytes by its size.
// Only an all_to_all of uneven shards needs the distribution of the extents, and one between two
// kinds of shards of the same tensor dim is counted rank by rank.
#pragma once

#include <cstdint>

#include "sim/plan.h"

namespace shardlab {

// `before` is the tensor's layout before the step. A result above 2^63 - 1 is given as 2^63 - 1.
// Throws LimitError if more than 2^22 ranks would have to be counted one by one.
[[nodiscard]] std::int64_t bytes_moved(const PlanStep& step, const Layout& before,
                                       const TensorMeta& meta, const DeviceMesh& mesh);

}  // namespace shardlab

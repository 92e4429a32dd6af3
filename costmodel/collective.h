// Collectives, and what a query about one says: which collective, how many bytes, among which
// ranks.
//
//   const CollectiveQuery query{Collective::kAllGather, 1 << 20, {.ranks = 8}};
//
// `full_bytes` is the larger of one rank's two buffers: the output of an all-gather, the input of a
// reduce-scatter, the buffer of an all-reduce, either buffer of an all-to-all (they are equal). A
// caller that passes the other buffer's bytes gets a price that is wrong by a factor of n, and no
// error.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/units.h"

namespace shardlab {

enum class Collective : std::uint8_t {
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kScatter,
  kSendRecv,
  kLocal,  // no communication: a chunk, a partition, or nothing at all
};

template <>
struct EnumNames<Collective> {
  static constexpr std::string_view kKind = "collective";
  static constexpr std::array kNames = {Named{Collective::kAllGather, "all_gather"},
                                        Named{Collective::kAllReduce, "all_reduce"},
                                        Named{Collective::kReduceScatter, "reduce_scatter"},
                                        Named{Collective::kAllToAll, "all_to_all"},
                                        Named{Collective::kBroadcast, "broadcast"},
                                        Named{Collective::kScatter, "scatter"},
                                        Named{Collective::kSendRecv, "send_recv"},
                                        Named{Collective::kLocal, "local"}};
};

[[nodiscard]] std::string_view to_string(Collective collective);
[[nodiscard]] std::optional<Collective> collective_from_name(std::string_view name);

// The ranks in one of several equal parts of a group, at least 1.
[[nodiscard]] constexpr std::int64_t ranks_of_part(std::int64_t ranks, std::int64_t parts) {
  return std::max<std::int64_t>(1, ranks / parts);
}

// What one communicator spans. The groups of a mesh dim may differ, since one can cross a boundary
// between hosts that its neighbour does not cross; this describes the worst of them. A group that
// crosses a boundary may have fewer ranks on one side. They share the fewest links, over which they
// get the most from the others, so that the fewest ranks count; a span that does not say them is
// spread evenly.
struct GroupSpan {
  std::int64_t ranks = 1;
  std::int64_t hosts = 1;    // most hosts that one group touches
  std::int64_t domains = 1;  // most scale-up (NVLink) domains that one group touches
  // The fewest ranks that a group has on any host, and in any domain, that it touches, at least 1.
  std::int64_t ranks_per_host = ranks_of_part(ranks, hosts);
  std::int64_t ranks_per_domain = ranks_of_part(ranks, domains);
  std::int64_t extent = 1;  // most ranks from the first to the last member, both included
  // The product of the sizes of this mesh dim and of all mesh dims after it. DTensor compares it
  // with the number of devices per host to decide whether the group leaves a host.
  std::int64_t walk = 1;

  friend bool operator==(const GroupSpan&, const GroupSpan&) = default;
};

struct CollectiveQuery {
  Collective kind = Collective::kLocal;
  Bytes full_bytes = 0.0;
  GroupSpan group;
  // GPUs that one process drives: 1 in PyTorch, and 0 if it is not known. Of the models, only
  // `population` looks at it.
  std::int64_t gpus_per_process = 1;

  friend bool operator==(const CollectiveQuery&, const CollectiveQuery&) = default;
};

// The bytes that cross one rank's link in a ring of n ranks, as a multiple of full_bytes:
//   all_gather, reduce_scatter, all_to_all  (n-1)/n
//   all_reduce                              2(n-1)/n
//   broadcast, scatter, send_recv           1
// A group of one rank, and kLocal, have 0. Source: NCCL Tests, doc/PERFORMANCE.md (bus bandwidth
// factors). Status: derived.
[[nodiscard]] double ring_volume_factor(Collective kind, std::int64_t ranks);
// The steps of a ring: n-1 for all_gather, reduce_scatter and all_to_all, 2(n-1) for all_reduce,
// and 1 for the others. A group of one rank, and kLocal, have 0.
[[nodiscard]] double ring_steps(Collective kind, std::int64_t ranks);

}  // namespace shardlab

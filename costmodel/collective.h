// Collectives, and what a query about one says: which, how many bytes, among whom.
//
// `full_bytes` is the larger of one rank's two buffers: the output of an all-gather, the input of a
// reduce-scatter, the buffer of an all-reduce, one rank's (equal) buffers of an all-to-all. A
// mismatch is a silent factor of n.
#pragma once

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
  kLocal,  // no communication: chunk, partition, nothing
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

// What one communicator spans. Groups of a mesh dim may differ (a group can straddle a host
// boundary that its neighbour does not); this is the worst of them.
struct GroupSpan {
  std::int64_t ranks = 1;
  std::int64_t hosts = 1;           // most hosts that one group touches
  std::int64_t domains = 1;         // most scale-up (NVLink) domains that one group touches
  std::int64_t ranks_per_host = 1;  // ranks / hosts, at least 1
  std::int64_t extent = 1;  // ranks from the first to the last member, at most, both included
  // Product of the sizes of this mesh dim and of all dims inside it: what DTensor compares with the
  // number of devices per host (dtensor-semantics: the walk from the last mesh dim).
  std::int64_t walk = 1;

  friend bool operator==(const GroupSpan&, const GroupSpan&) = default;
};

struct CollectiveQuery {
  Collective kind = Collective::kLocal;
  Bytes full_bytes = 0.0;
  GroupSpan group;
};

// Ring volume factors: the bytes that cross one rank's link, as a multiple of full_bytes.
//   all_gather, reduce_scatter, all_to_all  (n-1)/n
//   all_reduce                              2(n-1)/n
//   broadcast, scatter, send_recv           1
// Source: NCCL Tests, doc/PERFORMANCE.md (bus bandwidth factors). Status: derived.
[[nodiscard]] double ring_volume_factor(Collective kind, std::int64_t ranks);
// Steps of a ring: (n-1) for all_gather, reduce_scatter and all_to_all, 2(n-1) for all_reduce,
// else 1.
[[nodiscard]] double ring_steps(Collective kind, std::int64_t ranks);

}  // namespace shardlab

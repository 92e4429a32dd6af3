// How the measured curves of some collectives and groups predict another one that was not measured.
//
//   const CurveGroup from{Collective::kAllGather, 8, 1}, to{Collective::kAllReduce, 8, 1};
//   t(S) = k t0(S / (k v)), k = latency_factor(to) / latency_factor(from),
//                           v = volume_factor(from) / volume_factor(to)
//
// carries the curve t0 of `from` over to `to`: its floor a becomes k a, its bandwidth b becomes v
// b. If several curves are carried over, their ln t is averaged with the weights of
// relation_weight.
//
// Source: inside a host, volumes are the ring factors of collective.h. Between hosts, with n ranks
// and g network links on the host that has the fewest of them, they are the bytes that cross one of
// these links: (n-1)/n/g for all_gather and reduce_scatter, twice that for all_reduce, (n-g)/n for
// all_to_all, 1/g for broadcast and scatter, 1 for send_recv (status: derived). A ring has the
// latency of n-1 steps; an all_reduce between hosts has that of a tree over log2(hosts) levels and
// the ranks of a host. The constants of latencies are fitted to the median times of messages of up
// to 16 KiB in configs/measurements, by ratios within one system (status: fitted, to all sets).
// Weights: status assumed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "costmodel/collective.h"

namespace shardlab {

struct CurveGroup {
  Collective kind;
  std::int64_t ranks;
  std::int64_t hosts;
  // The ranks on the host that has the fewest; by default the group is spread evenly.
  double ranks_per_host = std::max(1.0, static_cast<double>(ranks) / static_cast<double>(hosts));

  friend bool operator==(const CurveGroup&, const CurveGroup&) = default;
};

// The latency floor, relative to that of an all_gather between two ranks. For groups inside a host,
// these two ranks are on one host; for other groups, on two.
[[nodiscard]] double latency_factor(const CurveGroup& group);
// The bytes that cross one link, over full_bytes.
[[nodiscard]] double volume_factor(const CurveGroup& group);
// The weight of the curve of `known` in a prediction for `asked`: up to 1e6 if both are the same
// group, and 0 if one lies inside a host and the other does not.
[[nodiscard]] double relation_weight(const CurveGroup& known, const CurveGroup& asked);

}  // namespace shardlab

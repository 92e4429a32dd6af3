// How curves of other collectives and groups help where one was not measured.
//
//   const CurveGroup from{Collective::kAllGather, 8, 1}, to{Collective::kAllReduce, 8, 1};
//   t(S) = k t0(S / (k v)), k = latency_factor(to) / latency_factor(from),
//                           v = volume_factor(from) / volume_factor(to)
// which takes the floor a to k a and the bandwidth b to v b. Of several curves, ln t is averaged with
// relation_weight.
//
// Source: volumes are ring factors (collective.h) inside a host; between hosts the bytes that cross
// one of the g network links of a host: all_gather and reduce_scatter (n-1)/n/g, all_reduce twice
// that, all_to_all (n-g)/n, broadcast and scatter 1/g, send_recv 1. Latencies: rings take n-1 steps,
// all_reduce between hosts a tree's log2(hosts) and the ranks of a host; their constants are fitted to
// the medians of messages of up to 16 KiB in configs/measurements, by ratios within one system
// (status: fitted, to all sets). Weights: status assumed.
#pragma once

#include <cstdint>

#include "costmodel/collective.h"

namespace shardlab {

struct CurveGroup {
  Collective kind;
  std::int64_t ranks;
  std::int64_t hosts;

  friend bool operator==(const CurveGroup&, const CurveGroup&) = default;
};

// Floor against that of an all_gather of 2 ranks of one host, or between hosts of 1 rank on each of 2.
[[nodiscard]] double latency_factor(const CurveGroup& group);
// Bytes that cross a link, over full_bytes.
[[nodiscard]] double volume_factor(const CurveGroup& group);
// How much the curve of `known` says about `asked`, up to 1e6 for itself; 0 across the boundary of a
// host.
[[nodiscard]] double relation_weight(const CurveGroup& known, const CurveGroup& asked);

}  // namespace shardlab

// What DTensor's default model says a collective costs, written out for tests that show their sums:
//
//   gather(4, 400, kBetweenHosts)      // an all-gather of 400 bytes among 4 ranks: 14.714... us
//
//   t = base latency + hops * hop latency + (GiB * hops / ranks) / bandwidth * 1e6
//
// `bytes` are the larger of one rank's two buffers. Source: costmodel/models/dtensor.cpp, whose
// order of operations is kept. Valid: the model `dtensor` with its default parameters.
#pragma once

namespace shardlab::testing_support {

inline constexpr double kBaseLatencyUs = 6.6;

struct RingLink {
  double hop_us;     // latency of one hop of the ring
  double bandwidth;  // "GB/s" that the model divides GiB by
};
inline constexpr RingLink kInHost{0.6, 87.7};
inline constexpr RingLink kBetweenHosts{2.7, 87.7 * 0.22};

constexpr double ring_us(double ranks, double hops, double bytes, const RingLink& link) {
  const double gib = bytes / (1024.0 * 1024.0 * 1024.0);
  return kBaseLatencyUs + hops * link.hop_us + (gib * hops / ranks) / link.bandwidth * 1e6;
}
constexpr double gather(double ranks, double bytes, const RingLink& link) {
  return ring_us(ranks, ranks - 1, bytes, link);
}
constexpr double reduce_scatter(double ranks, double bytes, const RingLink& link) {
  return ring_us(ranks, ranks - 1, bytes, link);
}
constexpr double all_reduce(double ranks, double bytes, const RingLink& link) {
  return ring_us(ranks, 2 * (ranks - 1), bytes, link);
}
// The penalty of 1 us that the versions before v4 add is not included.
constexpr double all_to_all(double ranks, double local_bytes, const RingLink& link) {
  return ring_us(ranks, ranks - 1, local_bytes, link);
}

}  // namespace shardlab::testing_support

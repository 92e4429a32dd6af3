// What the links of a topology let a collective take: the curve that the model `population`
// corrects by measured factors.
//
//   const PhysicalGroup group = physical_group(query.kind, query.group, topology);
//   const PhysicalCurve curve = physical_curve(group);
//   curve.us_at_bend(curve.bend(1 << 20))      // us of 1 MiB
//
//   t(S) = a (1 + (S / (a b))^p)^(1/p),  p = 0.7,  bend = ln S - ln(a b)
//   S the full_bytes of the collective; a the floor in us; b the plateau in bytes/us
//   inside a domain     a = 10 l^0.5,      b = 0.8 host / v; in place of 0.8, 1.06 on Hopper and
//                       0.96 later for an all_reduce of 8 and more GPUs on NVSwitch that adds up
//                       (NVLS)
//   between domains     a = 24 l^0.7 r,    b = min(0.85 network / v, 0.8 host / ring); in place of
//                       0.8, 1.04 between two domains for an all_reduce of 8 and more GPUs in each,
//                       on NVSwitch that adds up, because their tree has one level
//   with SHARP          an all_reduce between domains on a network whose switches add up has the
//                       lower floor and the higher plateau of the curve above and of one with
//                       l = min(log2(d), 3) + 0.1 g,
//                       b = min(0.85 network g, 0.8 host / (2 (g - 1) / g))
//   l the latency factor of curve_relation.h, with domains as hosts; host and network the bandwidth
//   of one device, in bytes/us; r the latency of one network step over that of InfiniBand; ring the
//   ring factor of collective.h; v the bytes that cross one link over S: the ring factor inside a
//   domain, and the factors of curve_relation.h between domains, except 2 (d - 1) / d / g for an
//   all_reduce of d domains, whose trees reduce inside a domain first; g the devices of the group
//   in the domain that has the fewest of them
// A domain is an NVLink domain that is larger than a host, or else a host.
//
// SHARP: each device's link carries S / g up to the switches and S / g of the sum down, at the same
// time, however many domains there are; between more than two, a ring or tree sends up to twice as
// much. In a domain of g devices a chain carries all partial sums to the device with the link and
// the sum back: (g - 1) / g of S each way through each device (status: derived). NCCL's own
// estimate of CollNet's latency with NVSwitch, 31 us + 7.4 + 0.8 (g - 1), is that of a tree with
// protocol LL on eight hosts, from which the 3 levels are (src/graph/tuning.cc of NCCL 2.27;
// status: derived; no public log has small messages with SHARP). Only all_reduce gains: in an
// all_gather each domain has to receive (d - 1) / d of S, and in a reduce_scatter it has to send
// that much, with SHARP as without.
//
// Source: the shape is that of curve.h. The constants are round values near the medians of
// configs/measurements (status: fitted); the volumes are derived. The shares are those of a link's
// nominal bandwidth that large messages reach. With NVSwitch, an all_reduce among 8 H100s a host
// has a bus bandwidth of 480 GB/s on one host and on two, 366 on four and 321 on eight, where 450
// is nominal. With SHARP, two logs have 8 GiB in 44.0 ms on twelve hosts of 8 H100s (this curve
// says 42.4) and in 104 ms on four hosts of 8 A100s with 100 GB/s a host (102), where a ring at the
// full rate of the network would need 129. The job file of the former names the algorithm
// COLLNETCHAIN; NVLS inside the hosts together with SHARP could be faster, but no public log shows
// it.
// Valid: as a base for corrections; used alone it is off by 20 to 50 %.
#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/collective.h"
#include "costmodel/topology.h"

namespace shardlab {

// The latency of one network step of InfiniBand in the shipped topologies: NCCL's tuning constant
// for a ring with the protocol LL.
inline constexpr Micros kInfinibandLatency(2.7);

// A collective and its group, with the links that it crosses.
struct PhysicalGroup {
  Collective kind = Collective::kLocal;
  std::int64_t ranks = 1;
  std::int64_t domains = 1;
  double devices = 1.0;          // how many devices the group has in the domain with the fewest
  GBps host;                     // bandwidth of one device inside its domain
  GBps network;                  // bandwidth of one device between domains
  double network_delay = 1.0;    // r of the formula
  bool switch_reduces = false;   // NVSwitch adds up for an all_reduce
  bool network_reduces = false;  // SHARP: the network adds up for an all_reduce
  bool is_hopper = false;
};

// Figures of the network that replace those of the topology.
struct NetworkFigures {
  std::optional<GBps> bandwidth = {};
  std::optional<Micros> latency = {};
  std::optional<bool> reduces = {};
};

// The group as `topology` joins it. Assumes at least two ranks.
[[nodiscard]] PhysicalGroup physical_group(Collective kind, const GroupSpan& span,
                                           const Topology& topology,
                                           const NetworkFigures& network = {});

struct PhysicalCurve {
  double floor_us = 1.0;      // a
  double bytes_per_us = 1.0;  // b

  // ln(S / (a b)): 0 where the floor and the plateau meet. Messages of up to one byte count as one.
  [[nodiscard]] double bend(Bytes bytes) const;
  // ln(t / a) at a bend, and its derivative, which is the share of the plateau in the time.
  [[nodiscard]] static double log_rise(double bend);
  [[nodiscard]] static double plateau_share(double bend);
  [[nodiscard]] double us_at_bend(double bend) const;
};

[[nodiscard]] PhysicalCurve physical_curve(const PhysicalGroup& group);

}  // namespace shardlab

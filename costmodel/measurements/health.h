// Judges whether a run's times show what its hardware can do. The rules were written down before
// any model was fitted (configs/measurements/README.md says why). Runs that break a rule are kept,
// but no model is fitted to them and no model is scored by them.
//
//   const Judgement judgement = judge(set);   // {kUnhealthy, "ragged: 8 KiB take 17.1 times ..."}
//
// The rules use only the rows of a set and what its source recorded, never the names of files or
// clusters, so that new logs are judged in the same way. The first rule that is broken gives the
// reason.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "costmodel/measurements/measurement_set.h"

namespace shardlab {

struct Judgement {
  Health health = Health::kUnknown;
  std::string reason;  // begins with the rule's name; empty when healthy
};

// The rules, in order:
//   source     the source itself calls the run unhealthy (MeasurementSet::health)
//   mixed      the list of devices has several kinds of GPUs (nccl_tests_run.h)
//   forced     the user forced an algorithm or protocol
//   sockets    hosts are joined by TCP sockets
//   ragged     a size takes more than kMaxDrop times as long as a larger one
//   unsteady   in-place and out-of-place times differ by more than kMaxGap in the median
//   slow       the bus bandwidth of large messages is below kMinLinkShare of the links that the
//              source states
[[nodiscard]] Judgement judge(const MeasurementSet& set);

// The thresholds of the rules. Status: assumed. They were chosen on the public logs, so that
// genuine switches of the protocol (drops of up to 7.1 times on Slingshot) and single spikes pass.
inline constexpr double kMaxDrop = 10.0;            // ratio of two times
inline constexpr double kMaxGap = 0.25;             // relative difference of two times
inline constexpr double kMinLinkShare = 1.0 / 3.0;  // share of the stated bandwidth
// Smaller messages are bound by latency, so their times say nothing about bandwidth. Status:
// assumed.
inline constexpr double kLargeBytes = 256e6;

// Whether a ring through all hosts moves the collective's bytes, so that its bus bandwidth is that
// of the slowest link.
[[nodiscard]] bool is_ring_bound(Collective kind);

// The GB/s of the network links of one host, counting at most one link per GPU, as stated in a text
// such as "8 x 400 Gb/s per node" or "InfiniBand HDR 200 Gb/s, 8 NICs/node". Nothing if the text
// does not state it.
[[nodiscard]] std::optional<double> stated_host_bandwidth(std::string_view inter,
                                                          std::int64_t gpus_per_host);

}  // namespace shardlab

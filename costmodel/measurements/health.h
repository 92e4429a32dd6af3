// Whether a run shows what its hardware does, by rules that were written down before any fit
// (configs/measurements/README.md says why). Runs that break one are kept, and used for no fit and no
// score.
//
//   const Judgement judgement = judge(set);     // {kUnhealthy, "ragged: 8 KiB take 17.1 times ..."}
//
// The rules see a set's rows and what its source recorded; they know no names of files or clusters,
// so that unseen logs are judged alike. The first rule that is broken gives the reason.
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

// Rules, in order: source (the source itself says so, `health`), forced (an algorithm or protocol was
// forced), sockets (TCP sockets between hosts), ragged (a size takes kMaxDrop times as long as a
// larger one), unsteady (in-place and out-of-place times differ by kMaxGap in the median), slow (bus
// bandwidth of large messages below kMinLinkShare of the links the source states).
[[nodiscard]] Judgement judge(const MeasurementSet& set);

// Thresholds. Status: assumed; chosen on the public logs so that genuine protocol switches (drops up
// to 7.1 times on Slingshot) and single spikes pass.
inline constexpr double kMaxDrop = 10.0;
inline constexpr double kMaxGap = 0.25;
inline constexpr double kMinLinkShare = 1.0 / 3.0;
// Below this a run is bound by latency. Status: assumed.
inline constexpr double kLargeBytes = 256e6;

// GB/s of the network links of one host, at most one a GPU, where a text such as "8 x 400 Gb/s per
// node" or "InfiniBand HDR 200 Gb/s, 8 NICs/node" states them.
[[nodiscard]] std::optional<double> stated_host_bandwidth(std::string_view inter,
                                                          std::int64_t gpus_per_host);

}  // namespace shardlab

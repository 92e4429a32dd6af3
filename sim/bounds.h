// What no plan can beat, and how far a plan is from it.
//
//   volume   bytes that ranks receive. Without partials rank r must receive what it will hold and
//            does not hold yet: b * |dst(r) \ src(r)|. With partials reduced over n ranks every
//            element takes n-1 receives for its final value and one more for each further rank that
//            ends up with it: N (n-1)/n a rank to a shard of an N-byte tensor, twice that to a
//            replica (Patarasuk and Yuan 2009; Chan et al. 2007).
//   time     one step's latency and the volume of the busiest rank over the fastest link.
//   memory   the larger of one rank's source and target shards.
//
// A plan's volume counts each step's ring volume. Valid for at most kMaxBoundRanks ranks (index
// sets are built).
#pragma once

#include <optional>

#include "costmodel/topology.h"
#include "sim/plan.h"

namespace shardlab {

inline constexpr std::int64_t kMaxBoundRanks = 4096;

// Ratios of the plan to the bound, at least 1 up to rounding; absent where the bound is 0 or the
// mesh too large.
struct PlanBounds {
  std::optional<double> volume_ratio;
  std::optional<double> time_ratio;
  std::optional<double> memory_ratio;
};

[[nodiscard]] PlanBounds bounds_of(const Plan& plan, const DeviceMesh& mesh,
                                   const Topology& topology);

}  // namespace shardlab

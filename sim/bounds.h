// Lower bounds of plans whose ranks alone move and add up bytes, and how far a plan is from them.
//
//   const PlanBounds bounds = bounds_of(plan, mesh, topology);
//   bounds.volume_ratio      // 1.5: ranks receive 1.5 times the bytes that they must
//
//   volume   The bytes that ranks receive. Without partials, rank r must receive what it will hold
//            and does not hold yet: b * |dst(r) \ src(r)|, with b bytes per element and the sets of
//            elements that r holds. With partials that are reduced over n ranks, every element
//            takes n-1 receives for its final value and one more for each further rank that ends up
//            with it. On average a rank receives N (n-1)/n bytes for a shard of a tensor of N
//            bytes, and twice that for a replica (Patarasuk and Yuan 2009; Chan et al. 2007).
//   time     The latency of one step, plus the volume of the busiest rank over the fastest link.
//   memory   The larger one of a rank's source and target shards.
//
// The first two do not hold where switches add up (NVLink SHARP, SHARP), which saves a rank up to
// half of what it receives in an all-reduce, and the second not where links are faster than the
// topology says. Plans with measured prices can thus have a ratio of time below 1.
//
// The volume of a plan is the sum of its steps' ring volumes. Bounds of volume and time without
// partials list the elements of every rank, so they are computed only up to kMaxBoundRanks ranks.
#pragma once

#include <optional>

#include "costmodel/topology.h"
#include "sim/plan.h"

namespace shardlab {

inline constexpr std::int64_t kMaxBoundRanks = 4096;

// Ratios of the plan to the bound. Those of volume and memory are at least 1 up to rounding. A
// ratio is absent where its bound is 0, the mesh is too large, or an end of the plan has a
// registered placement.
struct PlanBounds {
  std::optional<double> volume_ratio;
  std::optional<double> time_ratio;
  std::optional<double> memory_ratio;
};

[[nodiscard]] PlanBounds bounds_of(const Plan& plan, const DeviceMesh& mesh,
                                   const Topology& topology);

}  // namespace shardlab

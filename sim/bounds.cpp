#include "sim/bounds.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

struct Volume {
  double total = 0.0;    // bytes, all ranks together
  double busiest = 0.0;  // bytes of the rank that receives most
};

// Bytes that ranks hold after the plan and did not hold before it.
Volume receive_bound(const Plan& plan, const DeviceMesh& mesh) {
  // What a rank holds is a product of sets, one for each tensor dim. The intersection of two such
  // products is the product of the intersections.
  Volume volume;
  const double item = itemsize(plan.meta.dtype);
  for (std::int64_t r = 0; r < mesh.size(); ++r) {
    const std::vector<std::int64_t> coordinate = mesh.coordinate(r);
    double wanted = item;
    double present = item;
    for (int d = 0; d < plan.meta.ndim(); ++d) {
      if (plan.from.mesh_dims_of(d).empty() && plan.to.mesh_dims_of(d).empty()) {
        const auto rows = static_cast<double>(plan.meta.shape[to_index(d)]);
        wanted *= rows;
        present *= rows;
        continue;
      }
      std::vector<std::int64_t> before =
          local_rows(plan.meta.shape, d, plan.from, mesh, coordinate);
      std::vector<std::int64_t> after = local_rows(plan.meta.shape, d, plan.to, mesh, coordinate);
      std::sort(before.begin(), before.end());
      std::sort(after.begin(), after.end());
      std::vector<std::int64_t> both;
      std::set_intersection(before.begin(), before.end(), after.begin(), after.end(),
                            std::back_inserter(both));
      wanted *= static_cast<double>(after.size());
      present *= static_cast<double>(both.size());
    }
    volume.total += wanted - present;
    volume.busiest = std::max(volume.busiest, wanted - present);
  }
  return volume;
}

// The bound for partials that are reduced, over n ranks in all. Every element takes n-1 receives
// until one rank has its final value, and one more for every further rank that holds it in the end.
// Each mesh dim whose partials stay holds as many independent tensors as it has ranks: the planes.
Volume reduction_bound(const Plan& plan, const DeviceMesh& mesh) {
  double n = 1.0;
  double planes = 1.0;
  double holders = 1.0;  // ranks of one plane that hold an element in the end
  for (int m = 0; m < mesh.ndim(); ++m) {
    const double size = static_cast<double>(mesh.size(m));
    if (plan.from[m].is_partial()) (plan.from[m] == plan.to[m] ? planes : n) *= size;
    if (plan.to[m].is_replicate()) holders *= size;
  }
  Volume volume;
  if (n == 1.0) return volume;
  volume.total = planes * plan.meta.bytes() * (n - 1 + holders - 1);
  volume.busiest = volume.total / static_cast<double>(mesh.size());
  return volume;
}

}  // namespace

PlanBounds bounds_of(const Plan& plan, const DeviceMesh& mesh, const Topology& topology) {
  PlanBounds bounds;
  // Without a price, the bytes that a cost function gives the steps need not be those that move.
  if (!plan.impossible.empty() || plan.steps.empty()) return bounds;
  // The bounds count rows of single tensor dims.
  if (plan.from.has_registered() || plan.to.has_registered()) return bounds;

  double moved = 0.0;  // bytes that one rank receives
  double peak = 0.0;
  for (const PlanStep& step : plan.steps) {
    std::int64_t ranks = 1;
    for (const int dim : step.mesh_dims) ranks *= mesh.size(dim);
    moved += step.full_bytes * ring_volume_factor(step.collective, ranks);
    peak = std::max(peak, step.full_bytes);
  }
  const auto held = [&](const Layout& layout) {
    return plan.meta.bytes() / static_cast<double>(num_shards(layout.placements, mesh, true));
  };
  const double floor = std::max(held(plan.from), held(plan.to));
  if (floor > 0) bounds.memory_ratio = std::max(peak, floor) / floor;

  std::int64_t elements_on_a_side = 0;
  for (const std::int64_t extent : plan.meta.shape) {
    elements_on_a_side = std::max(elements_on_a_side, extent);
  }
  const bool partial = has_partial(plan.from.placements);
  for (int m = 0; m < mesh.ndim(); ++m) {
    // The plan itself chooses what each rank contributes to a new partial, so there is no bound.
    if (plan.to[m].is_partial() && plan.from[m] != plan.to[m]) return bounds;
  }
  const bool too_large =
      !partial && (mesh.size() > kMaxBoundRanks || elements_on_a_side > (1 << 25) / mesh.size());
  if (too_large) return bounds;
  const Volume bound = partial ? reduction_bound(plan, mesh) : receive_bound(plan, mesh);
  if (bound.total > 0) {
    bounds.volume_ratio = moved * static_cast<double>(mesh.size()) / bound.total;
  }
  if (bound.busiest > 0) {
    GBps fastest;
    Micros least = topology.links().front().latency;
    for (const LinkLevel& link : topology.links()) {
      fastest = std::max(fastest, link.bandwidth);
      least = std::min(least, link.latency);
    }
    bounds.time_ratio =
        plan.price.total.value() / (least + transfer_time(bound.busiest, fastest)).value();
  }
  return bounds;
}

}  // namespace shardlab

#include "sim/replicas.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// This has for each place of a domain one rank there that the mesh dims reach from rank 0, or -1 if
// they reach none.
using Reached = std::vector<std::int64_t>;

void reach(Reached& reached, const MeshLayout& layout) {
  const auto places = static_cast<std::int64_t>(reached.size());
  for (const auto& [size, stride] : layout.modes()) {
    const Reached before = reached;
    const std::int64_t different = std::min(size, places / std::gcd(places, stride));
    for (std::int64_t i = 1; i < different; ++i) {
      for (const std::int64_t rank : before) {
        if (rank < 0) continue;
        std::int64_t& known = reached[to_index((rank + i * stride) % places)];
        if (known < 0) known = rank + i * stride;
      }
    }
  }
}

// How a group lies on domains: for each member, the number of its domain in the order in which the
// group first reaches them. Equal digests stand for equal places.
std::uint64_t place_digest(const std::vector<std::int64_t>& offsets, std::int64_t first,
                           std::int64_t domain_devices) {
  std::map<std::int64_t, std::uint64_t> number;
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (const std::int64_t offset : offsets) {
    const std::int64_t domain = (first + offset) / domain_devices;
    digest = (digest ^ number.emplace(domain, number.size()).first->second) * 0x100000001b3U;
  }
  return digest;
}

bool rounds_by_order(const PlanStep& step, const TensorMeta& meta, std::int64_t members) {
  if (!step.from.is_partial() || step.to.is_partial() || members <= 2) return false;
  if (!is_floating_point(meta.dtype)) return false;
  if (step.from.kind() == Placement::Kind::kNormPartial) return true;
  if (step.from.kind() != Placement::Kind::kPartial) return false;  // masked rows: one is not zero
  const ReduceOp op = step.from.reduce_op();
  return op == ReduceOp::kSum || op == ReduceOp::kAvg || op == ReduceOp::kProduct;
}

std::string dims_text(const MeshDims& dims) {
  std::string text = dims.size() == 1 ? "mesh dim " : "mesh dims ";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  }
  return text;
}

std::optional<ReplicaFault> fault_of_step(const Plan& plan, std::size_t index, const Layout& before,
                                          const DeviceMesh& mesh, std::int64_t domain_devices) {
  const PlanStep& step = plan.steps[index];
  MeshLayout group;
  for (const int dim : step.mesh_dims) group = group.concatenate(mesh.layout(dim));
  if (!rounds_by_order(step, plan.meta, group.size())) return std::nullopt;
  ReplicaFault fault;
  fault.step = index;
  fault.domain_devices = domain_devices;
  Reached apart(to_index(domain_devices), -1);  // by what holds different values
  apart[0] = 0;
  for (int m = 0; m < mesh.ndim(); ++m) {
    if (std::ranges::find(step.mesh_dims, m) != step.mesh_dims.end() || mesh.size(m) == 1) continue;
    if (before[m].is_replicate()) {
      fault.replicas.push_back(m);
    } else {
      reach(apart, mesh.layout(m));
    }
  }
  std::map<std::int64_t, std::uint64_t> digests;  // by place of the first member
  const std::vector<std::int64_t> offsets =
      group.size() <= kMostMembers ? group.offsets() : std::vector<std::int64_t>();
  for (const std::int64_t first : apart) {
    if (first < 0) continue;
    Reached alike(to_index(domain_devices), -1);
    alike[to_index(first % domain_devices)] = first;
    for (const int m : fault.replicas) reach(alike, mesh.layout(m));
    for (const std::int64_t other : alike) {
      if (other < 0 || other == first) continue;
      const auto digest = [&](std::int64_t rank) {
        const std::int64_t place = rank % domain_devices;
        const auto known = digests.find(place);
        if (known != digests.end()) return known->second;
        return digests[place] = place_digest(offsets, place, domain_devices);
      };
      if (!offsets.empty() && digest(first) == digest(other)) continue;
      fault.rank = first;
      fault.other_rank = other;
      return fault;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string ReplicaFault::text(const Plan& plan) const {
  const PlanStep& at = plan.steps[step];
  return "step " + std::to_string(step + 1) + ", " + std::string(to_string(at.collective)) + " " +
         at.from.text() + "->" + at.to.text() + " over " + dims_text(at.mesh_dims) +
         ": the groups of rank " + std::to_string(rank) + " and of rank " +
         std::to_string(other_rank) + " lie differently on NVLink domains of " +
         std::to_string(domain_devices) + " devices, so the replicas along " + dims_text(replicas) +
         " may differ in their last bits";
}

std::optional<ReplicaFault> replicas_may_differ(const Plan& plan, const DeviceMesh& mesh,
                                                const Topology& topology) {
  if (plan.is_impossible()) return std::nullopt;
  const Layout* before = &plan.start;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (auto fault = fault_of_step(plan, i, *before, mesh, topology.domain_devices())) {
      return fault;
    }
    before = &plan.steps[i].after;
  }
  return std::nullopt;
}

}  // namespace shardlab

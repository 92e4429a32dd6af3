// Where the replicas of one value may differ in their last bits, though every rank did what the
// plan says.
//
//   if (const auto fault = replicas_may_differ(plan, mesh, topology)) print(fault->text(plan));
//
// Every member of one collective gets the same bits. But a reduction that follows another runs in
// several groups whose inputs are replicas of each other, and a sum of floating-point numbers
// depends on the order in which it is added up. Groups that lie alike on the NVLink domains are
// taken to add up in the same order. Groups that lie differently are not: an algorithm that sums
// inside a domain first rounds differently in each (FakeGroup with domains_first). Sums of
// integers, maxima and minima do not depend on the order, nor does a sum of two. One collective
// over a flattened mesh has one order, so a merged step helps.
// Source: pytorch/pytorch#171916 and #171913.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "costmodel/topology.h"
#include "sim/plan.h"

namespace shardlab {

struct ReplicaFault {
  std::size_t step = 0;  // index into the plan's steps
  MeshDims replicas;     // the mesh dims along which the replicas lie
  // The first ranks of two groups that reduce replicas and lie differently on domains.
  std::int64_t rank = 0;
  std::int64_t other_rank = 0;
  std::int64_t domain_devices = 1;

  // "step 2, all_reduce P(sum)->R over mesh dim 1: the groups of rank 0 and of rank 5 lie
  // differently on NVLink domains of 8 devices, so the replicas along mesh dim 0 may differ in
  // their last bits".
  [[nodiscard]] std::string text(const Plan& plan) const;
};

// The first step after which replicas may differ. Nothing if none does, for a plan that is
// impossible, and where no rounding depends on an order. Exact for groups of up to kMostMembers
// ranks; larger ones that repeat at other places of a domain are taken to differ.
[[nodiscard]] std::optional<ReplicaFault> replicas_may_differ(const Plan& plan,
                                                              const DeviceMesh& mesh,
                                                              const Topology& topology);
inline constexpr std::int64_t kMostMembers = std::int64_t{1} << 22U;

}  // namespace shardlab

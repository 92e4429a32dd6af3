// How much collectives that run at once slow each other down, because they share the links of a
// mesh.
//
//   const MeshFlows flows(DeviceMesh::parse("fsdp=4,tp=8"), h100);
//   const MeshTransfer gather{.mesh_dims = {0}};                     // crosses the network
//   const MeshTransfer reduce{.mesh_dims = {1}};                     // stays on NVLink
//   flows.slowdowns(std::vector{gather, gather});                    // 2 and 2
//   flows.slowdowns(std::vector{gather, reduce});                    // 1 and 1
//
// All groups of a transfer's mesh dims transfer at once, and the ranks of a group at one speed. At
// speed 1 a group's transfer takes its price, which is the price for idle links; a transfer whose
// links are idle is slowed down by exactly 1. Speeds are max-min fair (sim/flows/fair_share.h).
//
// Which links, as bytes that leave a device for each byte that a rank has on the wire. Let a group
// of n members have k in some block of ranks that a link level joins.
//   rings        NCCL runs rings that enter and leave a block at each member in turn, so 1/k of a
//                member's bytes leave the block (none if k = n). All collectives but the next two
//                are taken as rings.
//   all_to_all   (n - k)/(n - 1) of the bytes leave the block.
//   send_recv    all bytes leave the block if k < n, as they do at the last member of a stage.
// What leaves a block but not the next larger one runs through the port that each device has into
// the larger one's level. What leaves the largest block runs over the network, through the level
// that prices it (Topology::link).
//
// A device has one port for each kind of link, as wide as the widest level of that kind; a level
// that is narrower limits what goes through it. Bandwidths are per device and direction. Since
// rings send as much as they receive, one direction is followed. The port of the network is the
// host's network interface: where several devices share one, its bandwidth is the sum of theirs
// (level bandwidths are a device's part), and device i of d uses interface i * nics / d. An
// oversubscribed spine is divided evenly among the devices, as the level's bandwidth says: idle
// devices leave nothing to others there. The group's slowest port is full while it transfers alone,
// whatever the cost model; other ports are in use in proportion. Latency, switches and the path
// from a device to its network interface are not modelled.
//
// Where links join pairs (`pairwise`), a group has those between its members. Groups of different
// mesh dims have none in common, and groups that share a mesh dim share the links along it: a
// device has one more port for each mesh dim. Status: derived; the rings of NCCL are described in
// "Demystifying NCCL", https://arxiv.org/abs/2507.04786; the even division among ports is assumed.
//
// Ranks are folded: where all blocks of ranks are aligned with the mesh dims, every rank sees what
// rank 0 sees, and the links of one device suffice for a mesh of any size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/collective.h"
#include "costmodel/topology.h"
#include "sim/flows/fair_share.h"
#include "sim/mesh.h"
#include "sim/plan.h"

namespace shardlab {

struct MeshTransfer {
  MeshDims mesh_dims;  // distinct; all groups of these mesh dims transfer at once
  Collective kind = Collective::kAllGather;
  Bytes wire_bytes = 0.0;  // what one rank sends; full_bytes times ring_volume_factor
  double start_us = 0.0;   // read by finish_times() alone
};

class MeshFlows {
 public:
  // The most ranks whose links are followed one by one.
  static constexpr std::int64_t kMostUnfolded = 65536;

  // With `fold` off, ranks are never folded.
  MeshFlows(DeviceMesh mesh, const Topology& topology, bool fold = true);

  // Whether one rank stands for all.
  [[nodiscard]] bool folds() const { return folds_; }
  // The ports that are shared: those of one device if ranks are folded, of all ranks otherwise.
  // Each has the capacity 1.
  [[nodiscard]] int ports() const;
  // What a group uses of the ports while it transfers at speed 1, by the index of its first member
  // in the mesh; empty for the other ranks, and for groups of one rank. If ranks are folded, only
  // index 0 is there, and stands for all groups together. Throws LimitError if more than
  // kMostUnfolded ranks can't be folded, and ContractError for mesh dims that the mesh does not
  // have.
  [[nodiscard]] std::vector<std::vector<ResourceUse>> uses(const MeshDims& mesh_dims,
                                                           Collective kind) const;

  // How long each transfer takes on idle links: bytes over the bandwidth of its slowest port.
  [[nodiscard]] Micros alone(const MeshTransfer& transfer) const;
  // By which factor each transfer is slowed down while all of them run, for its slowest group; at
  // least 1. Errors are those of uses().
  [[nodiscard]] std::vector<double> slowdowns(std::span<const MeshTransfer> transfers) const;
  // When each transfer ends, if it starts at `start_us` and takes alone() on idle links. Errors are
  // those of uses(), and ContractError for bytes or a start that is negative or not finite.
  [[nodiscard]] std::vector<double> finish_times(std::span<const MeshTransfer> transfers) const;

 private:
  struct Port {
    LinkKind kind = LinkKind::kNetwork;
    bool is_level = false;  // whether it limits a level rather than a kind of link
    double gb_per_s = 0.0;  // bandwidth of one device
  };
  struct Level {
    std::int64_t block = 0;  // consecutive ranks that it joins; 0 on the network
    double gb_per_s = 0.0;
    std::vector<int> ports;
    // Where links join pairs, the port of those along mesh dim 0; those of the next dims follow.
    std::optional<int> pairwise_ports;
  };
  struct Loads;

  [[nodiscard]] bool is_aligned() const;
  [[nodiscard]] std::int64_t members(const MeshDims& mesh_dims) const;
  [[nodiscard]] std::int64_t members_in_block(const MeshDims& mesh_dims, std::int64_t block) const;
  [[nodiscard]] std::size_t network_level(const MeshDims& mesh_dims) const;
  // The bandwidth of one member of a group on levels_[level], whose block holds so many members.
  [[nodiscard]] GBps gb_per_s(std::size_t level, Collective kind, std::int64_t members) const;
  [[nodiscard]] Loads folded_loads(const MeshDims& mesh_dims, Collective kind) const;
  [[nodiscard]] Loads loads(const MeshDims& mesh_dims, Collective kind) const;

  DeviceMesh mesh_;
  Topology topology_;
  std::vector<Level> levels_;  // the topology's link levels, in its order
  std::vector<Port> ports_;    // the ports of one device
  std::int64_t devices_per_host_;
  std::int64_t nics_per_host_;         // at most one per device
  std::vector<std::int64_t> rank_of_;  // by index into the mesh; empty if ranks are folded
  // It holds, for each index into the mesh, the first index that shares the rank's network
  // interface.
  std::vector<int> nic_of_;
  bool folds_ = false;
};

}  // namespace shardlab

#include "sim/flows/mesh_flows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "sim/flows/fluid_streams.h"

namespace shardlab {
namespace {

bool is_network(const LinkLevel& level) { return level.joins > LinkScope::kDomain; }

// The part of a member's bytes that leaves a block, which holds k of the group's n members.
double leaving(Collective kind, std::int64_t n, std::int64_t k) {
  if (k >= n) return 0.0;
  if (kind == Collective::kSendRecv) return 1.0;
  if (kind == Collective::kAllToAll) {
    return static_cast<double>(n - k) / static_cast<double>(n - 1);
  }
  return 1.0 / static_cast<double>(k);
}

std::int64_t stride_of(const DeviceMesh& mesh, int mesh_dim) {
  std::int64_t stride = 1;
  for (int inner = mesh_dim + 1; inner < mesh.ndim(); ++inner) stride *= mesh.size(inner);
  return stride;
}

}  // namespace

// What the groups of a collective use of ports, in microseconds for each byte on the wire, and the
// time that the slowest port of the slowest group needs.
struct MeshFlows::Loads {
  double alone_us_per_byte = 0.0;
  std::vector<std::vector<ResourceUse>> groups;  // as uses() returns them, before the division
};

MeshFlows::MeshFlows(DeviceMesh mesh, const Topology& topology, bool fold)
    : mesh_(std::move(mesh)),
      topology_(topology),
      devices_per_host_(topology.devices_per_host()),
      nics_per_host_(std::min(topology.nics_per_host(), topology.devices_per_host())) {
  // The ports of each kind of link, as wide as its widest level.
  for (const LinkLevel& link : topology.links()) {
    const LinkKind kind = is_network(link) ? LinkKind::kNetwork : link.kind;
    const double gb_per_s =
        is_network(link) ? link.nominal_bandwidth.value() : link.bandwidth.value();
    const auto known =
        std::find_if(ports_.begin(), ports_.end(), [&](const Port& p) { return p.kind == kind; });
    if (known == ports_.end()) {
      ports_.push_back({.kind = kind, .is_level = false, .gb_per_s = gb_per_s});
    } else {
      known->gb_per_s = std::max(known->gb_per_s, gb_per_s);
    }
  }
  const std::size_t kinds = ports_.size();
  for (const LinkLevel& link : topology.links()) {
    const LinkKind kind = is_network(link) ? LinkKind::kNetwork : link.kind;
    Level level{.block = 0, .gb_per_s = link.bandwidth.value(), .ports = {}, .pairwise_ports = {}};
    if (link.joins == LinkScope::kHost) level.block = devices_per_host_;
    if (link.joins == LinkScope::kDomain) level.block = topology.domain_devices();
    if (link.joins < LinkScope::kHost) level.block = link.devices;
    for (std::size_t p = 0; p < kinds; ++p) {
      if (ports_[p].kind != kind) continue;
      level.ports.push_back(static_cast<int>(p));
      if (ports_[p].gb_per_s == level.gb_per_s) continue;
      level.ports.push_back(static_cast<int>(ports_.size()));
      ports_.push_back({.kind = kind, .is_level = true, .gb_per_s = level.gb_per_s});
    }
    if (link.pairwise) {
      level.pairwise_ports = static_cast<int>(ports_.size());
      const Port along_dim{.kind = kind, .is_level = true, .gb_per_s = level.gb_per_s};
      ports_.insert(ports_.end(), to_index(mesh_.ndim()), along_dim);
    }
    levels_.push_back(std::move(level));
  }
  folds_ = fold && is_aligned();
  if (folds_ || mesh_.size() > kMostUnfolded) return;
  rank_of_ = mesh_.ranks();
  std::map<std::int64_t, int> first_of;  // by network interface
  for (std::size_t i = 0; i < rank_of_.size(); ++i) {
    const std::int64_t nic = rank_of_[i] / devices_per_host_ * nics_per_host_ +
                             rank_of_[i] % devices_per_host_ * nics_per_host_ / devices_per_host_;
    nic_of_.push_back(first_of.emplace(nic, static_cast<int>(i)).first->second);
  }
}

// Whether shifts of the mesh's coordinates take any rank to any other and blocks to blocks. Each
// block must then be some inner mesh dims as a whole, and a divisor of the next one.
bool MeshFlows::is_aligned() const {
  for (int m = 0; m < mesh_.ndim(); ++m) {
    const MeshLayout layout = mesh_.layout(m).coalesce();
    const bool is_plain = layout.size() == 1 || (layout.modes().size() == 1 &&
                                                 layout.modes()[0].stride == stride_of(mesh_, m));
    if (!is_plain) return false;
  }
  if (mesh_.size() != mesh_.world_size()) return false;
  std::vector<std::int64_t> blocks = {devices_per_host_};
  for (const Level& level : levels_) {
    if (level.block > 0) blocks.push_back(level.block);
  }
  if (devices_per_host_ % nics_per_host_ != 0) return false;
  blocks.push_back(devices_per_host_ / nics_per_host_);
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (blocks[b] >= mesh_.size()) return true;  // this block and those after it hold all ranks
    if (b > 0 && blocks[b] % blocks[b - 1] != 0) return false;
    bool is_cut_evenly = false;
    std::int64_t stride = 1;
    for (int m = mesh_.ndim() - 1; m >= 0; --m) {
      is_cut_evenly =
          is_cut_evenly || (blocks[b] % stride == 0 && blocks[b] <= stride * mesh_.size(m) &&
                            mesh_.size(m) % (blocks[b] / stride) == 0);
      stride *= mesh_.size(m);
    }
    if (!is_cut_evenly) return false;
  }
  return true;
}

std::int64_t MeshFlows::members(const MeshDims& mesh_dims) const {
  std::int64_t members = 1;
  for (const int m : mesh_dims) members *= mesh_.size(m);
  return members;
}

// How many members of rank 0's group are in rank 0's block. Assumes is_aligned().
std::int64_t MeshFlows::members_in_block(const MeshDims& mesh_dims, std::int64_t block) const {
  std::int64_t members = 1;
  for (const int m : mesh_dims) {
    members *= std::clamp<std::int64_t>(block / stride_of(mesh_, m), 1, mesh_.size(m));
  }
  return members;
}

GBps MeshFlows::gb_per_s(std::size_t level, Collective kind, std::int64_t members) const {
  return topology_.bandwidth(topology_.links()[level], kind, members);
}

// The level through which the groups of these mesh dims run on the network.
std::size_t MeshFlows::network_level(const MeshDims& mesh_dims) const {
  MeshDims dims = mesh_dims;
  std::sort(dims.begin(), dims.end());
  MeshLayout layout;
  for (const int m : dims) layout = layout.concatenate(mesh_.layout(m));
  const LinkLevel& link = topology_.link(mesh_.span(layout.coalesce(), 1, topology_));
  std::size_t level = to_index(&link - topology_.links().data());
  while (level + 1 < levels_.size() && levels_[level].block > 0) ++level;
  return level;
}

MeshFlows::Loads MeshFlows::folded_loads(const MeshDims& mesh_dims, Collective kind) const {
  Loads loads;
  loads.groups.resize(1);
  const std::int64_t n = members(mesh_dims);
  if (n == 1) return loads;
  std::vector<double> used(ports_.size(), 0.0);
  const auto add = [&](std::size_t l, double part, std::int64_t members) {
    if (part <= 0.0) return;
    const Level& level = levels_[l];
    const double on_level = transfer_time(part, gb_per_s(l, kind, members)).value();
    loads.alone_us_per_byte = std::max(loads.alone_us_per_byte, on_level);
    for (const int port : level.ports) {
      const GBps width(ports_[to_index(port)].gb_per_s);
      used[to_index(port)] += transfer_time(part, width).value();
    }
    if (!level.pairwise_ports) return;
    for (const int m : mesh_dims) used[to_index(*level.pairwise_ports + m)] += on_level;
  };
  double left = 1.0;
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    if (levels_[l].block == 0) continue;
    const std::int64_t members = members_in_block(mesh_dims, levels_[l].block);
    const double further = leaving(kind, n, members);
    add(l, left - further, members);
    left = further;
  }
  if (left > 0.0) add(network_level(mesh_dims), left, n);
  for (std::size_t port = 0; port < used.size(); ++port) {
    if (used[port] == 0.0) continue;
    loads.groups[0].push_back({static_cast<int>(port), used[port]});
    loads.alone_us_per_byte = std::max(loads.alone_us_per_byte, used[port]);
  }
  return loads;
}

MeshFlows::Loads MeshFlows::loads(const MeshDims& mesh_dims, Collective kind) const {
  for (std::size_t i = 0; i < mesh_dims.size(); ++i) {
    SHARDLAB_CHECK(mesh_dims[i] >= 0 && mesh_dims[i] < mesh_.ndim(), "mesh dim ", mesh_dims[i],
                   " of ", mesh_.ndim());
    for (std::size_t j = 0; j < i; ++j) {
      SHARDLAB_CHECK(mesh_dims[i] != mesh_dims[j], "mesh dim ", mesh_dims[i], " is named twice");
    }
  }
  if (folds_) return folded_loads(mesh_dims, kind);
  if (mesh_.size() > kMostUnfolded) {
    throw LimitError("the links of " + std::to_string(mesh_.size()) +
                     " ranks can't be followed one by one; valid: at most " +
                     std::to_string(kMostUnfolded) +
                     " ranks, or a mesh whose dims fill the hosts evenly");
  }
  Loads loads;
  loads.groups.resize(to_index(mesh_.size()));
  const std::int64_t n = members(mesh_dims);
  if (n == 1) return loads;
  const std::size_t network = network_level(mesh_dims);
  std::vector<std::int64_t> offsets = {0};
  for (const int m : mesh_dims) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < mesh_.size(m); ++i) {
        longer.push_back(offset + i * stride_of(mesh_, m));
      }
    }
    offsets = std::move(longer);
  }
  std::vector<bool> taken(to_index(mesh_.size()), false);
  std::unordered_map<int, double> used;  // by port, of one group
  for (std::int64_t first = 0; first < mesh_.size(); ++first) {
    if (taken[to_index(first)]) continue;
    std::vector<double> left(offsets.size(), 1.0);
    used.clear();
    const auto add = [&](std::size_t index, std::size_t l, double part, std::int64_t members) {
      if (part <= 0.0) return;
      const Level& level = levels_[l];
      const double on_level = transfer_time(part, gb_per_s(l, kind, members)).value();
      loads.alone_us_per_byte = std::max(loads.alone_us_per_byte, on_level);
      for (const int port : level.ports) {
        const Port& its = ports_[to_index(port)];
        int owner = static_cast<int>(index);
        double port_gbps = its.gb_per_s;
        if (its.kind == LinkKind::kNetwork && !its.is_level) {
          owner = nic_of_[index];
          port_gbps *= static_cast<double>(devices_per_host_) / static_cast<double>(nics_per_host_);
        }
        used[owner * static_cast<int>(ports_.size()) + port] +=
            transfer_time(part, GBps(port_gbps)).value();
      }
      if (!level.pairwise_ports) return;
      const int first_port = static_cast<int>(index * ports_.size()) + *level.pairwise_ports;
      for (const int m : mesh_dims) used[first_port + m] += on_level;
    };
    for (const std::int64_t offset : offsets) taken[to_index(first + offset)] = true;
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      const Level& level = levels_[l];
      if (level.block == 0) continue;
      std::unordered_map<std::int64_t, std::int64_t> in_block;
      for (const std::int64_t offset : offsets) {
        ++in_block[rank_of_[to_index(first + offset)] / level.block];
      }
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        const std::int64_t rank = rank_of_[to_index(first + offsets[i])];
        const std::int64_t members = in_block[rank / level.block];
        const double further = leaving(kind, n, members);
        add(to_index(first + offsets[i]), l, left[i] - further, members);
        left[i] = further;
      }
    }
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      add(to_index(first + offsets[i]), network, left[i], n);
    }
    std::vector<ResourceUse>& group = loads.groups[to_index(first)];
    for (const auto& [port, us] : used) {
      group.push_back({port, us});
      loads.alone_us_per_byte = std::max(loads.alone_us_per_byte, us);
    }
    std::sort(group.begin(), group.end(),
              [](const ResourceUse& a, const ResourceUse& b) { return a.resource < b.resource; });
  }
  return loads;
}

int MeshFlows::ports() const {
  if (folds_) return static_cast<int>(ports_.size());
  return static_cast<int>(rank_of_.size()) * static_cast<int>(ports_.size());
}

std::vector<std::vector<ResourceUse>> MeshFlows::uses(const MeshDims& mesh_dims,
                                                      Collective kind) const {
  Loads loads = this->loads(mesh_dims, kind);
  for (std::vector<ResourceUse>& group : loads.groups) {
    for (ResourceUse& use : group) use.amount /= loads.alone_us_per_byte;
  }
  return std::move(loads.groups);
}

Micros MeshFlows::alone(const MeshTransfer& transfer) const {
  return Micros(transfer.wire_bytes * loads(transfer.mesh_dims, transfer.kind).alone_us_per_byte);
}

std::vector<double> MeshFlows::slowdowns(std::span<const MeshTransfer> transfers) const {
  FairShare share(std::vector<double>(to_index(ports()), 1.0));
  std::vector<std::pair<std::size_t, int>> flows;  // the transfer, and the flow of a group
  for (std::size_t t = 0; t < transfers.size(); ++t) {
    for (const auto& group : uses(transfers[t].mesh_dims, transfers[t].kind)) {
      if (!group.empty()) flows.emplace_back(t, share.add(group));
    }
  }
  (void)share.update();
  std::vector<double> slowdowns(transfers.size(), 1.0);
  for (const auto& [t, flow] : flows) {
    slowdowns[t] = std::max(slowdowns[t], 1.0 / share.speed(flow));
  }
  return slowdowns;
}

std::vector<double> MeshFlows::finish_times(std::span<const MeshTransfer> transfers) const {
  // Each group has a stream of its own, on which it first waits for its start.
  std::vector<FluidTask> tasks;
  std::vector<std::size_t> transfer_of;
  int streams = 0;
  for (std::size_t t = 0; t < transfers.size(); ++t) {
    const MeshTransfer& transfer = transfers[t];
    SHARDLAB_CHECK(transfer.start_us >= 0.0 && std::isfinite(transfer.start_us), "transfer ", t,
                   " starts at ", transfer.start_us, " us");
    SHARDLAB_CHECK(transfer.wire_bytes >= 0.0 && std::isfinite(transfer.wire_bytes), "transfer ", t,
                   " has ", transfer.wire_bytes, " bytes");
    const double alone_us = alone(transfer).value();
    for (auto& group : uses(transfer.mesh_dims, transfer.kind)) {
      if (group.empty()) continue;
      tasks.push_back({.work_us = transfer.start_us, .stream = streams, .after = {}, .uses = {}});
      tasks.push_back(
          {.work_us = alone_us, .stream = streams, .after = {}, .uses = std::move(group)});
      transfer_of.insert(transfer_of.end(), 2, t);
      ++streams;
    }
  }
  std::vector<double> finish;
  for (const MeshTransfer& transfer : transfers) finish.push_back(transfer.start_us);
  const std::vector<FluidSpan> spans = simulate_fluid(tasks, streams, ports());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    finish[transfer_of[i]] = std::max(finish[transfer_of[i]], spans[i].end_us);
  }
  return finish;
}

}  // namespace shardlab

#include "costmodel/nccl_tuning.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// Latencies in us. The rows are tree, ring, CollNet direct, CollNet chain, NVLS, NVLS tree and PAT.
// Source: src/graph/tuning.cc.
constexpr NcclLatencies kBase = {
    {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}, {}, {}, {}, {}, {8.0, 8.0, 8.0}}};
constexpr NcclLatencies kNvlink = {{{0.6, 1.25, 4.0},
                                    {0.6, 1.9, 3.4},
                                    {0, 0, 3.7},
                                    {0, 0, 2.8},
                                    {0, 0, 25},
                                    {0, 0, 25},
                                    {0, 0, 4.0}}};
constexpr NcclLatencies kPci = {{{1.0, 1.9, 4.0},
                                 {1.0, 2.5, 5.7},
                                 {0, 0, 3.7},
                                 {0, 0, 2.8},
                                 {0, 0, 0},
                                 {0, 0, 0},
                                 {0, 0, 4.0}}};
constexpr NcclLatencies kNetwork = {{{5.0, 8.5, 14.0},
                                     {2.7, 4.0, 14.0},
                                     {0, 0, 31},
                                     {0, 0, 30},
                                     {0, 0, 18},
                                     {0, 0, 14},
                                     {0, 0, 14}}};

// GB/s by architecture, Volta to Blackwell, for 1, 2, and 3 or more hosts. Source:
// src/graph/tuning.cc.
using ByArchitecture = std::array<NcclByHosts, 4>;
constexpr ByArchitecture kLLCap = {
    {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
constexpr ByArchitecture kRingLL128Cap = {
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 36.7}, {73.4, 73.4, 73.4}}};
constexpr ByArchitecture kTreeLL128Cap = {
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {73.4, 73.4, 58.0}}};
constexpr NcclByHosts kTreeLL128CapBlackwell228 = {55.6, 31.67, 20.0};
constexpr ByArchitecture kTreeCap = {
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {77.4, 82.8, 72.0}}};
constexpr NcclByHosts kTreeCapBlackwell228 = {70.0, 42.8, 24.0};
constexpr ByArchitecture kNvlsTreeCap = {
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0.0, 57.7, 45.5}, {0.0, 96.0, 43.1}}};
constexpr std::array<double, 4> kNvlsEfficiency = {0.0, 0.0, 0.85, 0.74};

constexpr std::array<std::array<double, 23>, 3> kTreeCorrection = {{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

// The GB/s of a channel that the search tries, from the largest on. Source: src/graph/search.cc.
constexpr double kIntra[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double kInter[] = {48, 30, 28, 24, 20, 18,  15,  12,   10,  9,
                             7,  6,  5,  4,  3,  2.4, 1.2, 0.24, 0.12};
constexpr double kIntra90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double kInter90[] = {48, 45, 42, 40, 30,  24,  22,   20,  17.5,
                               15, 12, 6,  3,  2.4, 1.2, 0.24, 0.12};
constexpr double kIntra100[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18};
constexpr double kInter100[] = {96,   48, 45.1, 42, 40, 30,  24,  22,   20,
                                17.5, 15, 12,   6,  3,  2.4, 1.2, 0.24, 0.12};

constexpr int kMaxChannels = 32;
// The channels that NVLS uses on Hopper and Blackwell. Source: NCCL 2.27's logs ("16 nvls
// channels").
constexpr int kNvlsChannels = 16;

std::span<const double> speeds(std::int64_t compute_capability, bool several_hosts) {
  if (compute_capability >= 100) {
    if (several_hosts) return kInter100;
    return kIntra100;
  }
  if (compute_capability >= 90) {
    if (several_hosts) return kInter90;
    return kIntra90;
  }
  if (several_hosts) return kInter;
  return kIntra;
}

// How many times a speed fits into a capacity. The factor allows for the rounding of the division.
double fits(double room, double speed) { return std::floor(room / speed * (1 + 1e-9)); }

// The capacity that a search divides into channels.
struct Room {
  double device;      // GB/s that one device carries for all channels together
  double nics = 0.0;  // network interfaces; 0 for a single host
  double nic = 0.0;

  [[nodiscard]] int channels(double speed) const {
    double n = std::min(fits(device, speed), static_cast<double>(kMaxChannels));
    if (nics > 0) n = std::min(n, nics * fits(nic, speed));
    return static_cast<int>(n);
  }
  [[nodiscard]] double total_network() const { return nics * nic; }
};

// NCCL splits each channel in two before it connects them, if a channel is fast enough.
NcclGraph doubled(NcclGraph graph, std::int64_t compute_capability) {
  if (graph.intra < 25.0) return graph;
  if (compute_capability > 80 && graph.intra < 50.0 && graph.channels > 4) return graph;
  if (2 * graph.channels > kMaxChannels) return graph;
  return {2 * graph.channels, graph.intra / 2, graph.inter / 2};
}

// Finds the largest bandwidth of all channels together. Lower speeds are tried too, down to 49 % of
// the best one.
NcclGraph ring(std::span<const double> tried, const Room& room, std::int64_t compute_capability) {
  NcclGraph best;
  for (const double speed : tried) {
    if (best.channels > 0 && speed <= 0.49 * best.inter) break;
    const int channels = room.channels(speed);
    if (channels * speed > best.channels * best.intra * (1 + 1e-9)) best = {channels, speed, speed};
  }
  if (best.channels == 0) {  // the links are slower than the slowest speed that is tried
    const double speed = std::min(room.device, room.nics > 0 ? room.nic : room.device);
    return {1, speed, speed};
  }
  return doubled(best, compute_capability);
}

// A tree has as many channels as the ring. On several hosts, its speed inside hosts is raised up to
// twice the speed between them. The last raise may pass that limit, as from 0.24 to 1.2 GB/s. On
// two hosts, a tree sends half of its speed inside hosts over the network, so that this speed is at
// most twice what the network carries.
NcclGraph tree(std::span<const double> tried, const Room& room, const NcclGraph& of_ring) {
  NcclGraph graph = of_ring;
  const auto fit = [&](double intra, double inter) {
    if (graph.channels * intra > room.device * (1 + 1e-9)) return false;
    if (room.nics <= 0) return true;
    return std::ceil(graph.channels / room.nics) * inter <= room.nic * (1 + 1e-9);
  };
  std::size_t i = 0;
  while (i < tried.size() && !fit(tried[i], tried[i])) ++i;
  if (i == tried.size()) return graph;
  graph.intra = graph.inter = tried[i];
  if (room.nics <= 0) return graph;
  while (i > 0 && graph.intra < 2 * graph.inter && fit(tried[i - 1], graph.inter)) {
    graph.intra = tried[--i];
  }
  graph.intra = std::min(graph.intra, 2 * room.total_network() / graph.channels);
  return graph;
}

// Each device is the head of an equal share of the channels, and carries the channels of its share
// twice.
NcclGraph nvls(std::span<const double> tried, const Room& room, double devices) {
  NcclGraph graph{kNvlsChannels, 0.0, 0.0};
  const double load = kNvlsChannels * (1 + 1 / devices);
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (load * tried[i] > room.device * (1 + 1e-9)) continue;
    if (room.nics > 0 && kNvlsChannels * tried[i] > room.total_network() * (1 + 1e-9)) continue;
    graph.intra = graph.inter = tried[i];
    while (i > 0 && graph.inter < 2 * graph.intra &&
           (room.nics <= 0 || kNvlsChannels * tried[i - 1] <= room.total_network() * (1 + 1e-9))) {
      graph.inter = tried[--i];
    }
    return graph;
  }
  return {};
}

// The name in capitals and without underscores.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '_') out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return out;
}

template <class Enum>
std::optional<Enum> from_plain_name(std::string_view name) {
  for (const Named<Enum>& each : EnumNames<Enum>::kNames) {
    if (plain(each.name) == plain(name)) return each.value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(NcclAlgorithm algorithm) { return name_of(algorithm); }
std::string_view to_string(NcclProtocol protocol) { return name_of(protocol); }

std::optional<NcclAlgorithm> nccl_algorithm_from_name(std::string_view name) {
  return from_plain_name<NcclAlgorithm>(name);
}
std::optional<NcclProtocol> nccl_protocol_from_name(std::string_view name) {
  return from_plain_name<NcclProtocol>(name);
}

NcclArchitecture nccl_architecture(std::int64_t compute_capability) {
  if (compute_capability >= 100) return NcclArchitecture::kBlackwell;
  if (compute_capability >= 90) return NcclArchitecture::kHopper;
  return compute_capability >= 80 ? NcclArchitecture::kAmpere : NcclArchitecture::kVolta;
}

NcclConstants nccl_constants(int version, NcclArchitecture architecture) {
  const auto arch = static_cast<std::size_t>(architecture);
  NcclConstants c;
  c.base = kBase;
  c.nvlink = kNvlink;
  c.pci = kPci;
  c.network = kNetwork;
  // On one host the cap depends on the GPU. On several hosts it depends on the CPU: Intel's figures
  // are in the row of Volta, AMD's in that of Ampere.
  c.ll_cap = {kLLCap[arch][0], kLLCap[0][1], kLLCap[0][2]};
  c.ll_cap_amd = {kLLCap[arch][0], kLLCap[1][1], kLLCap[1][2]};
  c.ring_ll128_cap = kRingLL128Cap[arch];
  c.tree_ll128_cap = kTreeLL128Cap[arch];
  c.tree_cap = kTreeCap[arch];
  c.nvls_tree_cap = kNvlsTreeCap[arch];
  c.nvls_efficiency = kNvlsEfficiency[arch];
  c.plateau = architecture == NcclArchitecture::kVolta ? 1.9 : 1.4;
  c.nvls_is_five_sixths = version < 22800;
  if (version >= 22800 && architecture == NcclArchitecture::kBlackwell) {
    c.tree_ll128_cap = kTreeLL128CapBlackwell228;
    c.tree_cap = kTreeCapBlackwell228;
  }
  return c;
}

double nccl_tree_correction(NcclProtocol protocol, int log2_of_64_bytes) {
  const auto& table = kTreeCorrection[to_index(protocol)];
  const auto i = static_cast<std::size_t>(log2_of_64_bytes);
  return i < table.size() ? table[i] : 1.0;
}

double nccl_device_gbps(double datasheet_gbps, LinkKind kind, NcclArchitecture architecture) {
  if (kind != LinkKind::kNvlink && kind != LinkKind::kNvswitch) return datasheet_gbps;
  switch (architecture) {
    case NcclArchitecture::kVolta:
    case NcclArchitecture::kAmpere:
      return datasheet_gbps * (20.0 / 25.0);
    case NcclArchitecture::kHopper:
      return datasheet_gbps * (20.6 / 25.0);
    case NcclArchitecture::kBlackwell:
      return datasheet_gbps * (40.1 / 50.0);
  }
  return datasheet_gbps;
}

NcclGraphs nccl_graphs(const NcclHost& host, std::int64_t devices, bool several_hosts) {
  const auto n = static_cast<double>(devices);
  const std::span<const double> tried = speeds(host.compute_capability, several_hosts);
  NcclGraphs graphs;
  // Between hosts, each channel makes n - 1 of the n devices of a host send inside the host: a ring
  // leaves each host once, and a tree has one edge less than it has devices.
  const double open = host.device_gbps * (devices > 1 ? n / (n - 1) : 1e9);
  Room room{host.device_gbps};
  Room open_room{open};
  if (several_hosts) {
    room.nics = open_room.nics = std::max(1.0, std::floor(n * host.nics_per_device));
    room.nic = open_room.nic = host.nic_gbps;
  }
  graphs.ring = ring(tried, several_hosts ? open_room : room, host.compute_capability);
  graphs.tree = tree(tried, open_room, graphs.ring);
  // CollNet's chain is searched as a tree that has as many channels as the ring. Source:
  // src/init.cc. Status: derived for the chain, assumed for CollNet direct.
  graphs.collnet = graphs.tree;
  const bool has_nvls = host.compute_capability >= kNvlsComputeCapability &&
                        host.kind == LinkKind::kNvswitch && host.reduces && devices > 2;
  if (has_nvls) graphs.nvls = nvls(tried, room, n);
  return graphs;
}

}  // namespace shardlab

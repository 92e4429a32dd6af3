// NCCL's tuning: its constants by version and architecture, and the channels that its search finds
// on uniform hosts.
//
//   NcclConstants c = nccl_constants(22705, NcclArchitecture::kHopper);
//   NcclGraphs g = nccl_graphs(host, 8, true);   // 8 devices per host, several hosts
//   g.ring.channels, g.ring.intra, g.ring.inter  // 8 channels of 48 and 48 GB/s on DGX H100
//
// Source: NCCL's public repository, versions 2.27 and 2.28.3: src/graph/tuning.cc (constants),
// src/graph/topo.h (NVLink rates), src/graph/search.cc (speeds tried, doubling of channels). The
// search is reimplemented for hosts whose devices and network interfaces are all alike; it finds
// the channels behind the tuning table of NCCL 2.27.5 (tests/golden/nccl). In one place it departs
// from NCCL's: a tree's `intra` is at most twice what the network carries, since a tree on two
// hosts sends half of it over the network. NCCL's table of speeds is so coarse for networks below
// 2.4 GB/s that its own estimate may be more than twice as fast as the links. Status: derived,
// unless a line says otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/topology.h"

namespace shardlab {

enum class NcclAlgorithm : std::uint8_t {
  kTree,
  kRing,
  kCollnetDirect,
  kCollnetChain,
  kNvls,
  kNvlsTree,
  kPat
};
enum class NcclProtocol : std::uint8_t { kLL, kLL128, kSimple };
template <>
struct EnumNames<NcclAlgorithm> {
  static constexpr std::string_view kKind = "algorithm";
  static constexpr std::array kNames = {Named{NcclAlgorithm::kTree, "TREE"},
                                        Named{NcclAlgorithm::kRing, "RING"},
                                        Named{NcclAlgorithm::kCollnetDirect, "COLLNET_DIRECT"},
                                        Named{NcclAlgorithm::kCollnetChain, "COLLNET_CHAIN"},
                                        Named{NcclAlgorithm::kNvls, "NVLS"},
                                        Named{NcclAlgorithm::kNvlsTree, "NVLS_TREE"},
                                        Named{NcclAlgorithm::kPat, "PAT"}};
};
template <>
struct EnumNames<NcclProtocol> {
  static constexpr std::string_view kKind = "protocol";
  static constexpr std::array kNames = {Named{NcclProtocol::kLL, "LL"},
                                        Named{NcclProtocol::kLL128, "LL128"},
                                        Named{NcclProtocol::kSimple, "SIMPLE"}};
};

enum class NcclArchitecture : std::uint8_t { kVolta, kAmpere, kHopper, kBlackwell };

// The names that NCCL_ALGO and NCCL_PROTO take, in capitals.
[[nodiscard]] std::string_view to_string(NcclAlgorithm algorithm);
[[nodiscard]] std::string_view to_string(NcclProtocol protocol);
// Reads these names in upper or lower case, with or without underscores, and therefore also in the
// spelling of NCCL's log: "Ring", "NVLSTree", "CollNetDirect", "Simple". Nothing if there is no
// such name.
[[nodiscard]] std::optional<NcclAlgorithm> nccl_algorithm_from_name(std::string_view name);
[[nodiscard]] std::optional<NcclProtocol> nccl_protocol_from_name(std::string_view name);
[[nodiscard]] NcclArchitecture nccl_architecture(std::int64_t compute_capability);

// Microseconds by algorithm, then protocol; and GB/s for 1, 2, and 3 or more hosts.
using NcclLatencies = std::array<std::array<double, 3>, 7>;
using NcclByHosts = std::array<double, 3>;

struct NcclConstants {
  NcclLatencies base{};
  NcclLatencies nvlink{};
  NcclLatencies pci{};
  NcclLatencies network{};
  NcclByHosts ll_cap{};          // cap of all channels together, with Intel CPUs
  NcclByHosts ll_cap_amd{};      // cap of all channels together, with AMD CPUs
  NcclByHosts ring_ll128_cap{};  // cap of one channel
  NcclByHosts tree_ll128_cap{};  // cap of one channel
  NcclByHosts tree_cap{};        // cap of one channel
  NcclByHosts nvls_tree_cap{};   // cap of one channel
  double nvls_efficiency = 0.0;
  double plateau = 1.0;  // factor on the latency of large all-reduces by ring, protocol SIMPLE
  // Up to 2.27, NVLS moves 5/6 of the bus bandwidth, and has neither an efficiency nor a cap.
  bool nvls_is_five_sixths = false;
};

// `version` is NCCL's own number: 22705 is 2.27.5. From 22800 on, the constants are those of
// 2.28.3.
[[nodiscard]] NcclConstants nccl_constants(int version, NcclArchitecture architecture);

// The factor on a tree's bandwidth at 2^log2_of_64_bytes * 64 bytes; 1 from 23 on.
[[nodiscard]] double nccl_tree_correction(NcclProtocol protocol, int log2_of_64_bytes);

struct NcclGraph {
  int channels = 0;
  double intra = 0.0;  // GB/s of one channel inside a host
  double inter = 0.0;  // GB/s of one channel between hosts
};
struct NcclGraphs {
  NcclGraph ring;
  NcclGraph tree;
  NcclGraph collnet;
  NcclGraph nvls;  // has no channels if the host does not support NVLS
};

// What the search sees of one host, or of one NVLink domain, which NCCL treats as a host.
struct NcclHost {
  std::int64_t compute_capability = kDefaultComputeCapability;
  LinkKind kind = LinkKind::kNvswitch;
  bool reduces = true;       // whether NVSwitch adds up, as NVLS needs, on GPUs that have NVLS
  double device_gbps = 0.0;  // GB/s of all links of one device together, as NCCL counts them
  double nics_per_device = 1.0;
  double nic_gbps = 0.0;  // GB/s of one network interface
};

// The GB/s that NCCL counts for a device's links of the given datasheet figure. Of NVLinks of 25,
// 25, 25 and 50 GB/s (Volta, Ampere, Hopper, Blackwell) it counts 20, 20, 20.6 and 40.1; PCIe and
// network count in full.
[[nodiscard]] double nccl_device_gbps(double datasheet_gbps, LinkKind kind,
                                      NcclArchitecture architecture);
// The channels that NCCL's search finds when `devices` devices of each host take part.
[[nodiscard]] NcclGraphs nccl_graphs(const NcclHost& host, std::int64_t devices,
                                     bool several_hosts);

}  // namespace shardlab

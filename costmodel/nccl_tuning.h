// NCCL's tuning: its constants by version and architecture, and the channels that its search finds
// on uniform hosts.
//
//   NcclConstants c = nccl_constants(22705, NcclArchitecture::kHopper);
//   NcclGraphs g = nccl_graphs(host, 8, true);   // 8 devices a host, several hosts
//   g.ring.channels, g.ring.intra, g.ring.inter  // 8 channels of 48 and 48 GB/s on DGX H100
//
// Source: NCCL's public repository, src/graph/tuning.cc (constants), src/graph/topo.h (NVLink
// rates), src/graph/search.cc (speeds tried, doubling of channels), of 2.27 and 2.28.3: facts and
// figures. The search is restated for hosts whose devices and network interfaces are all alike; its
// results equal the channels behind the tuning table of NCCL 2.27.5 (tests/golden/nccl). Status:
// derived, where a line does not say otherwise.
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
// These names in any case, with underscores or without, so that the spelling of NCCL's log is read
// too: "Ring", "NVLSTree", "CollNetDirect", "Simple". Nothing where there is no such name.
[[nodiscard]] std::optional<NcclAlgorithm> nccl_algorithm_from_name(std::string_view name);
[[nodiscard]] std::optional<NcclProtocol> nccl_protocol_from_name(std::string_view name);
[[nodiscard]] NcclArchitecture nccl_architecture(std::int64_t compute_capability);

// Microseconds by algorithm and protocol; GB/s for 1, 2, and 3 or more hosts.
using NcclLatencies = std::array<std::array<double, 3>, 7>;
using NcclByHosts = std::array<double, 3>;

struct NcclConstants {
  NcclLatencies base{};
  NcclLatencies nvlink{};
  NcclLatencies pci{};
  NcclLatencies network{};
  NcclByHosts ll_cap{};          // of all channels; several hosts: by the CPU's vendor
  NcclByHosts ll_cap_amd{};      // with AMD CPUs
  NcclByHosts ring_ll128_cap{};  // the rest: of one channel
  NcclByHosts tree_ll128_cap{};
  NcclByHosts tree_cap{};
  NcclByHosts nvls_tree_cap{};
  double nvls_efficiency = 0.0;
  double plateau = 1.0;  // factor on the latency of large all-reduces by ring, protocol SIMPLE
  // 2.27 and before: NVLS moves 5/6 of the bus bandwidth, with no efficiency and no cap.
  bool nvls_is_five_sixths = false;
};

// `version` as NCCL counts it: 22705 is 2.27.5. From 22800 on: the constants of 2.28.3.
[[nodiscard]] NcclConstants nccl_constants(int version, NcclArchitecture architecture);

// Factor on a tree's bandwidth at 2^i * 64 bytes, by protocol; 1 from index 23 on.
[[nodiscard]] double nccl_tree_correction(NcclProtocol protocol, int log2_of_64_bytes);

// GB/s of one channel inside a host and between hosts.
struct NcclGraph {
  int channels = 0;
  double intra = 0.0;
  double inter = 0.0;
};
struct NcclGraphs {
  NcclGraph ring;
  NcclGraph tree;
  NcclGraph collnet;
  NcclGraph nvls;  // no channels: not supported
};

// What the search sees of one host, or of one NVLink domain, which NCCL takes as a host.
struct NcclHost {
  std::int64_t compute_capability = kDefaultComputeCapability;
  LinkKind kind = LinkKind::kNvswitch;
  double device_gbps = 0.0;  // of all links of one device, as NCCL counts them
  double nics_per_device = 1.0;
  double nic_gbps = 0.0;
};

// Datasheet GB/s of a device's links -> what NCCL counts: 20, 20, 20.6 and 40.1 for links of 25,
// 25, 25 and 50 GB/s (Volta, Ampere, Hopper, Blackwell). PCIe and network: as they are.
[[nodiscard]] double nccl_device_gbps(double datasheet_gbps, LinkKind kind,
                                      NcclArchitecture architecture);
// `devices` of one host take part.
[[nodiscard]] NcclGraphs nccl_graphs(const NcclHost& host, std::int64_t devices,
                                     bool several_hosts);

}  // namespace shardlab

// AutoParallel's port of NCCL's tuning formulas, part by part, for the model `ap_nccl` and its
// tests. Facts and sources: ap_nccl.cpp. Times in us, bandwidths in GB/s (1e9 bytes).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/collective.h"
#include "costmodel/models/ap_architecture.h"

namespace shardlab::ap_nccl {

enum class Algorithm : std::uint8_t {
  kTree,
  kRing,
  kCollNetDirect,
  kCollNetChain,
  kNvls,
  kNvlsTree,
};
inline constexpr std::array<std::string_view, 6> kAlgorithmNames = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE"};
enum class Protocol : std::uint8_t { kLl, kLl128, kSimple };
inline constexpr std::array<std::string_view, 3> kProtocolNames = {"LL", "LL128", "SIMPLE"};

inline constexpr int kSizes = 24;  // entries of a table by log2 of the size in units of 64 bytes
using SizeTable = std::array<double, kSizes>;

struct Config {
  ApArchitecture architecture = ApArchitecture::kHopper;
  std::int64_t gpus_per_node = 8;
  double intra = 0.0;  // bandwidth of one GPU inside a node
  double inter = 0.0;  // and between nodes
  double channels = 1.0;
  bool nvswitch = false;
  bool collnet = false;
  double net_latency = 0.0;
};

// One mesh dim as the port sees it.
struct Group {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t ppn = 1;  // ranks on one node
};
[[nodiscard]] Group group_of(const Config& config, const GroupSpan& span);

[[nodiscard]] std::int64_t log2_floor(std::int64_t value);  // 0 for 0
// Linear in the logarithm of the size.
[[nodiscard]] double interpolate(const SizeTable& table, std::int64_t bytes);
// The ring's size correction on this many nodes.
[[nodiscard]] SizeTable ring_correction(std::int64_t nodes);
[[nodiscard]] const SizeTable& nvls_tree_ramp();
[[nodiscard]] const SizeTable& full_mesh_ramp();

// Whether the loop over algorithms and protocols weighs this one.
[[nodiscard]] bool is_eligible(const Config& config, const Group& group, bool all_reduce,
                               Algorithm algorithm, Protocol protocol);
// 0: the algorithm can't run this.
[[nodiscard]] double bandwidth(const Config& config, const Group& group, bool all_reduce,
                               Algorithm algorithm, Protocol protocol);
[[nodiscard]] double latency(const Config& config, const Group& group, bool all_reduce,
                             Algorithm algorithm, Protocol protocol);
struct LoopTime {
  double latency;
  double total;  // infinite where the algorithm can't run
};
// With the corrections of the size.
[[nodiscard]] LoopTime loop_time(const Config& config, const Group& group, bool all_reduce,
                                 Algorithm algorithm, Protocol protocol, std::int64_t bytes);

}  // namespace shardlab::ap_nccl

// AutoParallel's version of NCCL's tuning formulas, part by part, for the model `ap_nccl` and its
// tests. ap_nccl.cpp names the sources. Times are in us, bandwidths in GB/s (1e9 bytes per second).
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
enum class Protocol : std::uint8_t { kLl, kLl128, kSimple };

}  // namespace shardlab::ap_nccl

namespace shardlab {

template <>
struct EnumNames<ap_nccl::Algorithm> {
  static constexpr std::string_view kKind = "algorithm";
  static constexpr std::array kNames = {Named{ap_nccl::Algorithm::kTree, "TREE"},
                                        Named{ap_nccl::Algorithm::kRing, "RING"},
                                        Named{ap_nccl::Algorithm::kCollNetDirect, "COLLNET_DIRECT"},
                                        Named{ap_nccl::Algorithm::kCollNetChain, "COLLNET_CHAIN"},
                                        Named{ap_nccl::Algorithm::kNvls, "NVLS"},
                                        Named{ap_nccl::Algorithm::kNvlsTree, "NVLS_TREE"}};
};
template <>
struct EnumNames<ap_nccl::Protocol> {
  static constexpr std::string_view kKind = "protocol";
  static constexpr std::array kNames = {Named{ap_nccl::Protocol::kLl, "LL"},
                                        Named{ap_nccl::Protocol::kLl128, "LL128"},
                                        Named{ap_nccl::Protocol::kSimple, "SIMPLE"}};
};

}  // namespace shardlab

namespace shardlab::ap_nccl {

inline constexpr int kSizes = 24;  // entries of a table, by log2(bytes / 64)
using SizeTable = std::array<double, kSizes>;

struct Config {
  ApArchitecture architecture = ApArchitecture::kHopper;
  std::int64_t gpus_per_node = 8;
  double intra = 0.0;  // bandwidth of one GPU inside a node
  double inter = 0.0;  // bandwidth of one GPU between nodes
  double channels = 1.0;
  bool nvswitch = false;
  bool collnet = false;
  double net_latency = 0.0;
};

// One group as AutoParallel sees it.
struct Group {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t ppn = 1;  // ranks per node
};
[[nodiscard]] Group group_of(const Config& config, const GroupSpan& span);

[[nodiscard]] std::int64_t log2_floor(std::int64_t value);  // 0 for values below 1
// The table's value at a size, linear in the logarithm of the size.
[[nodiscard]] double interpolate(const SizeTable& table, std::int64_t bytes);
// The factors on a ring's bandwidth on this many nodes, by size.
[[nodiscard]] SizeTable ring_correction(std::int64_t nodes);
[[nodiscard]] const SizeTable& nvls_tree_ramp();
[[nodiscard]] const SizeTable& full_mesh_ramp();

// Whether AutoParallel's loop over algorithms and protocols weighs this one.
[[nodiscard]] bool is_eligible(const Config& config, const Group& group, bool all_reduce,
                               Algorithm algorithm, Protocol protocol);
// The bandwidth in GB/s; 0 if the algorithm can't run the collective on this group.
[[nodiscard]] double bandwidth(const Config& config, const Group& group, bool all_reduce,
                               Algorithm algorithm, Protocol protocol);
// The latency in us.
[[nodiscard]] double latency(const Config& config, const Group& group, bool all_reduce,
                             Algorithm algorithm, Protocol protocol);
struct LoopTime {
  double latency;
  double total;  // infinite if the algorithm can't run
};
// Latency and total with the corrections by size.
[[nodiscard]] LoopTime loop_time(const Config& config, const Group& group, bool all_reduce,
                                 Algorithm algorithm, Protocol protocol, std::int64_t bytes);

}  // namespace shardlab::ap_nccl

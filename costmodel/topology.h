// The hardware under a mesh: devices per host, link levels, and what one device computes and
// stores.
//
//   Topology h100 = Topology::from_json(json, {"configs/topologies/h100.json", ""});
//   h100.link(span)   // the slowest link level that a group of that span crosses
//
// Rank r sits on host r / devices_per_host. Figures are datasheet figures unless a file says
// otherwise in its "source". A topology is immutable once built.
//
// A level joins these ranks. A file names the levels that it has, from inner to outer; the last is
// "all".
//   pcie, socket   blocks of `devices` consecutive ranks of one host
//   host           the devices of one host
//   domain         the devices of one scale-up (NVLink) domain
//   rail           devices at the same position on their hosts, within `devices` consecutive ranks
//   all            all ranks, through the spine; the file's bandwidth over its `oversubscription`
#pragma once

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/dtype.h"
#include "costmodel/base/json_reader.h"
#include "costmodel/base/units.h"
#include "costmodel/collective.h"

namespace shardlab {

// The ranks that one link level joins, from the smallest blocks to all.
enum class LinkScope : std::uint8_t { kPcie, kSocket, kHost, kDomain, kRail, kAll };
template <>
struct EnumNames<LinkScope> {
  static constexpr std::string_view kKind = "link scope";
  static constexpr std::array kNames = {
      Named{LinkScope::kPcie, "pcie"}, Named{LinkScope::kSocket, "socket"},
      Named{LinkScope::kHost, "host"}, Named{LinkScope::kDomain, "domain"},
      Named{LinkScope::kRail, "rail"}, Named{LinkScope::kAll, "all"}};
};

// The kind of a level's links. If the file does not say, it is PCIe inside a part of a host,
// NVSwitch inside a host or a domain, and network beyond.
enum class LinkKind : std::uint8_t { kNvlink, kNvswitch, kPcie, kNetwork };
template <>
struct EnumNames<LinkKind> {
  static constexpr std::string_view kKind = "link kind";
  static constexpr std::array kNames = {
      Named{LinkKind::kNvlink, "nvlink"}, Named{LinkKind::kNvswitch, "nvswitch"},
      Named{LinkKind::kPcie, "pcie"}, Named{LinkKind::kNetwork, "network"}};
};

struct LinkLevel {
  std::string name;
  LinkScope joins = LinkScope::kAll;
  Micros latency;  // time of one step between two devices that this level joins
  GBps bandwidth;  // what a device gets in one direction, after oversubscription
  LinkKind kind = LinkKind::kNetwork;
  // The largest number of consecutive ranks that the level joins; 0 if it joins all ranks of its
  // scope.
  std::int64_t devices = 0;
  GBps nominal_bandwidth;  // the bandwidth in the file, before oversubscription
  double oversubscription = 1.0;
  bool kind_is_given = false;
  // The switches of this level add up what an all_reduce sends through them: NVLink SHARP (NVLS) of
  // NVSwitch, SHARP of an InfiniBand network. If the file does not say, only NVSwitch of GPUs with
  // a compute capability of 90 or more does.
  bool reduces = false;
  bool reduces_is_given = false;
  // Each device has a link of its own to every other one that this level joins, and no switch joins
  // them: AMD's Infinity Fabric. `bandwidth` is that of all of its links together.
  bool pairwise = false;
};

// The compute capability that is assumed if a file states none: Hopper's. Capabilities are NVIDIA's
// times ten: 70 Volta, 80 Ampere, 90 Hopper, 100 Blackwell.
inline constexpr std::int64_t kDefaultComputeCapability = 90;
// The compute capability from which on NVSwitch adds up (NVLink SHARP).
inline constexpr std::int64_t kNvlsComputeCapability = 90;

struct DeviceFigures {
  // The GPU, as a shipped topology is named (h100); "": the topology's own name says it.
  std::string gpu = {};
  // The compute capability times ten, as PyTorch gives it; absent if the file does not say.
  std::optional<std::int64_t> compute_capability;
  // Streaming multiprocessors; absent if the file does not say (Topology::multiprocessors).
  std::optional<std::int64_t> multiprocessors;
  GBps memory_bandwidth;
  double memory_gib = 0.0;
  Micros launch;  // start-up time of one kernel
  // Dense rates, by the name of a dtype, f4e2m1 or tf32; "default" is that of the others.
  std::map<std::string, double> peak_tflops;
};

class Topology {
 public:
  // Reads a topology's file. Throws ConfigError.
  [[nodiscard]] static Topology from_json(const nlohmann::json& json, const JsonPlace& place);
  [[nodiscard]] nlohmann::json to_json() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& source() const { return source_; }
  // The name under which figures that were fitted to this GPU are kept.
  [[nodiscard]] const std::string& gpu() const { return device_.gpu.empty() ? name_ : device_.gpu; }
  [[nodiscard]] std::int64_t devices_per_host() const { return devices_per_host_; }
  // The devices that NVLink joins: those of a host, or more (72 on GB200 NVL72).
  [[nodiscard]] std::int64_t domain_devices() const { return domain_devices_; }
  [[nodiscard]] const std::vector<LinkLevel>& links() const { return links_; }
  [[nodiscard]] const DeviceFigures& device() const { return device_; }
  [[nodiscard]] Tflops peak(DType dtype) const;
  // The rate of products of f32 whose operands the tensor cores round to TF32; nothing for a device
  // that has no such format, or whose file does not say.
  [[nodiscard]] std::optional<Tflops> tf32_peak() const;
  // The device's streaming multiprocessors. If the file does not say, those of the datacenter GPU
  // of that compute capability: 80 of V100, 108 of A100, 132 of H100 SXM, 148 of B200.
  [[nodiscard]] std::int64_t multiprocessors() const;

  // The network interfaces of a host; by default one per device. Links state the bandwidth of one
  // device, so that fewer interfaces are faster ones.
  [[nodiscard]] std::int64_t nics_per_host() const {
    return nics_per_host_.value_or(devices_per_host_);
  }

  // The innermost level that joins all members of a group of this span. A span does not say where
  // in its host a group lies, so a block of a host is assumed to join a group whose extent divides
  // it.
  [[nodiscard]] const LinkLevel& link(const GroupSpan& group) const;
  // What a device gets on `level` in one direction in a collective with so many members among the
  // devices that the level joins. On links that join pairs, it is the bandwidth of its links to the
  // other members, or of one link for send_recv: two of eight MI300X share one link of seven.
  // Without other members it is the level's bandwidth. Source: RCCL's notes on fewer than 8 MI300
  // (ROCm/rccl#1270).
  [[nodiscard]] GBps bandwidth(const LinkLevel& level, Collective kind, std::int64_t members) const;
  // The levels that join all devices of a host, and of a scale-up (NVLink) domain.
  [[nodiscard]] const LinkLevel& host_link() const;
  [[nodiscard]] const LinkLevel& domain_link() const;
  // Whether a domain has several hosts.
  [[nodiscard]] bool has_wide_domains() const { return domain_devices_ > devices_per_host_; }
  // The domains that a group touches, and the fewest ranks that it has in one of them. Where a host
  // is a domain of its own, these are its hosts.
  [[nodiscard]] std::int64_t domains_of(const GroupSpan& group) const {
    return has_wide_domains() ? group.domains : group.hosts;
  }
  [[nodiscard]] std::int64_t ranks_per_domain_of(const GroupSpan& group) const {
    return has_wide_domains() ? group.ranks_per_domain : group.ranks_per_host;
  }

  friend bool operator==(const Topology& a, const Topology& b) {
    return a.to_json() == b.to_json();
  }

 private:
  Topology() = default;

  // The devices that a level joins inside a domain.
  [[nodiscard]] std::int64_t joined_devices(const LinkLevel& level) const;

  std::string name_;
  std::string title_;
  std::string source_;
  std::int64_t devices_per_host_ = 1;
  std::int64_t domain_devices_ = 1;
  bool domain_is_host_ = true;
  std::optional<std::int64_t> nics_per_host_;
  std::vector<LinkLevel> links_;
  DeviceFigures device_;
};

}  // namespace shardlab

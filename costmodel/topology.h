// The hardware under a mesh: devices per host, link levels, one device's compute and memory
// figures.
//
//   Topology h100 = Topology::from_json(json, {"configs/topologies/h100.json", ""});
//   h100.link(span)   // the slowest link level that a group of that span crosses
//
// Ranks are laid on hosts row-major: rank r sits on host r / devices_per_host. Figures are
// datasheet figures unless a file says otherwise in its "source". Immutable once built.
//
// Levels, from inner to outer (a file names those that it has; the last is "all"):
//   pcie, socket   blocks of `devices` consecutive ranks of one host, which the level names
//   host, domain   the devices of a host, of a scale-up (NVLink) domain
//   rail           devices in the same place of their hosts, on up to `devices` consecutive ranks
//   all            the spine; its bandwidth is what the file says over `oversubscription`
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

// Ranks that one link level joins, from the smallest blocks to all.
enum class LinkScope : std::uint8_t { kPcie, kSocket, kHost, kDomain, kRail, kAll };
template <>
struct EnumNames<LinkScope> {
  static constexpr std::string_view kKind = "link scope";
  static constexpr std::array kNames = {
      Named{LinkScope::kPcie, "pcie"}, Named{LinkScope::kSocket, "socket"},
      Named{LinkScope::kHost, "host"}, Named{LinkScope::kDomain, "domain"},
      Named{LinkScope::kRail, "rail"}, Named{LinkScope::kAll, "all"}};
};

// What a level is made of. A level that does not say is NVSwitch inside a host or a domain, PCIe
// inside a part of a host, and network beyond.
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
  Micros latency;  // of one step between two devices joined by this level
  GBps bandwidth;  // of one device through this level, one direction, oversubscription counted
  LinkKind kind = LinkKind::kNetwork;
  // Consecutive ranks that the level joins at most; 0: as many as its scope has.
  std::int64_t devices = 0;
  GBps nominal_bandwidth;  // before oversubscription
  double oversubscription = 1.0;
  bool kind_is_given = false;
};

// NVIDIA's compute capability times ten (70 Volta, 80 Ampere, 90 Hopper, 100 Blackwell) where a
// file does not say.
inline constexpr std::int64_t kDefaultComputeCapability = 90;

struct DeviceFigures {
  std::optional<std::int64_t> compute_capability;  // times ten
  GBps memory_bandwidth;
  double memory_gib = 0.0;
  Micros launch;                              // start-up time of one kernel
  std::map<std::string, double> peak_tflops;  // dense, by dtype name; "default" for the others
};

class Topology {
 public:
  // Throws ConfigError.
  [[nodiscard]] static Topology from_json(const nlohmann::json& json, const JsonPlace& place);
  [[nodiscard]] nlohmann::json to_json() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& source() const { return source_; }
  [[nodiscard]] std::int64_t devices_per_host() const { return devices_per_host_; }
  // Devices joined by NVLink: the host's, or more (72 on GB200 NVL72).
  [[nodiscard]] std::int64_t domain_devices() const { return domain_devices_; }
  [[nodiscard]] const std::vector<LinkLevel>& links() const { return links_; }
  [[nodiscard]] const DeviceFigures& device() const { return device_; }
  [[nodiscard]] Tflops peak(DType dtype) const;

  // Network interfaces of a host; by default one a device.
  [[nodiscard]] std::int64_t nics_per_host() const {
    return nics_per_host_.value_or(devices_per_host_);
  }

  // The innermost level that joins every member of a group of this span. Of a block that the span
  // does not place (a part of a host): joined when the group's extent divides the block.
  [[nodiscard]] const LinkLevel& link(const GroupSpan& group) const;
  // The level that joins all devices of a host.
  [[nodiscard]] const LinkLevel& host_link() const;

  friend bool operator==(const Topology& a, const Topology& b) {
    return a.to_json() == b.to_json();
  }

 private:
  Topology() = default;

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

// The hardware under a mesh: devices per host, link levels, one device's compute and memory
// figures.
//
//   Topology h100 = Topology::from_json(json, {"configs/topologies/h100.json", ""});
//   h100.link(span)   // the slowest link level that a group of that span crosses
//
// Ranks are laid on hosts row-major: rank r sits on host r / devices_per_host. Figures are
// datasheet figures unless a file says otherwise in its "source". Immutable once built.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costmodel/collective.h"
#include "costmodel/dtype.h"
#include "costmodel/json_reader.h"
#include "costmodel/units.h"

namespace shardlab {

// Ranks that one link level joins: those of a host, of a scale-up (NVLink) domain, or all.
enum class LinkScope : std::uint8_t { kHost, kDomain, kAll };

struct LinkLevel {
  std::string name;
  LinkScope joins = LinkScope::kAll;
  Micros latency;  // of one step between two devices joined by this level
  GBps bandwidth;  // of one device through this level, one direction
};

struct DeviceFigures {
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

  // The innermost level that joins every member of a group of this span.
  [[nodiscard]] const LinkLevel& link(const GroupSpan& group) const;

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
  std::vector<LinkLevel> links_;
  DeviceFigures device_;
};

}  // namespace shardlab

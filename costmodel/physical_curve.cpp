#include "costmodel/physical_curve.h"

#include <algorithm>
#include <cmath>

#include "costmodel/curve_relation.h"

namespace shardlab {
namespace {

constexpr double kSharpness = 0.7;     // p
constexpr double kReachedShare = 0.8;  // of a link's bandwidth
constexpr double kReachedShareOfNetwork = 0.85;
constexpr double kReachedShareInSwitch = 0.96;
constexpr double kReachedShareInHopperSwitch = 1.06;
constexpr double kReachedShareOfTwoSwitches = 1.04;   // joined by the network
constexpr double kReachedShareOfMoreSwitches = 0.80;  // joined by the network
constexpr double kLeastRanksOfSwitch = 8.0;           // in a domain
constexpr std::int64_t kHopper = 90;
constexpr std::int64_t kBlackwell = 100;
constexpr double kBytesPerUsOfGBps = 1e3;

double devices_per_domain(const PhysicalGroup& group) {
  return std::max(1.0, static_cast<double>(group.ranks) / static_cast<double>(group.domains));
}

// The share of a host link's bandwidth that is reached where NVSwitch adds up.
double share_in_switch(const PhysicalGroup& group) {
  if (group.domains > 2) return kReachedShareOfMoreSwitches;
  if (group.domains == 2) return kReachedShareOfTwoSwitches;
  return group.is_hopper ? kReachedShareInHopperSwitch : kReachedShareInSwitch;
}

// The bytes that cross one network link of a device, over full_bytes.
double network_volume(const PhysicalGroup& group) {
  if (group.kind == Collective::kAllReduce) {
    const auto domains = static_cast<double>(group.domains);
    return 2.0 * (domains - 1.0) / domains / devices_per_domain(group);
  }
  return volume_factor({group.kind, group.ranks, group.domains});
}

}  // namespace

PhysicalGroup physical_group(Collective kind, const GroupSpan& span, const Topology& topology,
                             const NetworkFigures& network) {
  PhysicalGroup group;
  group.kind = kind;
  group.ranks = span.ranks;
  const bool wide = topology.domain_devices() > topology.devices_per_host();
  group.domains = std::max<std::int64_t>(1, wide ? span.domains : span.hosts);
  group.host = topology.host_link().bandwidth;
  const LinkLevel& link = topology.link(span);
  if (group.domains > 1) {
    group.network = network.bandwidth.value_or(link.bandwidth);
    group.network_delay =
        network.latency.value_or(link.latency).value() / kInfinibandLatency.value();
  } else {
    group.host = link.bandwidth;
  }
  const LinkLevel& inner = group.domains > 1 ? topology.host_link() : link;
  const auto capability = topology.device().compute_capability.value_or(0);
  group.switch_reduces = kind == Collective::kAllReduce && inner.kind == LinkKind::kNvswitch &&
                         capability >= kHopper && devices_per_domain(group) >= kLeastRanksOfSwitch;
  group.is_hopper = capability >= kHopper && capability < kBlackwell;
  return group;
}

PhysicalCurve physical_curve(const PhysicalGroup& group) {
  const double latency = latency_factor({group.kind, group.ranks, group.domains});
  const double ring = ring_volume_factor(group.kind, group.ranks);
  const double share = group.switch_reduces ? share_in_switch(group) : kReachedShare;
  const double host = share * group.host.value() * kBytesPerUsOfGBps / ring;
  PhysicalCurve curve;
  if (group.domains <= 1) {
    curve.floor_us = 10.0 * std::sqrt(latency);
    curve.bytes_per_us = host;
    return curve;
  }
  const double network =
      kReachedShareOfNetwork * group.network.value() * kBytesPerUsOfGBps / network_volume(group);
  curve.floor_us = 24.0 * std::pow(latency, 0.7) * std::max(group.network_delay, 1e-3);
  curve.bytes_per_us = std::min(host, network);
  return curve;
}

double PhysicalCurve::bend(Bytes bytes) const {
  return std::log(std::max(bytes, 1.0)) - std::log(floor_us) - std::log(bytes_per_us);
}

double PhysicalCurve::log_rise(double bend) {
  const double x = kSharpness * bend;
  return (x > 0.0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x))) / kSharpness;
}

double PhysicalCurve::plateau_share(double bend) {
  return 1.0 / (1.0 + std::exp(-kSharpness * bend));
}

double PhysicalCurve::us_at_bend(double bend) const { return floor_us * std::exp(log_rise(bend)); }

}  // namespace shardlab

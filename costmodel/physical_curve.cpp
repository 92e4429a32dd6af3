#include "costmodel/physical_curve.h"

#include <algorithm>
#include <cmath>

#include "costmodel/curve_relation.h"

namespace shardlab {
namespace {

constexpr double kSharpness = 0.7;     // p
constexpr double kReachedShare = 0.8;  // the share of a link's bandwidth that is reached
constexpr double kReachedShareOfNetwork = 0.85;
constexpr double kReachedShareInSwitch = 0.96;
constexpr double kReachedShareInHopperSwitch = 1.06;
constexpr double kReachedShareOfTwoSwitches = 1.04;   // joined by the network
constexpr double kReachedShareOfMoreSwitches = 0.80;  // joined by the network
// The fewest ranks in a domain for which NVSwitch adds up.
constexpr double kLeastRanksOfSwitch = 8.0;
// A deeper tree takes no longer than one of so many levels.
constexpr double kMostLevelsOfSharp = 3.0;
constexpr std::int64_t kBlackwell = 100;
constexpr double kBytesPerUsOfGBps = 1e3;

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
    return 2.0 * (domains - 1.0) / domains / group.devices;
  }
  return volume_factor({group.kind, group.ranks, group.domains, group.devices});
}

double floor_between_domains(const PhysicalGroup& group, double latency) {
  return 24.0 * std::pow(latency, 0.7) * std::max(group.network_delay, 1e-3);
}

// A network that adds up takes each device's share once and returns the sum once; a chain inside
// each domain brings the shares together.
PhysicalCurve curve_with_sharp(const PhysicalGroup& group) {
  const double levels = std::min(std::log2(static_cast<double>(group.domains)), kMostLevelsOfSharp);
  PhysicalCurve curve;
  curve.floor_us = floor_between_domains(group, levels + 0.1 * group.devices);
  curve.bytes_per_us =
      kReachedShareOfNetwork * group.network.value() * kBytesPerUsOfGBps * group.devices;
  if (group.devices > 1.0) {
    const double chain = 2.0 * (group.devices - 1.0) / group.devices;
    curve.bytes_per_us = std::min(curve.bytes_per_us,
                                  kReachedShare * group.host.value() * kBytesPerUsOfGBps / chain);
  }
  return curve;
}

}  // namespace

PhysicalGroup physical_group(Collective kind, const GroupSpan& span, const Topology& topology,
                             const NetworkFigures& network) {
  PhysicalGroup group;
  group.kind = kind;
  group.ranks = span.ranks;
  group.domains = std::max<std::int64_t>(1, topology.domains_of(span));
  const std::int64_t devices = topology.ranks_per_domain_of(span);
  group.devices = static_cast<double>(devices);
  const LinkLevel& link = topology.link(span);
  const LinkLevel& inner = group.domains > 1 ? topology.host_link() : link;
  group.host = topology.bandwidth(inner, kind, devices);
  if (group.domains > 1) {
    group.network = network.bandwidth.value_or(link.bandwidth);
    group.network_delay =
        network.latency.value_or(link.latency).value() / kInfinibandLatency.value();
  }
  const auto capability = topology.device().compute_capability.value_or(kDefaultComputeCapability);
  const bool adds = kind == Collective::kAllReduce;
  group.switch_reduces = adds && inner.kind == LinkKind::kNvswitch && inner.reduces &&
                         group.devices >= kLeastRanksOfSwitch;
  group.network_reduces = adds && group.domains > 1 && link.kind == LinkKind::kNetwork &&
                          network.reduces.value_or(link.reduces);
  group.is_hopper = capability >= kNvlsComputeCapability && capability < kBlackwell;
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
  curve.floor_us = floor_between_domains(group, latency);
  curve.bytes_per_us = std::min(host, network);
  if (group.network_reduces) {
    const PhysicalCurve sharp = curve_with_sharp(group);
    curve.floor_us = std::min(curve.floor_us, sharp.floor_us);
    curve.bytes_per_us = std::max(curve.bytes_per_us, sharp.bytes_per_us);
  }
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

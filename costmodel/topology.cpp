#include "costmodel/topology.h"

#include <algorithm>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMaxDevices = std::int64_t{1} << 40;
// Network interfaces of one host. Status: assumed; hosts of eight GPUs have up to 32 (AWS p5).
constexpr std::int64_t kMaxInterfaces = 1024;
constexpr NumberRange kBandwidthRange{.min = 1e-6, .max = 1e9};
constexpr NumberRange kLatencyRange{.min = 0.0, .max = 1e9};
constexpr NumberRange kMemoryRange{.min = 1e-6, .max = 1e9};

// Formats for which a device has a peak rate, although no tensor has them as its dtype: the 4-bit
// format of NVFP4 and MXFP4, two of which share a byte, and what tensor cores round f32 to.
constexpr std::string_view kPackedFloat = "f4e2m1";
constexpr std::string_view kRoundedFloat = "tf32";

LinkKind default_kind(LinkScope joins) {
  if (joins < LinkScope::kHost) return LinkKind::kPcie;
  return joins < LinkScope::kRail ? LinkKind::kNvswitch : LinkKind::kNetwork;
}

// Decides whether the switches of a level add up, once the device is known. `place` is that of the
// level.
void settle_reduction(LinkLevel& level, std::int64_t capability, const JsonPlace& place) {
  const bool has_nvls = level.kind == LinkKind::kNvswitch && capability >= kNvlsComputeCapability;
  if (!level.reduces_is_given) {
    level.reduces = has_nvls;
    return;
  }
  if (!level.reduces || has_nvls || level.kind == LinkKind::kNetwork) return;
  const std::string valid =
      "; valid: true on a network, and on an nvswitch from compute capability " +
      std::to_string(kNvlsComputeCapability) + " on";
  const std::string kind(name_of(level.kind));
  place.at("reduces").fail(level.kind == LinkKind::kNvswitch
                               ? "found true on an " + kind + " of compute capability " +
                                     std::to_string(capability) + valid
                               : "found true on a level of kind \"" + kind + "\"" + valid);
}

// Refuses `pairwise` on a level that is not of direct links, or that reaches beyond a domain.
// `place` is the place of the level in its file.
void expect_pairwise(const LinkLevel& level, const JsonPlace& place) {
  if (!level.pairwise) return;
  if (level.kind == LinkKind::kNvlink && level.joins <= LinkScope::kDomain) return;
  place.at("pairwise")
      .fail("found true on a level of kind \"" + std::string(name_of(level.kind)) +
            "\" that joins \"" + std::string(name_of(level.joins)) +
            "\"; valid: true on a level of kind \"nvlink\" that joins at most \"domain\"");
}

// Levels stand once each, from inner to outer, under names of their own. Blocks fill whole hosts
// and the blocks of the next level, and a domain is made of whole hosts that a level joins.
void expect_nested(const std::vector<LinkLevel>& links, std::int64_t devices_per_host,
                   const JsonPlace& place) {
  const auto joins = [](const LinkLevel& level) {
    return "joins \"" + std::string(name_of(level.joins)) + "\"";
  };
  for (std::size_t i = 0; i < links.size(); ++i) {
    const LinkLevel& level = links[i];
    if (i > 0 && level.joins <= links[i - 1].joins) {
      place.at(i).fail("found a level that " + joins(level) + " after one that " +
                       joins(links[i - 1]) +
                       "; valid: each once, from inner to outer: " + valid_names<LinkScope>());
    }
    const bool is_taken =
        std::any_of(links.begin(), links.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const LinkLevel& inner) { return inner.name == level.name; });
    if (is_taken) {
      place.at(i).at("name").fail("found \"" + level.name +
                                  "\", the name of an inner level; valid: a name of its own");
    }
    if (level.joins >= LinkScope::kHost) continue;
    const bool has_outer_block = i + 1 < links.size() && links[i + 1].joins < LinkScope::kHost;
    const std::int64_t whole = has_outer_block ? links[i + 1].devices : devices_per_host;
    if (whole % level.devices != 0) {
      place.at(i).at("devices").fail("found " + std::to_string(level.devices) +
                                     "; valid: a divisor of " + std::to_string(whole) +
                                     ", the devices of " +
                                     (has_outer_block ? "the next level" : "a host"));
    }
  }
}

void expect_domain(std::int64_t domain_devices, std::int64_t devices_per_host,
                   const std::vector<LinkLevel>& links, const JsonPlace& place) {
  if (domain_devices % devices_per_host != 0) {
    place.fail("found " + std::to_string(domain_devices) +
               "; valid: a multiple of devices_per_host (" + std::to_string(devices_per_host) +
               "), since a domain is made of whole hosts");
  }
  const bool is_joined = std::any_of(links.begin(), links.end(), [](const LinkLevel& level) {
    return level.joins == LinkScope::kDomain;
  });
  if (domain_devices > devices_per_host && !is_joined) {
    place.fail("found " + std::to_string(domain_devices) +
               ", but no level of links joins \"domain\"; valid: such a level, or no "
               "domain_devices");
  }
}

// Whether the rings through the group enter and leave each host on the same rail: they can if the
// group has the same positions on all of its hosts, a ring for each. A span tells that of a group
// with one member on each host, and of one that has every device of its hosts, or every second,
// third and so on. Source: NCCL_CROSS_NIC of NCCL's user guide.
bool stays_on_rails(const GroupSpan& group, std::int64_t devices_per_host) {
  if (group.ranks != group.hosts * group.ranks_per_host) return false;
  if (group.ranks_per_host == 1) return (group.extent - 1) % devices_per_host == 0;
  const std::int64_t stride = devices_per_host / group.ranks_per_host;
  return stride * group.ranks_per_host == devices_per_host &&
         group.extent - 1 == (group.ranks - 1) * stride;
}

}  // namespace

Topology Topology::from_json(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  reader.expect_schema("shardlab/topology/1");
  Topology topology;
  topology.name_ = reader.text("name");
  topology.title_ = reader.text_or("title", "");
  topology.source_ = reader.text("source");
  topology.devices_per_host_ = reader.integer("devices_per_host", 1, kMaxDevices);
  topology.domain_is_host_ = reader.find("domain_devices") == nullptr;
  topology.domain_devices_ =
      reader.integer_or("domain_devices", topology.devices_per_host_, 1, kMaxDevices);

  if (reader.find("nics_per_host") != nullptr) {
    topology.nics_per_host_ = reader.integer("nics_per_host", 1, kMaxInterfaces);
  }

  const nlohmann::json& links = reader.array("links");
  for (std::size_t i = 0; i < links.size(); ++i) {
    ObjectReader link(links[i], reader.place("links").at(i));
    LinkLevel level;
    level.name = link.text("name");
    level.joins = json_name<LinkScope>(link.value("joins"), link.place("joins"));
    level.latency = Micros(link.number("latency_us", kLatencyRange));
    level.nominal_bandwidth = GBps(link.number("bandwidth_gb_per_s", kBandwidthRange));
    level.kind = default_kind(level.joins);
    if (const nlohmann::json* kind = link.find("kind")) {
      level.kind = json_name<LinkKind>(*kind, link.place("kind"));
      level.kind_is_given = true;
    }
    if (level.joins < LinkScope::kHost) {
      level.devices = link.integer("devices", 1, topology.devices_per_host_);
    } else if (level.joins == LinkScope::kRail) {
      level.devices = link.integer_or("devices", 0, topology.devices_per_host_, kMaxDevices);
    }
    if (level.joins >= LinkScope::kRail) {
      level.oversubscription = link.number_or("oversubscription", 1.0, {.min = 1.0, .max = 1e6});
    }
    level.bandwidth = GBps(level.nominal_bandwidth.value() / level.oversubscription);
    level.reduces_is_given = link.find("reduces") != nullptr;
    level.reduces = link.boolean_or("reduces", false);
    level.pairwise = link.boolean_or("pairwise", false);
    expect_pairwise(level, reader.place("links").at(i));
    link.finish();
    topology.links_.push_back(level);
  }
  if (topology.links_.empty() || topology.links_.back().joins != LinkScope::kAll) {
    reader.place("links").fail("the last link level must join \"all\" ranks");
  }
  expect_nested(topology.links_, topology.devices_per_host_, reader.place("links"));
  expect_domain(topology.domain_devices_, topology.devices_per_host_, topology.links_,
                reader.place("domain_devices"));

  ObjectReader device(reader.value("device"), reader.place("device"));
  if (device.find("gpu") != nullptr) {
    topology.device_.gpu = device.text("gpu");
    if (topology.device_.gpu.empty()) {
      device.place("gpu").fail("found \"\"; valid: the name of a GPU, or no such key");
    }
  }
  if (device.find("compute_capability") != nullptr) {
    topology.device_.compute_capability = device.integer("compute_capability", 10, 10000);
  }
  if (device.find("multiprocessors") != nullptr) {
    topology.device_.multiprocessors = device.integer("multiprocessors", 1, 1000000);
  }
  topology.device_.memory_bandwidth =
      GBps(device.number("memory_bandwidth_gb_per_s", kBandwidthRange));
  topology.device_.memory_gib = device.number("memory_gib", kMemoryRange);
  topology.device_.launch = Micros(device.number("launch_us", kLatencyRange));
  const nlohmann::json& peaks = device.value("peak_tflops");
  const JsonPlace peak_place = device.place("peak_tflops");
  if (!peaks.is_object()) peak_place.fail("found " + describe_json(peaks) + "; valid: an object");
  for (const auto& [dtype, value] : peaks.items()) {
    if (dtype != "default" && dtype != kPackedFloat && dtype != kRoundedFloat &&
        !from_name<DType>(dtype)) {
      peak_place.at(dtype).fail("unknown dtype; valid: default " + std::string(kDTypeNames) + " " +
                                std::string(kPackedFloat) + " " + std::string(kRoundedFloat));
    }
    topology.device_.peak_tflops[dtype] =
        json_number(value, peak_place.at(dtype), {.min = 1e-9, .max = 1e9});
  }
  if (!topology.device_.peak_tflops.contains("default")) {
    peak_place.fail("missing key \"default\"");
  }
  device.finish();
  reader.finish();
  for (std::size_t i = 0; i < topology.links_.size(); ++i) {
    settle_reduction(topology.links_[i],
                     topology.device_.compute_capability.value_or(kDefaultComputeCapability),
                     reader.place("links").at(i));
  }
  return topology;
}

nlohmann::json Topology::to_json() const {
  nlohmann::json links = nlohmann::json::array();
  for (const LinkLevel& level : links_) {
    links.push_back({{"name", level.name},
                     {"joins", name_of(level.joins)},
                     {"latency_us", level.latency.value()},
                     {"bandwidth_gb_per_s", level.nominal_bandwidth.value()}});
    if (level.kind_is_given) links.back()["kind"] = name_of(level.kind);
    if (level.devices > 0) links.back()["devices"] = level.devices;
    if (level.oversubscription != 1.0) links.back()["oversubscription"] = level.oversubscription;
    if (level.reduces_is_given) links.back()["reduces"] = level.reduces;
    if (level.pairwise) links.back()["pairwise"] = true;
  }
  nlohmann::json json = {{"schema", "shardlab/topology/1"},
                         {"name", name_},
                         {"source", source_},
                         {"devices_per_host", devices_per_host_},
                         {"links", links},
                         {"device",
                          {{"memory_bandwidth_gb_per_s", device_.memory_bandwidth.value()},
                           {"memory_gib", device_.memory_gib},
                           {"launch_us", device_.launch.value()},
                           {"peak_tflops", device_.peak_tflops}}}};
  if (!title_.empty()) json["title"] = title_;
  if (!domain_is_host_) json["domain_devices"] = domain_devices_;
  if (nics_per_host_) json["nics_per_host"] = *nics_per_host_;
  if (!device_.gpu.empty()) json["device"]["gpu"] = device_.gpu;
  if (device_.compute_capability) {
    json["device"]["compute_capability"] = *device_.compute_capability;
  }
  if (device_.multiprocessors) json["device"]["multiprocessors"] = *device_.multiprocessors;
  return json;
}

Tflops Topology::peak(DType dtype) const {
  const auto it = device_.peak_tflops.find(std::string(to_string(dtype)));
  return Tflops(it != device_.peak_tflops.end() ? it->second : device_.peak_tflops.at("default"));
}

std::optional<Tflops> Topology::tf32_peak() const {
  const auto it = device_.peak_tflops.find(std::string(kRoundedFloat));
  if (it == device_.peak_tflops.end()) return std::nullopt;
  return Tflops(it->second);
}

std::int64_t Topology::multiprocessors() const {
  if (device_.multiprocessors) return *device_.multiprocessors;
  const std::int64_t capability = device_.compute_capability.value_or(kDefaultComputeCapability);
  if (capability >= 100) return 148;
  if (capability >= 90) return 132;
  return capability >= 80 ? 108 : 80;
}

const LinkLevel& Topology::link(const GroupSpan& group) const {
  for (const LinkLevel& level : links_) {
    switch (level.joins) {
      case LinkScope::kPcie:
      case LinkScope::kSocket:
        if (group.hosts <= 1 && level.devices % std::max<std::int64_t>(1, group.extent) == 0) {
          return level;
        }
        break;
      case LinkScope::kHost:
        if (group.hosts <= 1) return level;
        break;
      case LinkScope::kDomain:
        if (group.domains <= 1) return level;
        break;
      case LinkScope::kRail:
        if (stays_on_rails(group, devices_per_host_) &&
            (level.devices == 0 || group.extent <= level.devices)) {
          return level;
        }
        break;
      case LinkScope::kAll:
        return level;
    }
  }
  return links_.back();
}

std::int64_t Topology::joined_devices(const LinkLevel& level) const {
  if (level.joins < LinkScope::kHost) return level.devices;
  return level.joins == LinkScope::kHost ? devices_per_host_ : domain_devices_;
}

GBps Topology::bandwidth(const LinkLevel& level, Collective kind, std::int64_t members) const {
  const std::int64_t links = joined_devices(level) - 1;
  if (!level.pairwise || members <= 1 || links < 1) return level.bandwidth;
  const std::int64_t used = kind == Collective::kSendRecv ? 1 : std::min(members - 1, links);
  return (static_cast<double>(used) / static_cast<double>(links)) * level.bandwidth;
}

const LinkLevel& Topology::host_link() const {
  return link({.ranks = devices_per_host_,
               .hosts = 1,
               .domains = 1,
               .ranks_per_host = devices_per_host_,
               .extent = devices_per_host_});
}

const LinkLevel& Topology::domain_link() const {
  if (!has_wide_domains()) return host_link();
  return link({.ranks = domain_devices_,
               .hosts = domain_devices_ / devices_per_host_,
               .domains = 1,
               .ranks_per_host = devices_per_host_,
               .extent = domain_devices_});
}

}  // namespace shardlab

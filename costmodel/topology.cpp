#include "costmodel/topology.h"

#include <array>

#include "costmodel/error.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMaxDevices = std::int64_t{1} << 40;
constexpr NumberRange kBandwidthRange{.min = 1e-6, .max = 1e9};
constexpr NumberRange kLatencyRange{.min = 0.0, .max = 1e9};
constexpr std::array<std::string_view, 3> kScopes = {"host", "domain", "all"};

LinkScope parse_scope(const std::string& text, const JsonPlace& place) {
  for (std::size_t i = 0; i < kScopes.size(); ++i) {
    if (kScopes[i] == text) return static_cast<LinkScope>(i);
  }
  place.fail("found \"" + text + "\"; valid: host, domain, all");
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

  const nlohmann::json& links = reader.array("links");
  for (std::size_t i = 0; i < links.size(); ++i) {
    ObjectReader link(links[i], reader.place("links").at(i));
    LinkLevel level;
    level.name = link.text("name");
    level.joins = parse_scope(link.text("joins"), link.place("joins"));
    level.latency = Micros(link.number("latency_us", kLatencyRange));
    level.bandwidth = GBps(link.number("bandwidth_gb_per_s", kBandwidthRange));
    link.finish();
    topology.links_.push_back(level);
  }
  if (topology.links_.empty() || topology.links_.back().joins != LinkScope::kAll) {
    reader.place("links").fail("the last link level must join \"all\" ranks");
  }
  for (std::size_t i = 1; i < topology.links_.size(); ++i) {
    if (topology.links_[i].joins <= topology.links_[i - 1].joins) {
      reader.place("links").at(i).fail("levels go from inner to outer: host, domain, all");
    }
  }

  ObjectReader device(reader.value("device"), reader.place("device"));
  topology.device_.memory_bandwidth =
      GBps(device.number("memory_bandwidth_gb_per_s", kBandwidthRange));
  topology.device_.memory_gib = device.number("memory_gib", {.min = 0.0, .max = 1e9});
  topology.device_.launch = Micros(device.number("launch_us", kLatencyRange));
  const nlohmann::json& peaks = device.value("peak_tflops");
  const JsonPlace peak_place = device.place("peak_tflops");
  if (!peaks.is_object()) peak_place.fail("found " + describe_json(peaks) + "; valid: an object");
  for (const auto& [dtype, value] : peaks.items()) {
    if (dtype != "default" && !dtype_from_name(dtype)) {
      peak_place.at(dtype).fail("unknown dtype; valid: default " + std::string(kDTypeNames));
    }
    topology.device_.peak_tflops[dtype] =
        json_number(value, peak_place.at(dtype), {.min = 1e-9, .max = 1e9});
  }
  if (!topology.device_.peak_tflops.contains("default")) {
    peak_place.fail("missing key \"default\"");
  }
  device.finish();
  reader.finish();
  return topology;
}

nlohmann::json Topology::to_json() const {
  nlohmann::json links = nlohmann::json::array();
  for (const LinkLevel& level : links_) {
    links.push_back({{"name", level.name},
                     {"joins", kScopes[static_cast<std::size_t>(level.joins)]},
                     {"latency_us", level.latency.value()},
                     {"bandwidth_gb_per_s", level.bandwidth.value()}});
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
  return json;
}

Tflops Topology::peak(DType dtype) const {
  const auto it = device_.peak_tflops.find(std::string(to_string(dtype)));
  return Tflops(it != device_.peak_tflops.end() ? it->second : device_.peak_tflops.at("default"));
}

const LinkLevel& Topology::link(const GroupSpan& group) const {
  for (const LinkLevel& level : links_) {
    if (level.joins == LinkScope::kAll) return level;
    if (level.joins == LinkScope::kHost && group.hosts <= 1) return level;
    if (level.joins == LinkScope::kDomain && group.domains <= 1) return level;
  }
  return links_.back();
}

}  // namespace shardlab

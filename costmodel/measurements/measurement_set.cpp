#include "costmodel/measurements/measurement_set.h"

#include <algorithm>
#include <cmath>

#include "costmodel/dtype.h"

namespace shardlab {
namespace {

constexpr double kMinTimeUs = 1e-6;
constexpr double kMaxTimeUs = 1e15;
constexpr double kMaxBytes = 1e18;
constexpr std::string_view kHealthNames = "healthy, unhealthy, unknown";

using nlohmann::json;

// An optional key; null counts as absent.
const json* find_value(ObjectReader& reader, std::string_view key) {
  const json* found = reader.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::string text_of(ObjectReader& reader, std::string_view key) {
  const json* found = find_value(reader, key);
  return found == nullptr ? std::string() : json_text(*found, reader.place(key));
}

std::optional<double> time_of(ObjectReader& reader, std::string_view key) {
  const json* found = find_value(reader, key);
  if (found == nullptr) return std::nullopt;
  return json_number(*found, reader.place(key), {.min = kMinTimeUs, .max = kMaxTimeUs});
}

bool is_known_dtype(std::string_view name) {
  return dtype_from_name(name).has_value() || name == "u32" || name == "u64";
}

nlohmann::ordered_json whole_or_double(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::floor(value) == value && value < kExact) return static_cast<std::int64_t>(value);
  return value;
}

MeasuredRow read_row(const json& value, const JsonPlace& place) {
  ObjectReader reader(value, place);
  MeasuredRow row;
  const std::string collective = reader.text("collective");
  const auto kind = collective_from_name(collective);
  if (!kind || *kind == Collective::kLocal) {
    const std::string names(kCollectiveNames.substr(0, kCollectiveNames.rfind(' ')));
    reader.place("collective").fail("found \"" + collective + "\"; valid: " + names);
  }
  row.collective = *kind;
  row.dtype = reader.text("dtype");
  if (!is_known_dtype(row.dtype)) {
    reader.place("dtype").fail("found \"" + row.dtype + "\"; valid: " + std::string(kDTypeNames) +
                               " u32");
  }
  row.bytes = reader.number("bytes", {.min = 1.0, .max = kMaxBytes});
  row.time_us = reader.number("time_us", {.min = kMinTimeUs, .max = kMaxTimeUs});
  row.in_place_time_us = time_of(reader, "in_place_time_us");
  if (const json* found = find_value(reader, "iterations")) {
    row.iterations = json_integer(*found, reader.place("iterations"), 1, std::int64_t{1} << 40);
  }
  row.p50_us = time_of(reader, "p50_us");
  row.p95_us = time_of(reader, "p95_us");
  reader.finish();
  return row;
}

}  // namespace

std::string_view to_string(Health health) {
  switch (health) {
    case Health::kHealthy:
      return "healthy";
    case Health::kUnhealthy:
      return "unhealthy";
    case Health::kUnknown:
      break;
  }
  return "unknown";
}

std::optional<Health> health_from_name(std::string_view name) {
  if (name == "healthy" || name == "normal") return Health::kHealthy;
  if (name == "unhealthy" || name == "suspect") return Health::kUnhealthy;
  if (name == "unknown") return Health::kUnknown;
  return std::nullopt;
}

std::string set_name_of(std::string_view file_name) {
  if (const std::size_t slash = file_name.rfind('/'); slash != std::string_view::npos) {
    file_name = file_name.substr(slash + 1);
  }
  const std::size_t dot = file_name.rfind('.');
  if (dot != std::string_view::npos && dot > 0) file_name = file_name.substr(0, dot);
  return std::string(file_name);
}

GroupSpan MeasurementSet::span() const {
  GroupSpan span;
  span.ranks = ranks;
  span.hosts = hosts;
  span.domains = hosts;
  span.ranks_per_host = std::max<std::int64_t>(1, ranks / hosts);
  span.extent = ranks;
  span.walk = ranks;
  return span;
}

MeasurementSet MeasurementSet::from_json(const json& value, const JsonPlace& place) {
  ObjectReader reader(value, place);
  reader.expect_schema(kMeasurementsSchema);
  MeasurementSet set;
  set.name = text_of(reader, "name");
  if (set.name.empty()) set.name = set_name_of(place.file);
  set.source = reader.text("source");
  set.date = text_of(reader, "date");
  set.gpu = reader.text("gpu");
  set.ranks = reader.integer("ranks", 1, kMaxRanks);
  set.hosts = reader.integer("hosts", 1, kMaxRanks);
  if (set.hosts > set.ranks) {
    reader.place("hosts").fail("found " + std::to_string(set.hosts) + " for " +
                               std::to_string(set.ranks) +
                               " ranks; valid: at most one host a rank");
  }
  set.gpus_per_host = reader.integer("gpus_per_host", 1, kMaxRanks);
  set.intra = text_of(reader, "intra");
  set.inter = text_of(reader, "inter");
  set.nccl_version = text_of(reader, "nccl_version");
  set.settings = text_of(reader, "settings");
  set.notes = text_of(reader, "notes");
  if (const std::string health = text_of(reader, "health"); !health.empty()) {
    const auto known = health_from_name(health);
    if (!known) {
      reader.place("health").fail("found \"" + health + "\"; valid: " + std::string(kHealthNames));
    }
    set.health = *known;
  }
  set.health_reason = text_of(reader, "health_reason");
  const json& rows = reader.array("rows");
  if (rows.empty()) reader.place("rows").fail("found no rows; valid: at least one");
  set.rows.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    set.rows.push_back(read_row(rows[i], reader.place("rows").at(i)));
  }
  reader.finish();
  return set;
}

nlohmann::ordered_json MeasurementSet::to_json() const {
  nlohmann::ordered_json out;
  out["schema"] = kMeasurementsSchema;
  const auto text = [&](const char* key, const std::string& value) {
    if (!value.empty()) out[key] = value;
  };
  text("name", name);
  out["source"] = source;
  text("date", date);
  out["gpu"] = gpu;
  out["gpus_per_host"] = gpus_per_host;
  out["hosts"] = hosts;
  out["ranks"] = ranks;
  text("intra", intra);
  text("inter", inter);
  text("nccl_version", nccl_version);
  text("settings", settings);
  text("notes", notes);
  out["health"] = to_string(health);
  text("health_reason", health_reason);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MeasuredRow& row : rows) {
    nlohmann::ordered_json item;
    item["collective"] = shardlab::to_string(row.collective);
    item["dtype"] = row.dtype;
    item["bytes"] = whole_or_double(row.bytes);
    item["time_us"] = row.time_us;
    if (row.in_place_time_us) item["in_place_time_us"] = *row.in_place_time_us;
    if (row.iterations) item["iterations"] = *row.iterations;
    if (row.p50_us) item["p50_us"] = *row.p50_us;
    if (row.p95_us) item["p95_us"] = *row.p95_us;
    list.push_back(std::move(item));
  }
  out["rows"] = std::move(list);
  return out;
}

}  // namespace shardlab

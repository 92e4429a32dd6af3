#include "runner/measurement_files.h"

#include <utility>

#include "costmodel/measurements/health.h"
#include "reports/json_text.h"

namespace shardlab {

MeasurementSet parse_measurement(std::string_view text, const SourceHints& hints,
                                 const std::string& file) {
  const auto judged = [](MeasurementSet set) {
    if (set.health == Health::kHealthy) return set;
    Judgement judgement = judge(set);
    set.health = judgement.health;
    set.health_reason = std::move(judgement.reason);
    return set;
  };
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') {
    MeasurementSet set = read_nccl_tests_text(text, hints, file);
    // What a log calls normal is judged as well.
    if (set.health == Health::kHealthy) set.health = Health::kUnknown;
    return judged(std::move(set));
  }
  const nlohmann::json json = parse_json(text, file);
  if (is_nccl_tests_json(json)) return judged(read_nccl_tests_json(json, hints, {file, ""}));
  return judged(MeasurementSet::from_json(json, {file, ""}));
}

MeasurementSet read_measurement(const ConfigStore& store, const std::string& file,
                                const SourceHints& hints) {
  const std::filesystem::path path = store.find(ConfigKind::kMeasurement, file);
  return parse_measurement(read_text_file(path), hints, path.string());
}

std::vector<MeasurementSet> read_measurements(const ConfigStore& store,
                                              std::span<const std::string> files,
                                              const SourceHints& hints) {
  std::vector<MeasurementSet> sets;
  sets.reserve(files.size());
  for (const std::string& file : files) sets.push_back(read_measurement(store, file, hints));
  return sets;
}

std::vector<MeasurementSet> healthy_measurements(const ConfigStore& store) {
  std::vector<MeasurementSet> sets;
  for (const std::string& name : store.names(ConfigKind::kMeasurement)) {
    MeasurementSet set = read_measurement(store, name, {});
    if (set.health == Health::kHealthy) sets.push_back(std::move(set));
  }
  return sets;
}

std::vector<std::string> remarks_on(const MeasurementSet& set) {
  std::vector<std::string> remarks = left_out_of(set);
  if (set.health == Health::kUnhealthy) {
    remarks.insert(remarks.begin(), set.name + " is unhealthy: " + set.health_reason);
  }
  return remarks;
}

std::vector<std::string> left_out_of(const MeasurementSet& set) {
  std::vector<std::string> remarks;
  for (const RefusedRow& row : set.refused) {
    const std::string place =
        row.line > 0 ? "row at line " + std::to_string(row.line) : std::string("a row");
    remarks.push_back(set.name + ": " + place + " is refused: " + row.reason);
  }
  for (const std::string& warning : set.warnings) remarks.push_back(set.name + ": " + warning);
  return remarks;
}

std::string measurement_text(const MeasurementSet& set) {
  const nlohmann::ordered_json json = set.to_json();
  reports::JsonObjectText text;
  for (const auto& [key, value] : json.items()) {
    if (key == "rows" || key == "kernels") continue;
    text.value(key, value);
  }
  for (const char* list : {"rows", "kernels"}) {
    if (!json.contains(list)) continue;
    text.begin_array(list);
    for (const nlohmann::ordered_json& row : json[list]) text.element(row);
    text.end_array();
  }
  return text.finish();
}

}  // namespace shardlab

#include "runner/evaluation/measurement_files.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>
#include <variant>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/chakra_json.h"
#include "costmodel/measurements/chakra_trace.h"
#include "costmodel/measurements/health.h"
#include "costmodel/measurements/kineto_trace.h"
#include "reports/records/json_text.h"
#include "runner/base/read_file.h"
#include "runner/config/configs.h"
#include "runner/config/read_json.h"

namespace shardlab {

namespace {

MeasurementSet judged(MeasurementSet set) {
  if (set.health == Health::kHealthy) return set;
  Judgement judgement = judge(set);
  set.health = judgement.health;
  set.health_reason = std::move(judgement.reason);
  return set;
}

constexpr std::string_view kSpace = " \t\r\n";

// The start of a JSON array of objects. A bracket alone proves nothing, since a log may begin with
// one: "[1,0]<stdout>...".
bool is_array_of_objects(std::string_view text) {
  const std::size_t bracket = text.find_first_not_of(kSpace);
  if (bracket == std::string_view::npos || text[bracket] != '[') return false;
  const std::size_t next = text.find_first_not_of(kSpace, bracket + 1);
  return next != std::string_view::npos && text[next] == '{';
}

CollectiveTrace chakra_json_trace(const nlohmann::json& json, const std::string& file) {
  if (!is_chakra_json(json)) {
    JsonPlace{file, "/0"}.fail("found " + describe_json(json[0]) +
                               "; valid: GlobalMetadata, with the keys version and attr, as a "
                               "trace of Chakra begins");
  }
  return read_chakra_trace(read_chakra_json(json, {file, ""}), file);
}

// Throws ConfigError for text in a form that others wrap logs into, and that looks like damage.
void expect_plain_text(std::string_view text, const std::string& file) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    throw ConfigError(file, "",
                      "found text in UTF-16; valid: UTF-8, as iconv -f UTF-16 -t UTF-8 writes it");
  }
  const std::string_view line = trimmed(text.substr(0, text.find('\n')), kSpace);
  if (line.size() < text.size() && line.starts_with("{\"log\":") && line.ends_with("}")) {
    throw ConfigError(file, "",
                      "found a log whose lines are JSON, as Docker's driver json-file writes them; "
                      "valid: the log itself, as docker logs NAME or jq -rj .log FILE prints it");
  }
}

// Throws ConfigError for what PyTorch's ExecutionTraceObserver writes.
void expect_no_host_trace(const nlohmann::json& schema, const std::string& file) {
  const std::string name = schema.is_string() ? schema.get<std::string>() : "";
  if (name.find("chakra") == std::string::npos) return;
  throw ConfigError(file, "/schema",
                    "found " + describe_json(schema) +
                        ", a trace of PyTorch's ExecutionTraceObserver, which has no durations; "
                        "valid: a trace of torch.profiler (traceEvents), or what Chakra's linker "
                        "and converter make of the two");
}

// Throws ConfigError for an object that is none of the forms of JSON that are read here.
void expect_schema(const nlohmann::json& json, const std::string& file) {
  if (!json.is_object()) return;
  if (json.contains("schema")) {
    expect_no_host_trace(json["schema"], file);
    return;
  }
  std::string found = "found JSON of an unknown form";
  if (!json.empty()) found += ", with the key \"" + json.begin().key().substr(0, 40) + "\"";
  throw ConfigError(file, "",
                    found +
                        "; valid: a report of nccl-tests (which has the key results), a trace "
                        "of torch.profiler (traceEvents), the array that Chakra's jsonizer "
                        "writes, or a measurement set (schema)");
}

// One trace of a run, or the only set of any other file.
using Content = std::variant<CollectiveTrace, MeasurementSet>;

Content content_of(std::string_view text, const SourceHints& hints, const std::string& file) {
  if (file.ends_with(".et") || is_chakra_trace(text)) return read_chakra_trace(text, file);
  expect_plain_text(text, file);
  const std::size_t first = text.find_first_not_of(kSpace);
  const char begin = first == std::string_view::npos ? ' ' : text[first];
  if (const auto array = begin == '{' ? chakra_array_text(text) : std::nullopt) {
    return chakra_json_trace(parse_json(*array, file), file);
  }
  if (is_array_of_objects(text)) return chakra_json_trace(parse_json(text, file), file);
  if (begin != '{') {
    MeasurementSet set = read_nccl_tests_text(text, hints, file);
    // A log that calls itself healthy is judged like every other.
    if (set.health == Health::kHealthy) set.health = Health::kUnknown;
    return judged(std::move(set));
  }
  const nlohmann::json json = parse_json(text, file);
  if (is_kineto_trace(json)) return read_kineto_trace(json, {file, ""});
  if (is_nccl_tests_json(json)) return judged(read_nccl_tests_json(json, hints, {file, ""}));
  expect_schema(json, file);
  return judged(MeasurementSet::from_json(json, {file, ""}));
}

// Appends the sets of the current run, and begins a new run.
void finish_run(std::vector<CollectiveTrace>& run, const SourceHints& hints,
                std::vector<MeasurementSet>& sets) {
  if (run.empty()) return;
  for (MeasurementSet& set : sets_of_traces(run, hints)) sets.push_back(judged(std::move(set)));
  run.clear();
}

void add_content(Content content, const SourceHints& hints, std::vector<CollectiveTrace>& run,
                 std::vector<MeasurementSet>& sets) {
  if (auto* trace = std::get_if<CollectiveTrace>(&content)) {
    if (!is_of_run(run, *trace)) finish_run(run, hints, sets);
    run.push_back(std::move(*trace));
    return;
  }
  finish_run(run, hints, sets);
  sets.push_back(std::get<MeasurementSet>(std::move(content)));
}

}  // namespace

std::vector<MeasurementSet> parse_measurements(std::string_view text, const SourceHints& hints,
                                               const std::string& file) {
  std::vector<CollectiveTrace> run;
  std::vector<MeasurementSet> sets;
  add_content(content_of(text, hints, file), hints, run, sets);
  finish_run(run, hints, sets);
  return sets;
}

MeasurementSet parse_measurement(std::string_view text, const SourceHints& hints,
                                 const std::string& file) {
  std::vector<MeasurementSet> sets = parse_measurements(text, hints, file);
  if (sets.size() > 1) {
    throw ConfigError(file, "",
                      "found a trace whose groups have " + std::to_string(sets.size()) +
                          " shapes, so it makes several sets; valid: a trace that makes one set");
  }
  return std::move(sets.front());
}

MeasurementSet read_measurement(const ConfigStore& store, const std::string& file,
                                const SourceHints& hints) {
  const std::filesystem::path path = store.find(ConfigKind::kMeasurement, file);
  return parse_measurement(read_text_file(path), hints, path.string());
}

namespace {

// The last parts of a path: "day1/h100" of "logs/day1/h100" for two parts.
std::string last_parts(const std::filesystem::path& path, std::size_t parts) {
  std::filesystem::path rest = path;
  std::filesystem::path last = rest.filename();
  for (std::size_t i = 1; i < parts && rest.has_parent_path(); ++i) {
    rest = rest.parent_path();
    last = rest.filename() / last;
  }
  return last.string();
}

// Puts the folder of each set that another folder has too in front of its name, with as many parts
// of its path as tell the folders apart: "day1/run" and "day2/run". `folders` has that of each set.
void tell_apart(std::vector<MeasurementSet>& sets,
                const std::vector<std::filesystem::path>& folders) {
  std::map<std::string, std::set<std::filesystem::path>> folders_of;
  for (std::size_t i = 0; i < sets.size(); ++i) folders_of[sets[i].name].insert(folders[i]);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::set<std::filesystem::path>& all = folders_of[sets[i].name];
    if (all.size() < 2 || folders[i].empty()) continue;
    constexpr std::size_t kMostParts = 16;
    std::size_t parts = 1;
    for (; parts < kMostParts; ++parts) {
      std::set<std::string> different;
      for (const std::filesystem::path& folder : all) different.insert(last_parts(folder, parts));
      if (different.size() == all.size()) break;
    }
    sets[i].name = last_parts(folders[i], parts) + "/" + sets[i].name;
  }
}

}  // namespace

std::vector<MeasurementSet> read_measurements(const ConfigStore& store,
                                              std::span<const std::string> files,
                                              const SourceHints& hints) {
  std::vector<CollectiveTrace> run;
  std::vector<MeasurementSet> sets;
  std::vector<std::filesystem::path> folders;
  std::set<std::filesystem::path> seen;
  std::filesystem::path folder;
  for (const std::string& file : files) {
    const std::filesystem::path path = store.find(ConfigKind::kMeasurement, file);
    // Rows that are read twice could be fitted and then seem to confirm the fit.
    std::error_code ignored;
    if (!seen.insert(std::filesystem::weakly_canonical(path, ignored)).second) {
      throw InputError("measurement set \"" + file + "\" is named twice");
    }
    Content content = content_of(read_text_file(path), hints, path.string());
    // Sets of the run before are finished here; they have its folder.
    if (!std::holds_alternative<CollectiveTrace>(content)) {
      finish_run(run, hints, sets);
      folders.resize(sets.size(), folder);
    }
    folder = path.parent_path();
    add_content(std::move(content), hints, run, sets);
    folders.resize(sets.size(), folder);
  }
  finish_run(run, hints, sets);
  folders.resize(sets.size(), folder);
  tell_apart(sets, folders);
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

std::string place_of(const MeasurementSet& set, const RefusedRow& row) {
  return set.name + ":" + (row.line > 0 ? std::to_string(row.line) : row.pointer);
}

std::vector<std::string> warnings_on(const MeasurementSet& set) {
  std::vector<std::string> remarks;
  if (set.health == Health::kUnhealthy) {
    remarks.push_back(set.name + " is unhealthy: " + set.health_reason);
  }
  for (const std::string& warning : set.warnings) remarks.push_back(set.name + ": " + warning);
  return remarks;
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
    const std::string place = row.line > 0 ? "line " + std::to_string(row.line) : row.pointer;
    remarks.push_back(set.name + ": row at " + place + " is refused: " + row.reason);
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

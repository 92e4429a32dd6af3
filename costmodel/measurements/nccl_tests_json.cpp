// Reads the JSON of nccl-tests (-J).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/nccl_tests_busbw.h"
#include "costmodel/measurements/nccl_tests_names.h"
#include "costmodel/measurements/nccl_tests_reader.h"
#include "costmodel/measurements/nccl_tests_run.h"

namespace shardlab {
namespace {

using nlohmann::json;

// -J writes six digits after the point, but a file that was made from the printed table has two
// digits, like the table.
constexpr double kHalfDigit = 0.005;

// The tool writes NaN as the text "nan", and some integers (root) as texts.
std::optional<double> optional_number(const json* value, const JsonPlace& place) {
  if (value == nullptr || (value->is_string() && is_not_available(value->get<std::string>()))) {
    return std::nullopt;
  }
  return json_number(*value, place);
}

std::optional<std::int64_t> optional_integer(const json& object, const char* key,
                                             const JsonPlace& place) {
  const json* found = json_member(object, key);
  if (found == nullptr) return std::nullopt;
  return json_integer(*found, place.at(key), 1, kMaxRanks);
}

void read_devices(const json& devices, const JsonPlace& place, Run& run) {
  static_cast<void>(json_array(devices, place));
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const JsonPlace device_place = place.at(i);
    const std::int64_t rank = json_integer(json_required(devices[i], "rank", device_place),
                                           device_place.at("rank"), 0, kMaxRanks);
    Device device{
        json_text(json_required(devices[i], "hostname", device_place), device_place.at("hostname")),
        ""};
    if (const json* info = json_member(devices[i], "device_info")) {
      device.name = json_text(*info, device_place.at("device_info"));
    }
    if (const json* number = json_member(devices[i], "device"); number && number->is_number()) {
      const json* bus = json_member(devices[i], "device_hex");
      device.place = number->dump() + (bus == nullptr ? "" : " " + bus->dump());
    }
    if (const json* group = json_member(devices[i], "group")) device.group = group->dump();
    run.devices.emplace(rank, std::move(device));
  }
}

// The tool writes truths as texts, and other tools as truths.
bool is_truth(const json* value, bool truth) {
  if (value == nullptr) return false;
  return value->is_boolean() ? value->get<bool>() == truth
                             : *value == json(truth ? "true" : "false");
}

// How the calls were launched.
void read_launches(const json& config, Run& run) {
  const auto count = [&](const char* key) -> std::optional<std::int64_t> {
    const json* found = json_member(config, key);
    if (found == nullptr || !found->is_number_integer()) return std::nullopt;
    return found->get<std::int64_t>();
  };
  run.uses_graphs = count("graph").value_or(0) > 0;
  run.is_blocking = is_truth(json_member(config, "blocking_collectives"), true);
  run.aggregated = count("aggregated_iterations");
  run.warmup = count("warmup_iters");
}

// Reads only the judged settings from the environment that -J writes, since other variables may
// hold secrets.
void note_env(const json& document, MeasurementSet& set) {
  const json* variables = json_member(document, "env");
  if (variables == nullptr || !variables->is_array()) return;
  for (const json& variable : *variables) {
    if (!variable.is_string()) continue;
    const std::string text = variable.get<std::string>();
    const std::size_t equals = text.find('=');
    const std::string_view name = std::string_view(text).substr(0, equals);
    const bool is_judged = std::find(std::begin(kJudgedSettings), std::end(kJudgedSettings),
                                     name) != std::end(kJudgedSettings);
    if (is_judged && equals != std::string::npos) {
      note_setting(name, std::string_view(text).substr(equals + 1), set);
    }
  }
}

// Warns of what the tool itself says against its results.
void note_verdicts(const json& document, MeasurementSet& set) {
  for (const char* key : {"out_of_bounds", "average_bus_bandwidth"}) {
    const json* verdict = json_member(document, key);
    if (verdict == nullptr || !verdict->is_object()) continue;
    if (!is_truth(json_member(*verdict, "okay"), false)) continue;
    set.warnings.push_back("nccl-tests says that " + std::string(key) +
                           " is not okay: " + verdict->dump());
  }
  const json* errors = json_member(document, "errors");
  if (errors != nullptr && errors->is_array() && !errors->empty()) {
    set.warnings.push_back("nccl-tests ended with errors: " + errors->dump());
  }
}

// The first argument is the program's name, which names the collective; experiment_name may name it
// too.
std::optional<Collective> collective_of(const json& document, const json& result,
                                        const SourceHints& hints, const JsonPlace& place) {
  const auto named = [](const json* value) {
    return value != nullptr && value->is_string() ? collective_within(value->get<std::string>())
                                                  : std::nullopt;
  };
  if (const auto kind = named(json_member(result, "experiment_name"))) return kind;
  if (const json* args = json_member(document, "args"); args != nullptr && args->is_array()) {
    for (const json& arg : *args) {
      if (!arg.is_string() || arg.get<std::string>().find("_perf") == std::string::npos) continue;
      if (const auto kind = nccl_collective_from_name(arg.get<std::string>())) return kind;
      return std::nullopt;
    }
  }
  if (hints.collective) return hints.collective;
  return collective_within(set_name_of(place.file));
}

}  // namespace

bool is_nccl_tests_json(const json& value) {
  return value.is_object() && value.contains("results") && !value.contains("schema");
}

MeasurementSet read_nccl_tests_json(const json& value, const SourceHints& hints,
                                    const JsonPlace& place) {
  const json& results = json_array(json_required(value, "results", place), place.at("results"));
  MeasurementSet set;
  set.name = set_name_of(place.file);
  set.source = hints.source;
  if (const json* start = json_member(value, "start_time");
      start != nullptr && start->is_string()) {
    set.date = start->get<std::string>().substr(0, 10);
  }
  if (const json* code = json_member(value, "nccl_version")) {
    set.nccl_version =
        code->is_string()
            ? code->get<std::string>()
            : version_of_code(json_integer(*code, place.at("nccl_version"), 0, 1 << 30));
  }
  note_env(value, set);
  note_verdicts(value, set);
  Run run;
  const json* config = json_member(value, "config");
  const JsonPlace config_place = place.at("config");
  std::optional<std::int64_t> iterations;
  if (config != nullptr) {
    // The list holds the first device of each process.
    run.ranks_per_line = optional_integer(*config, "nthreads", config_place).value_or(1) *
                         optional_integer(*config, "ngpus", config_place).value_or(1);
    if (config->contains("nthreads") && config->contains("ngpus")) {
      run.gpus_per_process = run.ranks_per_line;
    }
    iterations = optional_integer(*config, "iterations", config_place);
    read_launches(*config, run);
    if (const json* devices = json_member(*config, "devices")) {
      read_devices(*devices, config_place.at("devices"), run);
    }
  }
  if (const json* devices = json_member(value, "devices")) {
    read_devices(*devices, place.at("devices"), run);
  }
  // If the list has as many devices as there are ranks, it is complete.
  const auto listed = static_cast<std::int64_t>(run.devices.size());
  if (listed > 1 && run.devices.rbegin()->first + 1 == listed) run.ranks_per_line = 1;
  settle(run, hints, set, [&](const std::string& message) { place.fail(message); });

  BusBandwidths bus;
  std::optional<std::pair<std::size_t, std::string>>
      odd_redop;  // the first result of another reduction
  for (std::size_t i = 0; i < results.size(); ++i) {
    const JsonPlace result_place = place.at("results").at(i);
    const json& result = results[i];
    const auto kind = collective_of(value, result, hints, place);
    MeasuredRow row;
    row.line = 0;
    row.bytes = json_number(json_required(result, "size", result_place), result_place.at("size"),
                            {.min = 0, .max = kMaxBytes});
    const std::string type =
        json_text(json_required(result, "type", result_place), result_place.at("type"));
    row.dtype = std::string(our_dtype(type));
    if (row.dtype.empty()) {
      result_place.at("type").fail("found " + in_quotes(type) + "; valid: " + dtype_list());
    }
    row.iterations = iterations;
    if (const auto actual = optional_integer(result, "actual_iterations", result_place)) {
      row.iterations = actual;
    }
    std::string reason = row.bytes < 1.0 ? "found 0 bytes" : "";
    for (const char* side : {"out_of_place", "in_place"}) {
      const json* body = json_member(result, side);
      const JsonPlace body_place = result_place.at(side);
      const bool is_first = side == std::string_view("out_of_place");
      if (body == nullptr) {
        if (is_first && reason.empty()) reason = time_reason(std::nullopt);
        continue;
      }
      if (json_member(*body, "cpu_time") != nullptr) {
        body_place.at("cpu_time").fail("found the time to launch (-C 1); valid: time");
      }
      // null means no time, like "nan"; a file without the key was written by another tool.
      if (!body->contains("time")) static_cast<void>(json_required(*body, "time", body_place));
      const auto time = optional_number(json_member(*body, "time"), body_place.at("time"));
      const auto wrong = optional_number(json_member(*body, "nwrong"), body_place.at("nwrong"));
      const auto algbw = optional_number(json_member(*body, "alg_bw"), body_place.at("alg_bw"));
      const auto busbw = optional_number(json_member(*body, "bus_bw"), body_place.at("bus_bw"));
      if (reason.empty()) reason = is_first ? time_reason(time) : in_place_time_reason(time);
      if (!time || *time <= 0.0) continue;
      const std::string where = is_first ? "" : "in place: ";
      if (reason.empty() && wrong && *wrong > 0.0) {
        reason = where + "found " + format_double(*wrong) + " wrong elements (nwrong)";
      }
      if (reason.empty() && algbw) {
        const std::string odd = contradiction(row.bytes, *time, *algbw);
        if (!odd.empty()) reason = where + odd;
      }
      if (reason.empty() && algbw && busbw && kind && set.ranks > 1) {
        const std::string odd =
            bus.check(*kind, set.ranks, {*algbw, kHalfDigit}, {*busbw, kHalfDigit}, i);
        if (!odd.empty()) reason = where + odd;
      }
      if (is_first) {
        row.time_us = *time;
      } else {
        row.in_place_time_us = time;
      }
    }
    if (const json* block = json_member(result, "out_of_place_per_iter")) {
      const JsonPlace block_place = result_place.at("out_of_place_per_iter");
      row.p50_us = optional_number(json_member(*block, "p50_us"), block_place.at("p50_us"));
      row.p95_us = optional_number(json_member(*block, "p95_us"), block_place.at("p95_us"));
      if (reason.empty()) reason = percentile_reason("p50_us", row.p50_us);
      if (reason.empty()) reason = percentile_reason("p95_us", row.p95_us);
    }
    if (reason.empty() && set.ranks == 1) reason = "a single rank communicates nothing";
    if (!kind) {
      result_place.fail(
          "found nothing that names the collective; valid: \"args\" with the program's name, such "
          "as all_gather_perf, or a file name that contains it");
    }
    if (!reason.empty()) {
      set.refused.push_back(
          {.line = 0, .reason = std::move(reason), .pointer = result_place.pointer});
      continue;
    }
    if (const json* redop = json_member(result, "redop"); redop != nullptr && redop->is_string()) {
      std::string reason_of_redop = odd_reduction(*kind, redop->get<std::string>());
      if (!reason_of_redop.empty() && !odd_redop) odd_redop = {i, std::move(reason_of_redop)};
    }
    row.collective = *kind;
    set.rows.push_back(std::move(row));
  }
  if (const auto mistake = bus.mistake()) {
    place.at("results").at(mistake->place).fail(mistake->message);
  }
  if (odd_redop) place.at("results").at(odd_redop->first).at("redop").fail(odd_redop->second);
  if (set.rows.empty()) {
    if (set.refused.empty()) place.at("results").fail("found no usable row");
    throw ConfigError(place.file, set.refused[0].pointer,
                      "found no usable row: " + set.refused[0].reason);
  }
  return set;
}

}  // namespace shardlab

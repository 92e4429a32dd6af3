// The record of a simulated run: the JSON that `simulate` prints, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/run_header.h"

namespace shardlab {
namespace reports {

inline constexpr std::string_view kSimulateKind = "simulate";

struct SimulatedTimes {
  std::optional<double> p50_us, p95_us, max_us;
};

struct SimulatedStep {
  std::string node;
  std::string name;
  std::string change;
  std::optional<double> price_us;
  SimulatedTimes end;
  std::optional<double> wait_us;
  std::int64_t bytes_moved = 0;
  std::optional<double> max_abs_error;
};

struct SimulationRecord : ResultRecord {
  std::string what;
  std::string mesh;
  std::string stack;
  std::int64_t ranks = 0;
  bool has_data = false;
  std::optional<bool> verified;
  std::string mismatch;
  std::optional<bool> replicas_bitwise_equal;
  std::string refused;
  std::string unpriced;  // why kernels have no price, if they have none
  std::string straggler;
  SimulatedTimes time;
  std::int64_t bytes_moved = 0;
  std::vector<std::string> notes;
  std::vector<SimulatedStep> steps;
};

// Throws ConfigError, which names `file` and a JSON pointer that begins with /result.
[[nodiscard]] SimulationRecord read_simulation_record(ResultRecord record, std::string_view file);

}  // namespace reports

template <>
struct Fields<reports::SimulatedTimes> {
  using Self = reports::SimulatedTimes;
  static constexpr std::string_view kName = "quantiles";
  static constexpr std::string_view kMeaning =
      "quantiles over repetitions, in microseconds; null: it did not run";
  static constexpr auto kList =
      std::tuple(field("p50", &Self::p50_us, ""), field("p95", &Self::p95_us, ""),
                 field("max", &Self::max_us, ""));
};

template <>
struct Fields<reports::SimulatedStep> {
  using Self = reports::SimulatedStep;
  static constexpr auto kList =
      std::tuple(field("node", &Self::node, "the node of a program, or empty"),
                 field("name", &Self::name, "all_gather, or the op"),
                 field("change", &Self::change, "S(0)->R, or empty"),
                 field("price_us", &Self::price_us, ""), field("end_us", &Self::end, ""),
                 field("wait_us", &Self::wait_us, ""), field("bytes_moved", &Self::bytes_moved, ""),
                 field("max_abs_error", &Self::max_abs_error, "null: there was no data"));
};

// The part of the record that is under "result".
template <>
struct Fields<reports::SimulationRecord> {
  using Self = reports::SimulationRecord;
  static constexpr std::string_view kName = "simulation";
  static constexpr std::string_view kMeaning = "a run on virtual ranks";
  static constexpr auto kList =
      std::tuple(field("what", &Self::what, "the redistribution, the op or the program"),
                 field("mesh", &Self::mesh, ""), field("stack", &Self::stack, ""),
                 field("ranks", &Self::ranks, ""), field("data", &Self::has_data, ""),
                 field("verified", &Self::verified, "null: there was nothing to verify"),
                 nullable_text("mismatch", &Self::mismatch, ""),
                 field("replicas_bitwise_equal", &Self::replicas_bitwise_equal, ""),
                 nullable_text("refused", &Self::refused, "why nothing ran"),
                 optional_or_null("unpriced", &Self::unpriced,
                                  "why kernels have no price; null: they have one"),
                 field("straggler", &Self::straggler, ""), field("time_us", &Self::time, ""),
                 field("bytes_moved", &Self::bytes_moved, ""), field("notes", &Self::notes, ""),
                 field("steps", &Self::steps, ""));
};

}  // namespace shardlab

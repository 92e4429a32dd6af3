// The record of a simulated run: what `simulate` prints of it, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/run_header.h"

namespace shardlab::reports {

inline constexpr std::string_view kSimulateKind = "simulate";

struct SimulatedTimes {
  std::optional<double> p50_us, p95_us, max_us;  // over repetitions; nothing: it did not run
};

struct SimulatedStep {
  std::string node;    // of a program, or ""
  std::string name;    // "all_gather", or the op
  std::string change;  // "S(0)->R", or ""
  std::optional<double> price_us;
  SimulatedTimes end;
  std::optional<double> wait_us;
  std::int64_t bytes_moved = 0;
  std::optional<double> max_abs_error;  // nothing: no data
};

struct SimulationRecord : ResultRecord {
  std::string what;  // the redistribution, the op or the program
  std::string mesh;
  std::string stack;
  std::int64_t ranks = 0;
  bool has_data = false;
  std::optional<bool> verified;  // nothing: there was nothing to verify
  std::string mismatch;
  std::optional<bool> replicas_bitwise_equal;
  std::string refused;  // why nothing ran
  std::string straggler;
  SimulatedTimes time;
  std::int64_t bytes_moved = 0;
  std::vector<std::string> notes;
  std::vector<SimulatedStep> steps;
};

// Throws ConfigError, naming `file` and the JSON pointer, which begins with /result.
[[nodiscard]] SimulationRecord read_simulation_record(ResultRecord record, std::string_view file);

}  // namespace shardlab::reports

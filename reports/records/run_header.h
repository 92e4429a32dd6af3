// What every record begins with, whichever command wrote it: what ran, on which configuration.
//
//   {"schema": "shardlab/record/1", "kind": "ties", "context": {...}, "timing": {...},
//    "configuration": {...}, ...}
//
// Tested by tests/unit/reports/records/record_test.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/strict_json.h"

namespace shardlab::reports {

inline constexpr std::string_view kRecordSchema = "shardlab/record/1";
inline constexpr std::string_view kCompareKind = "compare";

// What ran, so that a number can be believed and made again.
struct RunContext {
  std::string shardlab_version;
  std::string commit;
  std::string compiler;
  std::string build_type;
  std::vector<std::string> command_line;
  std::uint64_t seed = 0;
  friend bool operator==(const RunContext&, const RunContext&) = default;
};

// Everything read from a clock; left out with --no-timing. Keys of `ms` end in "_ms": wall_ms,
// price_ms.
struct RunTiming {
  std::optional<std::string> started_utc;  // "2025-01-17T09:30:00Z"
  std::map<std::string, double> ms;
  friend bool operator==(const RunTiming&, const RunTiming&) = default;
};

struct SuiteSource {
  std::string name;
  std::int64_t questions = 0;
  std::string source;  // its file, or how it was generated
  friend bool operator==(const SuiteSource&, const SuiteSource&) = default;
};

struct ProgramSource {
  std::string name;
  std::int64_t nodes = 0;
  std::string source;
  friend bool operator==(const ProgramSource&, const ProgramSource&) = default;
};

// The effective configuration, after every override.
struct RunConfiguration {
  nlohmann::json topology = nlohmann::json::object();
  std::vector<nlohmann::json>
      stacks;  // objects with a "name"; the reference too, where it is not among them
  std::vector<SuiteSource> suites;
  std::optional<ProgramSource> program = {};  // of a command that solves one; else no key
  std::vector<std::string> overrides;  // as typed: "stack.collective_model.params.latency_us=3"
  friend bool operator==(const RunConfiguration&, const RunConfiguration&) = default;
};

struct RunHeader {
  RunContext context;
  std::optional<RunTiming> timing;
  RunConfiguration configuration;
  friend bool operator==(const RunHeader&, const RunHeader&) = default;
};

// A record that is a command's JSON: see run_record.h.
struct ResultRecord : RunHeader {
  nlohmann::json result;
};

[[nodiscard]] nlohmann::ordered_json to_json(const RunContext& context);
[[nodiscard]] nlohmann::ordered_json to_json(const RunTiming& timing);
[[nodiscard]] nlohmann::ordered_json to_json(const RunConfiguration& configuration);

// Takes context, timing and configuration out of a record. Throws ConfigError.
[[nodiscard]] RunHeader read_run_header(StrictObject& record, std::string_view file);

// Where a record contradicts itself, and how.
struct Contradiction {
  std::string pointer;
  std::string message;
};

[[nodiscard]] std::optional<Contradiction> contradiction_in(const RunHeader& header);

}  // namespace shardlab::reports

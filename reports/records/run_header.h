// What every record begins with, whichever command wrote it: the version and command that ran, and
// its configuration.
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

#include "costmodel/base/fields.h"

namespace shardlab {
namespace reports {

inline constexpr std::string_view kRecordSchema = "shardlab/record/1";
inline constexpr std::string_view kCompareKind = "compare";

struct RunContext {
  std::string shardlab_version;
  std::string commit;
  std::string compiler;
  std::string build_type;
  std::vector<std::string> command_line;
  std::uint64_t seed = 0;
  friend bool operator==(const RunContext&, const RunContext&) = default;
};

// Everything that is read from a clock; left out with --no-timing.
struct RunTiming {
  std::optional<std::string> started_utc;
  std::map<std::string, double> ms;  // wall_ms, price_ms: every key ends in "_ms"
  friend bool operator==(const RunTiming&, const RunTiming&) = default;
};

struct SuiteSource {
  std::string name;
  std::int64_t questions = 0;
  std::string source;
  std::string program = {};  // which program it was recorded from; "" if from none
  friend bool operator==(const SuiteSource&, const SuiteSource&) = default;
};

struct ProgramSource {
  std::string name;
  std::int64_t nodes = 0;
  std::string source;
  friend bool operator==(const ProgramSource&, const ProgramSource&) = default;
};

struct RunConfiguration {
  nlohmann::json topology = nlohmann::json::object();
  std::vector<nlohmann::json> stacks;  // also the reference, if it is not among the compared stacks
  std::vector<SuiteSource> suites;
  std::optional<ProgramSource> program = {};
  std::vector<std::string> overrides;
  friend bool operator==(const RunConfiguration&, const RunConfiguration&) = default;
};

struct RunHeader {
  RunContext context;
  std::optional<RunTiming> timing;
  RunConfiguration configuration;
  // Under "torch": where the answers of stacks came from that Python code answers.
  std::optional<nlohmann::json> provenance = {};
  friend bool operator==(const RunHeader&, const RunHeader&) = default;
};

// A record that keeps the JSON that a command printed (reports/run_record.h).
struct ResultRecord : RunHeader {
  std::string kind;
  nlohmann::json result;
};

// The first contradiction in a header whose fields are each valid; empty if there is none.
[[nodiscard]] std::optional<Contradiction> contradiction_in(const RunHeader& header);

}  // namespace reports

template <>
struct Fields<reports::RunContext> {
  using Self = reports::RunContext;
  static constexpr std::string_view kName = "context";
  static constexpr std::string_view kMeaning =
      "what ran, so that a number can be trusted and reproduced";
  static constexpr auto kList = std::tuple(
      field("shardlab_version", &Self::shardlab_version, ""), field("commit", &Self::commit, ""),
      field("compiler", &Self::compiler, ""), field("build_type", &Self::build_type, ""),
      field("command_line", &Self::command_line, ""), field("seed", &Self::seed, ""));
};

template <>
struct Fields<reports::RunTiming> {
  using Self = reports::RunTiming;
  static constexpr std::string_view kName = "timing";
  static constexpr std::string_view kMeaning = "readings of clocks; left out with --no-timing";
  static constexpr auto kList =
      std::tuple(optional_field("started_utc", &Self::started_utc, "2025-01-17T09:30:00Z"),
                 keys_ending_in("_ms", &Self::ms));
};

template <>
struct Fields<reports::SuiteSource> {
  using Self = reports::SuiteSource;
  static constexpr std::string_view kName = "suite_source";
  static constexpr auto kList =
      std::tuple(field("name", &Self::name, ""), field("questions", &Self::questions, ""),
                 field("source", &Self::source, "its file, or how it was generated"),
                 optional_field("program", &Self::program,
                                "the program that its questions were recorded from"));
};

template <>
struct Fields<reports::ProgramSource> {
  using Self = reports::ProgramSource;
  static constexpr std::string_view kName = "program_source";
  static constexpr auto kList =
      std::tuple(field("name", &Self::name, ""), field("nodes", &Self::nodes, ""),
                 field("source", &Self::source, ""));
};

template <>
struct Fields<reports::RunConfiguration> {
  using Self = reports::RunConfiguration;
  static constexpr std::string_view kName = "configuration";
  static constexpr std::string_view kMeaning = "the effective configuration, after every override";
  static constexpr auto kList = std::tuple(
      field("topology", &Self::topology, "shardlab/topology/1; {} if several were used"),
      field("stacks", &Self::stacks, "shardlab/stack/1, which has a schema of its own",
            {.schema = R"({"type": "array", "items": {"$ref": "#/definitions/named"}})"}),
      field("suites", &Self::suites, ""),
      optional_field("program", &Self::program, "the program, if the command solves one"),
      field("overrides", &Self::overrides, "--set, as typed"));
};

template <>
struct Fields<reports::RunHeader> {
  using Self = reports::RunHeader;
  static constexpr auto kList =
      std::tuple(field("context", &Self::context, ""), optional_field("timing", &Self::timing, ""),
                 field("configuration", &Self::configuration, ""),
                 optional_field("provenance", &Self::provenance,
                                "under torch: the interpreter, release and changes of each stack "
                                "that Python code answers, and how it was checked"));
};

template <>
struct Fields<reports::ResultRecord> {
  using Self = reports::ResultRecord;
  static constexpr auto kList =
      std::tuple_cat(std::tuple(ConstantField{"schema", reports::kRecordSchema},
                                field("kind", &Self::kind, "the command that ran")),
                     Fields<reports::RunHeader>::kList,
                     std::tuple(field("result", &Self::result, "the command's answer")));
};

}  // namespace shardlab

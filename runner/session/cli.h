// What all commands share: common options, output, and the shape of a command.
//
// A command is one file in runner/commands/ with one function add_<name>_command(app, session) and
// its row in main.cpp's table. Its callback reads, computes, prints through the session and may set
// session.exit_code; it throws on bad input.
//
// Exit codes: 0 done; 1 a gate said no; 2 usage; 3 bad input; 4 the environment lacks something; 5
// a bug.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costmodel/base/error.h"
#include "runner/config/configs.h"

namespace shardlab {

enum ExitCode : int {
  kDone = 0,
  kGateSaidNo = 1,
  kUsage = 2,
  kBadInput = 3,
  kNoEnvironment = 4,
  kBug = 5
};

struct Session {
  // Common options.
  std::string format = "text";
  std::string out;
  bool summary = false;  // of commands that write reports
  std::uint64_t seed = 0;
  int jobs = 0;  // 0: one per core
  bool quiet = false;
  bool no_timing = false;
  std::vector<std::string> sets;
  std::string topology = "h100";

  int exit_code = kDone;
  std::ostream* results = nullptr;        // null: stdout
  std::vector<std::string> command_line;  // as typed

  [[nodiscard]] bool json() const { return format == "json"; }
  [[nodiscard]] ConfigStore store() const;
  [[nodiscard]] ConfigStore experiment_store() const;  // of a command that reads an experiment
  [[nodiscard]] ConfigStore topology_store() const;    // of a command that reads no stack
  // Of a command that reads no configuration. Throws InputError: --set was given.
  void expect_no_sets(std::string_view command) const;
  [[nodiscard]] int threads() const;  // jobs, or the number of cores
  // Results: the JSON document or the text, to `results`.
  void print(const nlohmann::json& document) const;
  void print(const std::string& text) const;
};

// --format, --quiet, --no-timing, --seed, --jobs, --set.
void add_common_options(CLI::App& app, Session& session);
CLI::Option* add_topology_option(CLI::App& app, Session& session);

// A parse of one option's text form; the message of a TextError gets the option's name in front.
template <class Parse>
auto parse_option(std::string_view option, Parse&& parse) -> decltype(parse()) {
  try {
    return parse();
  } catch (const TextError& error) {
    throw InputError(std::string(option) + ": " + error.what());
  }
}

// Checks of an option's value, for ->check(): what was found and what is valid.
[[nodiscard]] CLI::Validator one_of(std::vector<std::string> words);
[[nodiscard]] CLI::Validator integer_from(std::int64_t min, std::uint64_t max);
[[nodiscard]] CLI::Validator number_from(double min, double max);
[[nodiscard]] CLI::Validator not_empty();

struct CommandRow {
  std::string_view name;
  void (*add)(CLI::App& app, Session& session);
};

}  // namespace shardlab

#include "runner/session/session.h"

#include <algorithm>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "costmodel/base/printable.h"
#include "costmodel/base/text.h"
#include "runner/base/terminal.h"
#include "runner/config/configs.h"
#include "runner/session/command.h"

namespace shardlab {
namespace {

ValueCheck digits_check() {
  return {[](const std::string& text) -> std::string {
            if (parse_digits(text)) return "";
            return "found \"" + text + "\"; valid: a whole number from 1 to " +
                   std::to_string(kMostDigits) + ", or full";
          },
          "[1 to " + std::to_string(kMostDigits) + ", or full]"};
}

std::ostream& stream_of(const Session& session) {
  return session.results == nullptr ? std::cout : *session.results;
}

}  // namespace

ConfigStore Session::experiment_store() const {
  std::vector<Override> overrides;
  for (const std::string& text : sets) overrides.push_back(Override::parse(text));
  ConfigStore store(configs_root(), std::move(overrides));
  store.set_stack_source(stack_source);
  return store;
}

ConfigStore Session::store() const {
  ConfigStore store = experiment_store();
  for (const Override& change : store.overrides()) {
    if (change.target == "experiment") {
      throw InputError(
          "--set " + change.text +
          ": this command reads no experiment; valid: a path of the topology or of the stack");
    }
  }
  return store;
}

ConfigStore Session::topology_store() const {
  ConfigStore store = experiment_store();
  for (const Override& change : store.overrides()) {
    if (change.target != "topology") {
      throw InputError("--set " + change.text + ": this command reads no " + change.target +
                       "; valid: a path of the topology");
    }
  }
  return store;
}

void Session::expect_no_sets(std::string_view command) const {
  if (sets.empty()) return;
  throw InputError("--set " + sets[0] + ": " + std::string(command) +
                   " reads no configuration; valid: without --set");
}

int Session::threads() const {
  if (jobs > 0) return jobs;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

TextStyle Session::style() const {
  // A caller from within this process has no terminal.
  const bool may_be_terminal = results == nullptr;
  TextStyle style;
  style.digits = parse_digits(digits).value_or(kDefaultDigits);
  style.has_colour =
      colour == "always" || (may_be_terminal && wants_colour(colour, OutputStream::kResults));
  style.columns = may_be_terminal ? terminal_columns() : 0;
  return style;
}

void Session::prepare(std::span<const Stack> stacks, std::span<const Question* const> questions,
                      const Topology& on) const {
  if (stack_source == nullptr) return;
  for (const Stack& stack : stacks) stack_source->prepare(stack, questions, on);
}

std::optional<nlohmann::json> Session::provenance() const {
  nlohmann::json torch = stack_source == nullptr ? nullptr : stack_source->provenance();
  if (torch.is_null()) return std::nullopt;
  return nlohmann::json{{"torch", std::move(torch)}};
}

void Session::print(const nlohmann::json& document) const {
  nlohmann::json printed = document;
  if (const std::optional<nlohmann::json> from = provenance(); from && document.is_object()) {
    printed["provenance"] = *from;
  }
  if (!interruption.empty() && document.is_object()) printed["interrupted"] = interruption;
  stream_of(*this) << printable_json(
                          printed.dump(2, ' ', false, nlohmann::json::error_handler_t::replace))
                   << "\n";
}

void Session::print(const std::string& text) const {
  stream_of(*this) << (format == "json" ? printable_json(text) : text);
  if (!interruption.empty()) {
    stream_of(*this) << interruption << "; the result is of these alone\n";
  }
  stream_of(*this) << std::flush;
}

double parse_memory_option(std::string_view option, std::string_view text) {
  const double bytes = parse_option(option, [&] { return parse_bytes(text); });
  const std::string_view number = trimmed(text);
  const char last = number.back();
  if (bytes >= 1000.0 || last < '0' || last > '9') return bytes;
  const std::string found(number);
  throw InputError(std::string(option) + ": found \"" + found + "\", which is " + found +
                   (bytes == 1.0 ? " byte" : " bytes") +
                   ", too few for any tensor of a model (did you mean \"" + found +
                   "GB\"?); valid: a size with its unit, such as 80GB or 80B");
}

void add_common_options(const Command& command, Session& session, const CommonOptions& read) {
  command.option("--format", session.format, "text for people, or json: exactly one document")
      .check(one_of({"text", "json"}))
      .show_default();
  if (read.seed) {
    command.option("--seed", session.seed, "seed of all random choices")
        .check(integer_from(0, std::numeric_limits<std::uint64_t>::max()))
        .show_default();
  }
  if (read.jobs) {
    command
        .option("--jobs", session.jobs,
                "number of threads; 0 means one per core. The result is the same for any number")
        .check(integer_from(0, 1024))
        .show_default();
  }
  if (read.sets) {
    command
        .option("--set", session.sets,
                "a change of the topology, such as devices_per_host=1, or of the stack, such as "
                "stack.planner=graph; may be repeated")
        .repeatable();
  }
  if (read.digits) {
    command
        .option(
            "--digits", session.digits,
            "significant digits of the figures in text, or full for all of them. JSON and files "
            "always have all")
        .check(digits_check())
        .show_default();
  }
  command
      .option("--max-input", session.max_input,
              "size of the largest file that is read, such as 4GB; larger files are refused")
      .show_default();
  command
      .option("--color", session.colour,
              "colours in text: auto means on a terminal, unless NO_COLOR is set")
      .check(one_of({"auto", "always", "never"}))
      .show_default();
  command.flag("--quiet", session.quiet, "print no progress on stderr");
  command.flag("--no-timing", session.no_timing, "leave clock readings out of the result");
}

void add_verify_option(const Command& command, Session& session) {
  command
      .option("--verify", session.verify,
              "how many questions to put to a live PyTorch as whole decisions too, to check its "
              "stack; 0 for none; default: as many as 10 s allow, at least 20")
      .check(integer_from(0, 1'000'000));
}

CommandOption add_topology_option(const Command& command, Session& session) {
  return command.option("--topology", session.topology, "shipped name or path").show_default();
}

}  // namespace shardlab

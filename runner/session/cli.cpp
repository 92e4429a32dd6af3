#include "runner/session/cli.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <limits>
#include <thread>

#include "costmodel/base/text.h"

namespace shardlab {
namespace {

std::string found(const std::string& text, const std::string& valid) {
  return "found \"" + text + "\"; valid: " + valid;
}

// The whole text as a number.
template <class Number>
std::optional<Number> number_of(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string description = "{" + join(words, ",") + "}";
  return {[words = std::move(words)](std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) != words.end()) return "";
            const std::vector<std::string_view> views(words.begin(), words.end());
            return "found \"" + text + "\"" + did_you_mean(text, views) + "; valid: " + join(views);
          },
          description};
}

CLI::Validator integer_from(std::int64_t min, std::uint64_t max) {
  const std::string range = std::to_string(min) + " to " + std::to_string(max);
  return {[=](std::string& text) -> std::string {
            const auto low = number_of<std::int64_t>(text);
            const auto high = number_of<std::uint64_t>(text);
            if ((low && *low >= min && *low < 0) ||
                (high && *high <= max && (min < 0 || *high >= static_cast<std::uint64_t>(min)))) {
              return "";
            }
            return found(text, "an integer from " + range);
          },
          "[" + range + "]"};
}

CLI::Validator number_from(double min, double max) {
  const std::string range = format_double(min) + " to " + format_double(max);
  return {[=](std::string& text) -> std::string {
            const auto value = number_of<double>(text);
            if (value && *value >= min && *value <= max) return "";
            return found(text, "a number from " + range);
          },
          "[" + range + "]"};
}

CLI::Validator not_empty() {
  return {[](std::string& text) -> std::string {
            return text.empty() ? found(text, "a text that is not empty") : "";
          },
          ""};
}

namespace {

std::ostream& stream_of(const Session& session) {
  return session.results == nullptr ? std::cout : *session.results;
}

}  // namespace

ConfigStore Session::experiment_store() const {
  std::vector<Override> overrides;
  for (const std::string& text : sets) overrides.push_back(Override::parse(text));
  return ConfigStore(configs_root(), std::move(overrides));
}

ConfigStore Session::store() const {
  ConfigStore store = experiment_store();
  for (const Override& change : store.overrides()) {
    if (change.target == "experiment") {
      throw InputError("--set " + change.text +
                       ": this command reads no experiment; valid: topology, stack");
    }
  }
  return store;
}

ConfigStore Session::topology_store() const {
  ConfigStore store = experiment_store();
  for (const Override& change : store.overrides()) {
    if (change.target != "topology") {
      throw InputError("--set " + change.text + ": this command reads no " + change.target +
                       "; valid: topology");
    }
  }
  return store;
}

void Session::expect_no_sets(std::string_view command) const {
  if (sets.empty()) return;
  throw InputError("--set " + sets[0] + ": " + std::string(command) +
                   " reads no configuration; valid: leave it out");
}

int Session::threads() const {
  if (jobs > 0) return jobs;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void Session::print(const nlohmann::json& document) const {
  stream_of(*this) << document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                   << "\n";
}

void Session::print(const std::string& text) const { stream_of(*this) << text; }

void add_common_options(CLI::App& app, Session& session) {
  app.add_option("--format", session.format, "text for eyes, or json: exactly one document")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  app.add_option("--seed", session.seed, "seed of everything random")
      ->check(integer_from(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  app.add_option("--jobs", session.jobs,
                 "threads; 0: one per core. The result is the same for any number")
      ->check(integer_from(0, 1024))
      ->capture_default_str();
  app.add_option(
         "--set", session.sets,
         "PATH=VALUE, once per change: devices_per_host=1 (topology), stack.planner=graph, ...")
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--quiet", session.quiet, "no progress on stderr");
  app.add_flag("--no-timing", session.no_timing, "leave clock readings out of the result");
}

CLI::Option* add_topology_option(CLI::App& app, Session& session) {
  return app.add_option("--topology", session.topology, "shipped name or path")
      ->capture_default_str();
}

}  // namespace shardlab

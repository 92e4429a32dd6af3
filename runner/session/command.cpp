#include "runner/session/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

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

template <class Value>
CommandOption add(CLI::App& app, const std::string& name, Value& value, const std::string& help) {
  return CommandOption(app.add_option(name, value, help));
}

}  // namespace

ValueCheck one_of(std::vector<std::string> words) {
  std::string valid = "{" + join(words, ",") + "}";
  return {[words = std::move(words)](const std::string& text) -> std::string {
            if (std::find(words.begin(), words.end(), text) != words.end()) return "";
            const std::vector<std::string_view> views(words.begin(), words.end());
            return "found \"" + text + "\"" + did_you_mean(text, views) + "; valid: " + join(views);
          },
          std::move(valid)};
}

ValueCheck integer_from(std::int64_t min, std::uint64_t max) {
  const std::string range = std::to_string(min) + " to " + std::to_string(max);
  return {[=](const std::string& text) -> std::string {
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

ValueCheck number_from(double min, double max) {
  const std::string range = format_double(min) + " to " + format_double(max);
  return {[=](const std::string& text) -> std::string {
            const auto value = number_of<double>(text);
            if (value && *value >= min && *value <= max) return "";
            return found(text, "a number from " + range);
          },
          "[" + range + "]"};
}

ValueCheck not_empty() {
  return {[](const std::string& text) -> std::string {
            return text.empty() ? found(text, "a text that is not empty") : "";
          },
          ""};
}

CommandOption CommandOption::required(bool is_required) const {
  option_->required(is_required);
  return *this;
}

CommandOption CommandOption::check(ValueCheck check) const {
  option_->check(CLI::Validator(
      [problem = std::move(check.problem)](std::string& text) { return problem(text); },
      std::move(check.valid)));
  return *this;
}

CommandOption CommandOption::show_default() const {
  option_->capture_default_str();
  return *this;
}

CommandOption CommandOption::repeatable() const {
  option_->take_all()->allow_extra_args(false);
  return *this;
}

CommandOption CommandOption::comma_separated() const {
  option_->delimiter(',');
  return *this;
}

CommandOption CommandOption::hidden() const {
  option_->group("");
  return *this;
}

bool CommandOption::is_given() const { return option_->count() > 0; }

std::string CommandOption::name() const { return option_->get_name(); }

Command Command::subcommand(const std::string& name, const std::string& help) const {
  return Command(app_->add_subcommand(name, help));
}

CommandOption Command::option(const std::string& name, std::string& value,
                              const std::string& help) const {
  return add(*app_, name, value, help);
}

CommandOption Command::option(const std::string& name, double& value,
                              const std::string& help) const {
  return add(*app_, name, value, help);
}

CommandOption Command::option(const std::string& name, int& value, const std::string& help) const {
  return add(*app_, name, value, help);
}

CommandOption Command::option(const std::string& name, std::int64_t& value,
                              const std::string& help) const {
  return add(*app_, name, value, help);
}

CommandOption Command::option(const std::string& name, std::uint64_t& value,
                              const std::string& help) const {
  return add(*app_, name, value, help);
}

CommandOption Command::option(const std::string& name, std::vector<std::string>& values,
                              const std::string& help) const {
  return add(*app_, name, values, help);
}

CommandOption Command::option(const std::string& name, std::optional<std::int64_t>& value,
                              const std::string& help) const {
  return add(*app_, name, value, help);
}

CommandOption Command::option(const std::string& name, std::optional<std::uint64_t>& value,
                              const std::string& help) const {
  return add(*app_, name, value, help);
}

CommandOption Command::option(const std::string& name, std::optional<double>& value,
                              const std::string& help) const {
  return add(*app_, name, value, help);
}

CommandOption Command::flag(const std::string& name, bool& value, const std::string& help) const {
  return CommandOption(app_->add_flag(name, value, help));
}

CommandOption Command::declared(const std::string& name) const {
  return CommandOption(app_->get_option(name));
}

void Command::runs(std::function<void()> action) const { app_->callback(std::move(action)); }

}  // namespace shardlab

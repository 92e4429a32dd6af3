#include "runner/session/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <utility>

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

// What the values of options are called in help texts. runner/completion.cpp says how a shell
// completes each of them. An option that is not in this table takes a text or a number.
constexpr std::pair<std::string_view, std::string_view> kValueNames[] = {
    {"--stack", "STACK"},
    {"--baseline", "STACK"},
    {"--candidate", "STACK"},
    {"--reference", "STACK"},
    {"--against", "STACK"},
    {"--topology", "TOPOLOGY"},
    {"--suite", "SUITE"},
    {"--recipe", "RECIPE"},
    {"--rule-set", "RULES"},
    {"--op", "OP"},
    {"ops", "OP"},
    {"ID", "CASE"},
    {"--program", "PROGRAM"},
    {"program", "PROGRAM"},
    {"model", "MODEL"},
    {"--model", "FORM"},
    {"experiment", "EXPERIMENT"},
    {"files", "MEASUREMENT"},
    {"--out", "PATH"},
    {"--file", "FILE"},
    {"--plan", "FILE"},
    {"--steps", "FILE"},
    {"--trace", "FILE"},
    {"--profile", "FILE"},
    {"--problem", "FILE"},
    {"--export-problem", "FILE"},
    {"--diff", "FILE"},
    {"--tuner-csv", "FILE"},
    {"--topology-xml", "FILE"},
    {"--nccl-log", "FILE"},
    {"file", "FILE"},
    {"name", "ENTRY"},
    {"command", "COMMAND"},
    {"records", "FILE"},
    {"--mesh", "MESH"},
    {"--tensor", "TENSOR"},
    {"--inputs", "TENSOR"},
    {"--args", "JSON"},
    {"--from", "LAYOUT"},
    {"--to", "LAYOUT"},
    {"--pin", "NAME=LAYOUT"},
    {"--then", "NAME=LAYOUT"},
    {"--pin-inputs", "LAYOUT"},
    {"--pin-outputs", "LAYOUT"},
    {"--explain", "LAYOUT"},
    {"--flatten", "NAMES"},
    {"--set", "PATH=VALUE"},
    {"--part", "I/N"},
    {"--memory", "SIZE"},
    {"--memory-budget", "SIZE"},
    {"--max-input", "SIZE"},
    {"--min-bytes", "SIZE"},
    {"--max-bytes", "SIZE"},
    {"--kernel-bytes", "SIZE"},
    {"--digits", "NUMBER"},
};

template <class Value>
CommandOption add(CLI::App& app, const std::string& name, Value& value, const std::string& help) {
  CLI::Option* option = app.add_option(name, value, help);
  const auto* const named = std::find_if(std::begin(kValueNames), std::end(kValueNames),
                                         [&](const auto& row) { return row.first == name; });
  // CLI11 calls the type of a std::optional by its mangled name.
  if (named != std::end(kValueNames)) option->type_name(std::string(named->second));
  return CommandOption(option);
}

// CLI11 keeps the values that are valid behind the name of the type: "TEXT:{text,json}".
OptionInfo info_of(const CLI::Option& option) {
  OptionInfo info;
  info.name = option.get_name();
  info.help = option.get_description();
  info.default_text = option.get_default_str();
  info.is_positional = option.get_positional();
  info.is_required = option.get_required();
  info.is_repeatable = option.get_items_expected_max() > 1;
  info.takes_several = info.is_repeatable && option.get_allow_extra_args();
  if (option.get_items_expected_max() == 0) return info;
  const std::string type = option.get_type_name();
  info.value = type.substr(0, type.find(':'));
  if (info.value.size() < type.size()) info.valid = type.substr(info.value.size() + 1);
  if (info.valid.starts_with('{')) {
    const std::string words = info.valid.substr(1, info.valid.find('}') - 1);
    for (std::size_t begin = 0; begin <= words.size();) {
      const std::size_t end = std::min(words.find(',', begin), words.size());
      info.words.push_back(words.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return info;
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

std::vector<Command> Command::subcommands() const {
  std::vector<Command> commands;
  for (CLI::App* command : app_->get_subcommands({})) commands.emplace_back(command);
  return commands;
}

CommandInfo Command::info() const {
  CommandInfo info{.name = app_->get_name(), .help = app_->get_description(), .options = {}};
  for (const CLI::Option* option : app_->get_options()) {
    if (!option->get_group().empty()) info.options.push_back(info_of(*option));
  }
  return info;
}

std::string Command::help_text() const {
  const CLI::App* program = app_->get_parent();
  return app_->help(program == nullptr ? "" : program->get_name());
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

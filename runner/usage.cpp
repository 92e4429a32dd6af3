#include "runner/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "costmodel/base/text.h"
#include "runner/help/suggestion.h"

namespace shardlab {
namespace {

std::string in_quotes(std::string_view word) { return "\"" + std::string(word) + "\""; }

bool is_option(std::string_view word) { return word.size() > 1 && word.starts_with('-'); }

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string> valid) {
  const std::vector<std::string_view> views(valid.begin(), valid.end());
  return std::string(what) + " " + in_quotes(word) + suggestion(word, views) +
         "; valid: " + join(views);
}

// The first word that CLI11 could not use; an option, if there is one among these words.
std::string leftover(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining();
  if (left.empty()) return "";
  const auto option = std::find_if(left.begin(), left.end(), is_option);
  const std::string& word = option == left.end() ? left.front() : *option;
  return is_option(word) ? word.substr(0, word.find('='))
                         : word.substr(word.find_first_not_of(' '));
}

// "--mesh: 8x8, or dp=8,tp=8", and the valid words if the option has a closed list of them.
std::string described(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t list = type.find('{');
  return option.get_description() +
         (list == std::string::npos ? "" : " " + type.substr(list, type.find('}') - list + 1));
}

std::string missing_value(const CLI::Option& option) {
  return option.get_name() + ": a value is missing: " + described(option);
}

std::string required_message(const CLI::App& command, const CLI::ParseError& error) {
  std::vector<std::string> missing;
  const CLI::Option* only = nullptr;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    only = option;
    missing.push_back(option->get_name());
  }
  if (only == nullptr) return error.what();
  if (missing.size() == 1) return missing.front() + " is required: " + described(*only);
  return join(missing) + " are required; see `shardlab " + command.get_name() + " --help`";
}

std::string count_message(const CLI::App& command, const CLI::ParseError& error) {
  std::string text = error.what();
  const CLI::Option* option = command.get_option_no_throw(text.substr(0, text.find(':')));
  if (option == nullptr) return text;
  // CLI11 counts only the values that it accepted.
  if (text.ends_with("missing")) {
    return missing_value(*option);
  }
  return option->get_name() + ": found " + std::to_string(option->count()) + " values; valid: one";
}

// Rewords "Could not convert: --quiet = maybe". Only flags get this message, because our own checks
// come before the conversion of all other options.
std::string conversion_message(const CLI::ParseError& error) {
  std::string text = error.what();
  constexpr std::string_view kPrefix = "Could not convert: ";
  const std::size_t equals = text.find(" = ");
  if (!text.starts_with(kPrefix) || equals == std::string::npos) return text;
  return text.substr(kPrefix.size(), equals - kPrefix.size()) + ": found " +
         in_quotes(text.substr(equals + 3)) + "; valid: no value, it is a flag";
}

// Finds the option whose value is missing. CLI11 takes the next word as the value, even if that
// word is an option.
const CLI::Option* swallowed_an_option(const CLI::App& command) {
  const std::vector<std::string> names = option_names(command);
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      if (std::find(names.begin(), names.end(), value) != names.end()) return option;
    }
  }
  return nullptr;
}

// Why a command does not read an option that others have (CommonOptions in session.h).
struct UnreadOption {
  std::string_view name;
  std::string_view reason;
};
constexpr UnreadOption kUnreadOptions[] = {
    {"--seed", "makes no random choices"},
    {"--jobs", "has no work for several threads"},
    {"--set", "reads no configuration"},
    {"--digits", "has no figures whose digits can be chosen"},
};

std::string command_message(const CLI::App& command, const CLI::ParseError& error) {
  if (const CLI::Option* option = swallowed_an_option(command)) return missing_value(*option);
  const std::string word = leftover(command);
  for (const auto& [name, reason] : kUnreadOptions) {
    if (word != name) continue;
    return word + ": " + command.get_name() + " " + std::string(reason) + "; valid: without " +
           word;
  }
  if (is_option(word)) return unknown_word("unknown option", word, option_names(command));
  if (!word.empty()) {
    return "unexpected argument " + in_quotes(word) + "; see `shardlab " + command.get_name() +
           " --help`";
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return required_message(command, error);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return count_message(command, error);
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return conversion_message(error);
  }
  return error.what();
}

}  // namespace

std::string usage_message(const CLI::App& app, const CLI::ParseError& error,
                          std::span<const std::string> words) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const std::vector<CLI::App*> used = app.get_subcommands();
  if (!app.remaining().empty() && !used.empty()) {
    return "found " + in_quotes(leftover(app)) + " before the command; valid: shardlab " +
           used.front()->get_name() + " OPTIONS";
  }
  if (!used.empty()) return used.back()->get_name() + ": " + command_message(*used.back(), error);
  if (!is_option(words.front())) return unknown_word("unknown command", words.front(), commands);
  return unknown_word("unknown option", words.front(), option_names(app)) +
         ", or a command: " + join(commands);
}

}  // namespace shardlab

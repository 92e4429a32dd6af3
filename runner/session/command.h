// How a command declares its options. This is a thin layer over CLI11, so that only the files that
// parse a command line compile that library (CLI11 2.1 costs every file that includes it seconds).
//
//   Command command =
//       root.subcommand("plan", "plan and price one redistribution\n  shardlab plan ...");
//   command.option("--mesh", mesh, "8x8, or dp=8,tp=8").required();
//   command.option("--rank", rank, "whose shapes to show")
//       .check(integer_from(0, 63))
//       .show_default();
//   command.flag("--all", all, "list every question");
//   command.runs([&] { ... });
//   command.info().options[0].name      // what help texts, man pages and completion describe
//
// A name without dashes declares a positional argument. What the value of an option is called, and
// how a shell completes it, follows from the option's name (kValueNames in command.cpp). Variables
// are kept by reference: they hold the default until the command line has been parsed, and must
// live until the command has run. Nothing here throws an error of its own; usage.h describes what
// is wrong with a command line.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/enum_names.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace shardlab {

// The values that an option accepts.
struct ValueCheck {
  // Returns what is wrong with a value and what is valid; "" for a good value.
  std::function<std::string(const std::string&)> problem;
  std::string valid;  // for the help: "{text,json}" or "[0 to 1024]"
};

[[nodiscard]] ValueCheck one_of(std::vector<std::string> words);
[[nodiscard]] ValueCheck integer_from(std::int64_t min, std::uint64_t max);
[[nodiscard]] ValueCheck number_from(double min, double max);
[[nodiscard]] ValueCheck not_empty();

// The value must be one of the names of an enumeration (costmodel/base/enum_names.h).
template <class Enum>
[[nodiscard]] ValueCheck one_of() {
  const std::vector<std::string_view> names = all_names<Enum>();
  return one_of(std::vector<std::string>(names.begin(), names.end()));
}

// What help texts, man pages and shell completion say about one option.
struct OptionInfo {
  std::string name;                // "--stack", or "program" for a positional argument
  std::string value;               // what it takes: "STACK", "INT"; "" for a flag
  std::string valid;               // the values that are valid: "{text,json}", "[0 to 1024]", or ""
  std::vector<std::string> words;  // the values, if they are a closed list
  std::string help;
  std::string default_text;  // "" if the help shows none
  bool is_positional = false;
  bool is_required = false;
  bool is_repeatable = false;  // it may be given several times, or takes several values
  bool takes_several = false;  // it takes all words up to the next option
};

// What they say about a command. Its help begins with one line that says what it does.
struct CommandInfo {
  std::string name;
  std::string help;
  std::vector<OptionInfo> options;  // without hidden ones; "--help" is the first
};

// A handle to a declared option. It can be copied, and is valid as long as its command.
class CommandOption {
 public:
  explicit CommandOption(CLI::Option* option) : option_(option) {}

  CommandOption required(bool is_required = true) const;
  CommandOption check(ValueCheck check) const;
  CommandOption show_default() const;     // in the help: what the variable holds now
  CommandOption repeatable() const;       // may be given several times, with one value each
  CommandOption comma_separated() const;  // one value may be several words
  CommandOption hidden() const;           // not in the help

  // Whether the option is on the command line. Assumes that the command line has been parsed.
  [[nodiscard]] bool is_given() const;
  [[nodiscard]] std::string name() const;

 private:
  CLI::Option* option_;
};

// A handle to a command, or to the whole program (command_line.cpp). It can be copied.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  // `help` says what the command does; further lines hold examples.
  [[nodiscard]] Command subcommand(const std::string& name, const std::string& help) const;
  // The commands that were added so far, in the order in which they were.
  [[nodiscard]] std::vector<Command> subcommands() const;
  [[nodiscard]] CommandInfo info() const;
  [[nodiscard]] std::string help_text() const;  // what --help prints

  CommandOption option(const std::string& name, std::string& value, const std::string& help) const;
  CommandOption option(const std::string& name, double& value, const std::string& help) const;
  CommandOption option(const std::string& name, int& value, const std::string& help) const;
  CommandOption option(const std::string& name, std::int64_t& value, const std::string& help) const;
  CommandOption option(const std::string& name, std::uint64_t& value,
                       const std::string& help) const;
  CommandOption option(const std::string& name, std::vector<std::string>& values,
                       const std::string& help) const;
  CommandOption option(const std::string& name, std::optional<std::int64_t>& value,
                       const std::string& help) const;
  CommandOption option(const std::string& name, std::optional<std::uint64_t>& value,
                       const std::string& help) const;
  CommandOption option(const std::string& name, std::optional<double>& value,
                       const std::string& help) const;
  CommandOption flag(const std::string& name, bool& value, const std::string& help) const;

  // The handle of an option that was declared earlier.
  [[nodiscard]] CommandOption declared(const std::string& name) const;

  // Sets the function that runs the command, once its options hold what was typed.
  void runs(std::function<void()> action) const;

 private:
  CLI::App* app_;
};

}  // namespace shardlab

#include "runner/help/man_page.h"

#include <algorithm>
#include <system_error>

#include "costmodel/base/error.h"
#include "runner/base/version.h"
#include "runner/base/write_file.h"
#include "runner/session/session.h"

namespace shardlab {
namespace {

// Text in which man(7) sees no command: a backslash is doubled, a hyphen stays one that can be
// copied, and a line does not begin with a point or an apostrophe.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\\') {
      out += "\\e";
    } else if (letter == '-') {
      out += "\\-";
    } else {
      if ((out.empty() || out.back() == '\n') && (letter == '.' || letter == '\'')) out += "\\&";
      out += letter;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char letter) {
    return static_cast<char>(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
  });
  return text;
}

std::string title(const std::string& name) {
  return ".\\\" Written by `shardlab __man`; do not edit.\n.TH " + escaped(in_capitals(name)) +
         " 1 " + std::string(commit_date()) + " \"shardlab " + escaped(version()) +
         "\" \"shardlab's manual\"\n";
}

// The summary as a NAME section wants it: one line without a full stop.
std::string name_section(const std::string& name, const std::string& summary) {
  return ".SH NAME\n" + escaped(name) + " \\- " + escaped(summary) + "\n";
}

std::string as_typed(const OptionInfo& option) {
  std::string text = option.is_positional ? italic(option.name) : bold(option.name);
  if (!option.is_positional && !option.value.empty()) text += " " + italic(option.value);
  return text + (option.takes_several ? " ..." : "");
}

std::string synopsis(const CommandInfo& command) {
  std::string text = ".SH SYNOPSIS\n" + bold("shardlab " + command.name);
  for (const OptionInfo& option : command.options) {
    if (option.is_positional) {
      text += " " + (option.is_required ? as_typed(option) : "[" + as_typed(option) + "]");
    } else if (option.is_required) {
      text += " " + as_typed(option);
    }
  }
  return text + " [" + italic("options") + "]\n";
}

std::string option_entry(const OptionInfo& option) {
  std::string text = ".TP\n" + (option.name == "--help" ? bold("-h") + ", " : "") +
                     as_typed(option) + "\n" + escaped(option.help);
  std::vector<std::string> notes;
  if (!option.valid.empty()) notes.push_back("valid: " + option.valid);
  if (!option.default_text.empty()) notes.push_back("default: " + option.default_text);
  if (option.is_required && !option.is_positional) notes.emplace_back("required");
  if (notes.empty()) return text + "\n";
  text += " (";
  for (std::size_t i = 0; i < notes.size(); ++i) text += (i > 0 ? "; " : "") + escaped(notes[i]);
  return text + ")\n";
}

std::string options_section(const CommandInfo& command, bool positional) {
  std::string text;
  for (const OptionInfo& option : command.options) {
    if (option.is_positional == positional) text += option_entry(option);
  }
  if (text.empty()) return text;
  return (positional ? ".SH ARGUMENTS\n" : ".SH OPTIONS\n") + text;
}

std::string exit_section() {
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitMeanings) {
    text += ".TP\n" + bold(std::to_string(code)) + "\n" + escaped(meaning) + "\n";
  }
  return text;
}

// What a command's help says beside its first line: prose, and lines with examples. Both stay in
// their order, since prose may explain the example above it.
std::string further_sections(const CommandInfo& command) {
  const std::size_t first = command.help.find('\n');
  if (first == std::string::npos) return "";
  std::string text = ".SH EXAMPLES\n";
  bool is_example = false;
  bool is_first = true;
  for (std::size_t begin = first + 1; begin <= command.help.size();) {
    const std::size_t end = std::min(command.help.find('\n', begin), command.help.size());
    const std::string line = command.help.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("  ") != is_example) {
      is_example = !is_example;
      if (!is_example) text += ".fi\n";
      if (!is_first) text += ".PP\n";
      if (is_example) text += ".nf\n";
    }
    text += escaped(is_example ? line.substr(2) : line) + "\n";
    is_first = false;
  }
  return text + (is_example ? ".fi\n" : "");
}

std::string reference(const std::string& page) { return bold(page) + "(1)"; }

}  // namespace

std::string man_page(const CommandInfo& command) {
  return title("shardlab-" + command.name) +
         name_section("shardlab-" + command.name, summary_of(command)) + synopsis(command) +
         further_sections(command) + options_section(command, true) +
         options_section(command, false) + exit_section() + ".SH SEE ALSO\n" +
         reference("shardlab") + "\n";
}

std::string program_man_page(std::span<const CommandGroup> groups) {
  std::string text =
      title("shardlab") +
      name_section("shardlab",
                   "which sharding decisions a change of a cost model flips, and what that costs") +
      ".SH SYNOPSIS\n" + bold("shardlab") + " " + italic("command") + " [" + italic("options") +
      "]\n.br\n" + bold("shardlab help") + " [" + italic("command") + "]\n.SH DESCRIPTION\n" +
      "Each command has a page of its own.\n";
  for (const CommandGroup& group : groups) {
    text += ".SS " + escaped(group.purpose) + "\n";
    for (const CommandInfo& command : group.commands) {
      text += ".TP\n" + reference("shardlab-" + command.name) + "\n" +
              escaped(summary_of(command)) + "\n";
    }
  }
  text += ".SH EXAMPLES\n";
  for (const auto& [command, shows] : things_to_try()) {
    text += ".TP\n" + bold(command) + "\n" + escaped(shows) + "\n";
  }
  return text + exit_section();
}

void write_man_pages(std::span<const CommandGroup> groups, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw EnvironmentError(folder.string() + ": can't be made: " + error.message());
  write_file(folder / "shardlab.1", program_man_page(groups));
  for (const CommandGroup& group : groups) {
    for (const CommandInfo& command : group.commands) {
      write_file(folder / ("shardlab-" + command.name + ".1"), man_page(command));
    }
  }
}

}  // namespace shardlab

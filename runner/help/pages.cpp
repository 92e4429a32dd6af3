#include "runner/help/pages.h"

#include <algorithm>

#include "runner/session/session.h"

namespace shardlab {
namespace {

constexpr std::string_view kAbout =
    "shardlab shows which sharding decisions a change of a cost model flips, and what the flips "
    "cost in time.\n";

constexpr Trial kThingsToTry[] = {
    {"shardlab demo", "what PyTorch 2.15 changes against 2.13: a report, in shardlab-demo/"},
    {"shardlab plan --mesh 2x4 --tensor \"bf16[8192,4096]\" --from \"S(0)R\" --to \"RS(1)\"",
     "the collectives of one redistribution on 8 GPUs, and their prices"},
    {"shardlab solve mlp --mesh 2x4", "the best layouts of a small training step, with a proof"},
};

std::string padded(std::string_view text, std::size_t width) {
  return std::string(text) + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

std::size_t widest_name(std::span<const CommandGroup> groups) {
  std::size_t width = 0;
  for (const CommandGroup& group : groups) {
    for (const CommandInfo& command : group.commands) width = std::max(width, command.name.size());
  }
  return width;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// The commands by purpose, each with the lines that `more` adds below its summary.
template <class More>
std::string commands_text(std::span<const CommandGroup> groups, const More& more) {
  const std::size_t width = widest_name(groups) + 2;
  std::string text;
  for (const CommandGroup& group : groups) {
    text += "\n" + std::string(group.purpose) + ":\n";
    for (const CommandInfo& command : group.commands) {
      text += "  " + padded(command.name, width) + summary_of(command) + "\n";
      text += more(command, std::string(width + 4, ' '));
    }
  }
  return text;
}

}  // namespace

std::span<const Trial> things_to_try() { return kThingsToTry; }

std::string summary_of(const CommandInfo& command) { return lines_of(command.help).front(); }

std::vector<std::string> examples_of(const CommandInfo& command) {
  std::vector<std::string> examples;
  for (const std::string& line : lines_of(command.help)) {
    if (line.starts_with("  ")) examples.push_back(line.substr(2));
  }
  return examples;
}

std::string start_page(std::span<const CommandGroup> groups) {
  std::string text(kAbout);
  text += "\nThree things to try:\n";
  for (const auto& [command, shows] : kThingsToTry) {
    text += "  " + std::string(command) + "\n      " + std::string(shows) + "\n";
  }
  text += commands_text(groups, [](const CommandInfo&, const std::string&) { return ""; });
  text +=
      "\nRead on:\n"
      "  shardlab help COMMAND    what a command does, with examples, its options and exit codes\n"
      "  shardlab --help          an example of each command\n"
      "  docs/index.md            walkthroughs, concepts and the reference, where shardlab was\n"
      "                           installed (share/doc/shardlab) or in its source tree\n";
  return text;
}

std::string program_page(std::span<const CommandGroup> groups) {
  std::string text(kAbout);
  text += "\nUsage: shardlab COMMAND [OPTIONS]\n";
  text += commands_text(groups, [](const CommandInfo& command, const std::string& indent) {
    const std::vector<std::string> examples = examples_of(command);
    return examples.empty() ? "" : indent + examples.front() + "\n";
  });
  text +=
      "\nOptions:\n"
      "  -h, --help               print this page\n"
      "  --version                print version, commit and build\n";
  return text + "\n" + exit_codes_text();
}

std::string exit_codes_text() {
  std::string text = "Exit codes:\n";
  for (const auto& [code, meaning] : kExitMeanings) {
    text += "  " + padded(std::to_string(code), 5) + std::string(meaning) + "\n";
  }
  return text;
}

}  // namespace shardlab

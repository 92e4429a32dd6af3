// shardlab help and shardlab completion: the help of a command, or of the program, and what a shell
// reads to complete command lines.
#include <algorithm>
#include <memory>

#include "costmodel/base/text.h"
#include "runner/base/hanging_text.h"
#include "runner/commands/commands.h"
#include "runner/help/completion.h"
#include "runner/help/pages.h"
#include "runner/help/suggestion.h"

namespace shardlab {

std::vector<CommandGroup> command_groups(const Command& root) {
  std::vector<CommandGroup> groups;
  for (const auto& [purpose, title] : EnumNames<Purpose>::kNames) {
    groups.push_back({.purpose = title, .commands = {}});
    for (const Command& command : root.subcommands()) {
      CommandInfo info = command.info();
      const std::span<const CommandRow> rows = all_commands();
      const auto row = std::find_if(rows.begin(), rows.end(),
                                    [&](const CommandRow& each) { return each.name == info.name; });
      if (row->purpose == purpose) groups.back().commands.push_back(std::move(info));
    }
  }
  return groups;
}

void add_help_command(const Command& root, Session& session) {
  auto name = std::make_shared<std::string>();
  const Command command = root.subcommand(
      "help", "print what a command does, its options and its exit codes\n  shardlab help compare");
  command.option("command", *name, "the command; without one, all commands are listed");
  command.runs([name, root, &session] {
    const std::size_t columns = session.style().columns;
    if (name->empty()) {
      session.print(with_hanging_lines(program_page(command_groups(root)), columns));
      return;
    }
    std::vector<std::string> names;
    for (const Command& each : root.subcommands()) {
      names.push_back(each.info().name);
      if (names.back() != *name) continue;
      session.print(with_hanging_lines(each.help_text(), columns));
      return;
    }
    const std::vector<std::string_view> valid(names.begin(), names.end());
    throw InputError("help: unknown command \"" + *name + "\"" + suggestion(*name, valid) +
                     "; valid: " + join(valid));
  });
}

void add_completion_command(const Command& root, Session& session) {
  auto shell = std::make_shared<std::string>();
  const Command command = root.subcommand(
      "completion",
      "print the script that lets a shell complete command lines, with names of stacks and ops\n"
      "  shardlab completion bash\n"
      "  source <(shardlab completion bash)       for this shell alone, bash or zsh\n"
      "  shardlab completion fish | source        the same for fish\n"
      "Packages install the scripts. Without one, a shell reads them from these files:\n"
      "  shardlab completion bash > ~/.local/share/bash-completion/completions/shardlab\n"
      "  shardlab completion zsh > ~/.zfunc/_shardlab        where ~/.zfunc is a folder of $fpath\n"
      "  shardlab completion fish > ~/.config/fish/completions/shardlab.fish");
  command.option("shell", *shell, "which shell").required().check(one_of(completion_shells()));
  command.runs([shell, &session] { session.print(completion_script(*shell)); });
}

}  // namespace shardlab

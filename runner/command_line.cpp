#include "runner/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "runner/base/hanging_text.h"
#include "runner/base/read_file.h"
#include "runner/base/terminal.h"
#include "runner/base/version.h"
#include "runner/commands/commands.h"
#include "runner/help/completion.h"
#include "runner/help/man_page.h"
#include "runner/help/pages.h"
#include "runner/torch/live_stack.h"
#include "runner/usage.h"

namespace shardlab {
namespace {

constexpr CommandRow kCommands[] = {
    {"plan", Purpose::kDecision, add_plan_command},
    {"select", Purpose::kDecision, add_select_command},
    {"simulate", Purpose::kDecision, add_simulate_command},
    {"compare", Purpose::kComparison, add_compare_command},
    {"ties", Purpose::kComparison, add_ties_command},
    {"rules", Purpose::kComparison, add_rules_command},
    {"record", Purpose::kComparison, add_record_command},
    {"regress", Purpose::kComparison, add_regress_command},
    {"sweep", Purpose::kComparison, add_sweep_command},
    {"report", Purpose::kComparison, add_report_command},
    {"demo", Purpose::kComparison, add_demo_command},
    {"program", Purpose::kProgram, add_program_command},
    {"solve", Purpose::kProgram, add_solve_command},
    {"solve-network", Purpose::kProgram, add_solve_network_command},
    {"apply", Purpose::kProgram, add_apply_command},
    {"step", Purpose::kProgram, add_step_command},
    {"validate", Purpose::kMeasurement, add_validate_command},
    {"calibrate", Purpose::kMeasurement, add_calibrate_command},
    {"measure", Purpose::kMeasurement, add_measure_command},
    {"list", Purpose::kGuide, add_list_command},
    {"describe", Purpose::kGuide, add_describe_command},
    {"help", Purpose::kGuide, add_help_command},
    {"completion", Purpose::kGuide, add_completion_command},
};

// CLI11 splits a value of --inputs that is in brackets at its commas. A blank in front of the
// bracket prevents that, and OpArguments::read removes it again.
std::vector<std::string> with_whole_lists(std::vector<std::string> words) {
  constexpr std::string_view kOption = "--inputs";
  bool is_input = false;
  for (std::string& word : words) {
    if (word.starts_with("--")) is_input = word == kOption;
    if (is_input && word.starts_with('[')) word.insert(0, " ");
    if (word.starts_with("--inputs=[")) word.insert(kOption.size() + 1, " ");
  }
  return words;
}

// Answers what is no command: nothing typed, a shell that completes a word, and the installation,
// which asks for manual pages.
void answer_about_commands(std::span<const CommandGroup> groups,
                           const std::vector<std::string>& words, Session& session) {
  if (words.empty()) {
    session.print(with_hanging_lines(start_page(groups), session.style().columns));
  } else if (words.front() == kCompleteWord) {
    session.print(complete(groups, std::span(words).subspan(1), session));
  } else {
    if (words.size() != 2) throw InputError("__man: valid: shardlab __man FOLDER");
    write_man_pages(groups, words[1]);
  }
}

}  // namespace

std::span<const CommandRow> all_commands() { return kCommands; }

int run_command_line(const std::vector<std::string>& words, Session& session) {
  CLI::App app{
      "shardlab: which sharding decisions does a cost-model change flip, and at what regret?",
      "shardlab"};
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  session.command_line = words;
  LiveStacks live_stacks(session);
  session.stack_source = &live_stacks;
  std::string exit_codes = exit_codes_text();
  exit_codes.pop_back();  // CLI11 ends the line
  app.footer(exit_codes);
  // Runs once the options are read, before the command does.
  app.parse_complete_callback([&session] {
    const double limit = parse_memory_option("--max-input", session.max_input);
    set_input_limit(static_cast<std::uint64_t>(std::min(limit, 1e18)));
    forget_read_files();
  });
  const Command root(&app);
  for (const CommandRow& row : all_commands()) row.add(root, session);
  if (words.empty() || words.front() == kCompleteWord || words.front() == kManWord) {
    answer_about_commands(command_groups(root), words, session);
    return kDone;
  }
  try {
    std::vector<std::string> typed = with_whole_lists(words);
    std::reverse(typed.begin(), typed.end());  // CLI11 reads the words from the last to the first
    app.parse(typed);
  } catch (const CLI::CallForHelp&) {
    const bool is_of_command = !app.get_subcommands().empty();
    std::cout << with_hanging_lines(is_of_command ? app.help() : program_page(command_groups(root)),
                                    terminal_columns());
    return kDone;
  } catch (const CLI::CallForVersion& call) {
    return app.exit(call);
  } catch (const CLI::ParseError& error) {
    throw InputError(usage_message(app, error, words));
  }
  return session.interruption.empty() ? session.exit_code : kInterrupted;
}

}  // namespace shardlab

#include "runner/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runner/base/version.h"
#include "runner/commands/commands.h"
#include "runner/torch/live_stack.h"
#include "runner/usage.h"

namespace shardlab {
namespace {

constexpr CommandRow kCommands[] = {
    {"plan", add_plan_command},         {"select", add_select_command},
    {"simulate", add_simulate_command}, {"ties", add_ties_command},
    {"rules", add_rules_command},       {"compare", add_compare_command},
    {"record", add_record_command},     {"regress", add_regress_command},
    {"validate", add_validate_command}, {"calibrate", add_calibrate_command},
    {"measure", add_measure_command},   {"program", add_program_command},
    {"solve", add_solve_command},       {"solve-network", add_solve_network_command},
    {"apply", add_apply_command},       {"step", add_step_command},
    {"sweep", add_sweep_command},       {"report", add_report_command},
    {"list", add_list_command},         {"describe", add_describe_command},
    {"demo", add_demo_command},
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
  for (const CommandRow& row : all_commands()) row.add(Command(&app), session);
  try {
    std::vector<std::string> typed = with_whole_lists(words);
    std::reverse(typed.begin(), typed.end());  // CLI11 reads the words from the last to the first
    app.parse(typed);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& call) {
    return app.exit(call);
  } catch (const CLI::ParseError& error) {
    throw InputError(usage_message(app, error, words));
  }
  return session.exit_code;
}

}  // namespace shardlab

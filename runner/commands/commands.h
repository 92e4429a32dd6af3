// The commands. To add one, write its file in this folder, declare its function below, and add a
// row to the table in runner/command_line.cpp.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runner/help/pages.h"
#include "runner/session/command.h"
#include "runner/session/session.h"

namespace shardlab {

// A command is one function, in a file of the command's name, which adds the command to the
// program. Help pages list the commands of one purpose together.
struct CommandRow {
  std::string_view name;
  Purpose purpose;
  void (*add)(const Command& root, Session& session);
};

// All commands, in the order in which help pages list them.
[[nodiscard]] std::span<const CommandRow> all_commands();
// What help pages, man pages and completion say about them, once all of them were added.
[[nodiscard]] std::vector<CommandGroup> command_groups(const Command& root);

void add_apply_command(const Command& root, Session& session);
void add_calibrate_command(const Command& root, Session& session);
void add_compare_command(const Command& root, Session& session);
void add_completion_command(const Command& root, Session& session);
void add_demo_command(const Command& root, Session& session);
void add_describe_command(const Command& root, Session& session);
void add_help_command(const Command& root, Session& session);
void add_list_command(const Command& root, Session& session);
void add_measure_command(const Command& root, Session& session);
void add_plan_command(const Command& root, Session& session);
void add_program_command(const Command& root, Session& session);
void add_record_command(const Command& root, Session& session);
void add_regress_command(const Command& root, Session& session);
void add_report_command(const Command& root, Session& session);
void add_rules_command(const Command& root, Session& session);
void add_select_command(const Command& root, Session& session);
void add_simulate_command(const Command& root, Session& session);
void add_solve_command(const Command& root, Session& session);
void add_solve_network_command(const Command& root, Session& session);
void add_step_command(const Command& root, Session& session);
void add_sweep_command(const Command& root, Session& session);
void add_ties_command(const Command& root, Session& session);
void add_validate_command(const Command& root, Session& session);

}  // namespace shardlab

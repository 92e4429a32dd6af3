// One function per command; each lives in the file of its name.
#pragma once

#include "runner/session/cli.h"

namespace shardlab {

void add_calibrate_command(CLI::App& app, Session& session);
void add_compare_command(CLI::App& app, Session& session);
void add_describe_command(CLI::App& app, Session& session);
void add_list_command(CLI::App& app, Session& session);
void add_measure_command(CLI::App& app, Session& session);
void add_plan_command(CLI::App& app, Session& session);
void add_program_command(CLI::App& app, Session& session);
void add_regress_command(CLI::App& app, Session& session);
void add_report_command(CLI::App& app, Session& session);
void add_rules_command(CLI::App& app, Session& session);
void add_select_command(CLI::App& app, Session& session);
void add_simulate_command(CLI::App& app, Session& session);
void add_solve_command(CLI::App& app, Session& session);
void add_sweep_command(CLI::App& app, Session& session);
void add_ties_command(CLI::App& app, Session& session);
void add_validate_command(CLI::App& app, Session& session);

}  // namespace shardlab

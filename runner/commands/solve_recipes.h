// `shardlab solve PROGRAM --compare-recipes`: experts' recipes beside the optimum.
#pragma once

#include "runner/cli.h"
#include "runner/commands/solved_program.h"

namespace shardlab {

// Prints a row for the optimum, for the optimum with all parameters cut as far as they go, and for each
// shipped recipe; all heed the options' pins and budgets. Exit code 1 when nothing heeds them.
void compare_recipes(const PricedProgram& priced, const ProblemOptions& options, Session& session);

}  // namespace shardlab

// `shardlab simulate PROGRAM`: runs every node in turn, in virtual time and, if asked for, with
// data. Each op runs with the stack's choice, or with the layouts of a saved plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/session/session.h"
#include "runner/simulate/simulation.h"
#include "strategies/select/evaluator.h"

namespace shardlab {

struct SimulateProgramArguments {
  std::string program;
  std::string mesh;
  std::string plan;               // a file that saved_plan.h reads; empty if the stack chooses
  std::vector<std::string> pins;  // NAME=LAYOUT
  std::string pin_inputs;
  SimulationArguments simulation;
};

// The shipped stack that a plan's file names; empty if it names none. Throws ConfigError.
[[nodiscard]] std::optional<std::string> stack_of_plan(const std::string& file,
                                                       const ConfigStore& store);

void simulate_program(const SimulateProgramArguments& arguments, const ConfigStore& store,
                      StackEvaluator& evaluator, Session& session);

}  // namespace shardlab

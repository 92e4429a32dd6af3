// Writes the record and the report of a solved program.
#pragma once

#include <nlohmann/json.hpp>

#include "runner/session/session.h"
#include "runner/solve/pictured_plan.h"
#include "strategies/programs/program.h"
#include "strategies/programs/sharding_problem.h"
#include "strategies/select/stack.h"

namespace shardlab {

struct SolutionRun {
  const Program& program;
  const Stack& stack;
  const Topology& topology;
  std::string mesh;
  std::string recipe;  // its name or path; "" for none
  const ProblemOptions& options;
  const nlohmann::json& result;  // the plan as `solve` prints it
  nlohmann::json answers;  // answers to further questions (reports/records/solution_answers.h)
  const PicturedPlan* picture = nullptr;  // null if there is no plan
  double wall_ms = 0.0;
};

// Writes the record and the reports that --out and --summary ask for.
void record_solution(const Session& session, const SolutionRun& report);

}  // namespace shardlab

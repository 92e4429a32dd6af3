// The report of a solved program.
#pragma once

#include <nlohmann/json.hpp>

#include "runner/cli.h"
#include "strategies/program.h"
#include "strategies/sharding_problem.h"
#include "strategies/stack.h"

namespace shardlab {

struct SolutionReport {
  const Program& program;
  const Stack& stack;
  const Topology& topology;
  std::string mesh;
  std::string recipe;  // its name or path; "": none
  const ProblemOptions& options;
  const nlohmann::json& result;  // as solve prints it
  nlohmann::json answers;        // to what was asked beside the plan (reports/solution_answers.h)
  double wall_ms = 0.0;
};

// Writes and prints what --out and --summary ask for.
void write_solution(const Session& session, const SolutionReport& report);

}  // namespace shardlab

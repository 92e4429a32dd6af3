// `shardlab solve PROGRAM`: from a program's file to the best strategy of every node, with its proof.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/session/session.h"

namespace shardlab {

struct SolveProgramArguments {
  std::string program;
  std::string mesh;
  std::string stack = "ap-nccl";
  std::string recipe;             // a shipped name or a path
  std::vector<std::string> pins;  // NAME=LAYOUT, or a source's label
  std::string pin_inputs;
  std::string pin_outputs;
  std::optional<double> parameter_budget;
  std::string memory_budget;  // "80GB"
  bool strided = false;
  bool compare_recipes = false;  // instead of a plan
  std::string export_problem;
};

struct SolveAnswers {
  bool margins = false;
  bool all_nodes = false;  // in the text; of programs
  std::uint64_t best = 1;
  std::string explain;            // a layout; of programs
  std::string diff;               // a file of saved_plan.h; of programs
  std::vector<std::string> then;  // NAME=LAYOUT; of programs
  bool greedy = false;            // of programs
  bool sensitivity = false;       // likewise
  // Of programs: at most this many points.
  std::optional<std::uint64_t> budget_curve;
};

// Prints the answer; exit code 1 when nothing heeds all constraints.
void solve_program(const SolveProgramArguments& arguments, const SolveAnswers& answers,
                   Session& session);

}  // namespace shardlab

// `shardlab solve PROGRAM`: reads a program's file and finds the best strategy of every node, with
// a proof.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/evaluation/replica_gate.h"
#include "runner/session/flattened_meshes.h"
#include "runner/session/session.h"

namespace shardlab {

struct SolveProgramArguments {
  std::string program;
  std::string mesh;
  FlattenedMeshes flattened;
  std::string stack;              // "" for the default of program_stack.h
  std::string recipe;             // a shipped name or a path; "" for none
  std::vector<std::string> pins;  // NAME=LAYOUT, or a source's label
  std::string pin_inputs;
  std::string pin_outputs;
  std::optional<double> parameter_budget;
  std::string memory_budget;  // "80GB"
  std::string recompute = "none";
  bool reshard_after_forward = false;
  std::string units = "block";
  int prefetch = 1;
  bool no_fit = false;  // prints a plan even if it does not fit into a device
  std::string objective = "sum";
  bool strided = false;
  bool tie_repeated = false;
  bool narrow_reduction =
      false;  // whether gradients may be reduced before the cast that widens them
  std::optional<double> time_limit_s;  // after which the best plan so far is taken
  ReplicaGateOption replicas;
  bool compare_recipes = false;  // prints a comparison of recipes instead of a plan
  std::string export_problem;
};

// What to compute besides the plan.
struct SolveQuestions {
  bool margins = false;
  std::uint64_t best = 1;         // how many different assignments to find
  bool all_nodes = false;         // the text prints every node, however many there are
  std::string explain;            // a layout
  std::string diff;               // a file of saved_plan.h
  std::vector<std::string> then;  // NAME=LAYOUT
  bool greedy = false;
  bool sensitivity = false;
  bool advises_flattening = false;
  std::optional<std::uint64_t> budget_curve;  // a curve of at most this many points
};

// Prints the answer. The exit code is 1 if no assignment satisfies all constraints.
void solve_program(const SolveProgramArguments& arguments, const SolveQuestions& asked,
                   Session& session);

}  // namespace shardlab

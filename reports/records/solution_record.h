// The record of a solved program: what `solve` prints of it, with the phase of every node, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/run_header.h"
#include "reports/records/solution_answers.h"

namespace shardlab::reports {

inline constexpr std::string_view kSolveKind = "solve";

// An input that its reader wants in another layout than its producer gives.
struct SolvedMove {
  std::int64_t input = 0;
  std::string of;      // the producer
  std::string tensor;  // "bf16[16,8192,4096]", before it is cut
  std::string from, to;
  double us = 0.0;
};

struct SolvedNode {
  std::string node;
  std::string kind;                   // op, parameter, buffer, input, tangent, output, gradient
  std::string phase;                  // forward, backward
  std::string op;                     // "" unless of kind op
  std::optional<std::int64_t> layer;  // of the model, from 0; nothing: outside, or not known
  std::vector<std::string> layout_in;
  std::string layout_out;
  double compute_us = 0.0;
  double communication_us = 0.0;  // of bringing its inputs there
  double transition_us = 0.0;     // of layouts that differ; records of before have it in the above
  std::vector<SolvedMove> moves;  // which those are; records of before hold none
  std::optional<double> margin_us;

  [[nodiscard]] double moves_us() const { return communication_us + transition_us; }
};

// What the plan had to heed.
struct SolutionConstraints {
  std::string recipe;  // "": none
  std::int64_t pins = 0;
  std::string pin_inputs;  // a layout; "": free
  std::string pin_outputs;
  std::optional<double> parameter_budget;
  std::optional<double> memory_budget_bytes;
};

struct SolutionRecord : ResultRecord {
  std::string program;
  std::string mesh;
  std::string stack;
  SolutionConstraints constraints;
  std::int64_t nodes = 0;
  std::int64_t edges = 0;
  std::int64_t strategies = 0;
  std::optional<double> objective_us;  // nothing: infeasible
  std::optional<double> lower_bound_us;
  bool optimal = false;
  std::optional<double> optima;  // how many assignments share the objective, where counted
  std::string infeasible;        // why there is none
  std::vector<std::string> notes;
  std::optional<SolutionBreakdown> breakdown;
  std::optional<double>
      executed_us;           // kernels, and the steps of all moves; records of before: none
  std::string unexecutable;  // the first move that can't run, and why
  std::vector<SolvedNode> assignment;
  SolutionAnswers answers;  // to what was asked beside the plan
};

// Throws ConfigError, naming `file` and the JSON pointer, which begins with /result.
[[nodiscard]] SolutionRecord read_solution_record(ResultRecord record, std::string_view file);

}  // namespace shardlab::reports

// A solved program as `shardlab solve` prints it, and helpers that its further answers share.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/base/text_style.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/programs/sharding_problem.h"
#include "strategies/select/stack.h"
#include "strategies/solvers/exact.h"

namespace shardlab {

// A solved program on a mesh: its problem, prices and solution.
struct ProgramSolution {
  const Program& program;
  const ProgramStrategies& strategies;
  const ProgramPrices& prices;
  const ShardingProblem& problem;
  const CostNetwork& network;
  const ExactSolution& solution;
  std::string misfit = {};  // why there is no plan although assignments satisfy all constraints
  bool is_misfit_proved = false;  // whether it is known that there is none
};

// A program and its prices, before it is solved.
struct PricedProgram {
  const Stack& stack;
  const Topology& topology;
  const DeviceMesh& mesh;
  const Program& program;
  const ProgramStrategies& strategies;
  const ProgramPrices& prices;
};

struct NodeLayouts {
  std::vector<std::string> in;
  std::string out;  // if there are several outputs: "S(0)R, RR"
};
[[nodiscard]] NodeLayouts layouts_of(const ProgramSolution& solved, std::size_t node,
                                     std::size_t strategy);
[[nodiscard]] NodeLayouts chosen_layouts(const ProgramSolution& solved, std::size_t node);

// An input whose producer gives it in another layout than its reader needs.
struct NodeMove {
  std::size_t producer = 0;  // node
  std::size_t argument = 0;  // index among the reader's tensors
  std::string tensor;        // "bf16[16,8192,4096]", before it is cut
  std::string from, to;      // layouts
  double us = 0.0;           // the sum of the two below; 0 if each rank only cuts its own tensor
  double communication_us = 0.0;
  double transition_us = 0.0;  // the stack's transition_us if the layouts differ
};
// The moves of the inputs of each node, by node.
[[nodiscard]] std::vector<std::vector<NodeMove>> moves_of(const ProgramSolution& solved);
// The sum of one of the moves' times, which `time` selects.
[[nodiscard]] double sum_us(std::span<const NodeMove> moves, double NodeMove::*time);

// The assignment's values of parameters, buffers, inputs and tangents, and -1 for all other nodes.
[[nodiscard]] Assignment sources_of(const Program& program, const Assignment& assignment);

// How far `us` is above `least_us`, in percent. Empty if `least_us` is zero or `us` is forbidden.
[[nodiscard]] std::optional<double> percent_above(double us, double least_us);

[[nodiscard]] nlohmann::json breakdown_json(const Breakdown& parts);
// "kernels 12.5 us, communication 2.25 us, transitions 0 us".
[[nodiscard]] std::string breakdown_text(const Breakdown& parts, const TextStyle& style);

// "383.19 us, lower bound 381.5 us". The two look the same only if the objective is proved.
// `interval` stands behind the objective.
[[nodiscard]] std::string bounds_text(const ExactSolution& solution, const TextStyle& style,
                                      const std::string& interval = "");

// The nodes whose values differ from the optimum's, with their values: "node value, node value".
[[nodiscard]] std::string changes_of(const ProgramSolution& solved, const Assignment& assignment);
// The constraints that no assignment can satisfy together, under the restrictions of the solve that
// found the conflict. Forbidden values are followed by what forbids them: `forbidden values of "w"
// (parameter budget)`.
[[nodiscard]] std::vector<std::string> conflict_of(const ProgramSolution& solved,
                                                   std::span<const ConflictPart> conflict,
                                                   const std::vector<Restriction>& restrictions);
[[nodiscard]] std::vector<std::string> conflict_of(const ProgramSolution& solved);

// Why there is no plan: "no assignment satisfies all of: ...", or the misfit.
[[nodiscard]] std::string why_infeasible(const ProgramSolution& solved);

[[nodiscard]] nlohmann::json solution_json(const ProgramSolution& solved);

// One further answer of `solve`: its key in the JSON, the text printed after the plan, and its part
// of a report's record (reports/records/solution_answers.h) if that differs from the JSON.
struct SolveAnswer {
  std::string key;
  nlohmann::json json;
  std::string text;
  nlohmann::json record = nullptr;
  bool says_no = false;  // true makes the exit code 1
};

}  // namespace shardlab

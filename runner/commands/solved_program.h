// A solved program as `shardlab solve` prints it, and what its further answers share.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "strategies/program.h"
#include "strategies/program_prices.h"
#include "strategies/program_strategies.h"
#include "strategies/sharding_problem.h"
#include "strategies/solvers/exact.h"
#include "strategies/stack.h"

namespace shardlab {

// A program on a mesh, as the solver sees it and as its prices were made.
struct SolvedProgram {
  const Program& program;
  const ProgramStrategies& strategies;
  const ProgramPrices& prices;
  const ShardingProblem& problem;
  const CostNetwork& network;
  const ExactSolution& solution;
};

// The same before it is solved.
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
  std::string out;  // of several outputs "S(0)R, RR"
};
[[nodiscard]] NodeLayouts layouts_of(const SolvedProgram& solved, std::size_t node,
                                     std::size_t row);
[[nodiscard]] NodeLayouts chosen_layouts(const SolvedProgram& solved, std::size_t node);

// The values of parameters, buffers, inputs and tangents; -1 of all other nodes.
[[nodiscard]] Assignment sources_of(const Program& program, const Assignment& assignment);

// How far `us` lies above `least_us` in percent: none where that is nothing.
[[nodiscard]] std::optional<double> percent_above(double us, double least_us);
[[nodiscard]] nlohmann::json percent_json(std::optional<double> percent);
[[nodiscard]] std::string percent_text(std::optional<double> percent, int digits);  // "-" of none

// Why an optimum of 0 us says little, if the stack is why; else empty.
[[nodiscard]] std::string note_on_free_kernels(const ProgramStrategies& strategies,
                                               const ProgramPrices& prices, double objective_us);

[[nodiscard]] nlohmann::json breakdown_json(const Breakdown& parts);
// "kernels 1.000 us, communication 2.000 us, transitions 3.000 us".
[[nodiscard]] std::string breakdown_text(const Breakdown& parts);

[[nodiscard]] nlohmann::json solved_json(const SolvedProgram& solved);
[[nodiscard]] std::string solved_text(const SolvedProgram& solved);

// One more thing that was asked: by which option, its key in the JSON, and what is printed behind the plan.
struct Answer {
  std::string option;
  std::string key;
  nlohmann::json json;
  std::string text;
  bool says_no = false;  // exit code 1
};

}  // namespace shardlab

// The choice of a layout for every node of a program as a cost-function network: a variable for each
// node whose values are its strategies, a cost for each value (its kernel) and for each pair of values
// of two nodes of which one reads the other (communication and transition), and what must hold.
//
//   ShardingProblem problem = make_problem(program, strategies, prices, {.pin_inputs = layout});
//   problem.tables[problem.edges[e].table].costs     // rows: the reader's values; infinity: forbidden
//   Breakdown parts = problem.breakdown(assignment); // re-priced from the tables
//
// Constraints are costs of infinity: a value that is not allowed, a pair that must not stand together.
//   uniqueness, same output over arguments, flow     in the form: one value a node, for every argument
//   parameter and gradient, output and tangent       equal layouts (a table of 0 and infinity)
//   pins and masks                                   values that remain
//   forward dtype rule                               from a parameter to the cast that narrows it,
//                                                    nothing is communicated: it is gathered narrow
//   gradient dtype rule                              from the product to the cast that widens its
//                                                    gradient, nor from there: it is reduced wide
//   budgets                                          weights of values, and the most that they sum to
// Domains and tables are shared: 32 equal layers need no more of them than two.
// Source: meta-pytorch/autoparallel at a54c252 (optimize_sharding.py), restated in
// docs/autoparallel.md, "Constraints". It ties the flow of a node's first argument only; here every
// argument is tied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/mesh.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/program_strategies.h"

namespace shardlab {

struct NodePin {
  std::string node;
  Placements layout;  // of its first output
};

// What a node's first output is on the mesh dims that a placement is given for.
struct LayoutMask {
  std::size_t node = 0;
  std::vector<std::optional<Placement>> placements = {};  // by mesh dim
  std::string by = {};                                    // whose, for messages
};

struct ProblemOptions {
  bool forward_dtype_rule = true;
  bool gradient_dtype_rule = true;
  std::vector<NodePin> pins = {};
  std::vector<LayoutMask> masks = {};
  std::optional<Placements> pin_inputs = {};
  std::optional<Placements> pin_outputs = {};
  // AutoParallel's rule: over the parameters that no pin fixes, the fractions that a device keeps sum to
  // at most the sum of max(least possible fraction, this one).
  std::optional<double> parameter_budget = {};
  // What parameters, their gradients and their optimizer state take on one device.
  std::optional<double> memory_budget_bytes = {};
};

// Adam's two moments in f32. Source: Kingma and Ba 2015; torch.optim.Adam. Status: assumed.
inline constexpr double kOptimizerBytesPerElement = 8.0;

struct ProblemTable {
  int rows = 0;  // of the first variable
  int columns = 0;
  std::vector<double> costs = {};
};
struct ProblemEdge {
  int first = 0;
  int second = 0;
  int table = 0;
};
// Integer weights of values, and the most that they may sum to.
struct ProblemBudget {
  struct Weights {
    int variable = 0;
    std::vector<std::int64_t> of_value;
  };
  std::string name;
  std::int64_t limit = 0;
  double unit = 1.0;  // what a weight of 1 is, in parameters or in bytes
  std::vector<Weights> weights = {};

  // What the assignment's weights sum to, in units.
  [[nodiscard]] double amount(std::span<const int> assignment) const;
};

struct Breakdown {
  double compute_us = 0.0;
  double communication_us = 0.0;
  double transition_us = 0.0;
  [[nodiscard]] double total_us() const { return compute_us + communication_us + transition_us; }
};

struct ShardingProblem {
  // Values of a class of nodes, by name: "S(0)R<-S(0)R,RR".
  std::vector<std::vector<std::string>> domains;
  std::vector<std::string> names;  // of variables, the program's nodes in order
  std::vector<int> domain_of;      // by variable
  std::vector<std::vector<double>>
      costs;  // by variable, by value: kernels, infinity where forbidden
  // By variable: what forbids values of it, for messages: "pin to S(0)R", "recipe fsdp", "parameter budget".
  std::vector<std::vector<std::string>> forbidden_by;
  std::vector<ProblemTable> tables;
  std::vector<ProblemEdge> edges;  // the edges of `priced` first, in their order; then pairs
  std::vector<ProblemBudget> budgets;
  std::vector<PricedEdge> priced;

  // Of an assignment (a value for each variable), from the prices themselves.
  [[nodiscard]] Breakdown breakdown(const ProgramStrategies& strategies,
                                    const ProgramPrices& prices,
                                    std::span<const int> assignment) const;
};

// Throws InputError: a pin of a node that is not there or of a layout that it can't have, a pair of
// tensors of different shapes.
[[nodiscard]] ShardingProblem make_problem(const Program& program, const DeviceMesh& mesh,
                                           const ProgramStrategies& strategies,
                                           const ProgramPrices& prices,
                                           const ProblemOptions& options = {});

// Why a tensor can't lie so, where that is since a dim has fewer elements than shards: ", where dim 0
// has 16 elements, too few for 8 x 8 shards"; "" otherwise. A placement that is not given may be any.
[[nodiscard]] std::string too_few_elements(const TensorMeta& meta,
                                           std::span<const std::optional<Placement>> placements,
                                           const DeviceMesh& mesh);

}  // namespace shardlab

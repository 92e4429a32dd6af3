// The choice of a layout for every node of a program as a cost-function network. It has a variable
// for each node, whose values are the node's strategies; a cost for each value (its kernel) and for
// each pair of values of a node and its reader (communication and transition); and constraints.
//
//   ShardingProblem problem =
//       make_problem(program, mesh, strategies, prices, {.pin_inputs = placements});
//   problem.tables[problem.edges[e].table].costs       // a row for each of the reader's values
//   problem.breakdown(strategies, prices, assignment)  // computed anew from the prices
//
// Constraints are infinite costs of a value, or of a pair of values, that is not allowed:
//   uniqueness, same output over arguments, flow   hold by construction: a node has one value,
//                                                  which all of its arguments share
//   parameter and gradient, output and tangent     have equal layouts (a table of 0 and infinity)
//   pins and masks                                 leave only the values that they allow
//   forward dtype rule                             nothing is communicated from a parameter to the
//                                                  cast that narrows it, so it is gathered after it
//   gradient dtype rule                            nothing is communicated from the op that makes a
//                                                  gradient to the cast that widens it, so it is
//                                                  reduced after it
//   ties of repeated layers                        give their nodes the same value
//   budgets                                        limit the sum of the values' weights
// Domains and tables are shared: 32 equal layers need no more of them than two. Source:
// meta-pytorch/autoparallel at a54c252 (optimize_sharding.py). AutoParallel ties only a node's
// first argument to its producer's layout; here every argument is tied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/mesh.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/program_strategies.h"

namespace shardlab {

struct NodePin {
  std::string node;
  Placements layout;  // the layout that the node's first output must have
};

// The placements that a node's first output must have, on those mesh dims for which one is given.
struct LayoutMask {
  std::size_t node = 0;
  std::vector<std::optional<Placement>> placements = {};  // by mesh dim
  std::string by = {};  // what set the mask, for messages: "recipe fsdp"
  // For each mesh dim, whether it stays open if the node can't have the placement there; empty if
  // none does. Mesh dims are tried in order: S(0)S(0) of 2 rows on 2x4 becomes S(0) and open.
  std::vector<bool> where_possible = {};
  // For each mesh dim, the rule that set it: "/rules/3". Of all masks with the same rule there, at
  // least one has to be possible; "" asks for none. Empty if there are no rules.
  std::vector<std::string> rules = {};
};

struct ProblemOptions {
  bool forward_dtype_rule = true;
  bool gradient_dtype_rule = true;
  // Whether nodes at the same place of repeated layers take the same strategy (repeated_regions.h).
  bool tie_repeated = false;
  std::vector<NodePin> pins = {};
  std::vector<LayoutMask> masks = {};
  std::optional<Placements> pin_inputs = {};
  std::optional<Placements> pin_outputs = {};
  // AutoParallel's memory constraint: a limit on the sum of the fractions that a device keeps of
  // the parameters that no pin fixes. Each of these adds to the limit the larger of this fraction
  // and the least fraction of the parameter that a device can keep.
  std::optional<double> parameter_budget = {};
  // The most that parameters, their gradients and their optimizer state may take on one device.
  std::optional<double> memory_budget_bytes = {};
  // By node: how often it runs in a step, and with it the moves of what it reads
  // (strategies/steps/recomputation.h). Empty: once.
  std::vector<int> runs = {};
};

// The bytes that Adam keeps for each element of a parameter with a gradient: two moments in the
// parameter's own dtype. Source: Kingma and Ba 2015; PyTorch 2.13.0, torch/optim/adam.py, which
// makes both with zeros_like. Status: assumed, since a program does not say which optimizer trains
// it.
[[nodiscard]] inline double adam_bytes_per_element(DType parameter) {
  return 2.0 * itemsize(parameter);
}

struct ProblemTable {
  int rows = 0;     // one for each value of the first variable
  int columns = 0;  // one for each value of the second
  std::vector<double> costs = {};
};
struct ProblemEdge {
  int first = 0;
  int second = 0;
  int table = 0;
};
// Integer weights of values, and the most that the weights of an assignment's values may sum to.
struct ProblemBudget {
  struct Weights {
    int variable = 0;
    std::vector<std::int64_t> of_value;
  };
  std::string name;
  std::int64_t limit = 0;
  double unit = 1.0;  // what a weight of 1 stands for: a fraction of a parameter, or bytes
  std::vector<Weights> weights = {};

  // The sum of the assignment's weights, times the unit.
  [[nodiscard]] double amount(std::span<const int> assignment) const;
};

struct Breakdown {
  double compute_us = 0.0;
  double communication_us = 0.0;
  double transition_us = 0.0;
  [[nodiscard]] double total_us() const { return compute_us + communication_us + transition_us; }
};

struct ShardingProblem {
  // The names of the values that each class of nodes has: "S(0)R<-S(0)R,RR".
  std::vector<std::vector<std::string>> domains;
  std::vector<std::string> names;  // names of the variables, which are the program's nodes in order
  std::vector<int> domain_of;      // by variable
  // For each variable and value: the price of the kernel, or infinity where the value is forbidden.
  std::vector<std::vector<double>> costs;
  // For each variable: what forbids some of its values, in words: "pin to S(0)R", "recipe fsdp",
  // "parameter budget".
  std::vector<std::vector<std::string>> forbidden_by;
  std::vector<ProblemTable> tables;
  // First the edges of `priced`, in order; then the pairs; then the ties of repeated layers.
  std::vector<ProblemEdge> edges;
  // The ties of tie_repeated, in order: a node, and the node whose strategy it takes.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ties;
  std::vector<ProblemBudget> budgets;
  std::vector<PricedEdge> priced;
  std::vector<int> runs;  // by node: how often it runs in a step

  // The parts of the cost of an assignment (a value for each variable), computed from the prices
  // themselves.
  [[nodiscard]] Breakdown breakdown(const ProgramStrategies& strategies,
                                    const ProgramPrices& prices,
                                    std::span<const int> assignment) const;
};

// Throws InputError for a pin of an unknown node, a layout that the node cannot have, a rule of
// masks that none of its nodes can follow, and a pair of tensors of different shapes.
[[nodiscard]] ShardingProblem make_problem(const Program& program, const DeviceMesh& mesh,
                                           const ProgramStrategies& strategies,
                                           const ProgramPrices& prices,
                                           const ProblemOptions& options = {});

// The same problem without its edges, its tables and the names of its values: what each value costs
// by itself, which values are forbidden, and the budgets. `prices` may be those of kernels alone.
[[nodiscard]] ShardingProblem make_values(const Program& program, const DeviceMesh& mesh,
                                          const ProgramStrategies& strategies,
                                          const ProgramPrices& prices,
                                          const ProblemOptions& options = {});

// Says why a tensor cannot have this layout, when the reason is that a dim has fewer elements than
// shards: ", where dim 0 has 16 elements, too few for 8 x 8 shards"; otherwise "". A placement that
// is not given stands for any placement.
[[nodiscard]] std::string too_few_elements(const TensorMeta& meta,
                                           std::span<const std::optional<Placement>> placements,
                                           const DeviceMesh& mesh);

}  // namespace shardlab

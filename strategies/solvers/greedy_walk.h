// The walk of a dispatcher that never looks ahead: it visits the variables in order and gives each
// the value that is cheapest given the values of the variables before it. This file also finds what
// each of these choices costs later.
//
//   GreedyWalk walk = greedy_walk(network, given);       // given: -1 where the walk chooses
//   GreedyRegret regret = greedy_regret(network, solver, given, walk.assignment);
//
// At run time DTensor picks an op's strategy in this way. It looks at what it costs to redistribute
// the op's inputs from where their producers left them (and, if the stack prices kernels, at the
// kernel), and takes the cheapest strategy or, of several, the one that is listed first. Source:
// PyTorch 2.13.0, torch/distributed/tensor/_sharding_prop.py; pytorch/pytorch#172282 discusses what
// a local choice costs later.
//
// The regret of a variable is how much the cost of the best completion rises when the walk's choice
// for this variable is fixed in addition to its earlier choices. Regrets are not negative, and they
// sum to the walk's distance from the optimum with the given values. Each takes two optima of the
// network with a part of the walk fixed. To find the largest regrets with few optima, intervals of
// the walk are halved, beginning with those of the largest regret.
#pragma once

#include <optional>
#include <vector>

#include "strategies/solvers/exact.h"

namespace shardlab {

struct GreedyWalk {
  Assignment assignment;     // empty when the walk got stuck
  std::optional<int> stuck;  // the first variable that had no allowed value left
};

// `given` has one entry for each variable: its value, or -1 where the walk chooses.
[[nodiscard]] GreedyWalk greedy_walk(const CostNetwork& network, const Assignment& given);

// The regret of one variable or, if the number of optima does not suffice to tell them apart, the
// joint regret of the variables that the walk decides from `first` to `last`.
struct ChoiceRegret {
  int first = 0;
  int last = 0;
  double regret_us = 0.0;
  // The next three are set for a single variable only. They are the value that the best completion
  // takes instead; how much more that value costs at the variable itself (its cost, and its edges
  // to variables that are already decided); and what it saves later, which is regret + local.
  int instead = -1;
  double local_us = 0.0;
  double later_us = 0.0;
};

struct GreedyRegret {
  double optimum_us = 0.0;            // the optimum with the given values
  std::vector<ChoiceRegret> choices;  // the largest first
  double rest_us = 0.0;               // the regret of all other choices together
};

struct RegretOptions {
  std::size_t choices = 10;  // the most choices to report
  int optima = 24;           // the most optima to find; small networks may take more
};

// Assumes that the network allows the walk.
[[nodiscard]] GreedyRegret greedy_regret(const CostNetwork& network, ExactSolver& solver,
                                         const Assignment& given, const Assignment& walk,
                                         const RegretOptions& options = {});

}  // namespace shardlab

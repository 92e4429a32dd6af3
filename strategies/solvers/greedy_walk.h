// The walk of a dispatcher that never looks ahead: variables in order, each takes the value that is
// cheapest given what the variables before it took; and what each of these choices costs later.
//
//   GreedyWalk walk = greedy_walk(network, given);       // given: -1 where the walk chooses
//   GreedyRegret regret = greedy_regret(network, solver, given, walk.assignment);
//
// DTensor picks an op's strategy so, at run time: by what its inputs' redistributions (and, where the stack
// prices them, its kernel) cost from where its producers left them, the first listed of the cheapest.
// Source: PyTorch 2.13.0, torch/distributed/tensor/_sharding_prop.py; the cost of a local choice in what
// follows: pytorch/pytorch#172282.
//
// The regret of a variable is how much dearer the best completion of the walk up to it is than that of the
// walk before it. Regrets are not negative and sum to the walk's distance from the optimum with the given
// values. Each needs optima of the network with a part of the walk fixed: intervals of the walk are halved,
// the most regretted first, so that the worst variables are found from few optima.
#pragma once

#include <optional>
#include <vector>

#include "strategies/solvers/exact.h"

namespace shardlab {

struct GreedyWalk {
  Assignment assignment;     // empty when stuck
  std::optional<int> stuck;  // a variable that no value is left to
};

// Assumes one entry for each variable.
[[nodiscard]] GreedyWalk greedy_walk(const CostNetwork& network, const Assignment& given);

// Of one variable, or of all that the walk decides from `first` to `last` where no more optima were to be
// found.
struct ChoiceRegret {
  int first = 0;
  int last = 0;
  double regret_us = 0.0;
  // Of one variable: what the best completion takes instead, by how much that is dearer at the variable
  // itself (its cost and its edges to what is decided), and what it saves later: regret + local.
  int instead = -1;
  double local_us = 0.0;
  double later_us = 0.0;
};

struct GreedyRegret {
  double optimum_us = 0.0;  // with the given values
  std::vector<ChoiceRegret>
      choices;           // the largest first; those of single variables are the largest
  double rest_us = 0.0;  // of all others together
};

struct RegretOptions {
  std::size_t choices = 10;  // at most
  int optima = 24;           // to be found, at most; of small networks more
};

// Assumes that the walk is an assignment that the network allows.
[[nodiscard]] GreedyRegret greedy_regret(const CostNetwork& network, ExactSolver& solver,
                                         const Assignment& given, const Assignment& walk,
                                         const RegretOptions& options = {});

}  // namespace shardlab

// Random cost-function networks, and their optima by trying every assignment.
//
//   const CostNetwork network = random_network(random, {.variables = 5});
//   const BruteForce all(network);
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "costmodel/base/index.h"
#include "strategies/solvers/network.h"
#include "tests/support/random_source.h"

namespace shardlab::testing_support {

struct RandomNetworkOptions {
  int variables = 6;
  int most_values = 4;
  int edges = 8;
  int most_cost = 20;      // costs are whole numbers, so that ties occur and sums are exact
  int forbidden = 10;      // percent of the costs that are infinite
  int equalities = 5;      // percent of the edges that ask for equal values
  bool negative = false;   // costs may be below zero
  int budget_percent = 0;  // percent of the networks that have a budget
};

inline double random_cost(Random& random, const RandomNetworkOptions& options) {
  if (random.percent(options.forbidden)) return kForbidden;
  return static_cast<double>(
      random.between(options.negative ? -options.most_cost : 0, options.most_cost));
}

inline CostNetwork random_network(Random& random, const RandomNetworkOptions& options) {
  CostNetwork network;
  for (int v = 0; v < options.variables; ++v) {
    const int values = random.percent(10) ? 1 : 1 + random.below(options.most_values);
    std::vector<std::string> names;
    for (int x = 0; x < values; ++x) names.push_back(std::string(1, static_cast<char>('a' + x)));
    random.shuffle(names);
    std::vector<double> costs;
    for (int x = 0; x < values; ++x) costs.push_back(random_cost(random, options));
    network.add_variable("v" + std::to_string(v), network.add_domain(names), costs);
  }
  for (int e = 0; e < options.edges && options.variables > 1; ++e) {
    const int first = random.below(options.variables);
    int second = random.below(options.variables - 1);
    if (second >= first) ++second;
    const int rows = network.values(first);
    const int columns = network.values(second);
    const bool equal = random.percent(options.equalities);
    int table = -1;
    for (int t = 0; t < static_cast<int>(network.tables().size()) && !equal; ++t) {
      const CostTable& known = network.tables()[to_index(t)];
      if (known.rows == rows && known.columns == columns && random.percent(50)) table = t;
    }
    if (table < 0) {
      std::vector<double> costs;
      for (int x = 0; x < rows; ++x) {
        for (int y = 0; y < columns; ++y) {
          costs.push_back(equal ? (x == y ? 0.0 : kForbidden) : random_cost(random, options));
        }
      }
      table = network.add_table(rows, columns, std::move(costs));
    }
    network.add_edge(first, second, table);
  }
  if (options.negative) network.add_constant(static_cast<double>(random.between(-9, 9)));
  if (random.percent(options.budget_percent)) {
    const int budgets = 1 + random.below(2);
    for (int b = 0; b < budgets; ++b) {
      Budget budget{.name = "b" + std::to_string(b), .limit = random.between(0, 12), .weights = {}};
      for (int v = 0; v < options.variables; ++v) {
        if (random.percent(40)) continue;
        Budget::Weights weights{.variable = v, .of_value = {}};
        for (int x = 0; x < network.values(v); ++x)
          weights.of_value.push_back(random.between(0, 7));
        budget.weights.push_back(std::move(weights));
      }
      network.add_budget(std::move(budget));
    }
  }
  return network;
}

struct BruteForce {
  double optimum = kForbidden;
  std::vector<std::pair<double, Assignment>> feasible;  // in the order of assignments
  std::vector<std::vector<double>> least;               // variable -> value -> least cost with it

  explicit BruteForce(const CostNetwork& network) {
    Assignment assignment(static_cast<std::size_t>(network.variables()), 0);
    for (int v = 0; v < network.variables(); ++v) {
      least.emplace_back(static_cast<std::size_t>(network.values(v)), kForbidden);
    }
    for (;;) {
      if (network.is_feasible(assignment)) {
        const double cost = network.cost(assignment);
        optimum = std::min(optimum, cost);
        for (std::size_t v = 0; v < assignment.size(); ++v) {
          double& known = least[v][to_index(assignment[v])];
          known = std::min(known, cost);
        }
        feasible.emplace_back(cost, assignment);
      }
      std::size_t v = assignment.size();
      while (v > 0 && ++assignment[v - 1] == network.values(static_cast<int>(v - 1))) {
        assignment[--v] = 0;
      }
      if (v == 0) break;
    }
  }
};

// The values' texts, in the order of the variables.
inline std::vector<std::string> texts_of(const CostNetwork& network, const Assignment& assignment) {
  std::vector<std::string> texts;
  for (int v = 0; v < network.variables(); ++v) {
    texts.push_back(network.value_name(v, assignment[to_index(v)]));
  }
  return texts;
}

}  // namespace shardlab::testing_support

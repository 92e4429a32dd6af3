// Checks an exact solution against all assignments of its network.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "costmodel/base/index.h"
#include "strategies/solvers/exact.h"
#include "tests/support/random_networks.h"

namespace shardlab::testing_support {

inline void expect_minimal_conflict(const CostNetwork& network,
                                    const std::vector<ConflictPart>& conflict) {
  ASSERT_FALSE(conflict.empty());
  // Without any one of its parts, the other constraints of the conflict can hold together.
  const auto holds_without = [&](std::size_t left_out) {
    CostNetwork part;
    for (int v = 0; v < network.variables(); ++v) {
      part.add_variable(network.name(v), part.add_domain(network.domain_names(v)));
    }
    for (std::size_t i = 0; i < conflict.size(); ++i) {
      if (i == left_out) continue;
      const ConflictPart& each = conflict[i];
      if (each.kind == ConflictPart::Kind::kVariable) {
        for (int x = 0; x < network.values(each.index); ++x) {
          const double cost = network.costs(each.index)[to_index(x)];
          if (cost == kForbidden) part.add_cost(each.index, x, kForbidden);
        }
      } else if (each.kind == ConflictPart::Kind::kEdge) {
        const CostEdge& edge = network.edges()[to_index(each.index)];
        const CostTable& table = network.tables()[to_index(edge.table)];
        part.add_edge(edge.first, edge.second,
                      part.add_table(table.rows, table.columns, table.costs));
      } else {
        part.add_budget(network.budgets()[to_index(each.index)]);
      }
    }
    return BruteForce(part).optimum < kForbidden;
  };
  EXPECT_FALSE(holds_without(conflict.size())) << "the set is no conflict";
  for (std::size_t i = 0; i < conflict.size(); ++i) {
    EXPECT_TRUE(holds_without(i)) << describe(conflict[i], network, {}) << " is not needed";
  }
}

inline void expect_exact(const CostNetwork& network, int jobs = 1) {
  const BruteForce all(network);
  const bool budgets = !network.budgets().empty();
  ExactSolver solver(network);
  const ExactSolution found = solver.solve(
      {.restrictions = {}, .jobs = jobs, .margins = !budgets, .best = budgets ? 1U : 4U});
  ASSERT_EQ(found.feasible, all.optimum < kForbidden);
  if (!found.feasible) {
    expect_minimal_conflict(network, found.conflict);
    return;
  }
  EXPECT_NEAR(found.objective, all.optimum, 1e-9);
  EXPECT_EQ(found.objective, network.cost(found.assignment));
  EXPECT_TRUE(network.is_feasible(found.assignment));
  EXPECT_TRUE(found.optimal) << found.lower_bound << " " << found.objective;
  EXPECT_LE(found.lower_bound, found.objective);
  EXPECT_NEAR(found.lower_bound, all.optimum, 1e-7);
  if (budgets) return;

  double optima = 0;
  std::vector<std::string> lowest;
  std::vector<double> costs;
  for (const auto& [cost, assignment] : all.feasible) {
    costs.push_back(cost);
    if (cost > all.optimum + 1e-9) continue;
    ++optima;
    const std::vector<std::string> texts = texts_of(network, assignment);
    if (lowest.empty() || texts < lowest) lowest = texts;
  }
  EXPECT_EQ(texts_of(network, found.assignment), lowest);
  ASSERT_TRUE(found.optima.has_value());
  EXPECT_EQ(*found.optima, optima);
  ASSERT_EQ(found.margins.size(), all.least.size());
  for (std::size_t v = 0; v < all.least.size(); ++v) {
    double margin = kForbidden;
    for (std::size_t x = 0; x < all.least[v].size(); ++x) {
      if (static_cast<int>(x) != found.assignment[v]) {
        margin = std::min(margin, all.least[v][x] - all.optimum);
      }
    }
    if (margin == kForbidden) {
      EXPECT_EQ(found.margins[v], kForbidden) << v;
    } else {
      EXPECT_NEAR(found.margins[v], margin, 1e-7) << v;
    }
  }
  std::ranges::sort(costs);
  ASSERT_EQ(found.best.size(), std::min<std::size_t>(4, costs.size()));
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    EXPECT_NEAR(found.best[i].objective, costs[i], 1e-9);
    EXPECT_EQ(found.best[i].objective, network.cost(found.best[i].assignment));
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(found.best[i].assignment, found.best[j].assignment);
    }
  }
}

}  // namespace shardlab::testing_support

// Cost against a budget as a curve: the points where the optimum changes when assignments may weigh less and
// less.
//
//   const BudgetCurve curve = budget_curve(network, budget, {.points = 20});
//   for (const CurvePoint& point : curve.points) point.weight, point.objective_us
//
// From a point to the next lighter one the optimum stays, whatever the limit. First come the corners of the
// lower hull of (weight, cost): with a charge per unit of weight each is the optimum of a network without a
// budget, so each is the optimum of all assignments that weigh no more than it. Then the points between
// them: the optimum within one unit less than a point weighs is the next one. Of many the largest steps in
// cost are looked into first.
//
// Source: Everett 1963 (strategies/solvers/budget_search.h) for the hull; the points in between are exact
// budget searches, each proved.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/solvers/exact.h"

namespace shardlab {

struct CurvePoint {
  std::int64_t weight = 0;
  double objective_us = 0.0;
  Assignment assignment;
  bool on_hull = false;
  // Whether nothing lies between it and the next point.
  bool is_next_known = false;
};

struct BudgetCurve {
  std::vector<CurvePoint> points;  // the heaviest first; empty when nothing is feasible
  // The searches in between were given up where they take too long: corners alone are there.
  bool given_up = false;

  // Whether every point is there.
  [[nodiscard]] bool is_complete() const;
};

struct CurveOptions {
  std::size_t points = 20;  // at most, unless the hull has more corners
};

// The budget's limit does not matter; the network's own budgets hold as well. Throws LimitError.
[[nodiscard]] BudgetCurve budget_curve(const CostNetwork& network, const Budget& budget,
                                       const CurveOptions& options = {});

}  // namespace shardlab

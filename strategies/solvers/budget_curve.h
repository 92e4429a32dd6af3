// The least cost as a function of a budget's limit: the points at which the optimum changes as the
// limit falls.
//
//   const BudgetCurve curve = budget_curve(network, budget, {.points = 20});
//   for (const CurvePoint& point : curve.points) point.weight, point.objective_us
//
// Between a point and the next lighter one, the optimum is the same for every limit. The corners of
// the lower hull of (weight, cost) are found first: with some charge for each unit of weight, each
// corner is the optimum of a network without this budget, so it is also the optimum of all
// assignments that weigh no more than it. Then the points between the corners are found: the next
// point after a point is the optimum of all assignments that weigh at least one unit less. If there
// are many, the largest steps in cost are searched first.
//
// Source: Everett 1963 (strategies/solvers/budget_search.h) for the hull. The points in between
// come from exact budget searches, each with a proof.
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
  // Whether it is known that no point lies between this one and the next.
  bool is_next_known = false;
};

struct BudgetCurve {
  std::vector<CurvePoint> points;  // heaviest first; empty when nothing is feasible
  // Whether the search for points between the corners was given up because it took too long.
  bool given_up = false;

  // Whether the curve holds every point that exists.
  [[nodiscard]] bool is_complete() const;
};

struct CurveOptions {
  std::size_t points = 20;  // the most points to find, unless the hull has more corners
};

// Ignores the limit of `budget`, but keeps to the budgets of the network itself. Throws LimitError.
[[nodiscard]] BudgetCurve budget_curve(const CostNetwork& network, const Budget& budget,
                                       const CurveOptions& options = {});

}  // namespace shardlab

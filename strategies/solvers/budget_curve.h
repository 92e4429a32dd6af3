// Cost against a budget as a curve: the points where the optimum changes as assignments have to
// weigh less and less.
//
//   const BudgetCurve curve = budget_curve(network, budget, {.points = 20});
//   for (const CurvePoint& point : curve.points) point.weight, point.objective_us
//
// Between a point and the next lighter one, the optimum is the same for every limit. First come the
// corners of the lower hull of (weight, cost): with a charge for each unit of weight, each corner
// is the optimum of a network without a budget, so it is also the optimum of all assignments that
// weigh no more than it. Then come the points between the corners: the optimum that weighs at least
// one unit less than a point is the next point. Where there are many, the largest steps in cost are
// looked into first.
//
// Source: Everett 1963 (strategies/solvers/budget_search.h) for the hull. The points in between
// come from exact budget searches, each of them proved.
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

// The limit of `budget` does not matter. The network's own budgets are kept to. Throws LimitError.
[[nodiscard]] BudgetCurve budget_curve(const CostNetwork& network, const Budget& budget,
                                       const CurveOptions& options = {});

}  // namespace shardlab

#include "strategies/solvers/budget_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

class CurveSearch {
 public:
  CurveSearch(const CostNetwork& network, const Budget& budget)
      : network_(network), budget_(budget) {}

  BudgetCurve run(const CurveOptions& options) {
    const std::optional<CurvePoint> cheapest = solve_charged(0.0);
    if (!cheapest) return {};
    CurvePoint light = lightest(*cheapest);
    CurvePoint heavy = *cheapest;
    // Several optima may cost the same; the lightest of them is taken.
    while (heavy.weight > light.weight) {
      std::optional<CurvePoint> lighter = search_within(heavy.weight - 1);
      if (!lighter || lighter->objective_us > heavy.objective_us * (1.0 + kEqual)) break;
      heavy = *std::move(lighter);
    }
    heavy.on_hull = light.on_hull = true;
    if (light.weight < heavy.weight) {
      curve_.points.push_back(heavy);
      add_hull(heavy, light);
    }
    curve_.points.push_back(light);
    add_steps(options);
    return std::move(curve_);
  }

 private:
  // Costs that differ by at most this share are equal: equal assignments may be summed in different
  // orders.
  static constexpr double kEqual = 1e-9;

  [[nodiscard]] CurvePoint point_of(ExactSolution solution) const {
    CurvePoint point;
    point.weight = network_.weight(budget_, solution.assignment);
    point.objective_us = network_.cost(solution.assignment);
    point.assignment = std::move(solution.assignment);
    return point;
  }

  // The optimum when each unit of weight costs `charge_us` more.
  [[nodiscard]] std::optional<CurvePoint> solve_charged(double charge_us) const {
    CostNetwork charged = network_;
    for (const Budget::Weights& weights : budget_.weights) {
      for (int x = 0; x < network_.values(weights.variable); ++x) {
        charged.add_cost(weights.variable, x,
                         charge_us * static_cast<double>(weights.of_value[to_index(x)]));
      }
    }
    ExactSolution best = ExactSolver(charged).solve({.explain = false});
    if (!best.feasible) return std::nullopt;
    return point_of(std::move(best));
  }

  [[nodiscard]] std::optional<CurvePoint> solve_within(std::int64_t limit) const {
    CostNetwork limited = network_;
    Budget budget = budget_;
    budget.limit = limit;
    limited.add_budget(std::move(budget));
    ExactSolution best = ExactSolver(limited).solve({.explain = false});
    if (!best.feasible) return std::nullopt;
    SHARDLAB_CHECK(best.optimal, "a budget of ", limit, ": ", best.objective, " is not proved");
    return point_of(std::move(best));
  }

  // If the search takes too long, returns nothing and notes that it was given up.
  [[nodiscard]] std::optional<CurvePoint> search_within(std::int64_t limit) {
    try {
      return solve_within(limit);
    } catch (const LimitError&) {
      curve_.given_up = true;
      return std::nullopt;
    }
  }

  // A lower bound on the weight of every assignment: the sum of the variables' lightest values.
  [[nodiscard]] std::int64_t least_weight() const {
    std::int64_t sum = 0;
    for (const Budget::Weights& weights : budget_.weights) {
      std::optional<std::int64_t> least;
      for (int x = 0; x < network_.values(weights.variable); ++x) {
        if (network_.costs(weights.variable)[to_index(x)] == kForbidden) continue;
        const std::int64_t weight = weights.of_value[to_index(x)];
        least = std::min(weight, least.value_or(weight));
      }
      sum += least.value_or(0);
    }
    return sum;
  }

  // Raises the charge until the optimum has the least weight possible, or no charge makes it
  // lighter.
  [[nodiscard]] CurvePoint lightest(const CurvePoint& heavy) const {
    const std::int64_t least = least_weight();
    CurvePoint light = heavy;
    double charge_us = 0.01 * std::max(std::abs(heavy.objective_us), 1.0) /
                       std::max(static_cast<double>(heavy.weight), 1.0);
    constexpr int kGrowths = 16;
    for (int i = 0; i < kGrowths && light.weight > least; ++i, charge_us *= 4.0) {
      CurvePoint point = *solve_charged(charge_us);
      if (point.weight < light.weight) light = std::move(point);
    }
    light.is_next_known = light.weight == least;
    return light;
  }

  // Adds the corners of the hull that lie below the line between these two, from heavy to light.
  void add_hull(const CurvePoint& heavy, const CurvePoint& light) {
    const double charge_us = (light.objective_us - heavy.objective_us) /
                             static_cast<double>(heavy.weight - light.weight);
    std::optional<CurvePoint> corner = solve_charged(charge_us);
    const auto height = [&](const CurvePoint& point) {
      return point.objective_us + charge_us * static_cast<double>(point.weight);
    };
    if (!corner || height(*corner) >= height(heavy) * (1.0 - kEqual)) return;
    if (corner->weight >= heavy.weight || corner->weight <= light.weight) return;
    corner->on_hull = true;
    add_hull(heavy, *corner);
    curve_.points.push_back(*corner);
    add_hull(*corner, light);
  }

  // Adds points between the corners, beginning where the cost rises most. The optimum that weighs
  // at least one unit less than a point is the next point.
  void add_steps(const CurveOptions& options) {
    std::vector<CurvePoint>& points = curve_.points;
    if (!points.back().is_next_known) {
      // No charge led to a lighter assignment. A search with a limit proves whether there is one.
      points.back().is_next_known = !search_within(points.back().weight - 1) && !curve_.given_up;
    }
    while (points.size() < options.points && !curve_.given_up) {
      std::optional<std::size_t> widest;
      double step_us = -1.0;
      for (std::size_t i = 0; i + 1 < points.size(); ++i) {
        const double own_us = points[i + 1].objective_us - points[i].objective_us;
        if (points[i].is_next_known || own_us <= step_us) continue;
        widest = i;
        step_us = own_us;
      }
      if (!widest) return;
      std::optional<CurvePoint> next = search_within(points[*widest].weight - 1);
      if (curve_.given_up) return;
      SHARDLAB_CHECK(next.has_value(), "the next point is one");
      points[*widest].is_next_known = true;
      CurvePoint& after = points[*widest + 1];
      if (next->objective_us < after.objective_us * (1.0 - kEqual)) {
        points.insert(points.begin() + static_cast<std::ptrdiff_t>(*widest) + 1, *std::move(next));
      }
    }
  }

  const CostNetwork& network_;
  const Budget& budget_;
  BudgetCurve curve_;
};

}  // namespace

bool BudgetCurve::is_complete() const {
  return std::ranges::all_of(points, &CurvePoint::is_next_known);
}

BudgetCurve budget_curve(const CostNetwork& network, const Budget& budget,
                         const CurveOptions& options) {
  return CurveSearch(network, budget).run(options);
}

}  // namespace shardlab

// Curves of cost against a budget: every point, on networks that are small enough to try all
// assignments.
#include "strategies/solvers/budget_curve.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/random_networks.h"

namespace shardlab {
namespace budget_curve_test {

using testing_support::BruteForce;
using testing_support::Random;
using testing_support::random_cases;

// Finds the least cost at each weight, and keeps it only where every lighter assignment costs more.
std::map<std::int64_t, double> all_points(const CostNetwork& network, const Budget& budget) {
  std::map<std::int64_t, double> least;
  for (const auto& [cost, assignment] : BruteForce(network).feasible) {
    const auto [it, is_new] = least.try_emplace(network.weight(budget, assignment), cost);
    it->second = std::min(it->second, cost);
  }
  std::map<std::int64_t, double> points;
  double best = kForbidden;
  for (const auto& [weight, cost] : least) {
    if (cost < best - 1e-9) points[weight] = cost;
    best = std::min(best, cost);
  }
  return points;
}

Budget random_budget(Random& random, const CostNetwork& network) {
  Budget budget{.name = "b", .limit = 0, .weights = {}};
  for (int v = 0; v < network.variables(); ++v) {
    if (random.percent(30)) continue;
    Budget::Weights weights{.variable = v, .of_value = {}};
    for (int x = 0; x < network.values(v); ++x) weights.of_value.push_back(random.between(0, 9));
    budget.weights.push_back(std::move(weights));
  }
  return budget;
}

TEST(BudgetCurve, HasEveryPointOfRandomNetworks) {
  Random random(706);
  SHARDLAB_TRACE_SEED();
  std::size_t points = 0;
  std::size_t corners = 0;
  for (int i = 0; i < random_cases(300); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const CostNetwork network = testing_support::random_network(
        random, {.variables = 1 + random.below(7), .edges = random.below(9), .forbidden = 5});
    const Budget budget = random_budget(random, network);
    const BudgetCurve curve = budget_curve(network, budget, {.points = 1000});
    const std::map<std::int64_t, double> wanted = all_points(network, budget);
    EXPECT_FALSE(curve.given_up);
    EXPECT_TRUE(curve.is_complete());
    ASSERT_EQ(curve.points.size(), wanted.size());
    auto point = curve.points.rbegin();
    for (const auto& [weight, cost] : wanted) {
      EXPECT_EQ(point->weight, weight);
      EXPECT_NEAR(point->objective_us, cost, 1e-9);
      EXPECT_EQ(network.weight(budget, point->assignment), weight);
      EXPECT_NEAR(network.cost(point->assignment), cost, 1e-9);
      ++point;
    }
    points += curve.points.size();
    // No corner of the hull lies above a line between two points.
    for (std::size_t c = 1; c + 1 < curve.points.size(); ++c) {
      if (!curve.points[c].on_hull) continue;
      ++corners;
      const CurvePoint& corner = curve.points[c];
      for (const CurvePoint& a : curve.points) {
        for (const CurvePoint& b : curve.points) {
          if (a.weight <= corner.weight || b.weight >= corner.weight) continue;
          const double part = static_cast<double>(corner.weight - b.weight) /
                              static_cast<double>(a.weight - b.weight);
          EXPECT_LE(corner.objective_us,
                    b.objective_us + part * (a.objective_us - b.objective_us) + 1e-6);
        }
      }
    }
  }
  EXPECT_GT(points, static_cast<std::size_t>(random_cases(600)));
  EXPECT_GT(corners, static_cast<std::size_t>(random_cases(50)));
}

// Each of ten variables costs 1 if it is made lighter by 2. The 11 points lie on one line, and only
// its two ends are corners.
TEST(BudgetCurve, HasTheCornersAndTheFirstPointsWhereThereAreMoreThanAskedFor) {
  CostNetwork network;
  Budget budget{.name = "b", .limit = 0, .weights = {}};
  const int two = network.add_domain({"heavy", "light"});
  for (int v = 0; v < 10; ++v) {
    network.add_variable("v" + std::to_string(v), two, std::vector{0.0, 1.0});
    budget.weights.push_back({.variable = v, .of_value = {2, 0}});
  }
  const BudgetCurve all = budget_curve(network, budget, {.points = 20});
  ASSERT_EQ(all.points.size(), 11U);
  EXPECT_TRUE(all.is_complete());
  for (std::size_t i = 0; i < all.points.size(); ++i) {
    EXPECT_EQ(all.points[i].weight, 20 - 2 * static_cast<std::int64_t>(i));
    EXPECT_NEAR(all.points[i].objective_us, static_cast<double>(i), 1e-9);
    EXPECT_EQ(all.points[i].on_hull, i == 0 || i == 10);
  }
  const BudgetCurve some = budget_curve(network, budget, {.points = 4});
  ASSERT_EQ(some.points.size(), 4U);
  EXPECT_FALSE(some.is_complete());
  EXPECT_EQ(some.points[1].weight, 18);
  EXPECT_EQ(some.points[2].weight, 16);
  EXPECT_FALSE(some.points[2].is_next_known);
  EXPECT_EQ(some.points[3].weight, 0);
}

TEST(BudgetCurve, IsEmptyWhereNothingIsFeasible) {
  CostNetwork network;
  network.add_variable("v", network.add_domain({"x"}), std::vector{kForbidden});
  const BudgetCurve curve = budget_curve(network, Budget{.name = "b", .limit = 0, .weights = {}});
  EXPECT_TRUE(curve.points.empty());
  EXPECT_TRUE(curve.is_complete());
}

}  // namespace budget_curve_test
}  // namespace shardlab

// The walk that never looks ahead, and what its choices cost later.
#include "strategies/solvers/greedy_walk.h"

#include <gtest/gtest.h>

#include "costmodel/base/index.h"
#include "tests/support/random_networks.h"

namespace shardlab {
namespace greedy_walk_test {

using testing_support::Random;
using testing_support::random_cases;

// A chain a -> b -> c: b takes "cheap", which leaves c nothing but the dear way.
//   walk     a x 0, b cheap 1 + 0, c 0 + 9          = 10
//   optimum  a x 0, b dear  3 + 0, c 0 + 1          = 4
CostNetwork trap() {
  CostNetwork network;
  const int a = network.add_variable("a", network.add_domain({"x"}), std::vector{0.0});
  const int b =
      network.add_variable("b", network.add_domain({"cheap", "dear"}), std::vector{1.0, 3.0});
  const int c = network.add_variable("c", network.add_domain({"y", "z"}), std::vector{0.0, 0.0});
  network.add_edge(a, b, network.add_table(1, 2, {0, 0}));
  network.add_edge(c, b, network.add_table(2, 2, {9, 1, 9, 1}));
  return network;
}

TEST(GreedyWalk, NeverLooksAhead) {
  const CostNetwork network = trap();
  const Assignment given = {0, -1, -1};
  const GreedyWalk walk = greedy_walk(network, given);
  EXPECT_EQ(walk.assignment, (Assignment{0, 0, 0}));  // y and z tie, and y is listed first
  EXPECT_EQ(network.cost(walk.assignment), 10.0);
  ExactSolver solver(network);
  const GreedyRegret regret = greedy_regret(network, solver, given, walk.assignment);
  EXPECT_EQ(regret.optimum_us, 4.0);
  ASSERT_EQ(regret.choices.size(), 1U);
  const ChoiceRegret& choice = regret.choices[0];
  EXPECT_EQ(choice.first, 1);
  EXPECT_EQ(choice.last, 1);
  EXPECT_EQ(choice.instead, 1);
  EXPECT_EQ(choice.local_us, 2.0);   // 3 instead of 1
  EXPECT_EQ(choice.later_us, 8.0);   // 1 instead of 9
  EXPECT_EQ(choice.regret_us, 6.0);  // 8 - 2
  EXPECT_EQ(regret.rest_us, 0.0);
}

// A value that is given also counts for the variables that are chosen before it.
TEST(GreedyWalk, KnowsWhatIsGivenLater) {
  const CostNetwork network = trap();
  CostNetwork late = network;
  late.add_edge(1, 2, late.add_table(2, 2, {5, 0, 0, 0}));
  EXPECT_EQ(greedy_walk(late, {0, -1, 0}).assignment, (Assignment{0, 1, 0}));  // 3 + 1 < 1 + 9 + 5
  EXPECT_EQ(greedy_walk(late, {0, -1, -1}).assignment, (Assignment{0, 0, 1}));
}

TEST(GreedyWalk, SaysWhereItIsStuck) {
  CostNetwork network;
  const int two = network.add_domain({"x", "y"});
  network.add_variable("a", two, std::vector{0.0, 1.0});
  network.add_variable("b", two, std::vector{0.0, 0.0});
  network.add_edge(0, 1, network.add_table(2, 2, {kForbidden, kForbidden, 0, 0}));
  const GreedyWalk walk = greedy_walk(network, {-1, -1});
  EXPECT_EQ(walk.stuck, 1);
  EXPECT_TRUE(walk.assignment.empty());
}

// Compares with a walk that is written the slow way. Regrets sum to the distance from the optimum,
// and each is the difference of two optima of the network with parts of the walk fixed.
TEST(GreedyWalk, OnRandomNetworksRegretsSumToTheGap) {
  Random random(705);
  SHARDLAB_TRACE_SEED();
  int walked = 0;
  int regretted = 0;
  for (int i = 0; i < random_cases(400); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const CostNetwork network = testing_support::random_network(
        random, {.variables = 2 + random.below(7), .edges = random.below(14), .forbidden = 3});
    const ExactSolution best = ExactSolver(network).solve({.explain = false});
    if (!best.feasible) continue;
    Assignment given(to_index(network.variables()), -1);
    for (std::size_t v = 0; v < given.size(); ++v) {
      if (random.percent(30)) given[v] = best.assignment[v];
    }
    Assignment slow = given;
    std::optional<int> stuck;
    for (int v = 0; v < network.variables() && !stuck; ++v) {
      if (given[to_index(v)] >= 0) continue;
      double least = kForbidden;
      for (int x = 0; x < network.values(v); ++x) {
        double cost = network.costs(v)[to_index(x)];
        for (const CostEdge& edge : network.edges()) {
          const int other = edge.first == v ? edge.second : edge.first;
          if ((edge.first != v && edge.second != v) || slow[to_index(other)] < 0) continue;
          const CostTable& table = network.tables()[to_index(edge.table)];
          cost += edge.first == v ? table.at(x, slow[to_index(other)])
                                  : table.at(slow[to_index(other)], x);
        }
        if (cost < least) {
          least = cost;
          slow[to_index(v)] = x;
        }
      }
      if (least == kForbidden) stuck = v;
    }
    const GreedyWalk walk = greedy_walk(network, given);
    EXPECT_EQ(walk.stuck, stuck);
    if (walk.stuck) continue;
    ++walked;
    EXPECT_EQ(walk.assignment, slow);
    ExactSolver solver(network);
    const GreedyRegret regret =
        greedy_regret(network, solver, given, walk.assignment, {.choices = 100});
    EXPECT_NEAR(regret.optimum_us, best.objective, 1e-9);
    double sum = regret.rest_us;
    for (std::size_t c = 0; c < regret.choices.size(); ++c) {
      const ChoiceRegret& choice = regret.choices[c];
      sum += choice.regret_us;
      EXPECT_GT(choice.regret_us, 0.0);
      EXPECT_GE(choice.local_us, -1e-9);
      EXPECT_NEAR(choice.regret_us, choice.later_us - choice.local_us, 1e-9);
      if (c > 0) {
        EXPECT_LE(choice.regret_us, regret.choices[c - 1].regret_us);
      }
      std::vector<Restriction> fixed;
      const auto completion = [&](int length) {
        fixed.clear();
        for (int v = 0; v < network.variables(); ++v) {
          if (given[to_index(v)] >= 0 || v < length)
            fixed.push_back({v, {walk.assignment[to_index(v)]}});
        }
        return ExactSolver(network).solve({.restrictions = fixed}).objective;
      };
      EXPECT_NEAR(completion(choice.first + 1) - completion(choice.first), choice.regret_us, 1e-7);
      ++regretted;
    }
    EXPECT_NEAR(sum, network.cost(walk.assignment) - best.objective, 1e-6);
  }
  EXPECT_GT(walked, random_cases(50));
  EXPECT_GT(regretted, random_cases(50));
}

// When few optima may be found, intervals stay whole and the sum stays the same.
TEST(GreedyWalk, IntervalsThatAreNotSearchedKeepTheirRegretTogether) {
  CostNetwork network;
  const int two = network.add_domain({"cheap", "dear"});
  constexpr int kTraps = 40;
  for (int i = 0; i < kTraps; ++i) {
    const int b = network.add_variable("b" + std::to_string(i), two, std::vector{1.0, 3.0});
    const int c = network.add_variable("c" + std::to_string(i), two, std::vector{0.0, 0.0});
    network.add_edge(c, b, network.add_table(2, 2, {9, 1, 9, 1}));
  }
  const Assignment given(2 * kTraps, -1);
  const Assignment walk = greedy_walk(network, given).assignment;
  ExactSolver solver(network);
  const GreedyRegret some = greedy_regret(network, solver, given, walk, {.choices = 5});
  ASSERT_EQ(some.choices.size(), 5U);
  for (const ChoiceRegret& choice : some.choices) EXPECT_NEAR(choice.regret_us, 6.0, 1e-6);
  EXPECT_NEAR(some.rest_us, 6.0 * (kTraps - 5), 1e-6);
}

}  // namespace greedy_walk_test
}  // namespace shardlab

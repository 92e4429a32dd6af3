// The exact solver is compared with trying every assignment, on networks that are small enough for
// that.
#include "strategies/solvers/exact.h"

#include <gtest/gtest.h>

#include <chrono>

#include "costmodel/base/error.h"
#include "tests/support/solver_checks.h"

namespace shardlab {
namespace exact_test {

using testing_support::Random;
using testing_support::random_cases;
using testing_support::RandomNetworkOptions;

// Networks of every kind: disconnected, with single values, ties, forbidden costs and equalities.
RandomNetworkOptions random_options(Random& random) {
  RandomNetworkOptions options;
  options.variables = 1 + random.below(7);
  options.most_values = 1 + random.below(4);
  options.edges = random.below(11);
  options.most_cost = random.pick(std::vector<int>{0, 1, 3, 20, 1000});
  options.forbidden = random.pick(std::vector<int>{0, 0, 10, 30, 60});
  options.equalities = random.pick(std::vector<int>{0, 20});
  options.negative = random.percent(30);
  return options;
}

void check_random(std::uint64_t test, int count, int budget_percent) {
  Random random(test);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(count); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    RandomNetworkOptions options = random_options(random);
    options.budget_percent = budget_percent;
    testing_support::expect_exact(testing_support::random_network(random, options));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ExactSolver, FindsWhatTryingEverythingFinds) { check_random(701, 1500, 0); }
TEST(ExactSolver, FindsWhatTryingEverythingFindsWithinBudgets) { check_random(702, 500, 100); }
TEST(ExactSolverSlow, FindsWhatTryingEverythingFinds) { check_random(703, 10000, 0); }
TEST(ExactSolverSlow, FindsWhatTryingEverythingFindsWithinBudgets) {
  check_random(704, 10000, 100);
}

// Without time, the answer is any assignment, with a bound that independent code has checked.
TEST(ExactSolver, AnAnswerWithAGapHasAProvedBound) {
  Random random(705);
  SHARDLAB_TRACE_SEED();
  const Patience none{.takes_gap = true, .until = std::chrono::steady_clock::now()};
  int gaps = 0;
  for (int i = 0; i < random_cases(40); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const RandomNetworkOptions options = {
        .variables = 18, .most_values = 5, .edges = 54, .most_cost = 1000, .forbidden = i % 10};
    const CostNetwork network = testing_support::random_network(random, options);
    const ExactSolution best = ExactSolver(network).solve();
    const ExactSolution quick = ExactSolver(network).solve({.patience = none});
    ASSERT_EQ(quick.feasible, best.feasible);
    if (!best.feasible) continue;
    EXPECT_EQ(network.cost(quick.assignment), quick.objective);
    EXPECT_GE(quick.objective, best.objective - 1e-6);
    EXPECT_LE(quick.lower_bound, best.objective + 1e-6);
    EXPECT_EQ(quick.optimal, quick.objective - quick.lower_bound < 1e-6);
    if (quick.optimal) continue;
    ++gaps;
    // Nothing can be compared with an optimum that is not known.
    EXPECT_THROW(static_cast<void>(ExactSolver(network).solve({.margins = true, .patience = none})),
                 LimitError);
  }
  EXPECT_GT(gaps, 0);
}

// The check of a proof gives the bound, and changes nothing else.
TEST(ExactSolver, WithoutAProofTheAssignmentIsTheSame) {
  Random random(707);
  SHARDLAB_TRACE_SEED();
  int solved = 0;
  for (int i = 0; i < random_cases(60); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    RandomNetworkOptions options = random_options(random);
    options.budget_percent = i % 2 == 0 ? 0 : 100;
    const CostNetwork network = testing_support::random_network(random, options);
    const ExactSolution proved = ExactSolver(network).solve();
    const ExactSolution found = ExactSolver(network).solve({.proves = false});
    ASSERT_EQ(found.feasible, proved.feasible);
    if (!found.feasible) continue;
    ++solved;
    EXPECT_EQ(found.assignment, proved.assignment);
    EXPECT_EQ(found.objective, proved.objective);
    EXPECT_TRUE(proved.optimal);
    EXPECT_FALSE(found.optimal);
    EXPECT_EQ(found.lower_bound, 0.0);
  }
  EXPECT_GT(solved, 0);
}

// The same within budgets: what is found without time keeps to them, and the bound holds.
TEST(ExactSolver, AnAnswerWithAGapKeepsToTheBudgets) {
  Random random(709);
  SHARDLAB_TRACE_SEED();
  const std::atomic<bool> stop = true;
  const Patience none{.takes_gap = true, .stop = &stop};
  int gaps = 0;
  int tight = 0;
  const int cases = random_cases(60);
  for (int i = 0; i < cases; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const RandomNetworkOptions options = {
        .variables = 16, .most_values = 5, .edges = 36, .most_cost = 1000, .forbidden = i % 5};
    CostNetwork network = testing_support::random_network(random, options);
    const ExactSolution free = ExactSolver(network).solve();
    for (int b = 0; b < 1 + i % 2; ++b) {
      Budget budget{.name = "b" + std::to_string(b), .limit = 40, .weights = {}};
      for (int v = 0; v < options.variables; ++v) {
        Budget::Weights weights{.variable = v, .of_value = {}};
        for (int x = 0; x < network.values(v); ++x) {
          weights.of_value.push_back(random.between(0, 7));
        }
        budget.weights.push_back(std::move(weights));
      }
      network.add_budget(std::move(budget));
    }
    const ExactSolution best = ExactSolver(network).solve({.explain = false});
    const ExactSolution quick = ExactSolver(network).solve({.explain = false, .patience = none});
    ASSERT_EQ(quick.feasible, best.feasible);
    if (!best.feasible) continue;
    EXPECT_TRUE(best.optimal);
    EXPECT_TRUE(network.is_feasible(quick.assignment));
    EXPECT_EQ(network.cost(quick.assignment), quick.objective);
    EXPECT_GE(quick.objective, best.objective - 1e-6);
    EXPECT_LE(quick.lower_bound, best.objective + 1e-6);
    tight += best.objective > free.objective ? 1 : 0;
    gaps += quick.optimal ? 0 : 1;
  }
  EXPECT_GT(tight, cases / 6);
  EXPECT_GT(gaps, cases / 6);
}

TEST(ExactSolver, AStopIsTheEndOfTime) {
  std::atomic<bool> stop = false;
  const Patience patience{.takes_gap = true, .stop = &stop};
  EXPECT_EQ(patience.seconds_left(), kForbidden);
  stop = true;
  EXPECT_EQ(patience.seconds_left(), 0.0);
  Random random(706);
  const CostNetwork network = testing_support::random_network(
      random, {.variables = 18, .most_values = 5, .edges = 54, .most_cost = 1000});
  const ExactSolution best = ExactSolver(network).solve();
  const ExactSolution quick = ExactSolver(network).solve({.patience = patience});
  ASSERT_EQ(quick.feasible, best.feasible);
  EXPECT_LE(quick.lower_bound, best.objective + 1e-6);
  EXPECT_GE(quick.objective, best.objective - 1e-6);
}

// A search without time takes at least what is known; one with time finds the same optimum.
TEST(ExactSolver, AKnownAssignmentIsWhereTheSearchStarts) {
  const Patience none = {.takes_gap = true, .until = std::chrono::steady_clock::time_point()};
  Random random(708);
  int better = 0;
  for (int i = 0; i < 60; ++i) {
    const CostNetwork network = testing_support::random_network(
        random, {.variables = 18, .most_values = 5, .edges = 54, .most_cost = 1000});
    const ExactSolution best = ExactSolver(network).solve();
    if (!best.feasible) continue;
    const ExactSolution alone = ExactSolver(network).solve({.patience = none});
    const ExactSolution quick =
        ExactSolver(network).solve({.patience = none, .known = best.assignment});
    EXPECT_EQ(quick.objective, best.objective);
    better += quick.objective < alone.objective ? 1 : 0;
    EXPECT_EQ(ExactSolver(network).solve({.known = alone.assignment}).assignment, best.assignment);
    // A restriction that it breaks makes it unknown.
    const Restriction other = {.variable = 0, .allowed = {best.assignment[0] == 0 ? 1 : 0}};
    const ExactSolution pinned =
        ExactSolver(network).solve({.restrictions = {other}, .explain = false});
    const ExactSolution from = ExactSolver(network).solve(
        {.restrictions = {other}, .explain = false, .known = best.assignment});
    EXPECT_EQ(from.feasible, pinned.feasible);
    EXPECT_EQ(from.objective, pinned.objective);
  }
  EXPECT_GT(better, 0);
}

TEST(ExactSolver, AnEmptyNetworkCostsItsConstant) {
  CostNetwork network;
  network.add_constant(3.5);
  const ExactSolution found = ExactSolver(network).solve({.margins = true, .best = 2});
  EXPECT_TRUE(found.feasible);
  EXPECT_TRUE(found.optimal);
  EXPECT_EQ(found.objective, 3.5);
  EXPECT_EQ(found.optima, 1.0);
}

// A ring of three variables with two values each, whose neighbours want to differ: one edge has to
// pay.
CostNetwork frustrated_ring() {
  CostNetwork network;
  const int domain = network.add_domain({"p", "q"});
  for (const char* name : {"x", "y", "z"}) network.add_variable(name, domain);
  const int differ = network.add_table(2, 2, {5, 0, 0, 5});
  network.add_edge(0, 1, differ);
  network.add_edge(1, 2, differ);
  network.add_edge(0, 2, differ);
  return network;
}

TEST(ExactSolver, ClosesTheGapThatBoundsLeaveOnAnOddRing) {
  const CostNetwork network = frustrated_ring();
  const ExactSolution found = ExactSolver(network).solve({.margins = true});
  EXPECT_EQ(found.objective, 5.0);
  EXPECT_TRUE(found.optimal);
  EXPECT_EQ(found.optima, 6.0);
  EXPECT_EQ(testing_support::texts_of(network, found.assignment),
            (std::vector<std::string>{"p", "p", "q"}));
}

TEST(ExactSolver, StartsAgainAfterAPin) {
  const CostNetwork network = frustrated_ring();
  ExactSolver solver(network);
  EXPECT_EQ(solver.solve().objective, 5.0);
  const std::vector<Restriction> pins = {{.variable = 0, .allowed = {1}},
                                         {.variable = 1, .allowed = {1}},
                                         {.variable = 2, .allowed = {1}}};
  EXPECT_EQ(solver.solve({.restrictions = {pins[0]}}).objective, 5.0);
  EXPECT_EQ(solver.solve({.restrictions = pins}).objective, 15.0);
  EXPECT_EQ(solver.solve().objective, 5.0);
}

TEST(ExactSolver, NamesThePinsThatContradictEachOther) {
  CostNetwork network;
  const int domain = network.add_domain({"p", "q"});
  for (const char* name : {"w", "x", "y", "z"}) network.add_variable(name, domain);
  const int equal = network.add_table(2, 2, {0, kForbidden, kForbidden, 0});
  network.add_edge(0, 1, equal);
  network.add_edge(1, 2, equal);
  network.add_edge(2, 3, equal);
  const std::vector<Restriction> pins = {{.variable = 3, .allowed = {0}},
                                         {.variable = 0, .allowed = {0}},
                                         {.variable = 2, .allowed = {1}}};
  const ExactSolution found = ExactSolver(network).solve({.restrictions = pins});
  EXPECT_FALSE(found.feasible);
  std::vector<std::string> texts;
  for (const ConflictPart& part : found.conflict) texts.push_back(describe(part, network, pins));
  const std::vector<std::string> either[] = {
      {"forbidden pairs of \"y\" and \"z\"", "pin of \"z\" to p", "pin of \"y\" to q"},
      {"forbidden pairs of \"w\" and \"x\"", "forbidden pairs of \"x\" and \"y\"",
       "pin of \"w\" to p", "pin of \"y\" to q"}};
  EXPECT_TRUE(texts == either[0] || texts == either[1]) << testing::PrintToString(texts);
}

TEST(ExactSolver, DoesNotDependOnJobs) {
  Random random(705);
  const CostNetwork network = testing_support::random_network(
      random, {.variables = 40, .most_values = 5, .edges = 60, .most_cost = 9, .forbidden = 5});
  const ExactSolution one = ExactSolver(network).solve({.jobs = 1, .margins = true, .best = 5});
  const ExactSolution four = ExactSolver(network).solve({.jobs = 4, .margins = true, .best = 5});
  EXPECT_EQ(one.assignment, four.assignment);
  EXPECT_EQ(one.margins, four.margins);
  EXPECT_EQ(one.lower_bound, four.lower_bound);
}

TEST(CostNetwork, RefusesWhatDoesNotFit) {
  CostNetwork network;
  const int domain = network.add_domain({"p", "q"});
  const int x = network.add_variable("x", domain);
  const int y = network.add_variable("y", network.add_domain({"p", "q", "r"}));
  const int table = network.add_table(2, 2, {0, 0, 0, 0});
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(message([&] { network.add_edge(x, y, table); }),
            "edge of \"x\" and \"y\": found a table of 2 x 2 costs; valid: 2 x 3, one for each "
            "pair of values");
  EXPECT_EQ(message([&] { network.add_edge(x, x, table); }),
            "variable \"x\": found an edge from the variable to itself");
  EXPECT_EQ(message([&] { network.add_variable("z", domain, std::vector<double>{1}); }),
            "variable \"z\": found 1 costs; valid: 2, one for each value");
  EXPECT_EQ(message([&] { network.add_cost(x, 0, -kForbidden); }),
            "x: found the cost -inf; valid: from -1e15 to 1e15, or infinity");
  EXPECT_EQ(message([&] { network.add_domain({}); }),
            "found a domain of 0 values; valid: from 1 to 65536");
  EXPECT_EQ(message([&] {
              network.add_budget(
                  {.name = "b", .limit = 1, .weights = {{.variable = x, .of_value = {1}}}});
            }),
            "budget \"b\", variable \"x\": found 1 weights; valid: 2, one for each value");
}

}  // namespace exact_test
}  // namespace shardlab

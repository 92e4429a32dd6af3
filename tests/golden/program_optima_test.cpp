// The exact solver finds, and proves, the optima of AutoParallel's LLaMA3-8B instances, to 1e-9
// relative.
// Source: meta-pytorch/autoparallel at a54c252. The instances of 1 layer are in
// tests/golden/autoparallel (thinned by scripts/thin_autoparallel_program.py); those of 2 and 32
// layers in tests/golden/whole.
#include <gtest/gtest.h>

#include <tuple>

#include "costmodel/base/index.h"
#include "strategies/solvers/exact.h"
#include "tests/support/autoparallel_instance.h"

namespace shardlab {
namespace program_optima_test {

using testing_support::AutoParallelInstance;
using testing_support::InstanceConstraints;
using testing_support::one_layer_golden;
using testing_support::whole_golden;

void expect_optimum(const CostNetwork& network, double optimum_us, double relative = 1e-9) {
  const ExactSolution found = ExactSolver(network).solve();
  ASSERT_TRUE(found.feasible);
  EXPECT_TRUE(found.optimal);
  EXPECT_NEAR(found.objective, optimum_us, relative * optimum_us);
  EXPECT_LE(found.lower_bound, found.objective);
  EXPECT_GE(found.lower_bound, found.objective - 1e-6);
  EXPECT_EQ(found.objective, network.cost(found.assignment));
  EXPECT_TRUE(network.is_feasible(found.assignment));
}

class ProgramOptima : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(ProgramOptima, AreThoseOfTheGoldenFiles) {
  const auto& [form, layers] = GetParam();
  const AutoParallelInstance whole = whole_golden(form);
  const CostNetwork network = whole.network(layers);
  EXPECT_NEAR(network.cost(whole.chosen(layers)), whole.optimum_us(layers), 1e-6);
  expect_optimum(network, whole.optimum_us(layers));
}

INSTANTIATE_TEST_SUITE_P(LLaMA3, ProgramOptima,
                         testing::Combine(testing::Values("einsum", "native"),
                                          testing::Values(1, 2, 32)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) +
                                  std::to_string(std::get<1>(test.param));
                         });

TEST(OneLayer, HasTheGoldenOptimumAndPlanPrice) {
  for (const char* form : {"einsum", "native"}) {
    const AutoParallelInstance golden = one_layer_golden(form);
    const CostNetwork network = golden.network(1);
    EXPECT_NEAR(network.cost(golden.chosen(1)), golden.optimum_us(1), 1e-6);
    expect_optimum(network, golden.optimum_us(1));
  }
}

TEST(OneLayer, MarginsAreWhatPinsCost) {
  const AutoParallelInstance golden = one_layer_golden("einsum");
  const CostNetwork network = golden.network(1);
  ExactSolver solver(network);
  const ExactSolution found = solver.solve({.jobs = 2, .margins = true, .best = 3});
  ASSERT_EQ(found.margins.size(), static_cast<std::size_t>(network.variables()));
  ASSERT_TRUE(found.optima.has_value());
  EXPECT_GE(*found.optima, 1.0);
  ASSERT_EQ(found.best.size(), 3U);
  EXPECT_EQ(found.best[0].assignment, found.assignment);
  for (int v = 0; v < network.variables(); v += 37) {
    Restriction others{.variable = v, .allowed = {}};
    for (int x = 0; x < network.values(v); ++x) {
      if (x != found.assignment[to_index(v)]) others.allowed.push_back(x);
    }
    const ExactSolution without = solver.solve({.restrictions = {others}, .explain = false});
    const double margin = found.margins[to_index(v)];
    if (without.feasible) {
      EXPECT_NEAR(without.objective - found.objective, margin, 1e-5) << network.name(v);
    } else {
      EXPECT_EQ(margin, kForbidden) << network.name(v);
    }
  }
}

// Checks the optima that the golden file lists under "Other optima on the same tables", with 32
// layers.
TEST(OtherOptima, AreThoseOfTheGoldenInstances) {
  struct Row {
    InstanceConstraints constraints;
    double einsum_us;
    double native_us;
  };
  InstanceConstraints no_budget;
  no_budget.parameters_fully_sharded = false;
  InstanceConstraints free_output;
  free_output.outputs.reset();
  InstanceConstraints output;
  output.outputs = "S(0)R";
  InstanceConstraints none = no_budget;
  none.inputs.reset();
  none.outputs.reset();
  const Row rows[] = {{no_budget, 535872.026, 553868.526},
                      {free_output, 538359.459, 555361.898},
                      {output, 554494.890, 569578.060},
                      {none, 533607.704, 552218.684}};
  for (const char* form : {"einsum", "native"}) {
    const AutoParallelInstance whole = whole_golden(form);
    for (const Row& row : rows) {
      const double optimum_us = std::string(form) == "einsum" ? row.einsum_us : row.native_us;
      expect_optimum(whole.network(32, row.constraints), optimum_us, 1e-9);
    }
  }
}

// The convex hull of cost over the parts of the parameters that ranks keep, in 1/64 of a parameter.
TEST(ParameterBudget, HasTheHullOfTheTwoLayerInstance) {
  const AutoParallelInstance whole = whole_golden("einsum");
  struct Row {
    std::int64_t limit;
    double optimum_us;
  };
  for (const Row& row : {Row{336, 51901.1}, Row{56, 52051.1}, Row{21, 52259.9}}) {
    InstanceConstraints constraints;
    constraints.parameters_fully_sharded = false;
    constraints.parameter_budget = row.limit;
    const CostNetwork network = whole.network(2, constraints);
    const ExactSolution found = ExactSolver(network).solve();
    ASSERT_TRUE(found.feasible);
    EXPECT_TRUE(found.optimal) << row.limit;
    EXPECT_NEAR(found.objective, row.optimum_us, 0.05) << row.limit;
    EXPECT_LE(network.weight(network.budgets()[0], found.assignment), row.limit);
  }
}

}  // namespace program_optima_test
}  // namespace shardlab

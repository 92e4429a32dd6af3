// The best plan that fits, held against every plan of a small program.
#include "runner/solve/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runner/config/program_stack.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/sharding_network.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace plan_search_test {

using testing_support::shipped;

// The shipped program `mlp` on two ranks that have half of the tokens each, with all of its plans.
class SmallProgram : public ::testing::Test {
 protected:
  struct Known {
    double objective = 0.0;
    double peak_bytes = 0.0;
  };

  // Every plan that can run, the cheapest first.
  std::vector<Known> all_plans() {
    ProblemOptions options = options_;
    options.runs = runs_under(program_, planner(1e18).blocks(), Recomputation{});
    const CostNetwork network =
        network_of(make_problem(program_, mesh_, strategies_, prices_, options));
    constexpr std::size_t kMore = 50'000;
    const ExactSolution all = ExactSolver(network).solve({.best = kMore});
    EXPECT_LT(all.best.size(), kMore);
    StepPlanner planner = this->planner(1e18);
    std::vector<Known> plans;
    for (const RankedAssignment& plan : all.best) {
      const auto figures = figures_if_it_runs(planner, plan.assignment, {});
      if (figures) plans.push_back({plan.objective, figures->memory.peak_bytes});
    }
    return plans;
  }

  StepPlanner planner(double most_bytes) {
    return {priced_, evaluator_.on(mesh_), std::optional(most_bytes)};
  }
  FoundPlan found(double most_bytes) {
    StepPlanner planner = this->planner(most_bytes);
    PlanSearch search(priced_, planner, {});
    return search.best_that_fits(options_, {});
  }

  ConfigStore store_ = shipped();
  DeviceMesh mesh_ = DeviceMesh::parse("2");
  Topology topology_ = store_.topology("h100");
  Stack stack_ = store_.stack("alpha-beta");
  Program program_ = store_.program("mlp");
  StackEvaluator evaluator_{stack_, topology_};
  ProgramStrategies strategies_ = enumerate_strategies(program_, mesh_,
                                                       {.rules = stack_.rules.set_for("solve"),
                                                        .strided = false,
                                                        .links = links_of(evaluator_.on(mesh_))});
  ProgramPrices prices_{program_, strategies_, evaluator_, mesh_, 1};
  PricedProgram priced_{stack_, topology_, mesh_, program_, strategies_, prices_};
  ProblemOptions options_{.pins = {{"x", {Placement::shard(0)}}}};
};

TEST_F(SmallProgram, TheBestPlanThatFitsIsFoundAndProved) {
  const std::vector<Known> plans = all_plans();
  ASSERT_GT(plans.size(), 1000U);
  std::set<double> peaks;
  for (const Known& plan : plans) peaks.insert(plan.peak_bytes);
  ASSERT_GT(peaks.size(), 5U);
  const std::vector<double> budgets(peaks.begin(), peaks.end());
  constexpr std::size_t kBudgets = 8;
  std::size_t above_optimum = 0;
  for (std::size_t i = 0; i < kBudgets; ++i) {
    const double most = budgets[i * budgets.size() / kBudgets];
    SCOPED_TRACE(most);
    double best = kForbidden;
    for (const Known& plan : plans) {
      if (plan.peak_bytes <= most) best = std::min(best, plan.objective);
    }
    const FoundPlan plan = found(most);
    ASSERT_TRUE(plan.fits());
    EXPECT_NEAR(plan.solution.objective, best, 1e-9 * best);
    EXPECT_NEAR(plan.solution.lower_bound, best, 1e-9 * best);
    EXPECT_TRUE(plan.solution.optimal);
    above_optimum += best > plans.front().objective * (1.0 + 1e-6) ? 1U : 0U;
  }
  EXPECT_GT(above_optimum, 0U);

  // Below the least peak there is no plan. Where that is proved, it is said.
  const FoundPlan far = found(0.8 * *peaks.begin());
  EXPECT_FALSE(far.solution.feasible);
  EXPECT_TRUE(far.is_misfit_proved);
  EXPECT_TRUE(far.misfit.starts_with("no plan fits into ")) << far.misfit;
  const FoundPlan near = found(*peaks.begin() - 1.0);
  EXPECT_FALSE(near.solution.feasible);
  EXPECT_EQ(near.is_misfit_proved, near.misfit.starts_with("no plan fits into ")) << near.misfit;
  // Both sizes have the digits that tell them apart.
  const auto size_after = [&](const std::string& words) {
    const std::size_t begin = near.misfit.find(words) + words.size();
    return near.misfit.substr(begin, near.misfit.find(" GB", begin) - begin);
  };
  EXPECT_NE(size_after(" into "), size_after(" tried is ")) << near.misfit;
}

}  // namespace plan_search_test
}  // namespace shardlab

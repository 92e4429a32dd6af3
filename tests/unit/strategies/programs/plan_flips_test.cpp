// How far parameters may move before a plan changes is compared with solving the scaled problem at
// many factors.
#include "strategies/programs/plan_flips.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/select/scaled_parameters.h"
#include "strategies/solvers/exact.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace plan_flips_test {

using testing_support::stack_with;
using testing_support::topology_with;

struct Case {
  const char* name;
  const char* program;  // a file of configs/programs, or "" for one layer of LLaMA3-8B
  const char* mesh;
  const char* stack;
  std::size_t parameters;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

Program program_of(const Case& test) {
  if (test.program[0] == 0) {
    return find_built_in_program("llama3-8b")->make({.layers = 1, .batch = 16, .seqlen = 8192});
  }
  const std::string file = std::string(SHARDLAB_SOURCE_DIR "/configs/programs/") + test.program;
  std::ifstream in(file);
  return Program::from_json(nlohmann::json::parse(in), {file, ""});
}

class PlanFlipsOf : public testing::TestWithParam<Case> {};

TEST_P(PlanFlipsOf, LieWhereTheScaledProblemGetsAnotherOptimum) {
  const Program program = program_of(GetParam());
  const DeviceMesh mesh = DeviceMesh::parse(GetParam().mesh);
  const Stack stack = stack_with(GetParam().stack);
  const Topology topology = topology_with(8);
  const ProgramStrategies strategies =
      enumerate_strategies(program, mesh, {.rules = stack.rules.set()});
  const ProblemOptions options;
  const auto network_at = [&](const ScaledParameter& parameter, double f) {
    CostFactors factors;
    factors.*parameter.factor = parameter.inverse ? 1.0 / f : f;
    StackEvaluator evaluator(stack, topology);
    evaluator.set_factors(factors);
    return network_of(make_problem(program, mesh, strategies,
                                   ProgramPrices(program, strategies, evaluator, mesh), options));
  };
  const CostNetwork own = network_at(kScaledParameters[0], 1.0);
  const Assignment plan = ExactSolver(own).solve().assignment;
  PlanFlips flips(program, mesh, strategies, options, stack, topology);
  const std::vector<PlanRange> ranges = flips.of(plan);
  ASSERT_EQ(ranges.size(), GetParam().parameters);
  int found = 0;
  for (std::size_t p = 0; p < ranges.size(); ++p) {
    EXPECT_EQ(ranges[p].parameter, kScaledParameters[p].name);
    for (const bool is_above : {false, true}) {
      SCOPED_TRACE(std::string(ranges[p].parameter) + (is_above ? " above" : " below"));
      const std::optional<PlanFlip>& flip = is_above ? ranges[p].above : ranges[p].below;
      const double end = flip ? flip->factor : is_above ? kMostPlanFactor : 1.0 / kMostPlanFactor;
      constexpr int kPoints = 7;
      for (int i = 1; i <= kPoints; ++i) {
        const double f = std::pow(end, static_cast<double>(i) / kPoints);
        const CostNetwork network = network_at(kScaledParameters[p], f);
        const double optimum_us = ExactSolver(network).solve().objective;
        EXPECT_NEAR(network.cost(plan), optimum_us, 2e-8 * optimum_us) << f;
      }
      if (!flip) continue;
      ++found;
      EXPECT_EQ(flip->factor > 1.0, is_above && flip->factor != 1.0);
      const CostNetwork there = network_at(kScaledParameters[p], flip->factor);
      EXPECT_NEAR(there.cost(plan), flip->objective_us, 1e-9 * flip->objective_us);
      EXPECT_NEAR(there.cost(flip->instead), flip->objective_us, 2e-8 * flip->objective_us);
      const double step = is_above ? 1.001 : 0.999;
      const CostNetwork beyond = network_at(kScaledParameters[p], flip->factor * step);
      EXPECT_LT(beyond.cost(flip->instead), beyond.cost(plan));
      std::vector<int> changed;
      for (std::size_t v = 0; v < plan.size(); ++v) {
        if (plan[v] != flip->instead[v]) changed.push_back(static_cast<int>(v));
      }
      EXPECT_EQ(changed, flip->nodes);
      EXPECT_FALSE(changed.empty());
    }
  }
  if (std::string(GetParam().program) != "mlp.json") {
    EXPECT_GT(found, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PlanFlipsOf,
    testing::Values(Case{"Llama", "", "8x8", "ap-nccl", 3},
                    Case{"BlockUnderApNccl", "transformer-block.json", "2x4", "ap-nccl", 3},
                    Case{"BlockUnderApDefault", "transformer-block.json", "8", "ap-default", 3},
                    // Here the graph planner chooses paths, and kernels are free.
                    Case{"MlpUnderAGraphPlanner", "mlp.json", "2x2", "dtensor-v3g", 2},
                    Case{"MlpUnderShardlab", "mlp.json", "2x2", "shardlab", 3}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace plan_flips_test
}  // namespace shardlab

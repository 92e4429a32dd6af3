#include "tests/support/thin_programs.h"

#include <gtest/gtest.h>

#include "strategies/programs/program_prices.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/select/evaluator.h"
#include "strategies/solvers/exact.h"
#include "tests/support/reference_stacks.h"

namespace shardlab::testing_support {

Program thin_llama(MatmulForm form) {
  return find_built_in_program("llama3-8b")
      ->make({.layers = 1,
              .batch = 8,
              .seqlen = 8,
              .matmul = form,
              .sizes = {.width = 64, .heads = 16, .kv_heads = 8, .ffn = 64, .vocabulary = 128}});
}

Program whole_llama(MatmulForm form) {
  return find_built_in_program("llama3-8b")->make({.layers = 1, .matmul = form});
}

std::vector<NodePlacements> solved_placements(const Program& program, const DeviceMesh& mesh,
                                              const ProblemOptions& options) {
  const ProgramStrategies strategies = enumerate_strategies(program, mesh);
  StackEvaluator evaluator(stack_with("ap-nccl"), topology_with(8));
  const ProgramPrices prices(program, strategies, evaluator, mesh);
  const ShardingProblem problem = make_problem(program, mesh, strategies, prices, options);
  const CostNetwork network = network_of(problem);
  const ExactSolution solution = ExactSolver(network).solve();
  EXPECT_TRUE(solution.optimal);
  return solution.feasible ? placements_of(strategies, solution.assignment)
                           : std::vector<NodePlacements>(program.nodes.size());
}

std::vector<NodePlan> plans_of(const Program& program, const DeviceMesh& mesh,
                               std::span<const NodePlacements> placements) {
  StackEvaluator evaluator(stack_with("ap-nccl"), topology_with(8));
  return plan_program(program, placements, evaluator.on(mesh));
}

}  // namespace shardlab::testing_support

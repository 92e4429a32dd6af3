// What `solve` proves is what runs: under a stack that prices plans, the optimum of a program is
// the sum of its kernels and of the steps of its moves, and no recipe, no greedy walk and no pinned
// plan takes less.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>

#include "strategies/programs/program_builder.h"
#include "strategies/programs/program_data.h"
#include "strategies/programs/program_execution.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/pruned_strategies.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/select/evaluator.h"
#include "strategies/solvers/exact.h"
#include "strategies/solvers/greedy_walk.h"
#include "tests/support/random_source.h"
#include "tests/support/shipped.h"
#include "tests/support/thin_programs.h"

namespace shardlab {
namespace solved_programs_contract_test {

using namespace testing_support;

constexpr double kTolerance = 1e-9;  // relative: sums in another order

std::size_t index_below(Random& random, std::size_t end) {
  return static_cast<std::size_t>(random.below(static_cast<int>(end)));
}

// A program on a mesh under a stack that prices plans, and its network.
class Problem {
 public:
  Problem(const Program& program, const DeviceMesh& mesh, const std::string& stack)
      : program_(program),
        mesh_(mesh),
        evaluator_(shipped().stack(stack), shipped().topology("h100")),
        strategies_(enumerate_strategies(
            program, mesh,
            {.rules = evaluator_.stack().rules.set(), .links = links_of(evaluator_.on(mesh))})),
        prices_(program, strategies_, evaluator_, mesh) {}

  struct Answer {
    bool feasible = false;
    double objective_us = 0.0;
    Assignment assignment;
  };
  Answer solve(const ProblemOptions& options = {}) {
    const ShardingProblem problem = make_problem(program_, mesh_, strategies_, prices_, options);
    const CostNetwork network = network_of(problem);
    const ExactSolution solution = ExactSolver(network).solve();
    if (!solution.feasible) return {};
    EXPECT_TRUE(solution.optimal);
    return {true, solution.objective, solution.assignment};
  }
  Answer walk() {
    const ShardingProblem problem = make_problem(program_, mesh_, strategies_, prices_);
    const GreedyWalk walk = greedy_walk(network_of(problem), Assignment(program_.nodes.size(), -1));
    if (walk.assignment.empty()) return {};
    return {true, executed_us(walk.assignment), walk.assignment};
  }

  // What the plan takes, from the kernels' prices and the planner's steps alone.
  double executed_us(const Assignment& assignment) {
    const std::vector<NodePlacements> placements = placements_of(strategies_, assignment);
    const std::vector<NodePlan> plans = plan_program(program_, placements, evaluator_.on(mesh_));
    double us = 0.0;
    for (std::size_t n = 0; n < plans.size(); ++n) {
      us += kernel_us_of(program_, n, strategies_.of(n).rule, evaluator_.compute_model(), mesh_,
                         placements[n]);
      for (const Plan& move : plans[n].moves) {
        EXPECT_EQ(move.unexecutable, "") << program_.nodes[n].name;
        EXPECT_EQ(move.impossible, "") << program_.nodes[n].name;
        us += move.executed_price().total.value();
      }
    }
    return us;
  }

  [[nodiscard]] const ProgramStrategies& strategies() const { return strategies_; }
  [[nodiscard]] bool uses_an_order(const Assignment& assignment) const {
    for (std::size_t n = 0; n < assignment.size(); ++n) {
      const NodeClass& node = strategies_.of(n);
      for (std::size_t t = 0; t < node.tensors.size(); ++t) {
        const LayoutId id = strategies_.layout(node, static_cast<std::size_t>(assignment[n]), t);
        if (!strategies_.layouts.layout(id).has_default_order()) return true;
      }
    }
    return false;
  }

 private:
  const Program& program_;
  const DeviceMesh& mesh_;
  StackEvaluator evaluator_;
  ProgramStrategies strategies_;
  ProgramPrices prices_;
};

void expect_optimum_is_what_runs(const Program& program, const DeviceMesh& mesh,
                                 const std::string& stack, std::uint64_t seed) {
  SCOPED_TRACE(program.name + " on " + mesh.text() + ", " + stack + ", seed " +
               std::to_string(seed));
  Problem problem(program, mesh, stack);
  const Problem::Answer best = problem.solve();
  ASSERT_TRUE(best.feasible);
  const double slack = kTolerance * best.objective_us;
  EXPECT_NEAR(problem.executed_us(best.assignment), best.objective_us, slack);
  if (const Problem::Answer walk = problem.walk(); walk.feasible) {
    EXPECT_GE(walk.objective_us, best.objective_us - slack);
  }
  for (const std::string& name : shipped().names(ConfigKind::kRecipe)) {
    ProblemOptions options;
    try {
      options.masks = shipped().recipe(name).masks(program, mesh);
      const Problem::Answer answer = problem.solve(options);
      if (!answer.feasible) continue;
      EXPECT_GE(problem.executed_us(answer.assignment), best.objective_us - slack) << name;
    } catch (const InputError&) {  // the recipe does not fit the program or the mesh
      continue;
    }
  }
  // Any layout of the parameters.
  Random random(seed);
  ProblemOptions pinned;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    if (program.nodes[n].kind != NodeKind::kParameter) continue;
    const NodeClass& node = problem.strategies().of(n);
    const auto strategy = index_below(random, node.strategies);
    const LayoutId id = problem.strategies().layout(node, strategy, 0);
    pinned.pins.push_back({program.nodes[n].name, problem.strategies().layouts[id]});
  }
  if (const Problem::Answer answer = problem.solve(pinned); answer.feasible) {
    EXPECT_GE(problem.executed_us(answer.assignment), best.objective_us - slack);
  }
}

class BuiltInPrograms : public testing::TestWithParam<const char*> {};

TEST_P(BuiltInPrograms, HaveOptimaThatAreWhatRuns) {
  const DeviceMesh mesh = DeviceMesh::parse(GetParam());
  for (const std::string stack : {"alpha-beta", "calibrated-h100", "shardlab"}) {
    // The rules of shardlab make the most strategies: on three mesh dims these take a minute.
    if (mesh.ndim() > 2 && stack == "shardlab") continue;
    for (const char* name : {"mlp", "transformer-block"}) {
      expect_optimum_is_what_runs(shipped().program(name), mesh, stack, 1);
    }
    expect_optimum_is_what_runs(whole_llama(MatmulForm::kEinsum), mesh, stack, 2);
  }
  for (const char* name : {"gpt2-xl", "moe-1.3b-64e"}) {
    const Program program = find_built_in_program(name)->make({.layers = 1});
    expect_optimum_is_what_runs(program, mesh, "alpha-beta", 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, BuiltInPrograms, testing::Values("8", "2x4", "8x8", "2x2x2"),
                         [](const auto& test) { return "on" + std::string(test.param); });

// Products, sums and pointwise ops in any order, with and without a loss.
Program random_program(Random& random) {
  ProgramBuilder b("random", "made up");
  const std::int64_t batch = 8 * (1 + static_cast<std::int64_t>(random.below(64)));
  const auto width = [&] { return std::int64_t{64} << random.below(7); };
  std::vector<Value> values = {b.source(NodeKind::kInput, meta_of(DType::kBF16, {batch, width()}))};
  const std::size_t ops = 3 + index_below(random, 12);
  while (values.size() < ops) {
    const Value x = values[index_below(random, values.size())];
    const Shape shape = b.meta(x).shape;
    switch (random.below(4)) {
      case 0:
      case 1: {
        const Value w = b.source(NodeKind::kParameter, meta_of(DType::kBF16, {shape[1], width()}));
        values.push_back(b.mm(x, w));
        break;
      }
      case 2:
        values.push_back(b.unary("aten.relu.default", x));
        break;
      default: {
        const auto same = std::find_if(values.begin(), values.end(), [&](Value other) {
          return other != x && b.meta(other).shape == shape;
        });
        if (same != values.end()) values.push_back(b.binary("aten.add.Tensor", x, *same));
      }
    }
  }
  const Value last = values.back();
  b.returns(last, NodeKind::kOutput, b.source(NodeKind::kTangent, b.meta(last)));
  return with_aliases(std::move(b).build());
}

void expect_random_programs(int count) {
  SHARDLAB_TRACE_SEED();
  constexpr const char* kMeshes[] = {"8", "2x4", "8x8", "2x2x2"};
  for (int i = 0; i < random_cases(count); ++i) {
    Random random(static_cast<std::uint64_t>(i));
    const Program program = random_program(random);
    const DeviceMesh mesh = DeviceMesh::parse(kMeshes[i % 4]);
    expect_optimum_is_what_runs(program, mesh, i % 2 == 0 ? "alpha-beta" : "calibrated-h100",
                                static_cast<std::uint64_t>(i));
  }
}
TEST(RandomPrograms, HaveOptimaThatAreWhatRuns) { expect_random_programs(40); }
TEST(RandomProgramsSlow, HaveOptimaThatAreWhatRuns) { expect_random_programs(200); }

// -- Bounds that leave out strategies -------------------------------------------------------------

// Solves with all strategies and with those that bounds leave, and compares: the optimum, which of
// several optima it is, and the floor under every plan with a strategy that was left out.
void expect_same_optimum_without_what_bounds_leave_out(const Program& program,
                                                       const DeviceMesh& mesh,
                                                       const std::string& stack,
                                                       const ProblemOptions& options,
                                                       Random& random, double most_left = 2e6) {
  SCOPED_TRACE(program.name + " on " + mesh.text() + ", " + stack);
  StackEvaluator evaluator(shipped().stack(stack), shipped().topology("h100"));
  const ProgramStrategies all = enumerate_strategies(
      program, mesh,
      {.rules = evaluator.stack().rules.set(), .links = links_of(evaluator.on(mesh))});
  const auto network = [&](const ProgramStrategies& strategies) {
    const ProgramPrices prices(program, strategies, evaluator, mesh);
    return network_of(make_problem(program, mesh, strategies, prices, options));
  };
  const CostNetwork whole = network(all);
  ExactSolver solver(whole);
  const ExactSolution best = solver.solve();
  const PruneResult pruned =
      prune_strategies(program, mesh, all, evaluator, options,
                       {.least_pairs = 0.0, .most_left = most_left, .least_left = 0.3 * most_left});
  if (!best.feasible) {
    EXPECT_FALSE(pruned.strategies);
    return;
  }
  const double slack = kTolerance * best.objective;
  EXPECT_LE(pruned.bound_us, best.objective + slack);
  ASSERT_TRUE(pruned.strategies);
  EXPECT_GE(pruned.upper_us, best.objective - slack);
  EXPECT_LE(pruned.after, pruned.before);
  const CostNetwork part = network(*pruned.strategies);
  const ExactSolution again = ExactSolver(part).solve();
  ASSERT_TRUE(again.feasible);
  EXPECT_NEAR(part.cost(pruned.best), pruned.upper_us, slack);
  // The lesser of the floor and of what is left bounds all plans; mostly it is the optimum.
  EXPECT_LE(std::min(again.lower_bound, pruned.floor_us), best.objective + slack);
  if (pruned.floor_us < best.objective - slack) return;
  EXPECT_NEAR(again.objective, best.objective, slack);
  if (pruned.floor_us > pruned.upper_us) {
    for (int n = 0; n < whole.variables(); ++n) {
      EXPECT_EQ(part.value_name(n, again.assignment[to_index(n)]),
                whole.value_name(n, best.assignment[to_index(n)]))
          << whole.name(n);
    }
  }
  for (int i = 0; i < 12; ++i) {
    const auto n = static_cast<int>(index_below(random, to_index(whole.variables())));
    const auto value = static_cast<int>(index_below(random, to_index(whole.values(n))));
    if (part.find_value(n, whole.value_name(n, value)) >= 0) continue;
    const ExactSolution forced =
        solver.solve({.restrictions = {{.variable = n, .allowed = {value}}}, .explain = false});
    if (!forced.feasible) continue;
    EXPECT_GE(forced.objective, pruned.floor_us - slack)
        << whole.name(n) << " " << whole.value_name(n, value);
  }
}

TEST(PrunedStrategies, HaveTheOptimaOfBuiltInPrograms) {
  Random random(5);
  for (const char* mesh_text : {"8", "2x4", "8x8", "2x2x2"}) {
    const DeviceMesh mesh = DeviceMesh::parse(mesh_text);
    for (const std::string stack : {"alpha-beta", "calibrated-h100"}) {
      // All strategies on three mesh dims take a while: one stack shows what the other would.
      if (mesh.ndim() > 2 && stack == "alpha-beta") continue;
      for (const char* name : {"mlp", "transformer-block"}) {
        const Program program = shipped().program(name);
        expect_same_optimum_without_what_bounds_leave_out(program, mesh, stack, {}, random);
        expect_same_optimum_without_what_bounds_leave_out(
            program, mesh, stack, {.parameter_budget = 1.0 / static_cast<double>(mesh.size())},
            random);
      }
    }
    const Program llama = whole_llama(MatmulForm::kEinsum);
    expect_same_optimum_without_what_bounds_leave_out(llama, mesh, "calibrated-h100", {}, random);
  }
}

TEST(PrunedStrategies, HaveTheOptimaOfRandomProgramsWithPins) {
  SHARDLAB_TRACE_SEED();
  constexpr const char* kMeshes[] = {"8", "2x4", "8x8", "2x2x2"};
  for (int i = 0; i < random_cases(40); ++i) {
    Random random(1000 + static_cast<std::uint64_t>(i));
    const Program program = random_program(random);
    const DeviceMesh mesh = DeviceMesh::parse(kMeshes[i % 4]);
    ProblemOptions options;
    if (random.percent(50)) {
      options.pins.push_back({program.nodes[0].name, Layout::parse("S(0)", 1).placements});
      options.pins[0].layout.resize(to_index(mesh.ndim()), Placement::replicate());
    }
    expect_same_optimum_without_what_bounds_leave_out(program, mesh,
                                                      i % 2 == 0 ? "alpha-beta" : "calibrated-h100",
                                                      options, random, i % 3 == 0 ? 500.0 : 2e6);
    if (testing::Test::HasFailure()) return;
  }
}

// Where more strategies tie with the optimum than may be priced, only the bound can prove it.
TEST(PrunedStrategies, AreProvedByABoundThatComesNearer) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2x2");
  const Program program = shipped().program("transformer-block");
  StackEvaluator evaluator(shipped().stack("calibrated-h100"), shipped().topology("h100"));
  const ProgramStrategies all = enumerate_strategies(program, mesh);
  PruneOptions options = {.least_pairs = 0.0, .most_left = 0.0, .least_left = 0.0};
  const auto pruned = [&] { return prune_strategies(program, mesh, all, evaluator, {}, options); };
  const auto is_proved = [](const PruneResult& result) {
    return result.strategies && result.floor_us >= (1.0 - 1e-9) * result.upper_us;
  };
  const PruneResult proved = pruned();
  EXPECT_TRUE(is_proved(proved)) << proved.floor_us << " of " << proved.upper_us;
  EXPECT_LE(proved.bound_us, proved.upper_us * (1.0 + 1e-12));

  options.most_closing = 0.0;
  EXPECT_FALSE(is_proved(pruned()));
  options.most_closing = 1e9;
  options.patience.until = std::chrono::steady_clock::now();
  EXPECT_FALSE(is_proved(pruned()));

  // Ctrl-C sets the flag: an assignment and a bound on the optimum are there all the same.
  const std::atomic<bool> stop = true;
  options.patience = {.stop = &stop};
  const PruneResult stopped = pruned();
  ASSERT_TRUE(stopped.strategies);
  EXPECT_LE(stopped.sweeps, proved.sweeps / 2);
  EXPECT_GE(stopped.upper_us, proved.upper_us * (1.0 - 1e-12));
  EXPECT_LE(stopped.floor_us, proved.upper_us);
}

TEST(PrunedStrategies, AreNotKnownForPricesOfTheTwoEndsAlone) {
  const Program program = shipped().program("mlp");
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(shipped().stack("ap-nccl"), shipped().topology("h100"));
  const ProgramStrategies all = enumerate_strategies(program, mesh);
  const PruneResult pruned =
      prune_strategies(program, mesh, all, evaluator, {}, {.least_pairs = 0.0});
  EXPECT_FALSE(pruned.strategies);
  EXPECT_EQ(pruned.after, pruned.before);
}

// Gradients of weights are scattered along the fast links first, so that the slow links carry an
// eighth.
TEST(ShardOrder, IsChosenWhereItPays) {
  const Program program = whole_llama(MatmulForm::kEinsum);
  const DeviceMesh mesh = DeviceMesh::parse("8x8");
  ProblemOptions sharded;
  sharded.parameter_budget = 1.0 / 64;
  Problem problem(program, mesh, "alpha-beta");
  const Problem::Answer best = problem.solve(sharded);
  ASSERT_TRUE(best.feasible);
  EXPECT_TRUE(problem.uses_an_order(best.assignment));
  EXPECT_NEAR(problem.executed_us(best.assignment), best.objective_us,
              kTolerance * best.objective_us);
}

}  // namespace solved_programs_contract_test
}  // namespace shardlab

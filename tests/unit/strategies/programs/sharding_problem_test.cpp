// The choice of layouts for a program as a network: prices, pins, pairs, dtype rules and budgets.
#include "strategies/programs/sharding_problem.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "strategies/programs/dtype_chains.h"
#include "strategies/programs/program_builder.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace sharding_problem_test {

using testing_support::message_of;
using testing_support::stack_with;
using testing_support::topology_with;
using Texts = std::vector<std::string>;

// The program x W with W cast to bf16, and its gradient g^T x reduced in f32.
Program linear(Shape x_shape = {64, 64}, Shape w_shape = {64, 128}) {
  ProgramBuilder b("linear", "");
  const Value w = b.source(NodeKind::kParameter, meta_of(DType::kF32, w_shape));
  const Value x = b.source(NodeKind::kInput, meta_of(DType::kBF16, x_shape));
  const Value g = b.source(NodeKind::kTangent, meta_of(DType::kBF16, {x_shape[0], w_shape[1]}));
  const Value y = b.mm(x, b.dtype_cast(w, DType::kBF16));
  b.begin_backward();
  const Value product = b.mm(b.permute(x, {1, 0}), g);
  b.returns(y, NodeKind::kOutput, g);
  b.returns(b.dtype_cast(product, DType::kF32), NodeKind::kGradient, w);
  return with_aliases(std::move(b).build());
}

struct Made {
  explicit Made(Program p, const ProblemOptions& options = {}, const char* mesh_text = "2x2",
                const char* stack = "ap-nccl")
      : program(std::move(p)),
        mesh(DeviceMesh::parse(mesh_text)),
        strategies(enumerate_strategies(program, mesh)),
        evaluator(stack_with(stack), topology_with(8)),
        prices(program, strategies, evaluator, mesh),
        problem(make_problem(program, mesh, strategies, prices, options)) {}
  Program program;
  DeviceMesh mesh;
  ProgramStrategies strategies;
  StackEvaluator evaluator;
  ProgramPrices prices;
  ShardingProblem problem;

  [[nodiscard]] std::size_t node(const char* name) const { return program.find(name).value(); }
  // The values of a node that are left.
  [[nodiscard]] Texts left(const char* name) const {
    Texts texts;
    const std::size_t n = node(name);
    for (std::size_t v = 0; v < problem.costs[n].size(); ++v) {
      if (problem.costs[n][v] < kInfinity) {
        texts.push_back(problem.domains[to_index(problem.domain_of[n])][v]);
      }
    }
    return texts;
  }
};

// A mask on all mesh dims that holds where possible.
LayoutMask wish(std::size_t node, std::vector<std::optional<Placement>> placements) {
  const std::size_t ndim = placements.size();
  return {.node = node,
          .placements = std::move(placements),
          .by = "recipe r",
          .where_possible = std::vector<bool>(ndim, true),
          .rules = std::vector<std::string>(ndim, "/rules/0")};
}

// Two rows can be cut by the first mesh dim, not by both: the second one stays open.
TEST(ShardingProblem, APlacementThatIsWishedForIsDroppedWhereItIsImpossible) {
  const Program program = linear({64, 2}, {2, 128});
  const std::size_t weight = program.find("primals_1").value();
  ProblemOptions options;
  options.masks = {wish(weight, {Placement::shard(0), Placement::shard(0)})};
  options.masks[0].rules.clear();
  const Made made(program, options, "2x4");
  const Texts left = made.left("primals_1");
  EXPECT_GT(left.size(), 1U);
  for (const std::string& text : left) EXPECT_TRUE(text.starts_with("S(0)")) << text;
}

TEST(ShardingProblem, ARuleThatNoNodeCanFollowIsRefused) {
  const Program program = linear({64, 2}, {2, 128});
  ProblemOptions options;
  options.masks = {wish(program.find("primals_1").value(), {std::nullopt, Placement::shard(0)})};
  const auto message = [&] {
    return message_of<InputError>([&] { static_cast<void>(Made(program, options, "2x4")); });
  };
  EXPECT_TRUE(message().starts_with(
      "recipe r: /rules/0: its only node can't be placed so on mesh dim 1: primals_1 (f32[2,128]): "
      "found *S(0), where dim 0 has 2 elements, too few for 4 shards; valid: RR, "))
      << message();
  options.masks.push_back(options.masks[0]);
  EXPECT_TRUE(
      message().starts_with("recipe r: /rules/0: none of its 2 nodes can be placed so on "
                            "mesh dim 1; the first is primals_1 (f32[2,128]): found *S(0)"))
      << message();
  options.masks.push_back(
      wish(program.find("primals_2").value(), {std::nullopt, Placement::shard(0)}));
  EXPECT_EQ(Made(program, options, "2x4").problem.names.size(), program.nodes.size());
}

// The gradient of a bias is reduced after its cast, so nothing may be communicated between the
// output's tangent and that cast. The reshape on the way merges the dim that the mask would cut.
TEST(ShardingProblem, APlacementThatIsWishedForLeavesSilentChainsPossible) {
  ProgramBuilder b("bias", "");
  const Value bias = b.source(NodeKind::kParameter, meta_of(DType::kF32, {8}));
  const Value x = b.source(NodeKind::kInput, meta_of(DType::kBF16, {4, 4, 8}));
  const Value g = b.source(NodeKind::kTangent, meta_of(DType::kBF16, {4, 4, 8}));
  const Value y = b.binary("aten.add.Tensor", x, b.dtype_cast(bias, DType::kBF16));
  b.begin_backward();
  const Value sum = b.reduce("aten.sum.dim_IntList", b.view(g, {16, 8}), {0});
  b.returns(y, NodeKind::kOutput, g);
  b.returns(b.dtype_cast(b.view(sum, {8}), DType::kF32), NodeKind::kGradient, bias);
  const Program program = with_aliases(std::move(b).build());
  ProblemOptions options;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    if (program.nodes[n].kind == NodeKind::kOutput) {
      options.masks = {wish(n, {Placement::shard(1)})};
      options.masks[0].rules.clear();
    }
  }
  ASSERT_EQ(options.masks.size(), 1U);
  const std::string output = program.nodes[options.masks[0].node].name;
  EXPECT_GT(Made(program, options, "2").left(output.c_str()).size(), 1U);
  options.gradient_dtype_rule = false;
  for (const std::string& text : Made(program, options, "2").left(output.c_str())) {
    EXPECT_TRUE(text.starts_with("S(1)")) << text;
  }
}

TEST(ShardingProblem, HasAVariableForEachNodeAndAnEdgeForEachArgumentAndPair) {
  const Made made(linear());
  EXPECT_EQ(made.problem.names.size(), made.program.nodes.size());
  EXPECT_EQ(made.problem.edges.size(), made.prices.edges().size() + 2);  // two pairs
  for (const ProblemEdge& edge : made.problem.edges) {
    const ProblemTable& table = made.problem.tables[to_index(edge.table)];
    const auto values = [&](int n) { return made.problem.costs[to_index(n)].size(); };
    EXPECT_EQ(static_cast<std::size_t>(table.rows), values(edge.first));
    EXPECT_EQ(static_cast<std::size_t>(table.columns), values(edge.second));
    EXPECT_EQ(table.costs.size(), values(edge.first) * values(edge.second));
  }
}

// AutoParallel ties the flow of a node's first argument only, which is wrong for a node that reads
// one value twice.
TEST(ShardingProblem, TiesEveryArgumentOfAProducerThatIsReadTwice) {
  ProgramBuilder b("square", "");
  const Value x = b.source(NodeKind::kInput, meta_of(DType::kBF16, {64, 64}));
  b.returns(b.binary("aten.mul.Tensor", x, x), NodeKind::kOutput, x);
  TracedProgram traced = std::move(b).build();
  traced.returned.clear();
  const Made made(with_aliases(std::move(traced)), {}, "2");
  ASSERT_EQ(made.problem.edges.size(), 2U);
  EXPECT_EQ(made.problem.edges[0].second, made.problem.edges[1].second);
  // S(0) is read as S(1) twice: both arguments pay.
  const NodeClass& mul = made.strategies.of(1);
  std::size_t strategy = 0;
  while (made.strategies.strategy_text(mul, strategy) != "S(1)<-S(1),S(1)") ++strategy;
  for (const ProblemEdge& edge : made.problem.edges) {
    const ProblemTable& table = made.problem.tables[to_index(edge.table)];
    EXPECT_GT(table.costs[strategy * static_cast<std::size_t>(table.columns) + 1], 7.0);
  }
}

TEST(ShardingProblem, APairHasEqualLayouts) {
  const Made made(linear());
  const ProblemEdge& pair = made.problem.edges[made.prices.edges().size()];
  EXPECT_EQ(made.problem.names[to_index(pair.first)], "primals_1");
  const ProblemTable& table = made.problem.tables[to_index(pair.table)];
  for (int row = 0; row < table.rows; ++row) {
    for (int column = 0; column < table.columns; ++column) {
      EXPECT_EQ(table.costs[to_index(row * table.columns + column)],
                row == column ? 0.0 : kInfinity);
    }
  }
}

TEST(ShardingProblem, APinLeavesOnlyTheLayoutThatItNames) {
  ProblemOptions options;
  options.pins = {{"mm", Layout::parse("S(0)R", 2).placements}};
  options.pin_inputs = Layout::parse("RS(0)", 2).placements;
  options.pin_outputs = Layout::parse("S(0)S(1)", 2).placements;
  const Made made(linear(), options);
  EXPECT_EQ(made.left("mm"), (Texts{"S(0)R<-S(0)R,RR"}));
  EXPECT_EQ(made.left("primals_2"), (Texts{"RS(0)"}));
  EXPECT_EQ(made.left("alias_default_1"), (Texts{"S(0)S(1)<-S(0)S(1)"}));
  EXPECT_GT(made.left("primals_1").size(), 1U);
}

TEST(ShardingProblem, APinOfAnImpossibleLayoutIsRefused) {
  ProblemOptions options;
  options.pins = {{"mn", Layout::parse("RR", 2).placements}};
  EXPECT_EQ(message_of<InputError>([&] { Made made(linear(), options); }),
            "pin: the program has no node \"mn\" (did you mean \"mm\"?)");
  options.pins = {{"primals_2", Layout::parse("P(sum)R", 2).placements}};
  EXPECT_EQ(message_of<InputError>([&] { Made made(linear(), options); }),
            "pin primals_2: found P(sum)R; valid: RR, RS(0), RS(1), S(0)R, S(0)S(0), S(0)S(1), "
            "S(1)R, S(1)S(0), S(1)S(1)");
}

TEST(ShardingProblem, TooFewElementsForTheShardsAreNamed) {
  const DeviceMesh mesh = DeviceMesh::parse("4x8");
  const TensorMeta meta = TensorMeta::parse("f32[1,16]");
  const auto why = [&](std::vector<std::optional<Placement>> placements) {
    return too_few_elements(meta, placements, mesh);
  };
  const Placement by_row = Placement::shard(0);
  const Placement by_column = Placement::shard(1);
  EXPECT_EQ(why({by_row, std::nullopt}), ", where dim 0 has 1 element, too few for 4 shards");
  EXPECT_EQ(why({by_column, by_column}), ", where dim 1 has 16 elements, too few for 4 x 8 shards");
  EXPECT_EQ(why({by_column, std::nullopt}), "");
  EXPECT_EQ(why({std::nullopt, by_column}), "");
  EXPECT_EQ(why({Placement::replicate(), Placement::shard(2)}), "");
}

TEST(ShardingProblem, APairOfTwoShapesIsRefused) {
  Program program = linear();
  program.pairs[0].second = program.find("primals_2").value();
  EXPECT_EQ(message_of<InputError>([&] { Made made(program); }),
            "pair primals_1, primals_2: found f32[64,128] and bf16[64,64]; valid: tensors of one "
            "shape");
}

// Nothing is communicated between a parameter and the cast that narrows it, nor between a
// gradient's product and the cast that widens it.
TEST(ShardingProblem, DTypeRulesForbidWideGathersAndNarrowReductions) {
  const Program program = linear();
  const std::vector<bool> silent = silent_nodes(program, {});
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const std::string& op = program.nodes[n].op;
    EXPECT_EQ(silent[n], op == "autoparallel.dtype_cast.default") << program.nodes[n].name;
  }
  const Made both(program);
  ProblemOptions none;
  none.forward_dtype_rule = false;
  none.gradient_dtype_rule = false;
  const Made free(program, none);
  for (std::size_t e = 0; e < both.prices.edges().size(); ++e) {
    const PricedEdge& edge = both.prices.edges()[e];
    const PriceTable& prices = both.prices.table(edge.table);
    const auto table = [e](const Made& made) {
      return made.problem.tables[to_index(made.problem.edges[e].table)];
    };
    for (std::size_t row = 0; row < prices.rows(); ++row) {
      for (std::size_t column = 0; column < prices.columns(); ++column) {
        const std::size_t i = row * prices.columns() + column;
        const bool banned = silent[edge.reader] && prices.at(row, column) > 0.0;
        EXPECT_EQ(table(both).costs[i], banned ? kInfinity : table(free).costs[i]);
      }
    }
  }
}

TEST(DTypeChains, WalkThroughNodesOfOneTensorOnly) {
  ProgramBuilder b("p", "");
  const Value w = b.source(NodeKind::kParameter, meta_of(DType::kF32, {8, 8}));
  const Value u = b.source(NodeKind::kParameter, meta_of(DType::kBF16, {8, 8}));
  const Value turned = b.permute(w, {1, 0});
  const Value cast = b.dtype_cast(turned, DType::kBF16);  // narrows: permute and cast are silent
  const Value wide = b.dtype_cast(u, DType::kF32);        // widens: no rule applies
  const Value sum = b.binary("aten.add.Tensor", cast, cast);
  const Value view = b.view(sum, {64});
  const Value back = b.view(view, {8, 8});
  const Value grad = b.dtype_cast(back, DType::kF32);  // silent: view, view, cast
  b.returns(grad, NodeKind::kGradient, w);
  b.returns(b.binary("aten.mul.Tensor", wide, wide), NodeKind::kGradient, u);  // has no cast
  const Program program = with_aliases(std::move(b).build());
  Texts names;
  const auto names_of = [&](const DTypeRules& rules) {
    const std::vector<bool> silent = silent_nodes(program, rules);
    Texts found;
    for (std::size_t n = 0; n < silent.size(); ++n) {
      if (silent[n]) found.push_back(program.nodes[n].name);
    }
    return found;
  };
  EXPECT_EQ(names_of({}), (Texts{"permute", "dtype_cast", "view", "view_1", "dtype_cast_2"}));
  EXPECT_EQ(names_of({.forward = true, .gradient = false}), (Texts{"permute", "dtype_cast"}));
  EXPECT_EQ(names_of({.forward = false, .gradient = false}), Texts());
}

TEST(ShardingProblem, TheLeastParameterBudgetLeavesFullSharding) {
  ProblemOptions options;
  options.parameter_budget = 0.25;
  const Made made(linear(), options);
  EXPECT_EQ(made.left("primals_1"), (Texts{"S(0)S(0)", "S(0)S(1)", "S(1)S(0)", "S(1)S(1)"}));
  EXPECT_TRUE(made.problem.budgets.empty());
}

TEST(ShardingProblem, ALargerParameterBudgetIsAWeight) {
  ProblemOptions options;
  options.parameter_budget = 0.5;
  const Made made(linear(), options);
  ASSERT_EQ(made.problem.budgets.size(), 1U);
  const ProblemBudget& budget = made.problem.budgets[0];
  EXPECT_EQ(budget.name, "parameters");
  EXPECT_EQ(budget.limit, 2);  // counted in quarters
  ASSERT_EQ(budget.weights.size(), 1U);
  EXPECT_EQ(budget.weights[0].of_value, (std::vector<std::int64_t>{4, 2, 2, 2, 1, 1, 2, 1, 1}));
}

TEST(ShardingProblem, APinnedParameterLeavesTheBudget) {
  ProblemOptions options;
  options.parameter_budget = 0.25;
  options.pins = {{"primals_1", Layout::parse("RR", 2).placements}};
  EXPECT_EQ(Made(linear(), options).left("primals_1"), (Texts{"RR"}));
}

// Of 63 rows a rank keeps 32 if 2 ranks share them and 16 if 4 do. Neither is a whole number of
// quarters.
TEST(ShardingProblem, UnevenFractionsAreCountedFinely) {
  ProblemOptions options;
  options.parameter_budget = 0.25;
  const Made made(linear({64, 63}, {63, 128}), options);
  EXPECT_EQ(made.left("primals_1"), (Texts{"S(1)S(1)"}));
}

TEST(ShardingProblem, TheMemoryBudgetCountsParameterGradientAndOptimizer) {
  ProblemOptions options;
  options.memory_budget_bytes = 70000.5;
  const Made made(linear(), options);
  ASSERT_EQ(made.problem.budgets.size(), 1U);
  EXPECT_EQ(made.problem.budgets[0].name, "memory");
  EXPECT_EQ(made.problem.budgets[0].limit, 70000);
  constexpr std::int64_t kWhole = 64 * 128 * (4 + 4 + 8);
  EXPECT_EQ(made.problem.budgets[0].weights[0].of_value,
            (std::vector<std::int64_t>{kWhole, kWhole / 2, kWhole / 2, kWhole / 2, kWhole / 4,
                                       kWhole / 4, kWhole / 2, kWhole / 4, kWhole / 4}));
}

TEST(ShardingProblem, ABreakdownSumsToTheTables) {
  const Made made(linear());
  std::vector<int> assignment(made.problem.names.size(), 0);
  const auto total = [&] {
    double sum = 0.0;
    for (std::size_t n = 0; n < assignment.size(); ++n) {
      sum += made.problem.costs[n][to_index(assignment[n])];
    }
    for (const ProblemEdge& edge : made.problem.edges) {
      const ProblemTable& table = made.problem.tables[to_index(edge.table)];
      sum += table.costs[to_index(assignment[to_index(edge.first)] * table.columns +
                                  assignment[to_index(edge.second)])];
    }
    return sum;
  };
  EXPECT_NEAR(total(), made.problem.breakdown(made.strategies, made.prices, assignment).total_us(),
              1e-9);
  assignment[made.node("mm")] = 1;  // P(sum) from split operands, which are cut for free
  const Breakdown parts = made.problem.breakdown(made.strategies, made.prices, assignment);
  EXPECT_GT(parts.transition_us, 0.0);
  EXPECT_NEAR(total(), parts.total_us(), 1e-9);
}

// Prices of edges are what a redistribution costs, layout by layout, under any stack.
class ProgramPricesOf : public testing::TestWithParam<const char*> {};

TEST_P(ProgramPricesOf, AreThoseOfTheRedistributor) {
  for (const char* mesh : {"2x2", "2x2x2", "4"}) {
    Made made(linear(), {}, mesh, GetParam());
    Redistributor& redistributor = made.evaluator.on(made.mesh);
    std::size_t compared = 0;
    for (const PricedEdge& edge : made.prices.edges()) {
      const PriceTable& table = made.prices.table(edge.table);
      const TensorMeta& meta = made.program.nodes[edge.producer].outputs[edge.output];
      const auto wanted = made.strategies.layouts.list_at(table.wanted);
      const auto from = made.strategies.layouts.list_at(table.made);
      for (std::size_t row = 0; row < wanted.size(); ++row) {
        for (std::size_t column = 0; column < from.size(); ++column) {
          EXPECT_EQ(table.at(row, column),
                    redistributor.cost_us(meta, Layout(made.strategies.layouts[from[column]]),
                                          Layout(made.strategies.layouts[wanted[row]])))
              << made.strategies.layouts.text(from[column]) << " to "
              << made.strategies.layouts.text(wanted[row]) << " of " << meta.text();
          ++compared;
        }
      }
    }
    EXPECT_GT(compared, 100U);
  }
}

INSTANTIATE_TEST_SUITE_P(Stacks, ProgramPricesOf,
                         testing::Values("ap-nccl", "ap-default", "dtensor-v3", "alpha-beta",
                                         "shardlab", "dtensor-v0"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace sharding_problem_test
}  // namespace shardlab

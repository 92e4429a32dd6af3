// The greedy planner: the steps of its plans (docs/semantics.md; regressions R05, R17, R37 and
// R45).
#include "sim/planners/greedy.h"

#include <gtest/gtest.h>

#include "costmodel/base/index.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_redistribution.h"

namespace shardlab {
namespace greedy_test {

using testing_support::Bench;
using testing_support::collectives_of;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_layout;
using testing_support::random_mesh;
using testing_support::steps_of;

struct GreedyCase {
  const char* name;
  const char* mesh;
  const char* from;
  const char* to;
  const char* steps;
};
void PrintTo(const GreedyCase& c, std::ostream* out) { *out << c.from << " to " << c.to; }
class GreedyTable : public testing::TestWithParam<GreedyCase> {};

TEST_P(GreedyTable, EmitsTheseSteps) {
  Bench bench({.mesh = GetParam().mesh});
  EXPECT_EQ(steps_of(bench.plan("f32[16,16,16]", GetParam().from, GetParam().to)),
            GetParam().steps);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GreedyTable,
    testing::Values(
        GreedyCase{"OneDimIsOneStep", "4", "S(0)", "S(1)", "0:S(0)>S(1)"},
        GreedyCase{"OneDimPartialToPartialIsOneStep", "4", "P(sum)", "P(avg)", "0:P(sum)>P(avg)"},
        GreedyCase{"EqualIsNoStep", "2x2", "S(0)P", "S(0)P", ""},
        GreedyCase{"OuterGatherUnderAnInnerShard", "2x2", "S(0)S(0)", "RS(0)",
                   "1:S(0)>R 0:S(0)>R 1:R>S(0)"},
        GreedyCase{"InnerGather", "2x2", "S(0)S(0)", "S(0)R", "1:S(0)>R"},
        GreedyCase{"GathersInnermostFirst", "2x2", "S(0)S(0)", "RR", "1:S(0)>R 0:S(0)>R"},
        GreedyCase{"SwappedShards", "2x2", "S(0)S(1)", "S(1)S(0)", "1:S(1)>R 0:S(0)>S(1) 1:R>S(0)"},
        GreedyCase{"NestedShardsToAnotherDim", "2x2", "S(0)S(0)", "S(1)S(1)",
                   "1:S(0)>R 0:S(0)>S(1) 1:R>S(1)"},
        GreedyCase{"IndependentExchanges", "2x2", "S(0)S(1)", "S(1)S(2)",
                   "1:S(1)>S(2) 0:S(0)>S(1)"},
        GreedyCase{"PartialsAloneReduceOutermostFirst", "2x2", "PP", "RR", "0:P(sum)>R 1:P(sum)>R"},
        GreedyCase{"WithAShardPartialsReduceInnermostFirst", "2x2x2", "S(0)PP", "S(0)RR",
                   "2:P(sum)>R 1:P(sum)>R"},
        GreedyCase{"AnAllReduceWhereAReduceScatterWouldDo", "2x2x2", "S(0)PP", "S(0)S(0)S(0)",
                   "2:P(sum)>R 1:P(sum)>S(0) 2:R>S(0)"},
        GreedyCase{"FiveSteps", "2x2x2", "PS(0)P", "S(0)S(0)S(0)",
                   "2:P(sum)>R 1:S(0)>R 0:P(sum)>S(0) 1:R>S(0) 2:R>S(0)"},
        GreedyCase{"PartialsScatterOutermostFirst", "8x8", "PP", "S(0)S(0)",
                   "0:P(sum)>S(0) 1:P(sum)>S(0)"},
        GreedyCase{"AReplicatedSourceGoesOutermostFirst", "2x2", "RR", "S(0)S(0)",
                   "0:R>S(0) 1:R>S(0)"},
        GreedyCase{"AShardOfAUnitMeshDimIsNoShard", "1x2", "S(0)P", "RR", "0:S(0)>R 1:P(sum)>R"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Greedy, R37ContainsAnAllReduce) {
  Bench bench({.mesh = "2x2x2"});
  EXPECT_EQ(collectives_of(bench.plan("f32[16,16]", "S(0)PP", "S(0)S(0)S(0)")),
            "all_reduce reduce_scatter local");
}

TEST(Greedy, LogicalShapesAreThoseOfTheSourcesOuterShards) {
  // For rank 3 of a mesh 2x2 mesh dim 0 sees all 5 rows, and mesh dim 1 the 2 rows of the second
  // half.
  Bench bench({.mesh = "2x2"});
  PlanOptions options;
  options.rank = 3;
  const Plan plan = bench.plan("f32[5,4]", "S(0)S(0)", "RR", options);
  ASSERT_EQ(plan.steps.size(), 2U);
  EXPECT_EQ(plan.steps[0].logical_shape, (Shape{2, 4}));
  EXPECT_EQ(plan.steps[1].logical_shape, (Shape{5, 4}));
  options.rank = 0;
  EXPECT_EQ(bench.plan("f32[5,4]", "S(0)S(0)", "RR", options).steps[0].logical_shape,
            (Shape{3, 4}));
}

// Every plan must start at the source, change one mesh dim in each step, have no step that changes
// nothing, and end at the target.
TEST(Greedy, EveryPlanLeadsFromSourceToTargetForRandomLayouts) {
  Random random(31);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(5000); ++i) {
    const DeviceMesh mesh = random_mesh(random, 5, 4);
    const Layout from = random_layout(random, mesh, 3, {.orders = false});
    const Layout to = random_layout(random, mesh, 3, {.orders = false});
    Placements current = from.placements;
    std::size_t steps = 0;
    for_each_greedy_step(from.placements, to.placements,
                         num_shards(from.placements, mesh, true) > 1,
                         [&](int mesh_dim, const Placement& a, const Placement& b) {
                           auto& now = current[to_index(mesh_dim)];
                           EXPECT_EQ(now, a);
                           EXPECT_NE(a, b);
                           now = b;
                           ++steps;
                         });
    EXPECT_EQ(current, to.placements) << from.text() << " to " << to.text();
    EXPECT_LE(steps, 2 * current.size());
  }
}

// A step can only take off or put on the innermost shard of a tensor dim.
TEST(Greedy, NeverTouchesAShardUnderAnInnerOneForRandomLayouts) {
  Random random(32);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(5000); ++i) {
    const DeviceMesh mesh = random_mesh(random, 5, 3);
    const Layout from = random_layout(random, mesh, 2, {.orders = false});
    const Layout to = random_layout(random, mesh, 2, {.orders = false});
    if (num_shards(from.placements, mesh, true) == 1) continue;  // unit shards aside
    Placements current = from.placements;
    const auto sharded_inside = [&](int mesh_dim, const Placement& p) {
      for (std::size_t i2 = static_cast<std::size_t>(mesh_dim) + 1; i2 < current.size(); ++i2) {
        if (p.is_shard() && current[i2].is_shard_of(p.dim())) return true;
      }
      return false;
    };
    for_each_greedy_step(from.placements, to.placements, true,
                         [&](int mesh_dim, const Placement& a, const Placement& b) {
                           EXPECT_FALSE(sharded_inside(mesh_dim, a))
                               << from.text() << " to " << to.text() << ": " << mesh_dim
                               << " leaves";
                           EXPECT_FALSE(sharded_inside(mesh_dim, b))
                               << from.text() << " to " << to.text() << ": " << mesh_dim
                               << " joins";
                           current[to_index(mesh_dim)] = b;
                         });
  }
}

// The steps in the form "1:S(0)>R", where strided shards nest like plain ones.
std::string nested_steps(const Layout& from, const Layout& to) {
  std::string text;
  for_each_greedy_step<Nesting::kAllShards>(
      from.placements, to.placements, true, [&](int m, const Placement& a, const Placement& b) {
        text += (text.empty() ? "" : " ") + std::to_string(m) + ":" + a.text() + ">" + b.text();
      });
  return text;
}

TEST(NestedGreedy, TakesNoStridedShardFromUnderAnother) {
  const auto steps = [](const char* from, const char* to) {
    return nested_steps(Layout::parse(from, 2), Layout::parse(to, 2));
  };
  EXPECT_EQ(steps("_S(0,8)S(0)", "RS(0)"), "1:S(0)>R 0:_S(0,8)>R 1:R>S(0)");
  EXPECT_EQ(steps("RS(1)", "_S(1,4)S(1)"), "1:S(1)>R 0:R>_S(1,4) 1:R>S(1)");
  EXPECT_EQ(steps("S(0)_S(0,3)", "_S(0,2)_S(0,3)"), "1:_S(0,3)>R 0:S(0)>_S(0,2) 1:R>_S(0,3)");
  EXPECT_EQ(steps("S(0)_S(0,3)", "S(0)S(1)"), "1:_S(0,3)>S(1)");
}

TEST(NestedGreedy, NeverTouchesAShardUnderAnInnerOneForRandomLayouts) {
  Random random(33);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(5000); ++i) {
    const DeviceMesh mesh = random_mesh(random, 5, 3);
    const Layout from = random_layout(random, mesh, 2, {.orders = false, .strided = true});
    const Layout to = random_layout(random, mesh, 2, {.orders = false, .strided = true});
    if (num_shards(from.placements, mesh, true) == 1) continue;  // unit shards aside
    Placements current = from.placements;
    for_each_greedy_step<Nesting::kAllShards>(
        from.placements, to.placements, true, [&](int m, const Placement& a, const Placement& b) {
          const auto place = static_cast<std::size_t>(m);
          for (std::size_t inner = place + 1; inner < current.size(); ++inner) {
            for (const Placement& p : {a, b}) {
              EXPECT_FALSE(p.is_shard_like() && current[inner].is_shard_like() &&
                           current[inner].dim() == p.dim())
                  << from.text() << " to " << to.text() << ": " << m;
            }
          }
          current[place] = b;
        });
    EXPECT_EQ(current, to.placements);
  }
}

}  // namespace greedy_test
}  // namespace shardlab

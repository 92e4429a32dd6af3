// The graph of all layouts: what it charges from one layout to another is never more than the
// planner's price, and mostly equal to it; many sources at once give the least of all.
#include "sim/planners/graph_spread.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/base/units.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_redistribution.h"

namespace shardlab {
namespace graph_spread_test {

using testing_support::all_layouts;
using testing_support::all_orders;
using testing_support::Bench;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_layout;
using testing_support::random_mesh;
using testing_support::random_tensor;

constexpr double kRounding = 1e-12;  // relative: sums in another order

// What the spread charges from one layout to another.
double price_of(LayoutSpread& spread, const LayoutGraph& graph, const Layout& from,
                const Layout& to) {
  std::vector<double> costs(graph.size(), kInfinity);
  costs[graph.state(from)] = 0.0;
  spread.onwards(costs);
  return costs[graph.state(to)];
}

bool encodes_an_order(const Layout& layout, const DeviceMesh& mesh) {
  return layout.has_strided() && decode_strided_as_order(layout, mesh).has_value();
}

// At most `most` random layouts, without those whose strided shards encode an order.
std::vector<Layout> some_layouts(Random& random, const DeviceMesh& mesh, const TensorMeta& meta,
                                 int most) {
  std::vector<Layout> layouts;
  for (int i = 0; i < most; ++i) {
    const Layout layout = random_layout(random, mesh, meta.ndim(), {.strided = random.percent(30)});
    if (!encodes_an_order(layout, mesh)) layouts.push_back(layout);
  }
  return layouts;
}

TEST(LayoutSpread, HasAsManyStatesAsThePlannerExplores) {
  const std::vector<Layout> layouts = {Layout::parse("PPP", 3)};
  EXPECT_EQ(LayoutGraph(3, 2, layouts).size(), 92U);  // GraphStates, 2x2x2 with two tensor dims
}

TEST(LayoutSpread, ChargesWhatTheGraphPlannerCharges) {
  for (const char* version : {"v2", "v3", "v4", "v3-rp", "v-compute"}) {
    Bench bench(
        {.mesh = "2x3", .version = version, .planner = PlannerKind::kGraph, .compute = "roofline"});
    const TensorMeta meta = TensorMeta::parse("f32[12,18]");
    std::vector<Layout> layouts;
    for (const Layout& layout : all_layouts(2, 2, {ReduceOp::kSum})) {
      for (const Layout& order : all_orders(layout)) layouts.push_back(order);
    }
    const LayoutGraph graph(2, 2, layouts);
    LayoutSpread spread(graph, bench.pricer());
    spread.begin(meta);
    for (const Layout& from : layouts) {
      for (const Layout& to : layouts) {
        const double price = bench.redistributor().cost_us(meta, from, to);
        const double charged = price_of(spread, graph, from, to);
        if (price == kInfinity) {
          EXPECT_EQ(charged, kInfinity) << from.text() << " to " << to.text();
        } else {
          EXPECT_NEAR(charged, price, kRounding * price)
              << version << " " << from.text() << " to " << to.text();
        }
      }
    }
  }
}

TEST(LayoutSpread, NeverChargesMoreThanTheRedistributor) {
  Random random(71);
  SHARDLAB_TRACE_SEED();
  constexpr const char* kVersions[] = {"v2", "v3", "v4", "v3-rp", "v3-sp", "v-compute"};
  for (int i = 0; i < random_cases(100); ++i) {
    const DeviceMesh mesh = random_mesh(random, 3, 4);
    Bench bench({.mesh = mesh.text(),
                 .devices_per_host = random.percent(50) ? 8 : 2,
                 .version = kVersions[random.below(6)],
                 .planner = PlannerKind::kGraph,
                 .collective = random.percent(50) ? "dtensor" : "alpha_beta",
                 .compute = "roofline"});
    const TensorMeta meta = random_tensor(random, 3, random.percent(50) ? 64 : 2000);
    const std::vector<Layout> layouts = some_layouts(random, mesh, meta, 4 + random.below(12));
    const LayoutGraph graph(mesh.ndim(), meta.ndim(), layouts);
    LayoutSpread spread(graph, bench.pricer());
    spread.begin(meta);
    for (const Layout& from : layouts) {
      for (const Layout& to : layouts) {
        const double price = bench.redistributor().cost_us(meta, from, to);
        EXPECT_LE(price_of(spread, graph, from, to), (1.0 + kRounding) * price)
            << meta.text() << " " << from.text() << " to " << to.text() << " on " << mesh.text();
      }
    }
    if (HasFailure()) return;
  }
}

// Within the limit, one source is charged what onwards() charges it; beyond it, at least the limit.
TEST(LayoutSpread, OneSourceIsChargedExactlyWithinTheLimit) {
  for (const char* version : {"v3", "v3-rp", "v-compute"}) {
    Bench bench(
        {.mesh = "2x3", .version = version, .planner = PlannerKind::kGraph, .compute = "roofline"});
    const std::vector<Layout> layouts = all_layouts(2, 2, {ReduceOp::kSum, ReduceOp::kMax});
    const LayoutGraph graph(2, 2, layouts);
    LayoutSpread spread(graph, bench.pricer());
    spread.begin(TensorMeta::parse("f32[1200,1800]"));
    std::size_t within = 0;
    std::size_t beyond = 0;
    for (const Layout& from : layouts) {
      std::vector<double> all(graph.size(), kInfinity);
      all[graph.state(from)] = 0.0;
      spread.onwards(all);
      for (const double limit : {-1.0, 0.0, 20.0, 200.0, kInfinity}) {
        const std::span<const double> charged = spread.from(graph.state(from), limit);
        for (std::size_t s = 0; s < graph.size(); ++s) {
          if (all[s] <= limit) {
            EXPECT_NEAR(charged[s], all[s], kRounding * all[s]) << from.text() << " " << limit;
            ++within;
          } else if (s != graph.state(from)) {
            EXPECT_GE(charged[s], limit) << from.text() << " " << limit;
            ++beyond;
          }
        }
      }
    }
    EXPECT_GT(within, 1000U) << version;
    EXPECT_GT(beyond, 100U) << version;
  }
}

// from() follows the moves of the graph one by one, and onwards() all moves of a line at once:
// along the same paths, so that the sums are the same to the last digit.
TEST(LayoutSpread, ALineAtOnceIsWhatItsMovesAreOneByOne) {
  Random random(73);
  SHARDLAB_TRACE_SEED();
  constexpr const char* kVersions[] = {"v2", "v3", "v4", "v3-rp", "v-compute"};
  constexpr const char* kCollectives[] = {"dtensor", "alpha_beta", "nccl"};
  const int cases = random_cases(60);
  std::size_t strided = 0;
  for (int i = 0; i < cases; ++i) {
    const DeviceMesh mesh = random_mesh(random, 4, 3);
    Bench bench({.mesh = mesh.text(),
                 .devices_per_host = random.percent(50) ? 8 : 2,
                 .version = kVersions[random.below(5)],
                 .planner = PlannerKind::kGraph,
                 .collective = kCollectives[random.below(3)],
                 .compute = "roofline"});
    const TensorMeta meta = random_tensor(random, 4, random.percent(50) ? 64 : 2000);
    const std::vector<Layout> layouts = some_layouts(random, mesh, meta, 2 + random.below(6));
    strided += to_index(std::ranges::count_if(layouts, &Layout::has_strided));
    const LayoutGraph graph(mesh.ndim(), meta.ndim(), layouts);
    LayoutSpread spread(graph, bench.pricer());
    spread.begin(meta);
    for (const Layout& source : layouts) {
      std::vector<double> onwards(graph.size(), kInfinity);
      onwards[graph.state(source)] = 0.0;
      spread.onwards(onwards);
      const std::span<const double> one_by_one = spread.from(graph.state(source), kInfinity);
      ASSERT_TRUE(std::ranges::equal(onwards, one_by_one))
          << meta.text() << " from " << source.text() << " on " << mesh.text();
      std::vector<double> backwards(graph.size(), kInfinity);
      const Layout& target = layouts[to_index(random.below(static_cast<int>(layouts.size())))];
      backwards[graph.state(target)] = 0.0;
      spread.backwards(backwards);
      const double price = onwards[graph.state(target)];
      ASSERT_TRUE(price == kInfinity
                      ? backwards[graph.state(source)] == kInfinity
                      : std::abs(backwards[graph.state(source)] - price) <= kRounding * price)
          << meta.text() << " " << source.text() << " to " << target.text() << " on "
          << mesh.text();
    }
  }
  EXPECT_GT(strided, to_index(cases / 12));
}

// A small all-to-all and a gather along dim 0 are cheaper than a gather along dim 1, whose bytes
// have to be put in order: two moves within one line.
TEST(LayoutSpread, TwoMovesWithinALineMayBeCheaperThanOne) {
  for (const char* model : {"alpha_beta", "nccl"}) {
    Bench bench({.mesh = "8",
                 .version = "v-compute",
                 .planner = PlannerKind::kGraph,
                 .collective = model,
                 .compute = "roofline"});
    const TensorMeta meta = TensorMeta::parse("f32[512,512,512]");
    const Layout from = Layout::parse("S(1)", 1);
    const Layout to = Layout::parse("R", 1);
    const LayoutGraph graph(1, 3, std::vector<Layout>{from, to});
    LayoutSpread spread(graph, bench.pricer());
    spread.begin(meta);
    const double price = bench.redistributor().cost_us(meta, from, to);
    EXPECT_EQ(bench.redistributor().plan(meta, from, to).steps.size(), 2U) << model;
    EXPECT_NEAR(price_of(spread, graph, from, to), price, kRounding * price) << model;
    std::vector<double> backwards(graph.size(), kInfinity);
    backwards[graph.state(to)] = 0.0;
    spread.backwards(backwards);
    EXPECT_NEAR(backwards[graph.state(from)], price, kRounding * price) << model;
  }
}

TEST(LayoutGraph, FindsOnlyWhatItHas) {
  const std::vector<Layout> layouts = {Layout::parse("PR", 2)};
  const LayoutGraph graph(2, 2, layouts);
  EXPECT_EQ(graph.find(Layout::parse("S(1)P", 2)), graph.state(Layout::parse("S(1)P", 2)));
  EXPECT_FALSE(graph.find(Layout::parse("P(max)R", 2)).has_value());
}

TEST(LayoutSpread, ManySourcesGiveTheLeastOfAllInBothDirections) {
  Bench bench({.mesh = "2x2x2", .version = "v3", .planner = PlannerKind::kGraph});
  const std::vector<Layout> layouts = all_layouts(3, 2, {ReduceOp::kSum});
  const LayoutGraph graph(3, 2, layouts);
  LayoutSpread spread(graph, bench.pricer());
  spread.begin(TensorMeta::parse("f32[64,64]"));
  Random random(72);
  std::vector<double> starts(graph.size(), kInfinity);
  for (const Layout& layout : layouts) {
    if (random.percent(20)) starts[graph.state(layout)] = random.below(50);
  }
  std::vector<double> onwards = starts;
  std::vector<double> backwards = starts;
  spread.onwards(onwards);
  spread.backwards(backwards);
  for (const Layout& here : layouts) {
    double least_to = kInfinity;
    double least_from = kInfinity;
    for (const Layout& other : layouts) {
      const double start = starts[graph.state(other)];
      least_to = std::min(least_to, start + price_of(spread, graph, other, here));
      least_from = std::min(least_from, start + price_of(spread, graph, here, other));
    }
    EXPECT_NEAR(onwards[graph.state(here)], least_to, 1e-9) << here.text();
    EXPECT_NEAR(backwards[graph.state(here)], least_from, 1e-9) << here.text();
  }
}

TEST(LayoutSpread, ForFreeReachesOnlyWhatCostsNothing) {
  Bench bench({.mesh = "2x2", .version = "v3-rp", .planner = PlannerKind::kGraph});
  const std::vector<Layout> layouts = all_layouts(2, 2, {ReduceOp::kSum});
  const LayoutGraph graph(2, 2, layouts);
  LayoutSpread spread(graph, bench.pricer());
  spread.begin(TensorMeta::parse("f32[64,64]"));
  for (const Layout& from : layouts) {
    std::vector<double> costs(graph.size(), kInfinity);
    costs[graph.state(from)] = 1.0;
    spread.onwards_for_free(costs);
    for (const Layout& to : layouts) {
      const bool free = price_of(spread, graph, from, to) == 0.0;
      EXPECT_EQ(costs[graph.state(to)], free ? 1.0 : kInfinity) << from.text() << " " << to.text();
    }
  }
}

}  // namespace graph_spread_test
}  // namespace shardlab

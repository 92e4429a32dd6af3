// The three functions that give a price (cost_us, costs_us and plan) agree bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/support/random_layouts.h"
#include "tests/support/reference_redistribution.h"

namespace shardlab {
namespace redistribute_agreement_test {

using testing_support::Bench;
using testing_support::BenchChoice;
using testing_support::LayoutKinds;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_layout;
using testing_support::random_mesh;
using testing_support::random_tensor;

struct Agreement {
  std::string name;
  BenchChoice choice;
};
void PrintTo(const Agreement& a, std::ostream* out) { *out << a.name; }

class PriceAgreement : public testing::TestWithParam<Agreement> {
 protected:
  static BenchChoice on(const DeviceMesh& mesh, Random& random) {
    BenchChoice choice = GetParam().choice;
    choice.mesh = mesh.text();
    choice.devices_per_host = random.percent(50) ? 8 : 1;
    return choice;
  }

  static void compare_lists(LayoutKinds kinds, bool strided_targets) {
    Random random(61);
    SHARDLAB_TRACE_SEED();
    for (int i = 0; i < random_cases(60); ++i) {
      const DeviceMesh mesh = random_mesh(random, 3, 4);
      Bench bench(on(mesh, random));
      const TensorMeta meta = random_tensor(random, 3, 64);
      const Layout from = random_layout(random, mesh, meta.ndim(), kinds);
      std::vector<Layout> targets;
      for (int t = 3 + random.below(20); t > 0; --t) {
        targets.push_back(random_layout(random, mesh, meta.ndim(),
                                        {.strided = strided_targets && random.percent(30)}));
      }
      std::vector<double> prices(targets.size());
      bench.redistributor().costs_us(meta, from, targets, prices);
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const double one = bench.redistributor().cost_us(meta, from, targets[t]);
        EXPECT_EQ(std::bit_cast<std::uint64_t>(prices[t]), std::bit_cast<std::uint64_t>(one))
            << meta.text() << " " << from.text() << " to " << targets[t].text() << " on "
            << mesh.text() << ": in a list of " << targets.size() << " " << prices[t] << ", alone "
            << one;
      }
      // Under a limit, each price stays what it is, or is infinite because it is above the limit.
      const double limit = random.pick(prices);
      std::vector<double> limited(targets.size());
      bench.redistributor().costs_us(meta, from, targets, limited, limit);
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const bool beyond = prices[t] > limit && limited[t] == kInfinity;
        EXPECT_TRUE(beyond || limited[t] == prices[t])
            << meta.text() << " " << from.text() << " to " << targets[t].text() << " on "
            << mesh.text() << ": " << prices[t] << ", with the limit " << limit << " "
            << limited[t];
      }
      if (HasFailure()) return;
    }
  }
};

TEST_P(PriceAgreement, OfAListAndOneByOne) { compare_lists({}, false); }

TEST_P(PriceAgreement, OfAListWithStridedShardsAmongItsTargetsAndOneByOne) {
  compare_lists({}, true);
}

TEST_P(PriceAgreement, OfAListFromAStridedShardAndOneByOne) {
  compare_lists({.strided = true}, true);
}

TEST_P(PriceAgreement, OfThePlanAndTheCost) {
  Random random(62);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(300); ++i) {
    const DeviceMesh mesh = random_mesh(random, 3, 4);
    Bench bench(on(mesh, random));
    const TensorMeta meta = random_tensor(random, 3, 64);
    const LayoutKinds kinds{.strided = random.percent(20)};
    const Layout from = random_layout(random, mesh, meta.ndim(), kinds);
    const Layout to = random_layout(random, mesh, meta.ndim(), kinds);
    const double cost = bench.redistributor().cost_us(meta, from, to);
    const Plan plan = bench.redistributor().plan(meta, from, to);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(plan.price.total.value()),
              std::bit_cast<std::uint64_t>(cost))
        << meta.text() << " " << from.text() << " to " << to.text() << " on " << mesh.text()
        << ": plan " << plan.price.total.value() << ", cost " << cost;
    EXPECT_EQ(plan.impossible.empty(), cost < std::numeric_limits<double>::infinity())
        << from.text() << " to " << to.text() << ": " << plan.impossible;
    if (HasFailure()) return;
  }
}

TEST_P(PriceAgreement, OfThePlanAndTheCostOfAMaskPartialTarget) {
  for (const char* from : {"RR", "S(0)R", "PR", "MPR"}) {
    for (const char* to : {"MPR", "RMP", "RNP(2)", "S(0)NP(2)"}) {
      BenchChoice choice = GetParam().choice;
      choice.mesh = "2x2";
      Bench bench(choice);
      const double cost = bench.cost("f32[8,8]", from, to);
      const Plan plan = bench.plan("f32[8,8]", from, to);
      EXPECT_EQ(plan.price.total.value(), cost) << from << " to " << to;
      EXPECT_EQ(plan.impossible.empty(), cost < std::numeric_limits<double>::infinity())
          << from << " to " << to << ": cost " << cost << ", but impossible: " << plan.impossible;
    }
  }
}

std::vector<Agreement> agreements() {
  std::vector<Agreement> all;
  for (const EdgeSemanticsRow& version : all_edge_semantics()) {
    for (const PlannerKind planner : {PlannerKind::kGreedy, PlannerKind::kGraph}) {
      std::string name(version.name);
      std::replace(name.begin(), name.end(), '-', '_');
      name += planner == PlannerKind::kGreedy ? "_greedy" : "_graph";
      all.push_back({name, {.version = std::string(version.name), .planner = planner}});
    }
  }
  all.push_back({"alpha_beta_graph",
                 {.version = "v-compute",
                  .planner = PlannerKind::kGraph,
                  .collective = "alpha_beta",
                  .compute = "roofline"}});
  all.push_back({"alpha_beta_merged_price",
                 {.version = "v-compute",
                  .planner = PlannerKind::kGraph,
                  .merge = MergeMode::kPrice,
                  .collective = "alpha_beta",
                  .compute = "roofline"}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Versions, PriceAgreement, testing::ValuesIn(agreements()),
                         [](const auto& test) { return test.param.name; });

TEST(PriceAgreementOfLists, AStridedTargetInTheMiddleDoesNotDisturbThoseAfterIt) {
  // Strided shards have prices here. Five of the six targets are plain, and one among them is
  // strided.
  Bench bench({.mesh = "2x2", .version = "v-compute", .planner = PlannerKind::kGraph});
  const TensorMeta meta = TensorMeta::parse("f32[16,16]");
  std::vector<Layout> targets;
  for (const char* text : {"RR", "S(1)R", "_S(0,3)R", "RS(0)", "S(1)S(0)", "RS(1)"}) {
    targets.push_back(bench.layout(text));
  }
  std::vector<double> prices(targets.size());
  bench.redistributor().costs_us(meta, bench.layout("S(0)R"), targets, prices);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    EXPECT_EQ(prices[t], bench.redistributor().cost_us(meta, bench.layout("S(0)R"), targets[t]))
        << targets[t].text();
  }
}

TEST(PriceAgreementOfLists, ATargetThatShardsADimTheTensorLacksIsOutOfReach) {
  Bench bench({.mesh = "2", .version = "v-compute", .planner = PlannerKind::kGraph});
  const TensorMeta meta = TensorMeta::parse("f32[6]");
  const std::vector<Layout> targets = {bench.layout("R"), bench.layout("S(1)"),
                                       bench.layout("S(2)")};
  std::vector<double> prices(targets.size());
  for (const char* from : {"S(0)", "P(sum)"}) {
    bench.redistributor().costs_us(meta, bench.layout(from), targets, prices);
    for (std::size_t t = 0; t < targets.size(); ++t) {
      EXPECT_EQ(prices[t], bench.redistributor().cost_us(meta, bench.layout(from), targets[t]));
      EXPECT_EQ(prices[t] < std::numeric_limits<double>::infinity(), t == 0) << targets[t].text();
    }
  }
}

}  // namespace redistribute_agreement_test
}  // namespace shardlab

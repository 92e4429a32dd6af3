// Every shipped topology and stack loads, reads back what it writes, and prices consistently.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "strategies/select/evaluator.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace shipped_contract_test {

using testing_support::call_of;
using testing_support::h100;
using testing_support::LayoutKinds;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_layout;
using testing_support::random_mesh;
using testing_support::random_tensor;
using testing_support::shipped;
using testing_support::shipped_stack;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string word(std::string name) {
  for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
  return name;
}

TEST(Shipped, AreTheTopologiesAndStacksThatTheInterfaceNames) {
  const auto topologies = shipped().names(ConfigKind::kTopology);
  for (const char* name : {"a100", "a100-40", "b200", "b300", "gb200", "gb300", "h100",
                           "h100-hbm2e", "h100-roce", "h200"}) {
    EXPECT_TRUE(std::count(topologies.begin(), topologies.end(), name)) << name;
  }
  const auto stacks = shipped().names(ConfigKind::kStack);
  for (const char* name : {"dtensor-v0", "dtensor-v1", "dtensor-v2", "dtensor-v3", "dtensor-v3g",
                           "dtensor-v3-rp", "dtensor-v4", "dtensor-v-compute", "dtensor-2.13",
                           "alpha-beta", "shardlab", "ap-default", "ap-nccl"}) {
    EXPECT_TRUE(std::count(stacks.begin(), stacks.end(), name)) << name;
  }
}

class ShippedTopology : public testing::TestWithParam<std::string> {};

TEST_P(ShippedTopology, LoadsUnderItsOwnNameWithASource) {
  const Topology topology = shipped().topology(GetParam());
  EXPECT_EQ(topology.name(), GetParam());
  EXPECT_NE(topology.source().find("http"), std::string::npos) << topology.source();
}

TEST_P(ShippedTopology, ReadsBackFromItsOwnJson) {
  const Topology topology = shipped().topology(GetParam());
  EXPECT_EQ(Topology::from_json(topology.to_json(), {"again", ""}), topology);
}

TEST_P(ShippedTopology, OuterLinksAreNoFasterThanInnerOnes) {
  const Topology topology = shipped().topology(GetParam());
  for (std::size_t i = 1; i < topology.links().size(); ++i) {
    EXPECT_LE(topology.links()[i].bandwidth, topology.links()[i - 1].bandwidth);
    EXPECT_GE(topology.links()[i].latency, topology.links()[i - 1].latency);
  }
}

TEST_P(ShippedTopology, HasHostsOfEightDevicesOrADomainOf72) {
  const Topology topology = shipped().topology(GetParam());
  const bool rack = GetParam() == "gb200" || GetParam() == "gb300";
  EXPECT_EQ(topology.devices_per_host(), rack ? 4 : 8);
  EXPECT_EQ(topology.domain_devices(), rack ? 72 : 8);
}

TEST_P(ShippedTopology, EveryStackSelectsOnIt) {
  const Topology topology = shipped().topology(GetParam());
  const DeviceMesh mesh = DeviceMesh::parse("2x8");
  const OpCall call = call_of("aten.mm.default", {"bf16[64,64] S(0)R", "bf16[64,64] RS(1)"}, 2);
  for (const std::string& name : shipped().names(ConfigKind::kStack)) {
    StackEvaluator evaluator(shipped_stack(name), topology);
    EXPECT_LT(evaluator.select(call, mesh).choice.total_us, kInf) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShippedTopology,
                         testing::ValuesIn(shipped().names(ConfigKind::kTopology)),
                         [](const auto& test) { return word(test.param); });

class ShippedStack : public testing::TestWithParam<std::string> {
 protected:
  // Named meshes with a flattened one, so that merging has something to do.
  static DeviceMesh mesh_of(Random& random, int min_size = 1) {
    const DeviceMesh bare = random_mesh(random, 3, 4, 512, min_size);
    const std::vector<std::string> letters = {"a", "b", "c"};
    const std::vector<std::string> names(letters.begin(), letters.begin() + bare.ndim());
    std::vector<std::int64_t> sizes;
    for (int m = 0; m < bare.ndim(); ++m) sizes.push_back(bare.size(m));
    const DeviceMesh mesh = DeviceMesh::make(sizes, names);
    return mesh.ndim() > 1 ? mesh.flatten(names) : mesh;
  }
};

TEST_P(ShippedStack, LoadsUnderItsOwnName) {
  const Stack stack = shipped_stack(GetParam());
  EXPECT_EQ(stack.name, GetParam());
  EXPECT_FALSE(stack.title.empty());
  EXPECT_FALSE(stack.source.empty());
}

TEST_P(ShippedStack, ReadsBackFromItsOwnJson) {
  const nlohmann::json json = shipped_stack(GetParam()).to_json();
  EXPECT_EQ(Stack::from_json(json, {"again", ""}).to_json(), json);
}

TEST_P(ShippedStack, PricesAListAsItPricesOneByOne) {
  Random random(111);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(60); ++i) {
    const DeviceMesh mesh = mesh_of(random);
    StackEvaluator evaluator(shipped_stack(GetParam()), h100(random.percent(50) ? 8 : 1));
    const TensorMeta meta = random_tensor(random, 3, 64);
    const LayoutKinds kinds{.strided = random.percent(20)};
    const Layout from = random_layout(random, mesh, meta.ndim(), kinds);
    std::vector<Layout> targets;
    for (int t = 2 + random.below(12); t > 0; --t) {
      targets.push_back(random_layout(random, mesh, meta.ndim(), kinds));
    }
    std::vector<double> prices(targets.size());
    Redistributor& redistributor = evaluator.on(mesh);
    redistributor.costs_us(meta, from, targets, prices);
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const double one = redistributor.cost_us(meta, from, targets[t]);
      EXPECT_EQ(std::bit_cast<std::uint64_t>(prices[t]), std::bit_cast<std::uint64_t>(one))
          << meta.text() << " " << from.text() << " to " << targets[t].text() << " on "
          << mesh.text() << ": " << prices[t] << " in a list, " << one << " alone";
    }
    if (HasFailure()) return;
  }
}

TEST_P(ShippedStack, PricesAPlanAsItPricesItsEnds) {
  Random random(112);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(200); ++i) {
    const DeviceMesh mesh = mesh_of(random);
    StackEvaluator evaluator(shipped_stack(GetParam()), h100(random.percent(50) ? 8 : 1));
    const TensorMeta meta = random_tensor(random, 3, 64);
    const LayoutKinds kinds{.strided = random.percent(20)};
    const Layout from = random_layout(random, mesh, meta.ndim(), kinds);
    const Layout to = random_layout(random, mesh, meta.ndim(), kinds);
    Redistributor& redistributor = evaluator.on(mesh);
    const double cost = redistributor.cost_us(meta, from, to);
    const Plan plan = redistributor.plan(meta, from, to);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(plan.price.total.value()),
              std::bit_cast<std::uint64_t>(cost))
        << meta.text() << " " << plan.path() << " on " << mesh.text() << ": plan "
        << plan.price.total.value() << ", cost " << cost;
    EXPECT_EQ(plan.impossible.empty(), cost < kInf) << plan.path() << ": " << plan.impossible;
    if (HasFailure()) return;
  }
}

TEST_P(ShippedStack, PricesAMoveToTheSameLayoutAtZero) {
  Random random(113);
  SHARDLAB_TRACE_SEED();
  StackEvaluator evaluator(shipped_stack(GetParam()), h100(8));
  for (int i = 0; i < random_cases(200); ++i) {
    const DeviceMesh mesh = mesh_of(random);
    const TensorMeta meta = random_tensor(random, 3, 64);
    const Layout layout = random_layout(random, mesh, meta.ndim(), {.strided = true});
    EXPECT_EQ(evaluator.on(mesh).cost_us(meta, layout, layout), 0.0) << layout.text();
    EXPECT_TRUE(evaluator.on(mesh).plan(meta, layout, layout).steps.empty()) << layout.text();
  }
}

TEST_P(ShippedStack, ChoosesTheSameTwice) {
  // Another evaluator is asked in another order, which shows that no cache changes an answer.
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  Random random(115);
  SHARDLAB_TRACE_SEED();
  std::vector<OpCall> calls;
  for (int i = 0; i < random_cases(40); ++i) {
    const auto spec = [&](const char* shape) {
      return std::string(shape) + " " + random_layout(random, mesh, 2, {.orders = false}).text();
    };
    calls.push_back(random.percent(50)
                        ? call_of("aten.mm.default", {spec("f32[16,8]"), spec("f32[8,16]")}, 2)
                        : call_of("aten.add.Tensor", {spec("f32[8,8]"), spec("f32[8,8]")}, 2));
  }
  StackEvaluator first(shipped_stack(GetParam()), h100(1));
  StackEvaluator second(shipped_stack(GetParam()), h100(1));
  std::map<std::string, std::string> answers;
  const auto answer = [&](StackEvaluator& evaluator, const OpCall& call) {
    const Selection s = evaluator.select(call, mesh);
    return testing_support::layouts_text(s.choice.outputs, s.choice.inputs) + " " +
           std::to_string(std::bit_cast<std::uint64_t>(s.choice.total_us));
  };
  for (const OpCall& call : calls) answers[call.text()] = answer(first, call);
  std::reverse(calls.begin(), calls.end());
  for (const OpCall& call : calls) EXPECT_EQ(answer(second, call), answers[call.text()]);
}

INSTANTIATE_TEST_SUITE_P(All, ShippedStack, testing::ValuesIn(shipped().names(ConfigKind::kStack)),
                         [](const auto& test) { return word(test.param); });

class PlannedStack : public ShippedStack {};

TEST_P(PlannedStack, MinimumCostPlansNeverCostMoreThanGreedyOnes) {
  nlohmann::json json = shipped_stack(GetParam()).to_json();
  if (json["merge"] == "price") json["merge"] = "execute";
  json["planner"] = "greedy";
  const Stack greedy = Stack::from_json(json, {"greedy", ""});
  json["planner"] = "graph";
  const Stack graph = Stack::from_json(json, {"graph", ""});
  Random random(114);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(300); ++i) {
    const DeviceMesh mesh = mesh_of(random, 2);
    const Topology topology = h100(random.percent(50) ? 8 : 1);
    StackEvaluator a(graph, topology);
    StackEvaluator b(greedy, topology);
    const TensorMeta meta = random_tensor(random, 3, 4096);
    const Layout from = random_layout(random, mesh, meta.ndim(), {.orders = false});
    const Layout to = random_layout(random, mesh, meta.ndim(), {.orders = false});
    const double cheap = a.on(mesh).cost_us(meta, from, to);
    const double simple = b.on(mesh).cost_us(meta, from, to);
    // Since 2.14 the planner takes a step from a shard to a sum for nothing, and the price of a
    // plan with such a step is infinite.
    if (cheap == kInfinity && graph.redistribution.semantics->plans_sums_of_shards()) {
      const Plan plan = a.on(mesh).plan(meta, from, to);
      if (std::any_of(plan.steps.begin(), plan.steps.end(), [](const PlanStep& step) {
            return step.from.is_shard_like() && step.to.is_partial();
          })) {
        continue;
      }
    }
    EXPECT_LE(cheap, simple * (1 + 1e-12))
        << meta.text() << " " << from.text() << " to " << to.text() << " on " << mesh.text();
    if (HasFailure()) return;
  }
}

// v0 and v1 are left out because they price a plan by other bytes than the planner minimises, and
// v2 because its greedy planner changes one partial into another at no cost, which no other planner
// may.
std::vector<std::string> stacks_since_v3() {
  std::vector<std::string> names;
  for (const std::string& name : shipped().names(ConfigKind::kStack)) {
    const std::string_view version = shipped_stack(name).redistribution.semantics->name();
    if (version != "v0" && version != "v1" && version != "v2") names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(SinceV3, PlannedStack, testing::ValuesIn(stacks_since_v3()),
                         [](const auto& test) { return word(test.param); });

}  // namespace shipped_contract_test
}  // namespace shardlab

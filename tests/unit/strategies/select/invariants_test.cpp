// Properties of prices: stacks that break them are found, others are not accused, and a witness can
// be checked by hand.
#include "strategies/select/invariants.h"

#include <gtest/gtest.h>

#include <map>

#include "costmodel/base/text.h"
#include "strategies/select/evaluator.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace invariants_test {

using nlohmann::json;
using reports::InvariantResult;
using testing_support::stack_json;
using testing_support::stack_with;
using testing_support::topology_with;

#ifdef SHARDLAB_SANITIZED
constexpr int kSamples = 400;
#else
constexpr int kSamples = 2000;
#endif

std::map<std::string, InvariantResult> check(const Stack& stack, std::uint64_t seed = 0) {
  std::map<std::string, InvariantResult> by_name;
  for (const InvariantResult& one : check_invariants(stack, topology_with(8), seed, kSamples)) {
    by_name[one.name] = one;
  }
  return by_name;
}

std::string witness_of(const InvariantResult& result) {
  return result.worst ? result.worst->witness : "";
}

TEST(Invariants, TheGreedyPlannerBreaksTheTriangleAndTheGraphPlannerDoesNot) {
  const InvariantResult greedy = check(stack_with("dtensor-v3")).at("triangle");
  EXPECT_EQ(greedy.checked, kSamples);
  EXPECT_GT(greedy.violated, 0);
  const InvariantResult graph = check(stack_with("dtensor-v3g")).at("triangle");
  EXPECT_EQ(graph.checked, kSamples);
  EXPECT_EQ(graph.violated, 0) << witness_of(graph);
  EXPECT_FALSE(graph.worst.has_value());
}

// Reads a witness such as "A to C costs x us, and by way of B y us; f32[...] on mesh".
TEST(Invariants, TheWitnessOfATriangleIsTheWorstAndCanBeCheckedByHand) {
  const InvariantResult triangle = check(stack_with("dtensor-v3")).at("triangle");
  const std::string& text = triangle.worst.value().witness;
  const auto between = [&](const std::string& before, const std::string& after) {
    const std::size_t begin = before.empty() ? 0 : text.find(before) + before.size();
    return text.substr(begin, text.find(after, begin) - begin);
  };
  const std::size_t on = text.rfind(" on ");
  const DeviceMesh mesh = DeviceMesh::parse(text.substr(on + 4));
  const TensorMeta tensor =
      TensorMeta::parse(text.substr(text.find("; ") + 2, on - text.find("; ") - 2));
  const std::string way = between("by way of ", " us;");
  const Layout a = Layout::parse(between("", " to "), mesh.ndim());
  const Layout b = Layout::parse(way.substr(0, way.rfind(' ')), mesh.ndim());
  const Layout c = Layout::parse(between(" to ", " costs"), mesh.ndim());
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(8));
  Redistributor& redistributor = evaluator.on(mesh);
  const double direct = redistributor.cost_us(tensor, a, c);
  const double around = redistributor.cost_us(tensor, a, b) + redistributor.cost_us(tensor, b, c);
  EXPECT_GT(direct, around);
  EXPECT_DOUBLE_EQ(direct - around, triangle.worst->amount_us);
  EXPECT_DOUBLE_EQ(100 * (direct - around) / around, triangle.worst->amount_percent.value());
  EXPECT_EQ(between("costs ", " us"), format_fixed(direct, 3));
}

TEST(Invariants, DTensorsPricesAreMonotoneAndFreeForTheSameLayout) {
  for (const char* name :
       {"dtensor-v0", "dtensor-v3", "dtensor-v3-rp", "dtensor-v4", "alpha-beta"}) {
    const auto checks = check(stack_with(name));
    EXPECT_EQ(checks.size(), 8U);
    for (const char* invariant : {"monotone", "monotone_bandwidth", "zero_same_layout"}) {
      EXPECT_EQ(checks.at(invariant).checked, kSamples) << name;
      EXPECT_EQ(checks.at(invariant).violated, 0)
          << name << ": " << witness_of(checks.at(invariant));
    }
  }
}

// A table for every group of the meshes that are drawn: straight lines from 1 B to 8 GiB.
Stack table_stack(const std::map<std::string, std::pair<double, double>>& times_us) {
  json rows = json::array();
  for (const auto& [collective, times] : times_us) {
    for (const int ranks : {2, 4, 8}) {
      rows.push_back(
          {{"collective", collective}, {"ranks", ranks}, {"bytes", 1}, {"time_us", times.first}});
      rows.push_back({{"collective", collective},
                      {"ranks", ranks},
                      {"bytes", 8589934592.0},
                      {"time_us", times.second}});
    }
  }
  json stack = stack_json("dtensor-v3g");
  stack["collective_model"] = {{"name", "table"}, {"rows", rows}};
  stack["merge"] = "off";  // a merged step has another price than the steps that it stands for
  return Stack::from_json(stack, {"table.json", ""});
}

TEST(Invariants, ATableThatFallsWithBytesIsCaught) {
  // The greedy planner takes the all-reduce; the graph planner would mostly go around it.
  Stack falling = table_stack({{"all_gather", {10, 1e6}},
                               {"all_reduce", {1e6, 10}},
                               {"reduce_scatter", {10, 1e6}},
                               {"all_to_all", {10, 1e6}}});
  falling.redistribution.planner = PlannerKind::kGreedy;
  const auto broken = check(falling);
  EXPECT_GT(broken.at("monotone").violated, 0);
  EXPECT_NE(witness_of(broken.at("monotone")).find("P(sum)"), std::string::npos)
      << witness_of(broken.at("monotone"));
  EXPECT_EQ(broken.at("zero_same_layout").violated, 0);

  const auto sound = check(table_stack({{"all_gather", {10, 1e6}},
                                        {"all_reduce", {20, 2e6}},
                                        {"reduce_scatter", {10, 1e6}},
                                        {"all_to_all", {10, 1e6}}}));
  for (const auto& [name, one] : sound) {
    EXPECT_GT(one.checked, 0) << name;
    EXPECT_EQ(one.violated, 0) << name << ": " << witness_of(one);
  }
}

TEST(Invariants, AReduceScatterDearerThanAnAllReduceIsCaught) {
  // The greedy planner takes the dear collective; the graph planner would go around it.
  Stack stack = table_stack({{"all_gather", {10, 1e6}},
                             {"all_reduce", {20, 2e6}},
                             {"reduce_scatter", {30, 3e6}},
                             {"all_to_all", {10, 1e6}}});
  stack.redistribution.planner = PlannerKind::kGreedy;
  const InvariantResult one = check(stack).at("reduce_scatter_le_all_reduce");
  EXPECT_EQ(one.violated, one.checked);
  EXPECT_NEAR(one.worst.value().amount_percent.value(), 50.0, 1.0);
}

TEST(Invariants, ImpossiblePricesAreSkippedNotCounted) {
  const auto checks = check(table_stack({{"all_reduce", {20, 2e6}}}));
  EXPECT_LT(checks.at("triangle").checked, kSamples);
  EXPECT_EQ(checks.at("triangle").violated, 0);
}

TEST(Invariants, TheSameSeedFindsTheSame) {
  const Stack stack = stack_with("dtensor-v3");
  EXPECT_EQ(witness_of(check(stack, 5).at("triangle")), witness_of(check(stack, 5).at("triangle")));
  EXPECT_NE(check(stack, 5).at("triangle").violated, check(stack, 6).at("triangle").violated);
}

}  // namespace invariants_test
}  // namespace shardlab

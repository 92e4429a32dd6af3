// Stacks: what a file may say, what holds where it says nothing, and what it takes from its base.
#include "strategies/select/stack.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace stack_test {

using nlohmann::json;

const json kLeast = {{"schema", "shardlab/stack/1"},
                     {"name", "x"},
                     {"transitions", "v3"},
                     {"collective_model", "dtensor"}};

Stack read(const json& value, const Stack::LoadBase& base = {}) {
  return Stack::from_json(value, {"s.json", ""}, base);
}

TEST(Stack, TheLeastFileGetsTheReleasesDefaults) {
  const Stack stack = read(kLeast);
  EXPECT_EQ(stack.rules, RuleSet(Release::k2_13));
  EXPECT_EQ(stack.redistribution.semantics->name(), "v3");
  EXPECT_EQ(stack.redistribution.planner, PlannerKind::kGreedy);
  EXPECT_EQ(stack.redistribution.merge, MergeMode::kExecute);
  EXPECT_EQ(stack.redistribution.merge_rule, MergeRule::kRuns);
  EXPECT_TRUE(stack.redistribution.merge_checks_all_gather);
  EXPECT_EQ(stack.strided_kernels, StridedKernels::kLocal);
  EXPECT_EQ(stack.compute_model.entry->name, "none");
  EXPECT_EQ(stack.straggler.kind, StragglerKind::kNone);
  EXPECT_EQ(stack.order.text(), "listed");
  EXPECT_EQ(stack.policy, Policy::kKeepInput);
  EXPECT_EQ(stack.search, SearchKind::kFull);
  EXPECT_EQ(stack.transition_us, 0.0);
}

TEST(Stack, EveryKeyIsRead) {
  json value = kLeast;
  value.update({{"title", "t"},
                {"source", "u"},
                {"rules", "shardlab"},
                {"transitions", {{"name", "v3-rp"}, {"replicate_to_partial_us", 0.5}}},
                {"planner", "graph"},
                {"merge", "price"},
                {"merge_rule", "neighbouring-all-reduces"},
                {"merge_checks_all_gather", false},
                {"collective_model", {{"name", "alpha_beta"}, {"params", {{"launch_us", 3}}}}},
                {"compute_model", "roofline"},
                {"strided_kernels", "whole"},
                {"straggler", {{"name", "percent"}, {"percent", 5}}},
                {"order", "shuffled:3"},
                {"policy", "first-listed"},
                {"search", "dijkstra"},
                {"nesting_guard", false},
                {"transition_us", 1.5}});
  const Stack stack = read(value);
  EXPECT_EQ(stack.rules, kShardlab);
  EXPECT_EQ(stack.redistribution.semantics->replicate_to_partial(), Micros(0.5));
  EXPECT_EQ(stack.redistribution.planner, PlannerKind::kGraph);
  EXPECT_EQ(stack.redistribution.merge, MergeMode::kPrice);
  EXPECT_EQ(stack.redistribution.merge_rule, MergeRule::kNeighbouringAllReduces);
  EXPECT_FALSE(stack.redistribution.merge_checks_all_gather);
  EXPECT_EQ(stack.strided_kernels, StridedKernels::kWhole);
  EXPECT_EQ(stack.collective_model.params["launch_us"], 3);
  EXPECT_EQ(stack.compute_model.entry->name, "roofline");
  EXPECT_EQ(stack.straggler.percent, 5.0);
  EXPECT_EQ(stack.order.seed, 3U);
  EXPECT_EQ(stack.policy, Policy::kFirstListed);
  EXPECT_EQ(stack.search, SearchKind::kDijkstra);
  EXPECT_FALSE(stack.nesting_guard);
  EXPECT_EQ(stack.transition_us, 1.5);
}

TEST(Stack, ToJsonFillsEveryDefaultAndReadsBackToTheSame) {
  const json filled = read(kLeast).to_json();
  EXPECT_EQ(filled.size(), 19U);
  EXPECT_EQ(filled["collective_model"]["params"]["base_latency_us"], 6.6);
  EXPECT_EQ(read(filled).to_json(), filled);
}

TEST(Stack, ToJsonKeepsThePriceOfAPartition) {
  json value = kLeast;
  value["transitions"] = {{"name", "v-compute"}, {"replicate_to_partial_us", 0.25}};
  EXPECT_EQ(read(value).to_json()["transitions"],
            (json{{"name", "v-compute"}, {"replicate_to_partial_us", 0.25}}));
}

struct StackError {
  const char* name;
  const char* patch;
  const char* message;
};
void PrintTo(const StackError& c, std::ostream* out) { *out << c.patch; }
class StackErrors : public testing::TestWithParam<StackError> {};

TEST_P(StackErrors, AreTheseWordForWord) {
  json value = kLeast;
  value.merge_patch(json::parse(GetParam().patch));
  EXPECT_THROW_MSG(read(value), ConfigError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, StackErrors,
    testing::Values(
        StackError{"OtherSchema", R"({"schema": "shardlab/topology/1"})",
                   "s.json:/schema: found \"shardlab/topology/1\"; valid: \"shardlab/stack/1\""},
        StackError{"NoName", R"({"name": null})", "s.json: missing key \"name\""},
        StackError{"NoTransitions", R"({"transitions": null})",
                   "s.json: missing key \"transitions\""},
        StackError{"UnknownRules", R"({"rules": "dtensor-2.16"})",
                   "s.json:/rules: found \"dtensor-2.16\" (did you mean \"dtensor-2.15\"?); valid: "
                   "dtensor-2.15, dtensor-2.14, dtensor-2.13, dtensor-legacy, shardlab, "
                   "autoparallel, autoparallel-2.15"},
        StackError{"UnknownVersion", R"({"transitions": "v9"})",
                   "s.json:/transitions: unknown transition version \"v9\" (did you mean \"v0\"?); "
                   "valid: v0, v1, v2, v3, v4, v3-rp, v3-sp, v-compute, autoparallel"},
        StackError{"UnknownVersionInAnObject", R"({"transitions": {"name": "newest"}})",
                   "s.json:/transitions/name: unknown transition version \"newest\"; valid: v0, "
                   "v1, v2, v3, v4, v3-rp, v3-sp, v-compute, autoparallel"},
        StackError{"PriceOfAPartitionInV3",
                   R"({"transitions": {"name": "v3", "replicate_to_partial_us": 1}})",
                   "s.json:/transitions/replicate_to_partial_us: version \"v3\" has no price for "
                   "R->P; valid in v3-rp and v-compute"},
        StackError{"NegativePriceOfAPartition",
                   R"({"transitions": {"name": "v3-rp", "replicate_to_partial_us": -1}})",
                   "s.json:/transitions/replicate_to_partial_us: found -1; valid: a number from 0 "
                   "to 1e+09"},
        StackError{"UnknownPlanner", R"({"planner": "greed"})",
                   "s.json:/planner: found \"greed\" (did you mean \"greedy\"?); valid: greedy, "
                   "graph"},
        StackError{"PlannerIsANumber", R"({"planner": 1})",
                   "s.json:/planner: found 1; valid: a text"},
        StackError{"UnknownMerge", R"({"merge": "yes"})",
                   "s.json:/merge: found \"yes\"; valid: off, execute, price"},
        StackError{"UnknownModel", R"({"collective_model": "dtenso"})",
                   "s.json:/collective_model: unknown model \"dtenso\" (did you mean "
                   "\"dtensor\"?); valid: alpha_beta, ap_default, ap_nccl, ap_roofline, dtensor, "
                   "kernels, nccl, none, piecewise, population, roofline, table"},
        StackError{"UnknownParameter",
                   R"({"collective_model": {"name": "dtensor", "params": {"latency": 1}}})",
                   "s.json:/collective_model/params/latency: unknown parameter; valid: "
                   "base_latency_us, intra_host_hop_us, inter_host_hop_us, bandwidth_gb_per_s, "
                   "inter_host_factor"},
        StackError{"KernelModelForCollectives", R"({"collective_model": "roofline"})",
                   "s.json:/collective_model: \"roofline\" prices no collectives; valid: "
                   "alpha_beta, ap_default, ap_nccl, dtensor, nccl, piecewise, population, table"},
        StackError{"CollectiveModelForKernels", R"({"compute_model": "dtensor"})",
                   "s.json:/compute_model: \"dtensor\" prices no kernels; valid: ap_roofline, "
                   "kernels, none, roofline"},
        StackError{"TableWithoutRows", R"({"collective_model": "table"})",
                   "s.json:/collective_model: \"table\" needs rows; valid: {\"name\": ..., "
                   "\"rows\": [...]}"},
        StackError{
            "UnknownStraggler", R"({"straggler": "slow"})",
            "s.json:/straggler: unknown straggler model \"slow\"; valid: none, percent, fixed, "
            "order_statistics"},
        StackError{"UnknownOrder", R"({"order": "random"})",
                   "s.json:/order: order \"random\": at position 0: expected listed, reversed or "
                   "shuffled:SEED"},
        StackError{"UnknownPolicy", R"({"policy": "keep_input"})",
                   "s.json:/policy: found \"keep_input\" (did you mean \"keep-input\"?); valid: "
                   "first-listed, keep-input, fewest-collectives, least-bytes, compute-time, "
                   "lexicographic"},
        StackError{"UnknownMergeRule", R"({"merge_rule": "all"})",
                   "s.json:/merge_rule: found \"all\"; valid: runs, neighbouring-all-reduces"},
        StackError{"UnknownStridedKernels", R"({"strided_kernels": "half"})",
                   "s.json:/strided_kernels: found \"half\"; valid: local, whole"},
        StackError{"UnknownSearch", R"({"search": "astar"})",
                   "s.json:/search: found \"astar\"; valid: full, dijkstra, exact"},
        StackError{"NegativeTransition", R"({"transition_us": -1})",
                   "s.json:/transition_us: found -1; valid: a number from 0 to 1e+09"},
        StackError{
            "UnknownKey", R"({"transition": "v3"})",
            "s.json:/transition: unknown key (did you mean \"transitions\"?); valid: schema, "
            "name, title, source, rules, transitions, planner, merge, merge_rule, "
            "merge_checks_all_gather, collective_model, compute_model, strided_kernels, "
            "straggler, order, policy, search, nesting_guard, transition_us, step_terms"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(StackTransitions, TakeAnotherPenaltyOfAllToAll) {
  json value = kLeast;
  EXPECT_FALSE(read(value).to_json()["transitions"].contains("all_to_all_penalty_us"));
  value["transitions"] = {{"name", "v3"}, {"all_to_all_penalty_us", 0.25}};
  const Stack stack = read(value);
  EXPECT_EQ(stack.to_json()["transitions"],
            (json{{"name", "v3"}, {"all_to_all_penalty_us", 0.25}}));
  EXPECT_EQ(read(stack.to_json()).to_json(), stack.to_json());
  value["transitions"]["all_to_all_penalty_us"] = -1;
  EXPECT_THROW_MSG(read(value), ConfigError,
                   "s.json:/transitions/all_to_all_penalty_us: found -1; valid: a number from 0 to "
                   "1e+09");
}

TEST(StackBase, IsMergedKeyByKeyUnderTheFile) {
  const auto load = [](const std::string& name) {
    EXPECT_EQ(name, "dtensor-v3");
    json base = kLeast;
    base["title"] = "the base";
    base["collective_model"] = {{"name", "dtensor"}, {"params", {{"base_latency_us", 1}}}};
    return base;
  };
  const Stack stack = read({{"base", "dtensor-v3"}, {"name", "mine"}, {"planner", "graph"}}, load);
  EXPECT_EQ(stack.name, "mine");
  EXPECT_EQ(stack.title, "dtensor-v3 with other planner");
  EXPECT_EQ(stack.source, "changed from dtensor-v3");
  // A stack that changes nothing, or that says what it is, keeps what is said.
  EXPECT_EQ(read({{"base", "dtensor-v3"}, {"name", "mine"}}, load).title, "the base");
  EXPECT_EQ(read({{"base", "dtensor-v3"}, {"title", "mine"}, {"planner", "graph"}}, load).title,
            "mine");
  EXPECT_EQ(stack.redistribution.planner, PlannerKind::kGraph);
  EXPECT_EQ(stack.collective_model.params["base_latency_us"], 1);
  // A model that is only named has its default parameters.
  EXPECT_TRUE(read({{"base", "dtensor-v3"}, {"collective_model", "dtensor"}}, load)
                  .collective_model.params.empty());
}

TEST(StackBase, AModelOfTheSameNameChangesTheParametersThatItGives) {
  const auto load = [](const std::string&) {
    json base = kLeast;
    base["collective_model"] = {{"name", "dtensor"},
                                {"params", {{"base_latency_us", 1}, {"bandwidth_gb_per_s", 40}}}};
    base["compute_model"] = {{"name", "roofline"}, {"params", {{"launch_us", 3}}}};
    return base;
  };
  const Stack stack =
      read({{"base", "b"},
            {"collective_model", {{"name", "dtensor"}, {"params", {{"base_latency_us", 2}}}}}},
           load);
  EXPECT_EQ(stack.collective_model.params,
            (json{{"base_latency_us", 2}, {"bandwidth_gb_per_s", 40}}));
  EXPECT_EQ(stack.title, "b with other collective_model");
  EXPECT_EQ(
      read({{"base", "b"}, {"compute_model", {{"name", "kernels"}}}}, load).compute_model.params,
      json::object());
}

TEST(StackBase, NamesAStackThatHasNoName) {
  EXPECT_EQ(read({{"base", "b"}}, [](const std::string&) { return kLeast; }).name, "b+");
}

TEST(StackBase, IsRefusedWhereNobodyLoadsIt) {
  EXPECT_THROW_MSG(read({{"base", "b"}}), ConfigError, "s.json:/base: a base is not valid here");
  EXPECT_THROW_MSG(read({{"base", 3}}, [](const std::string&) { return kLeast; }), ConfigError,
                   "s.json:/base: found 3; valid: a text");
}

TEST(StackBase, IsRefusedWhenItIsNoCompleteStack) {
  for (const json& base : {json::array(), json{{"base", "b"}}}) {
    EXPECT_THROW_MSG(
        read({{"base", "b"}}, [&](const std::string&) { return base; }), ConfigError,
        "s.json:/base: found \"b\", which is not a complete stack; valid: a stack without a base");
  }
}

TEST(SearchKinds, ReadBackByTheirNames) {
  for (const SearchKind kind : {SearchKind::kFull, SearchKind::kDijkstra, SearchKind::kExact}) {
    EXPECT_EQ(from_name<SearchKind>(name_of(kind)), kind);
  }
  EXPECT_FALSE(from_name<SearchKind>("astar").has_value());
}

}  // namespace stack_test
}  // namespace shardlab

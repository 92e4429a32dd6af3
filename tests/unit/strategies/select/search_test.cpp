// The priority-queue search is compared with full expansion (regressions R04, R28 to R31).
#include "strategies/select/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "strategies/rules/expansion.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/stack.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace search_test {

using testing_support::all_layouts;
using testing_support::call_of;
using testing_support::layouts_text;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_layout;
using testing_support::stack_with;
using testing_support::topology_with;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr const char* kGraph = R"({"planner": "graph"})";

OpCall mm_call(const std::string& a, const std::string& b, int mesh_ndim) {
  return call_of("aten.mm.default", {"f32[64,32] " + a, "f32[32,64] " + b}, mesh_ndim);
}

SearchOutcome search(StackEvaluator& evaluator, const OpCall& call, const DeviceMesh& mesh,
                     SearchOptions options = {}) {
  return search_rows(find_op_rule(call.op, evaluator.stack().rules), call, mesh,
                     evaluator.on(mesh).pricer(), options);
}

double least_total(StackEvaluator& evaluator, const OpCall& call, const DeviceMesh& mesh) {
  double least = kInf;
  for (const Candidate& c : evaluator.select(call, mesh).candidates) {
    least = std::min(least, c.total_us);
  }
  return least;
}

TEST(SearchRows, WhatMatchesAlreadyCostsNothing) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(1));
  const SearchOutcome outcome = search(evaluator, mm_call("S(0)R", "RS(1)", 2), mesh);
  ASSERT_TRUE(outcome.result.has_value());
  EXPECT_EQ(layouts_text(outcome.result->outputs, outcome.result->inputs), "S(0)S(1)|S(0)R,RS(1)");
  EXPECT_EQ(outcome.result->total_us, 0.0);
  EXPECT_EQ(outcome.result->states_visited, 1U);
}

// From S(0)R the queue leaves its first state by other shards, so that it asks for two prices a
// step.
TEST(SearchRows, CountsThePricesThatItAsksFor) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(1));
  EXPECT_EQ(search(evaluator, mm_call("S(0)R", "RS(1)", 2), mesh).result->prices_asked, 0U);
  const SearchOutcome outcome = search(evaluator, mm_call("S(0)R", "S(1)R", 2), mesh);
  ASSERT_TRUE(outcome.result.has_value());
  EXPECT_GT(outcome.result->states_visited, 1U);
  EXPECT_GT(outcome.result->prices_asked, outcome.result->states_visited);
  EXPECT_EQ(outcome.result->prices_asked % 2, 0U);
}

TEST(SearchEffort, IsThatOfTheSearchThatRan) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2x2");
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(1));
  const OpCall call = mm_call("S(0)RR", "S(1)RR", 3);
  const Selection full = evaluator.select(call, mesh, {.search = SearchKind::kFull});
  ASSERT_TRUE(full.effort.has_value());
  EXPECT_EQ(full.effort->method, SearchMethod::kEnumeration);
  EXPECT_EQ(full.effort->states_visited, full.candidates.size());
  const Selection bounds = evaluator.select(call, mesh, {.search = SearchKind::kExact});
  ASSERT_TRUE(bounds.effort.has_value());
  EXPECT_EQ(bounds.effort->method, SearchMethod::kBounds);
  EXPECT_GT(bounds.effort->states_visited, 0U);
  EXPECT_LT(bounds.effort->states_visited, full.effort->states_visited);
  const Selection queue = evaluator.select(call, mesh, {.search = SearchKind::kDijkstra});
  ASSERT_TRUE(queue.effort.has_value());
  EXPECT_EQ(queue.effort->method, SearchMethod::kQueue);
}

TEST(SearchRows, R28AnUnevenShardThatIsThereAlreadyMatchesPointwise) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(1));
  const SearchOutcome outcome =
      search(evaluator, call_of("aten.abs.default", {"f32[2] S(0)"}, 1), mesh);
  ASSERT_TRUE(outcome.result.has_value());
  EXPECT_EQ(layouts_text(outcome.result->outputs, outcome.result->inputs), "S(0)|S(0)");
}

TEST(SearchRows, R29FindsTheOneGather) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(stack_with("dtensor-v3", kGraph), topology_with(1));
  const OpCall call = mm_call("S(0)R", "RS(0)", 2);
  const SearchOutcome outcome = search(evaluator, call, mesh);
  ASSERT_TRUE(outcome.result.has_value());
  EXPECT_EQ(outcome.result->total_us, least_total(evaluator, call, mesh));
}

TEST(SearchRows, PricesOfTheInputsSumToTheTotal) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(1));
  const SearchOutcome outcome = search(evaluator, mm_call("S(0)S(0)", "S(0)P", 2), mesh);
  ASSERT_TRUE(outcome.result.has_value());
  EXPECT_DOUBLE_EQ(outcome.result->input_us[0] + outcome.result->input_us[1],
                   outcome.result->total_us);
}

struct FallbackCase {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  const char* reason;
};
void PrintTo(const FallbackCase& c, std::ostream* out) { *out << c.name; }
class SearchFallbacks : public testing::TestWithParam<FallbackCase> {};

TEST_P(SearchFallbacks, R31LeaveTheFullResultUnchanged) {
  const FallbackCase& c = GetParam();
  const DeviceMesh mesh = DeviceMesh::parse("2");
  const OpCall call = call_of(c.op, c.inputs, 1, c.args);
  StackEvaluator full(stack_with("dtensor-v3"), topology_with(1));
  StackEvaluator searching(stack_with("dtensor-v3", R"({"search": "dijkstra"})"), topology_with(1));
  const SearchOutcome outcome = search(full, call, mesh);
  EXPECT_FALSE(outcome.result.has_value());
  EXPECT_EQ(outcome.fallback, c.reason);
  const Selection a = full.select(call, mesh);
  const Selection b = searching.select(call, mesh);
  EXPECT_EQ(b.search_note, c.reason);
  EXPECT_EQ(layouts_text(a.choice.outputs, a.choice.inputs),
            layouts_text(b.choice.outputs, b.choice.inputs));
  EXPECT_EQ(a.choice.total_us, b.choice.total_us);
  EXPECT_EQ(a.candidates.size(), b.candidates.size());
}

INSTANTIATE_TEST_SUITE_P(All, SearchFallbacks,
                         testing::Values(FallbackCase{"AStridedInput",
                                                      "aten.mm.default",
                                                      {"f32[64,64] _S(0,2)", "f32[64,64] R"},
                                                      "[]",
                                                      "an input is a strided shard"},
                                         FallbackCase{"AnInPlaceOp",
                                                      "aten.add_.Tensor",
                                                      {"f32[8] S(0)", "f32[8] R"},
                                                      "[]",
                                                      "the op writes to one of its tensors"},
                                         FallbackCase{"AnOutTensor",
                                                      "aten.add.out",
                                                      {"f32[8] S(0)", "f32[8] R", "f32[8] S(0)"},
                                                      "[]",
                                                      "the op writes to one of its tensors"},
                                         FallbackCase{"AFollowRule",
                                                      "aten.sum.default",
                                                      {"f32[8] S(0)"},
                                                      "[]",
                                                      "the op has no rows"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SearchRows, ATensorListFallsBack) {
  const DeviceMesh mesh = DeviceMesh::parse("2");
  StackEvaluator evaluator(stack_with("shardlab"), topology_with(1));
  const OpCall call = call_of("aten.cat.default", {"[f32[8,8] S(1); f32[8,8] R]"}, 1, "[0]");
  EXPECT_EQ(search(evaluator, call, mesh).fallback, "the op takes a tensor list");
}

TEST(SearchRows, AMaskPartialIsReducedToReplicas) {
  // A mask partial can only be reduced to R, which every op accepts.
  const DeviceMesh mesh = DeviceMesh::parse("2");
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(1));
  const SearchOutcome outcome =
      search(evaluator, call_of("aten.abs.default", {"f32[8] MP"}, 1), mesh);
  ASSERT_TRUE(outcome.result.has_value());
  EXPECT_EQ(layouts_text(outcome.result->outputs, outcome.result->inputs), "R|R");
}

// R30: every pair of layouts out of {S0, S1, R, P} for the two inputs of mm.
struct SweepCase {
  const char* name;
  const char* stack;
  const char* mesh;
  int under_priced;  // how many are priced too low without the nesting guard
};
void PrintTo(const SweepCase& c, std::ostream* out) { *out << c.name; }
class SearchSweep : public testing::TestWithParam<SweepCase> {};

TEST_P(SearchSweep, R30WithTheGuardItFindsTheMinimumOfFullExpansion) {
  const DeviceMesh mesh = DeviceMesh::parse(GetParam().mesh);
  StackEvaluator evaluator(stack_with(GetParam().stack, kGraph), topology_with(1));
  const auto layouts = all_layouts(mesh.ndim(), 2, {ReduceOp::kSum});
  int pairs = 0;
  for (const Layout& a : layouts) {
    for (const Layout& b : layouts) {
      const OpCall call = mm_call(a.text(), b.text(), mesh.ndim());
      const SearchOutcome outcome = search(evaluator, call, mesh);
      ASSERT_TRUE(outcome.result.has_value()) << call.text();
      EXPECT_NEAR(outcome.result->total_us, least_total(evaluator, call, mesh), 1e-9)
          << call.text();
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, mesh.ndim() == 1 ? 16 : 256);
}

TEST_P(SearchSweep, R30WithoutTheGuardItPricesSomeTooLow) {
  const DeviceMesh mesh = DeviceMesh::parse(GetParam().mesh);
  StackEvaluator evaluator(stack_with(GetParam().stack, kGraph), topology_with(1));
  const auto layouts = all_layouts(mesh.ndim(), 2, {ReduceOp::kSum});
  int under = 0;
  for (const Layout& a : layouts) {
    for (const Layout& b : layouts) {
      const OpCall call = mm_call(a.text(), b.text(), mesh.ndim());
      const SearchOutcome outcome = search(evaluator, call, mesh, {.nesting_guard = false});
      const double least = least_total(evaluator, call, mesh);
      EXPECT_LE(outcome.result->total_us, least + 1e-9) << call.text();
      under += outcome.result->total_us < least - 1e-9 ? 1 : 0;
    }
  }
  EXPECT_EQ(under, GetParam().under_priced);
}

INSTANTIATE_TEST_SUITE_P(Mm, SearchSweep,
                         testing::Values(SweepCase{"V3OnALine", "dtensor-v3", "4", 0},
                                         SweepCase{"V4OnALine", "dtensor-v4", "4", 0},
                                         SweepCase{"V3OnASquare", "dtensor-v3", "2x2", 39},
                                         SweepCase{"V4OnASquare", "dtensor-v4", "2x2", 47}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SearchRows, R30ThePublishedUnderPricedPairs) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const OpCall call = mm_call("S(0)S(0)", "S(0)S(0)", 2);
  for (const auto& [stack, unguarded, guarded] :
       {std::tuple("dtensor-v3", 18.797714173609673, 18.89657126041451),
        std::tuple("dtensor-v4", 18.698857086804836, 18.797714173609673)}) {
    StackEvaluator evaluator(stack_with(stack, kGraph), topology_with(1));
    EXPECT_EQ(search(evaluator, call, mesh, {.nesting_guard = false}).result->total_us, unguarded);
    EXPECT_DOUBLE_EQ(search(evaluator, call, mesh).result->total_us, guarded);
  }
}

TEST(SearchRows, R30AStackWithoutTheGuardTakesThePublishedUnderPricedPair) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const OpCall call = mm_call("S(0)S(0)", "S(0)S(0)", 2);
  const auto total = [&](const char* changes) {
    StackEvaluator evaluator(stack_with("dtensor-v3", changes), topology_with(1));
    return evaluator.select(call, mesh).choice.total_us;
  };
  EXPECT_DOUBLE_EQ(total(R"({"search": "dijkstra"})"), 18.89657126041451);
  EXPECT_EQ(total(R"({"search": "dijkstra", "nesting_guard": false})"), 18.797714173609673);
}

TEST(SearchRows, R30EachInputCostsAtLeastItsCheapestPlan) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(stack_with("dtensor-v3", kGraph), topology_with(1));
  Random random(91);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(200); ++i) {
    const auto layout = [&] { return random_layout(random, mesh, 2, {.orders = false}).text(); };
    const OpCall call = mm_call(layout(), layout(), 2);
    const SearchOutcome outcome = search(evaluator, call, mesh);
    ASSERT_TRUE(outcome.result.has_value()) << call.text();
    const auto tensors = call.tensors();
    for (std::size_t t = 0; t < 2; ++t) {
      const double cheapest = evaluator.on(mesh).cost_us(tensors[t]->meta, tensors[t]->layout,
                                                         Layout(outcome.result->inputs[t]));
      EXPECT_GE(outcome.result->input_us[t], cheapest - 1e-9) << call.text();
    }
  }
}

TEST(SearchRows, R30AllMatchesFromAllStartsAreTheCandidates) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(stack_with("dtensor-v3", kGraph), topology_with(1));
  const auto key = [](const std::vector<Placements>& inputs) { return layouts_text({}, inputs); };
  std::set<std::string> reached;
  std::set<std::string> candidates;
  const auto layouts = all_layouts(2, 2, {ReduceOp::kSum});
  for (const Layout& a : layouts) {
    for (const Layout& b : layouts) {
      const OpCall call = mm_call(a.text(), b.text(), 2);
      const SearchOutcome outcome = search(evaluator, call, mesh, {.exhaustive = true});
      for (const auto& inputs : outcome.result->all_matches) reached.insert(key(inputs));
    }
  }
  const OpCall call = mm_call("S(0)P", "RR", 2);
  for (const Candidate& c : evaluator.select(call, mesh).candidates) {
    // No input starts as an average in this test, so no step towards an average is worth taking.
    const std::string text = key(c.inputs);
    if (text.find("avg") == std::string::npos) candidates.insert(text);
  }
  EXPECT_TRUE(std::includes(reached.begin(), reached.end(), candidates.begin(), candidates.end()));
}

TEST(SearchRows, NeverAnswersWithPartialsThatMustNotMix) {
  // Each input is legal, but the outputs of the matching rows would be (P(max),P(min)), which must
  // not be mixed.
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(stack_with("dtensor-v3"), topology_with(1));
  const SearchOutcome outcome = search(
      evaluator, call_of("aten.logaddexp.default", {"f32[8] P(max)R", "f32[8] RP(min)"}, 2), mesh);
  ASSERT_TRUE(outcome.result.has_value());
  for (const Placements& output : outcome.result->outputs) {
    EXPECT_FALSE(has_mixed_partials(output))
        << layouts_text(outcome.result->outputs, outcome.result->inputs);
  }
}

TEST(SearchRows, NeverAnswersWithACandidateThatTheOpsFilterDrops) {
  // The mean of 3 rows on 2 ranks is not the average of the ranks' means.
  const DeviceMesh mesh = DeviceMesh::parse("2");
  StackEvaluator evaluator(stack_with("shardlab"), topology_with(8));
  const SearchOutcome outcome =
      search(evaluator, call_of("aten.mean.dim", {"f32[3,4] S(0)"}, 1, "[[0]]"), mesh);
  ASSERT_TRUE(outcome.result.has_value());
  EXPECT_NE(layouts_text(outcome.result->outputs, outcome.result->inputs), "P(avg)|S(0)");
}

// The search's answer must be one of the candidates of full expansion, for every op with rows.
TEST(SearchRows, AnswersWithACandidateForRandomCallsOfManyOps) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  Random random(92);
  SHARDLAB_TRACE_SEED();
  struct Form {
    const char* op;
    std::vector<std::string> shapes;
    const char* args;
  };
  const std::vector<Form> forms = {{"aten.mm.default", {"f32[8,4]", "f32[4,8]"}, "[]"},
                                   {"aten.add.Tensor", {"f32[8,4]", "f32[4]"}, "[]"},
                                   {"aten.mul.Tensor", {"f32[8,4]", "f32[8,4]"}, "[]"},
                                   {"aten.neg.default", {"f32[8,4]"}, "[]"},
                                   {"aten.maximum.default", {"f32[8,4]", "f32[8,4]"}, "[]"},
                                   {"aten.sum.dim_IntList", {"f32[8,4]"}, "[[0]]"},
                                   {"aten.mean.dim", {"f32[6,4]"}, "[[0]]"},
                                   {"aten._softmax.default", {"f32[8,4]"}, "[1, false]"}};
  for (const char* name : {"shardlab", "dtensor-v3"}) {
    StackEvaluator evaluator(stack_with(name, kGraph), topology_with(1));
    for (int i = 0; i < random_cases(400); ++i) {
      const Form& form = random.pick(forms);
      std::vector<std::string> inputs;
      for (const std::string& shape : form.shapes) {
        const int rank = TensorMeta::parse(shape).ndim();
        inputs.push_back(shape + " " + random_layout(random, mesh, rank, {.orders = false}).text());
      }
      const OpCall call = call_of(form.op, inputs, 2, form.args);
      const SearchOutcome outcome = search(evaluator, call, mesh);
      if (!outcome.result) continue;
      const std::string answer = layouts_text(outcome.result->outputs, outcome.result->inputs);
      bool listed = false;
      for (const Candidate& c : evaluator.select(call, mesh).candidates) {
        listed = listed || layouts_text(c.outputs, c.inputs) == answer;
      }
      EXPECT_TRUE(listed) << name << ": " << call.text() << ": " << answer;
      if (HasFailure()) return;
    }
  }
}

}  // namespace search_test
}  // namespace shardlab

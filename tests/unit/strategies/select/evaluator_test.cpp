// Choices of whole stacks: regressions R03, R04, R09, R23, R24, R25 and R56, orders, transitions
// and kernels.
#include "strategies/select/evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "costmodel/base/error.h"
#include "strategies/select/stack.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_stacks.h"

namespace shardlab {
namespace evaluator_test {

using testing_support::call_of;
using testing_support::layouts_text;
using testing_support::stack_with;
using testing_support::topology_with;

struct ChoiceCase {
  const char* name;
  const char* stack;
  const char* patch;
  std::int64_t devices_per_host;
  const char* mesh;
  const char* op;
  std::vector<std::string> inputs;
  const char* args;
  const char* choice;
  double us;
};
void PrintTo(const ChoiceCase& c, std::ostream* out) { *out << c.name; }
class Choices : public testing::TestWithParam<ChoiceCase> {};

TEST_P(Choices, AreTheseAtThisPrice) {
  const ChoiceCase& c = GetParam();
  const DeviceMesh mesh = DeviceMesh::parse(c.mesh);
  StackEvaluator evaluator(stack_with(c.stack, c.patch), topology_with(c.devices_per_host));
  const Selection selection = evaluator.select(call_of(c.op, c.inputs, mesh.ndim(), c.args), mesh);
  EXPECT_EQ(layouts_text(selection.choice.outputs, selection.choice.inputs), c.choice);
  EXPECT_EQ(selection.choice.total_us, c.us);
}

const std::vector<std::string> kMmSmall = {"f32[4,8] S(0)", "f32[8,16] S(0)"};
const std::vector<std::string> kMmLarge = {"f32[16,32] S(0)", "f32[32,64] S(0)"};
const std::vector<std::string> kMmSquare = {"f32[16,16] S(0)", "f32[16,16] S(0)"};
const std::vector<std::string> kMulMax = {"f32[8,8] P(max)", "f32[8,8] R"};
const std::vector<std::string> kAddmm = {"f32[8] S(0)", "f32[50,6] P", "f32[6,8] S(1)"};
const std::vector<std::string> kR24 = {"[f32[8,4,8] RRS(1); f32[8,4,8] S(1)S(1)R]"};
constexpr const char* kSearch = R"({"search": "dijkstra"})";
constexpr const char* kOwnRules = R"({"rules": "shardlab"})";

INSTANTIATE_TEST_SUITE_P(
    Regressions, Choices,
    testing::Values(
        ChoiceCase{"R03AllReplicatedInV3", "dtensor-v3", "{}", 1, "4", "aten.mul.Tensor", kMulMax,
                   "[]", "R|R,R", 22.81853570377591},
        ChoiceCase{"R03TheWrongSumInV2", "dtensor-v2", "{}", 1, "4", "aten.mul.Tensor", kMulMax,
                   "[]", "P(sum)|P(sum),R", 0.0},
        ChoiceCase{"R03AllReplicatedWhereAPartitionCosts", "dtensor-v3-rp", "{}", 1, "4",
                   "aten.mul.Tensor", kMulMax, "[]", "R|R,R", 22.81853570377591},
        ChoiceCase{"R04SmallByExpansion", "dtensor-v3", "{}", 1, "2", "aten.mm.default", kMmSmall,
                   "[]", "S(0)|S(0),R", 9.312357135850606},
        ChoiceCase{"R04SmallBySearch", "dtensor-v3", kSearch, 1, "2", "aten.mm.default", kMmSmall,
                   "[]", "P(sum)|S(1),S(0)", 9.303089283962652},
        ChoiceCase{"R04SmallInV4", "dtensor-v4", "{}", 1, "2", "aten.mm.default", kMmSmall, "[]",
                   "P(sum)|S(1),S(0)", 9.301544641981327},
        ChoiceCase{"R04LargeByExpansion", "dtensor-v3", "{}", 1, "2", "aten.mm.default", kMmLarge,
                   "[]", "S(0)|S(0),R", 9.497714173609673},
        ChoiceCase{"R04LargeBySearch", "dtensor-v3", kSearch, 1, "2", "aten.mm.default", kMmLarge,
                   "[]", "P(sum)|S(1),S(0)", 9.349428543402418},
        ChoiceCase{"R04LargeInV4", "dtensor-v4", "{}", 1, "2", "aten.mm.default", kMmLarge, "[]",
                   "P(sum)|S(1),S(0)", 9.32471427170121},
        ChoiceCase{"R04SquareBySearchKeepsTheGather", "dtensor-v3", kSearch, 1, "2",
                   "aten.mm.default", kMmSquare, "[]", "S(0)|S(0),R", 9.32471427170121},
        ChoiceCase{"R09BetweenHosts", "dtensor-2.13", "{}", 1, "4", "aten.addmm.default", kAddmm,
                   "[]", "S(1)|S(0),R,S(1)", 22.886886111449567},
        ChoiceCase{"R09InAHost", "dtensor-2.13", "{}", 8, "4", "aten.addmm.default", kAddmm, "[]",
                   "S(1)|S(0),R,S(1)", 10.219114944518903},
        ChoiceCase{"R23CatOfShards",
                   "dtensor-2.13",
                   "{}",
                   1,
                   "2x2x2",
                   "aten.cat.default",
                   {"[f32[8,8,8] RRS(1); f32[8,8,8] S(1)S(1)S(1)]"},
                   "[0]",
                   "S(1)S(1)S(1)|S(1)S(1)S(1),S(1)S(1)S(1)",
                   9.349428543402418},
        ChoiceCase{"R23CatOfPartials",
                   "dtensor-2.13",
                   "{}",
                   1,
                   "2x2x2",
                   "aten.cat.default",
                   {"[f32[8,8,8] PRS(1); f32[8,8,8] PS(1)S(1)]"},
                   "[0]",
                   "P(sum)S(1)S(1)|P(sum)S(1)S(1),P(sum)S(1)S(1)",
                   9.349428543402418},
        ChoiceCase{"R24InV0", "dtensor-v0", kOwnRules, 1, "2x2x2", "aten.cat.default", kR24, "[0]",
                   "RS(1)S(1)|RS(1)S(1),RS(1)S(1)", 9.312357135850606},
        ChoiceCase{"R24InV3", "dtensor-v3", kOwnRules, 1, "2x2x2", "aten.cat.default", kR24, "[0]",
                   "S(1)S(1)R|S(1)S(1)R,S(1)S(1)R", 9.32471427170121},
        ChoiceCase{"R24InV4", "dtensor-v4", kOwnRules, 1, "2x2x2", "aten.cat.default", kR24, "[0]",
                   "S(1)S(1)S(2)|S(1)S(1)S(2),S(1)S(1)S(2)", 9.312357135850606},
        ChoiceCase{"R24InV4InAHost", "dtensor-v4", kOwnRules, 8, "2x2x2", "aten.cat.default", kR24,
                   "[0]", "S(1)S(1)S(2)|S(1)S(1)S(2),S(1)S(1)S(2)", 7.202718569887132},
        ChoiceCase{"R25ReplicasStayReplicas",
                   "dtensor-2.13",
                   "{}",
                   8,
                   "2x2",
                   "aten.abs.default",
                   {"f32[8,8] RR"},
                   "[]",
                   "RR|RR",
                   0.0},
        ChoiceCase{"R28AShardOfTwoRowsOnFourRanksStays",
                   "dtensor-2.13",
                   "{}",
                   8,
                   "4",
                   "aten.abs.default",
                   {"f32[2] S(0)"},
                   "[]",
                   "S(0)|S(0)",
                   0.0},
        ChoiceCase{"R56ASumTimesAScalarStays",
                   "dtensor-2.13",
                   "{}",
                   8,
                   "4",
                   "aten.mul.Scalar",
                   {"f32[8,8] P"},
                   "[2.0]",
                   "P(sum)|P(sum)",
                   0.0},
        ChoiceCase{"R58ASumTimesAReplicaStays",
                   "dtensor-2.13",
                   "{}",
                   8,
                   "4",
                   "aten.mul.Tensor",
                   {"f32[8,8] P", "f32[8,8] R"},
                   "[]",
                   "P(sum)|P(sum),R",
                   0.0},
        ChoiceCase{"R55ASumPlusAScalarReduces",
                   "dtensor-2.13",
                   "{}",
                   8,
                   "2",
                   "aten.add.Scalar",
                   {"f32[10] P"},
                   "[10]",
                   "R|R",
                   7.800424776544864}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Evaluator, R23ForeachAddsChildByChild) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2x2");
  const OpCall call =
      call_of("aten._foreach_add.List",
              {"[f32[8,8,8] RRR; f32[8,8,8] PPP(avg)]", "[f32[8,8,8] RRR; f32[8,8,8] RPP]"}, 3);
  StackEvaluator evaluator(stack_with("dtensor-2.13"), topology_with(1));
  const Selection child = evaluator.select(foreach_child(call, 1), mesh);
  EXPECT_EQ(Layout(child.choice.outputs[0]).text(), "P(sum)P(sum)P(avg)");
  EXPECT_EQ(child.choice.total_us, 12.098857086804836);
  EXPECT_EQ(child.ties.size(), 1U);
  // The elements of tensor lists are selected without a look at what they are now.
  const Selection first = evaluator.select(foreach_child(call, 0), mesh);
  EXPECT_EQ(first.selected, 0U);
}

TEST(Evaluator, R09ListsTheCandidatesInTheirOrder) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  StackEvaluator evaluator(stack_with("dtensor-2.13"), topology_with(1));
  const Selection selection = evaluator.select(call_of("aten.addmm.default", kAddmm, 1), mesh);
  std::map<std::string, double> totals;
  for (const Candidate& c : selection.candidates) {
    totals[layouts_text(c.outputs, c.inputs)] = c.total_us;
  }
  EXPECT_EQ(totals.at("S(1)|S(0),R,S(1)"), 22.886886111449567);
  EXPECT_EQ(totals.at("S(0)|R,S(0),R"), 44.15155242612674);
  EXPECT_EQ(totals.at("R|R,R,R"), 52.29499548185153);
  EXPECT_EQ(totals.at("P(sum)|P(sum),S(1),S(0)"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(selection.margin_us, 44.15155242612674 - 22.886886111449567);
}

TEST(Evaluator, R03ThreeCandidatesTieAndTheOrderDecides) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const OpCall call = call_of("aten.mul.Tensor", kMulMax, 1);
  StackEvaluator v3(stack_with("dtensor-v3"), topology_with(1));
  const Selection selection = v3.select(call, mesh);
  EXPECT_EQ(selection.ties.size(), 3U);
  EXPECT_TRUE(selection.flips_with_order);
  SelectOptions reversed;
  reversed.order = CandidateOrder::parse("reversed");
  EXPECT_EQ(Layout(v3.select(call, mesh, reversed).choice.outputs[0]).text(), "P(avg)");
  StackEvaluator rp(stack_with("dtensor-v3-rp"), topology_with(1));
  EXPECT_FALSE(rp.select(call, mesh).flips_with_order);
  EXPECT_EQ(Layout(rp.select(call, mesh, reversed).choice.outputs[0]).text(), "R");
}

TEST(Evaluator, TheOrderOfTheStackIsUsedAndAnOptionOverridesIt) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const OpCall call = call_of("aten.mul.Tensor", kMulMax, 1);
  StackEvaluator evaluator(stack_with("dtensor-v3", R"({"order": "reversed"})"), topology_with(1));
  EXPECT_EQ(Layout(evaluator.select(call, mesh).choice.outputs[0]).text(), "P(avg)");
  SelectOptions listed;
  listed.order = CandidateOrder();
  EXPECT_EQ(Layout(evaluator.select(call, mesh, listed).choice.outputs[0]).text(), "R");
}

TEST(Evaluator, AShuffleChangesTheOrderAndNotTheCandidates) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const OpCall call = call_of("aten.mm.default", {"f32[8,8] S(0)R", "f32[8,8] RS(1)"}, 2);
  StackEvaluator evaluator(stack_with("dtensor-2.13"), topology_with(1));
  const Selection listed = evaluator.select(call, mesh);
  SelectOptions options;
  options.order = CandidateOrder::parse("shuffled:5");
  const Selection shuffled = evaluator.select(call, mesh, options);
  const auto texts = [](const Selection& s) {
    std::vector<std::string> all;
    for (const Candidate& c : s.candidates) all.push_back(layouts_text(c.outputs, c.inputs));
    return all;
  };
  std::vector<std::string> a = texts(listed);
  std::vector<std::string> b = texts(shuffled);
  EXPECT_NE(a, b);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  EXPECT_EQ(a, b);
}

TEST(Evaluator, ATransitionPriceIsAddedToEveryInputThatMoves) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const OpCall call = call_of("aten.mm.default", {"f32[8,8] S(0)R", "f32[8,8] RS(0)"}, 2);
  StackEvaluator plain(stack_with("dtensor-2.13"), topology_with(1));
  StackEvaluator charged(stack_with("dtensor-2.13", R"({"transition_us": 1000})"),
                         topology_with(1));
  const Selection a = plain.select(call, mesh);
  const Selection b = charged.select(call, mesh);
  ASSERT_EQ(a.candidates.size(), b.candidates.size());
  for (std::size_t c = 0; c < a.candidates.size(); ++c) {
    const auto tensors = call.tensors();
    for (std::size_t i = 0; i < 2; ++i) {
      const bool moves = a.candidates[c].inputs[i] != tensors[i]->layout.placements;
      EXPECT_EQ(b.candidates[c].redistribute_us[i],
                a.candidates[c].redistribute_us[i] + (moves ? 1000 : 0));
    }
  }
}

TEST(Evaluator, TotalsSumTheInputsAndTheKernel) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const OpCall call = call_of("aten.mm.default", {"bf16[512,512] S(0)R", "bf16[512,512] RS(1)"}, 2);
  StackEvaluator evaluator(stack_with("alpha-beta"), topology_with(8));
  for (const Candidate& c : evaluator.select(call, mesh).candidates) {
    EXPECT_GE(c.compute_us, 7.0);
    EXPECT_DOUBLE_EQ(c.total_us, c.redistribute_us[0] + c.redistribute_us[1] + c.compute_us);
  }
}

TEST(WhatIf, FactorsScalePricesUntilTheyAreTakenBack) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  StackEvaluator evaluator(stack_with("alpha-beta"), topology_with(8));
  const auto gather_us = [&] {
    return evaluator.on(mesh).cost_us(TensorMeta::parse("f32[1024]"), Layout::parse("S(0)", 1),
                                      Layout::parse("R", 1));
  };
  const double own_us = gather_us();
  evaluator.set_factors({.latency = 3.0, .transfer = 3.0});
  EXPECT_NEAR(gather_us(), 3.0 * own_us, 1e-9);
  evaluator.set_factors({});
  EXPECT_EQ(gather_us(), own_us);
}

TEST(WhatIf, LaunchThresholdsAreThoseOfTheKernelsThatAreAskedFor) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  StackEvaluator evaluator(
      stack_with("dtensor-v3",
                 R"({"compute_model": {"name": "roofline", "params": {"launch_us": 5}}})"),
      topology_with(8));
  evaluator.set_factors({});
  const OpCall call = call_of("aten.add.Tensor", {"f32[268435456] R", "f32[268435456] R"}, 1);
  const OpRule& rule = find_op_rule("add.Tensor", evaluator.stack().rules);
  const std::vector<Placements> layouts(2, Layout::parse("R", 1).placements);
  double work_us = 0.0;
  const auto ask = [&] {
    work_us = evaluator.compute_us(rule, call, mesh, layouts, std::span(layouts).first(1));
  };
  const std::vector<double> thresholds = evaluator.launch_thresholds(ask);
  ASSERT_EQ(thresholds.size(), 1U);
  EXPECT_DOUBLE_EQ(thresholds[0], work_us / 5.0);
  EXPECT_TRUE(evaluator.launch_thresholds([] {}).empty());
}

// mm of bf16 8192^3 on (2,2) takes 2 * 8192^3 operations at 989e6 * 0.7 a microsecond, which shards
// divide.
TEST(ComputeUs, AProductsTimeFollowsTheLargestLocalShapes) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  StackEvaluator evaluator(stack_with("alpha-beta"), topology_with(8));
  const OpCall call = call_of("aten.mm.default", {"bf16[8192,8192] RR", "bf16[8192,8192] RR"}, 2);
  const OpRule& rule = find_op_rule("mm", Release::k2_13);
  const double whole = 2.0 * 8192 * 8192 * 8192 / (989e6 * 0.7);
  const auto us = [&](const char* out, const char* a, const char* b) {
    const std::vector<Placements> inputs = {Layout::parse(a, 2).placements,
                                            Layout::parse(b, 2).placements};
    const std::vector<Placements> outputs = {Layout::parse(out, 2).placements};
    return evaluator.compute_us(rule, call, mesh, inputs, outputs);
  };
  EXPECT_DOUBLE_EQ(us("RR", "RR", "RR"), whole);
  EXPECT_DOUBLE_EQ(us("S(0)R", "S(0)R", "RR"), whole / 2);
  EXPECT_DOUBLE_EQ(us("S(0)S(1)", "S(0)R", "RS(1)"), whole / 4);
  EXPECT_DOUBLE_EQ(us("S(0)P", "S(0)S(1)", "RS(0)"), whole / 4);
  EXPECT_DOUBLE_EQ(us("PR", "PR", "RR"), whole);
}

TEST(ComputeUs, APointwiseOpsTimeIsThatOfItsTraffic) {
  // An f32 add of two tensors of 2^28 elements reads and writes three times 1 GiB, at 2345 kB a
  // microsecond.
  const DeviceMesh mesh = DeviceMesh::parse("4");
  StackEvaluator evaluator(stack_with("alpha-beta"), topology_with(8));
  const OpCall call = call_of("aten.add.Tensor", {"f32[268435456] R", "f32[268435456] R"}, 1);
  const OpRule& rule = find_op_rule("add.Tensor", Release::k2_13);
  const std::vector<Placements> replicated(2, Layout::parse("R", 1).placements);
  const std::vector<Placements> sharded(2, Layout::parse("S(0)", 1).placements);
  const double gib_us = 1073741824.0 / 2345e3;
  EXPECT_DOUBLE_EQ(
      evaluator.compute_us(rule, call, mesh, replicated, std::span(replicated).first(1)),
      3 * gib_us);
  EXPECT_DOUBLE_EQ(evaluator.compute_us(rule, call, mesh, sharded, std::span(sharded).first(1)),
                   0.75 * gib_us);
}

// 65,536 tokens read 512 MiB of a table of 1 GB, and write as much. AutoParallel counts the table.
TEST(ComputeUs, AnEmbeddingReadsTheRowsOfItsTokens) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const OpCall call = call_of("aten.embedding.default", {"bf16[128256,4096] R", "i64[65536] R"}, 1);
  const OpRule& rule = find_op_rule("embedding", kShardlab);
  const std::vector<Placements> replicated(2, Layout::parse("R", 1).placements);
  const std::vector<Placements> outputs(1, Layout::parse("R", 1).placements);
  const double picked = 65536.0 * 4096 * 2;
  const double indices = 65536.0 * 8;
  const double table = 128256.0 * 4096 * 2;
  const auto us = [&](const char* stack) {
    const StackEvaluator evaluator(stack_with(stack), topology_with(8));
    return evaluator.compute_us(rule, call, mesh, replicated, outputs);
  };
  EXPECT_DOUBLE_EQ(us("alpha-beta"), (2 * picked + indices) / 2345e3);
  EXPECT_DOUBLE_EQ(us("ap-nccl"),
                   (table + picked + indices) / (0.7 * 3.35 * std::pow(1024.0, 4) / 1e6));
}

// An inverse of 8192 x 8192 takes 2 * 8192^3 operations at 67e6 * 0.7 a microsecond, and a rank
// that has one matrix of four, a quarter of them.
TEST(ComputeUs, AnInverseTakesItsOperations) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const OpCall call = call_of("aten.linalg_inv_ex.default", {"f32[4,8192,8192] R"}, 1, "[false]");
  const OpRule& rule = find_op_rule(call.op, kShardlab);
  const StackEvaluator evaluator(stack_with("alpha-beta"), topology_with(8));
  const double each = 2.0 * 8192 * 8192 * 8192 / (67e6 * 0.7);
  const auto us = [&](const char* layout) {
    const std::vector<Placements> all(2, Layout::parse(layout, 1).placements);
    return evaluator.compute_us(rule, call, mesh, std::span(all).first(1), all);
  };
  EXPECT_DOUBLE_EQ(us("R"), 4 * each);
  EXPECT_DOUBLE_EQ(us("S(0)"), each);
}

// A loss reads and computes one score of each row, in any dtype.
TEST(ComputeUs, ALossTakesAsLongAsItsTargets) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const StackEvaluator evaluator(stack_with("alpha-beta"), topology_with(8));
  const OpCall call = call_of("aten.nll_loss_forward.default",
                              {"f32[65536,128256] R", "i64[65536] R", "none"}, 1, "[2,-100]");
  const std::vector<Placements> all(2, Layout::parse("R", 1).placements);
  EXPECT_EQ(evaluator.compute_us(find_op_rule(call.op, kShardlab), call, mesh, all, all), 7.0);
}

// The prices of candidates count what single kernels count.
TEST(ComputeUs, CandidatesCostWhatTheirKernelsCost) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  StackEvaluator evaluator(stack_with("alpha-beta", kOwnRules), topology_with(8));
  const OpCall calls[] = {
      call_of("aten.embedding.default", {"bf16[128256,4096] R", "i64[65536] S(0)"}, 1),
      call_of("aten.add.out", {"f32[8192,8192] S(0)", "f32[8192,8192] R", "f32[8192,8192] S(0)"},
              1),
      call_of("aten.index_select.default", {"f32[65536,4096] S(1)", "i64[1024] R"}, 1, "[0]"),
      call_of("aten.zeros_like.default", {"f32[65536,4096] S(0)"}, 1)};
  for (const OpCall& call : calls) {
    const OpRule& rule = find_op_rule(call.op, kShardlab);
    for (const Candidate& candidate : evaluator.select(call, mesh).candidates) {
      EXPECT_DOUBLE_EQ(candidate.compute_us,
                       evaluator.compute_us(rule, call, mesh, candidate.inputs, candidate.outputs))
          << call.op;
    }
  }
}

TEST(ComputeUs, UnevenShardsAreCountedOnTheLargestRank) {
  // Of 5 rows on 4 ranks, the first rank holds 2.
  const DeviceMesh mesh = DeviceMesh::parse("4");
  StackEvaluator evaluator(stack_with("alpha-beta"), topology_with(8));
  const OpCall call = call_of("aten.abs.default", {"f32[5,67108864] R"}, 1);
  const std::vector<Placements> sharded = {Layout::parse("S(0)", 1).placements};
  EXPECT_DOUBLE_EQ(
      evaluator.compute_us(find_op_rule("abs", Release::k2_13), call, mesh, sharded, sharded),
      2 * 2 * 268435456.0 / 2345e3);
}

TEST(Evaluator, DecideAgreesWithSelect) {
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  for (const char* patch : {"{}", R"({"order": "reversed"})", R"({"order": "shuffled:9"})"}) {
    StackEvaluator evaluator(stack_with("dtensor-v3", patch), topology_with(1));
    for (const auto& inputs : {std::vector<std::string>{"f32[8,8] S(0)P(max)", "f32[8,8] RR"},
                               std::vector<std::string>{"f32[8,8] RR", "f32[8,8] RR"},
                               std::vector<std::string>{"f32[8,8] S(0)S(0)", "f32[8,8] S(1)R"}}) {
      const OpCall call = call_of("aten.mul.Tensor", inputs, 2);
      const OpRule& rule = find_op_rule(call.op, Release::k2_13);
      const Expansion expansion = expand(rule, call, mesh);
      const Decision decision = evaluator.decide(
          expansion, evaluator.price(expansion, &rule, call, mesh), &rule, call, mesh);
      const Selection selection = evaluator.select(call, mesh);
      EXPECT_EQ(layouts_text(decision.choice.outputs, decision.choice.inputs),
                layouts_text(selection.choice.outputs, selection.choice.inputs));
      EXPECT_EQ(decision.candidates, selection.candidates.size());
      EXPECT_EQ(decision.ties, selection.ties.size());
      EXPECT_EQ(decision.margin_us, selection.margin_us);
      EXPECT_EQ(decision.flips_with_order, selection.flips_with_order);
    }
  }
}

TEST(Evaluator, R26AnInPlaceOpThatWouldMoveIsAnError) {
  StackEvaluator evaluator(stack_with("dtensor-2.13"), topology_with(8));
  EXPECT_THROW_MSG(
      evaluator.select(call_of("aten.clamp_.default", {"f32[] P"}, 1), DeviceMesh::parse("2")),
      InputError,
      "aten.clamp_.default: in-place operations that require placement changes are not supported "
      "(input P(sum))");
}

TEST(Evaluator, WithoutACandidateLeftTheCallIsNamed) {
  StackEvaluator evaluator(stack_with("dtensor-2.13"), topology_with(8));
  const OpCall call = call_of("aten.mul.out", {"f32[8] R", "f32[8] R", "f32[8] P(max)"}, 1);
  EXPECT_THROW_MSG(evaluator.select(call, DeviceMesh::parse("2")), InputError,
                   "aten.mul.out: no sharding candidate is left for aten.mul.out(f32[8] R, f32[8] "
                   "R, f32[8] P(max))");
}

TEST(Evaluator, AMeshWithAnotherRegistryGetsItsOwnRedistributor) {
  StackEvaluator evaluator(stack_with("dtensor-2.13"), topology_with(8));
  const DeviceMesh bare = DeviceMesh::parse("a=2,b=2");
  const DeviceMesh flat = bare.flatten(std::vector<std::string>{"a", "b"});
  const TensorMeta meta = TensorMeta::parse("f32[8]");
  const Layout from = Layout::parse("PP", 2);
  const Layout to = Layout::parse("RR", 2);
  EXPECT_EQ(evaluator.on(bare).plan(meta, from, to).steps.size(), 2U);
  EXPECT_EQ(evaluator.on(flat).plan(meta, from, to).steps.size(), 1U);
  EXPECT_EQ(evaluator.on(bare).plan(meta, from, to).steps.size(), 2U);
}

TEST(Evaluator, AStragglerSlowsCollectivesOnly) {
  const DeviceMesh mesh = DeviceMesh::parse("4");
  StackEvaluator plain(stack_with("dtensor-2.13"), topology_with(8));
  StackEvaluator slow(
      stack_with("dtensor-2.13", R"({"straggler": {"name": "percent", "percent": 100}})"),
      topology_with(8));
  const TensorMeta meta = TensorMeta::parse("f32[512,512]");
  const Layout s = Layout::parse("S(0)", 1);
  const Layout r = Layout::parse("R", 1);
  EXPECT_EQ(slow.on(mesh).cost_us(meta, s, r), 2 * plain.on(mesh).cost_us(meta, s, r));
}

// A mul of P(max) and R on four ranks has three candidates that cost one all-reduce (R03). Under
// the policies that look at the candidates, no order decides between them.
TEST(StackEvaluator, PoliciesDecideTheTieOfR03) {
  struct Case {
    const char* policy;
    const char* choice;  // outputs, then inputs
  };
  const DeviceMesh mesh = DeviceMesh::parse("4");
  const OpCall call = call_of("aten.mul.Tensor", {"f32[8,8] P(max)", "f32[8,8] R"}, 1);
  for (const Case& c :
       {Case{"first-listed", "R|R,R"}, Case{"fewest-collectives", "P(avg)|R,P(avg)"},
        Case{"least-bytes", "P(avg)|R,P(avg)"}, Case{"compute-time", "P(avg)|R,P(avg)"},
        Case{"lexicographic", "P(avg)|R,P(avg)"}}) {
    for (const char* order : {"listed", "reversed", "shuffled:7"}) {
      const bool by_order = std::string_view(c.policy) == "first-listed";
      if (by_order && std::string_view(order) != "listed") continue;
      nlohmann::json patch = {{"policy", c.policy}, {"order", order}};
      StackEvaluator evaluator(stack_with("dtensor-v3", patch.dump()), topology_with(1));
      const Selection selection = evaluator.select(call, mesh);
      EXPECT_EQ(layouts_text(selection.choice.outputs, selection.choice.inputs), c.choice)
          << c.policy << " " << order;
      EXPECT_EQ(selection.ties.size(), 3U);
      EXPECT_EQ(selection.flips_with_order, by_order) << c.policy;
    }
  }
}

TEST(Evaluator, ALayoutThatIsFollowedShardsNoDimThatAnotherInputLacks) {
  const DeviceMesh mesh = DeviceMesh::parse("2");
  StackEvaluator evaluator(stack_with("dtensor-2.13"), topology_with(8));
  const OpCall call = call_of("aten.equal.default", {"f32[2] P(sum)", "u8[1,3,5] S(2)"}, 1, "[]");
  EXPECT_THROW_MSG(
      evaluator.select(call, mesh), InputError,
      "aten.equal.default: candidate 0 would shard dim 2 of input 0, which has 1 dims");
}

}  // namespace evaluator_test
}  // namespace shardlab

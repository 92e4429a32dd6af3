// Registered placements, on the example of RaggedShard: how they are written, what ranks hold,
// which steps a plan takes and what they cost, and that runs on virtual ranks move the right bytes.
// tests/contract/outside_placement_contract_test.cpp registers one outside of the library.
#include "sim/registered_placement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "costmodel/base/error.h"
#include "sim/all_to_all_penalty.h"
#include "sim/bounds.h"
#include "sim/executor.h"
#include "sim/held_part.h"
#include "sim/placement_text.h"
#include "sim/registered_exchange.h"
#include "sim/traffic.h"
#include "tests/support/dtensor_ring.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_redistribution.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace registered_placement_test {

using namespace testing_support;

constexpr double kMiB = 1048576;

Placement ragged(const std::string& text) { return Placement::parse(text); }

// -- Text -----------------------------------------------------------------------------------------

TEST(RaggedShardText, IsReadBackAsTheSamePlacement) {
  for (const char* text :
       {"RG(0:1)", "RG(0:1,3,2,2)", "RG(0:0,1)", "RG(0,1:1,1)", "RG(0,1,2:5,0)"}) {
    EXPECT_EQ(ragged(text).text(), text);
    EXPECT_EQ(Placement::parse(torch_text(ragged(text))), ragged(text)) << torch_text(ragged(text));
  }
}

TEST(RaggedShardText, IsReadAsPythonPrintsIt) {
  EXPECT_EQ(torch_text(ragged("RG(0:1,3)")), "RaggedShard(dims=(0,), local_units=(1, 3))");
  EXPECT_EQ(torch_text(ragged("RG(0,1:4)")), "RaggedShard(dims=(0, 1), local_units=(4,))");
  EXPECT_EQ(Placement::parse("RaggedShard((0, 1), (2, 3))"), ragged("RG(0,1:2,3)"));
  EXPECT_EQ(Layout::parse("(RaggedShard(dims=(0,), local_units=(1, 3)), Replicate())", 2).text(),
            "RG(0:1,3)R");
}

TEST(RaggedShardText, StandsInLayoutsWithoutSeparators) {
  const Layout layout = Layout::parse("S(1)RG(0:1,3,2,2)P", 3);
  EXPECT_EQ(layout.text(), "S(1)RG(0:1,3,2,2)P(sum)");
  EXPECT_EQ(layout.placements, Layout::parse("S(1), RG(0: 1, 3, 2, 2), P(sum)", 3).placements);
}

TEST(RaggedShardText, SaysWhatIsExpectedWhereItIsWrong) {
  EXPECT_THROW_MSG(Placement::parse("RG(1:1,2)"), TextError,
                   "placement \"RG(1:1,2)\": at position 3: expected the first tensor dims in "
                   "order, such as 0 or 0,1");
  EXPECT_THROW_MSG(
      Placement::parse("RG(0:0,0)"), TextError,
      "placement \"RG(0:0,0)\": at position 5: expected units of which at least one is "
      "not 0");
  EXPECT_THROW_MSG(Placement::parse("RG(0)"), TextError,
                   "placement \"RG(0)\": at position 4: expected \",\" or \":\"");
  EXPECT_THROW_MSG(Layout::parse("RG(0:1,2)[0]", 1), TextError,
                   "layout \"RG(0:1,2)[0]\": at position 10: expected no order index, which only S "
                   "and _S have");
}

TEST(RegisteredPlacements, OfOneTextAreEqual) {
  EXPECT_EQ(ragged("RG(0:1,3)"), ragged("RG(0: 1,3)"));
  EXPECT_NE(ragged("RG(0:1,3)"), ragged("RG(0:3,1)"));
  EXPECT_NE(ragged("RG(0:1,3)"), ragged("RG(0,1:1,3)"));
  EXPECT_NE(ragged("RG(0:1,3)"), Placement::shard(0));
}

TEST(RegisteredPlacements, AreOrderedByText) {
  const Placement late = ragged("RG(0:7,1)");
  const Placement early = ragged("RG(0:1,7)");  // met after the other one
  EXPECT_LT(early, late);
  const std::set<Placement> all = {late, early, Placement::shard(3), Placement::partial()};
  EXPECT_EQ(*std::next(all.begin()), early);
  EXPECT_EQ(all.size(), 4U);
}

TEST(RegisteredPlacements, AreSmallValues) {
  static_assert(sizeof(Placement) == 16);
  static_assert(std::is_trivially_copyable_v<Placement>);
  EXPECT_TRUE(ragged("RG(0:1,3)").cuts());
  EXPECT_FALSE(ragged("RG(0:1,3)").is_shard_like());
  EXPECT_FALSE(ragged("RG(0:1,3)").is_partial());
  EXPECT_FALSE(Placement::partial().cuts());
}

TEST(RegisteredPlacements, AreRefusedUnderATakenNameOrOpening) {
  static const PlacementEntry ragged_entry = *find_placement_entry("ragged_shard");
  EXPECT_THROW(register_placement(ragged_entry), ContractError);
  static constexpr std::string_view kTaken[] = {"S("};
  static PlacementEntry entry = ragged_entry;
  entry.name = "other";
  entry.openings = kTaken;
  EXPECT_THROW(register_placement(entry), ContractError);
}

// -- Parts ----------------------------------------------------------------------------------------

Shape local(const char* tensor, const char* layout, const char* mesh, Coordinate coordinate) {
  const DeviceMesh on = DeviceMesh::parse(mesh);
  return local_shape(TensorMeta::parse(tensor).shape, Layout::parse(layout, on.ndim()), on,
                     coordinate);
}

TEST(RaggedShardParts, AreUnitsInOrder) {
  EXPECT_EQ(local("f32[16,6]", "RG(0:1,3,2,2)", "4", {0}), (Shape{2, 6}));
  EXPECT_EQ(local("f32[16,6]", "RG(0:1,3,2,2)", "4", {1}), (Shape{6, 6}));
  EXPECT_EQ(local("f32[16,6]", "RG(0:0,1)", "2", {0}), (Shape{0, 6}));
  EXPECT_EQ(local("f32[16,6]", "RG(0:0,1)", "2", {1}), (Shape{16, 6}));
  const DeviceMesh mesh = DeviceMesh::parse("4");
  EXPECT_EQ(local_rows({16}, 0, Layout::parse("RG(0:1,3,0,4)", 1), mesh, Coordinate{1}),
            (std::vector<std::int64_t>{2, 3, 4, 5, 6, 7}));
}

TEST(RaggedShardParts, OfSeveralDimsCountTheirElementsTogether) {
  EXPECT_EQ(local("f32[4,6,5]", "RG(0,1:1,2)", "2", {0}), (Shape{8, 5}));
  EXPECT_EQ(local("f32[4,6,5]", "RG(0,1:1,2)", "2", {1}), (Shape{16, 5}));
  EXPECT_EQ(local("f32[4,6,5]", "RG(0,1:1,2)S(2)", "2x2", {1, 0}), (Shape{16, 3}));
  const DeviceMesh mesh = DeviceMesh::parse("2");
  EXPECT_EQ(largest_local_shape({4, 6}, Layout::parse("RG(0:1,3)", 1).placements, mesh),
            (Shape{3, 6}));
}

TEST(RaggedShardParts, AreShownAsRanges) {
  const TensorMeta meta = TensorMeta::parse("f32[16,6]");
  const DeviceMesh mesh = DeviceMesh::parse("2x2");
  const HeldPart held = held_part(meta, Layout::parse("RG(0:1,3)S(1)", 2), mesh, Coordinate{1, 1});
  EXPECT_EQ(held.ranges, (std::vector<std::vector<HeldPart::Range>>{{{4, 16}}, {{3, 6}}}));
  EXPECT_EQ(held.parts, 4);
  EXPECT_FALSE(held_part(meta, Layout::parse("RG(0,1:1,3)R", 2), mesh, Coordinate{1, 1}).is_listed);
}

TEST(RaggedShardParts, NeedUnitsForEveryRankThatDivideTheRows) {
  Bench bench({.mesh = "2x4"});
  EXPECT_THROW_MSG(bench.plan("f32[16]", "RRG(0:1,3)", "RR"), InputError,
                   "f32[16] RRG(0:1,3) on mesh 2x4: RG(0:1,3) has units for 2 ranks; valid on this "
                   "mesh dim: 4 units, one for each rank");
  EXPECT_THROW_MSG(bench.plan("f32[16]", "RG(0:1,2)R", "RR"), InputError,
                   "f32[16] RG(0:1,2)R on mesh 2x4: RG(0:1,2) has 3 units in all, which do not "
                   "divide 16 rows; valid: units that add up to a divisor of 16");
  EXPECT_THROW_MSG(bench.cost("f32[16]", "RG(0:1,2)R", "RR"), InputError,
                   "f32[16] RG(0:1,2)R on mesh 2x4: RG(0:1,2) has 3 units in all, which do not "
                   "divide 16 rows; valid: units that add up to a divisor of 16");
}

TEST(RaggedShardParts, StandBesideCutsOfOtherDimsAlone) {
  const TensorMeta meta = TensorMeta::parse("f32[16,8]");
  EXPECT_NO_THROW((void)parse_layout("RG(0:1,3)S(1)", 2, meta));
  EXPECT_THROW_MSG(parse_layout("RG(0:1,3)S(0)", 2, meta), TextError,
                   "layout \"RG(0:1,3)S(0)\": at position 0: expected a layout that the tensor can "
                   "have: RG(0:1,3) and S(0) both cut tensor dim 0; valid beside it: R, P(op), and "
                   "S(d) of tensor dims that it does not cut");
  EXPECT_THROW_MSG(
      parse_layout("RG(0:1,3)_S(1,2)", 2, meta), TextError,
      "layout \"RG(0:1,3)_S(1,2)\": at position 0: expected a layout that the tensor can "
      "have: RG(0:1,3) can't stand beside _S(1,2), whose rows depend on other mesh dims; "
      "valid beside it: R, P(op), and S(d) of tensor dims that it does not cut");
  EXPECT_THROW_MSG(
      parse_layout("RG(0:1,3)RG(0:3,1)", 2, meta), TextError,
      "layout \"RG(0:1,3)RG(0:3,1)\": at position 0: expected a layout that the tensor "
      "can have: RG(0:1,3) and RG(0:3,1) can't cut one tensor; valid: one registered "
      "placement in a layout");
  EXPECT_THROW_MSG(
      parse_layout("RG(0,1,2:1,3)R", 2, meta), TextError,
      "layout \"RG(0,1,2:1,3)R\": at position 0: expected a layout that the tensor can "
      "have: RG(0,1,2:1,3) cuts tensor dims 0 to 2; valid: dims below 2, as many as the "
      "tensor has");
}

// -- Plans ----------------------------------------------------------------------------------------

TEST(RaggedShardPlans, TakeOneStepWhereThereIsOne) {
  Bench bench({.mesh = "2"});
  EXPECT_EQ(steps_of(bench.plan("f32[16]", "RG(0:1,3)", "R")), "0:RG(0:1,3)>R");
  EXPECT_EQ(steps_of(bench.plan("f32[16]", "P", "RG(0:1,3)")), "0:P(sum)>RG(0:1,3)");
  EXPECT_EQ(steps_of(bench.plan("f32[16]", "RG(0:1,3)", "RG(0:3,1)")), "0:RG(0:1,3)>RG(0:3,1)");
  EXPECT_EQ(steps_of(bench.plan("f32[16]", "RG(0:1,3)", "RG(0:1,3)")), "");
}

TEST(RaggedShardPlans, GoOverReplicasOtherwise) {
  Bench bench({.mesh = "2"});
  EXPECT_EQ(steps_of(bench.plan("f32[16]", "RG(0:1,3)", "S(0)")), "0:RG(0:1,3)>R 0:R>S(0)");
  EXPECT_EQ(steps_of(bench.plan("f32[16]", "S(0)", "RG(0:1,3)")), "0:S(0)>R 0:R>RG(0:1,3)");
  EXPECT_EQ(steps_of(bench.plan("f32[16]", "RG(0:1,3)", "P")), "0:RG(0:1,3)>R 0:R>P(sum)");
}

TEST(RaggedShardPlans, OnTwoMeshDimsNeverCutADimTwice) {
  Bench bench({.mesh = "2x2"});
  EXPECT_EQ(steps_of(bench.plan("f32[16,8]", "RG(0:1,3)R", "RS(0)")), "0:RG(0:1,3)>R 1:R>S(0)");
  EXPECT_EQ(steps_of(bench.plan("f32[16,8]", "RS(0)", "RG(0:1,3)R")), "1:S(0)>R 0:R>RG(0:1,3)");
  EXPECT_EQ(steps_of(bench.plan("f32[16,8]", "RG(0:1,3)S(1)", "RG(0:1,3)R")), "1:S(1)>R");
  EXPECT_EQ(steps_of(bench.plan("f32[16,8]", "PP", "RG(0:1,3)R")), "1:P(sum)>R 0:P(sum)>RG(0:1,3)");
  EXPECT_EQ(steps_of(bench.plan("f32[16,8]", "RG(0:1,3)R", "RRG(0:1,3)")),
            "0:RG(0:1,3)>R 1:R>RG(0:1,3)");
}

TEST(RaggedShardPlans, AreTheSameUnderTheGraphPlanner) {
  Bench graph({.mesh = "2x2", .planner = PlannerKind::kGraph});
  EXPECT_EQ(steps_of(graph.plan("f32[16,8]", "RG(0:1,3)R", "RS(0)")), "0:RG(0:1,3)>R 1:R>S(0)");
  const TensorMeta meta = TensorMeta::parse("f32[16,8]");
  std::vector<Layout> targets;
  for (const char* text : {"RR", "S(0)R", "RG(0:1,3)R", "RG(0:3,1)R", "RS(1)", "S(1)S(1)"}) {
    targets.push_back(graph.layout(text));
  }
  for (const char* from : {"RG(0:1,3)R", "S(0)S(1)", "PR"}) {
    std::vector<double> prices(targets.size());
    graph.redistributor().costs_us(meta, graph.layout(from), targets, prices);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      EXPECT_EQ(prices[i], graph.redistributor().cost_us(meta, graph.layout(from), targets[i]))
          << from << " to " << targets[i].text();
    }
  }
}

TEST(RaggedShardPlans, ThatMeetUnusualShardOrdersAreImpossible) {
  Bench bench({.mesh = "2x2"});
  const Plan plan = bench.plan("f32[16,8]", "RG(0:1,3)R", "S(0)[1]S(0)[0]");
  EXPECT_NE(plan.impossible.find("another shard order; valid: R in between"), std::string::npos)
      << plan.impossible;
  EXPECT_TRUE(std::isinf(plan.price.total.value()));
  EXPECT_TRUE(std::isinf(bench.cost("f32[16,8]", "RG(0:1,3)R", "_S(0,2)S(0)")));
}

TEST(RaggedShardPlans, AreNotMergedOntoFlattenedMeshes) {
  Bench bench({.mesh = "a=2,b=2", .merge = MergeMode::kExecute, .flatten = {{"a", "b"}}});
  const Plan plan = bench.plan("f32[16,8]", "RG(0:1,3)S(1)", "RR");
  EXPECT_EQ(steps_of(plan), "0:RG(0:1,3)>R 1:S(1)>R");
}

TEST(RaggedShardPlans, HaveNoBounds) {
  Bench bench({.mesh = "2"});
  const PlanBounds bounds =
      bounds_of(bench.plan("f32[16]", "RG(0:1,3)", "R"), bench.mesh(), bench.topology());
  EXPECT_FALSE(bounds.volume_ratio || bounds.time_ratio || bounds.memory_ratio);
}

// -- Prices ---------------------------------------------------------------------------------------

// The rank with the smallest part receives all but an eighth of the MiB: as much as a rank receives
// in an all-gather of 4 equal parts of 7/8 * 4/3 MiB together.
TEST(RaggedShardPrices, OfAGatherCountWhatTheBusiestRankReceives) {
  Bench bench({.mesh = "4"});
  const double counted = kMiB * 7 / 8 * 4 / 3;
  const Plan plan = bench.plan("f32[262144]", "RG(0:1,3,2,2)", "R");
  EXPECT_DOUBLE_EQ(plan.steps[0].full_bytes, counted);
  EXPECT_EQ(plan.steps[0].collective, Collective::kAllGather);
  // 6.6 us, 3 hops of 0.6 us, and 7/8 of a MiB at 87.7 GiB/s.
  EXPECT_DOUBLE_EQ(plan.price.total.value(), 6.6 + 3 * 0.6 + 7.0 / 8 / 1024 / 87.7 * 1e6);
  EXPECT_DOUBLE_EQ(plan.price.total.value(), gather(4, counted, kInHost));
  EXPECT_EQ(bench.cost("f32[262144]", "RG(0:1,3,2,2)", "R"), plan.price.total.value());
  EXPECT_DOUBLE_EQ(bench.cost("f32[262144]", "P", "RG(0:1,3,2,2)"),
                   reduce_scatter(4, counted, kInHost));
}

TEST(RaggedShardPrices, OfEqualPartsAreThoseOfShards) {
  for (const EdgeSemanticsRow& row : all_edge_semantics()) {
    if (row.name == "autoparallel" || row.name == "v0" || row.name == "v1") continue;
    Bench bench({.mesh = "4", .version = std::string(row.name)});
    EXPECT_EQ(bench.cost("f32[4096]", "RG(0:1,1,1,1)", "R"), bench.cost("f32[4096]", "S(0)", "R"));
    EXPECT_EQ(bench.cost("f32[4096]", "P", "RG(0:1,1,1,1)"), bench.cost("f32[4096]", "P", "S(0)"));
    EXPECT_EQ(bench.cost("f32[4096]", "R", "RG(0:1,1,1,1)"), bench.cost("f32[4096]", "R", "S(0)"));
  }
}

// One rank holds all, and every other rank receives all.
TEST(RaggedShardPrices, OfOneOwnerAreThoseOfABroadcast) {
  Bench bench({.mesh = "4"});
  const double whole_link = 1.0 / 1024 / 87.7 * 1e6;
  EXPECT_DOUBLE_EQ(bench.cost("f32[262144]", "RG(0:0,0,1,0)", "R"), 6.6 + 3 * 0.6 + whole_link);
}

TEST(RaggedShardPrices, OfAnExchangeCountTheLargestPart) {
  Bench bench({.mesh = "4"});
  EXPECT_DOUBLE_EQ(bench.cost("f32[262144]", "RG(0:1,3,2,2)", "RG(0:5,1,1,1)"),
                   all_to_all(4, kMiB * 5 / 8, kInHost) + 1.0);
}

TEST(RaggedShardPrices, OfAnExchangeTakeTheStacksPenalty) {
  Bench bench({.mesh = "4"});
  const auto semantics = with_all_to_all_penalty(edge_semantics("v3"), Micros(2.5));
  const auto collectives = collective_model("dtensor", bench.topology());
  const auto kernels = compute_model("none", bench.topology());
  const TransitionPricer pricer(bench.mesh(), bench.topology(), semantics, *collectives, *kernels);
  const auto price = [&](const char* from, const char* to) {
    return pricer.price(ragged(from), ragged(to), 0, kMiB * 3 / 8, DType::kF32).price;
  };
  EXPECT_DOUBLE_EQ(price("RG(0:1,3,2,2)", "RG(0:5,1,1,1)").total.value(),
                   all_to_all(4, kMiB * 5 / 8, kInHost) + 2.5);
  EXPECT_FALSE(price("RG(0:1,3,2,2)", "S(0)").is_possible());
}

// The bytes after a step are those of the fullest rank, from which the next step starts.
TEST(RaggedShardPrices, CarryTheBytesFromStepToStep) {
  Bench bench({.mesh = "2x2"});
  EXPECT_DOUBLE_EQ(bench.cost("f32[512,512]", "RG(0:1,3)S(1)", "RR"),
                   gather(2, kMiB / 2 * 3 / 4 * 2, kInHost) + gather(2, kMiB, kInHost));
}

TEST(RaggedShardPrices, DoNotExistInAutoParallel) {
  Bench bench({.mesh = "2", .version = "autoparallel"});
  EXPECT_TRUE(std::isinf(bench.cost("f32[16]", "RG(0:1,3)", "R")));
  EXPECT_EQ(bench.plan("f32[16]", "R", "RG(0:1,3)").impossible,
            "AutoParallel has no registered placements");
}

TEST(RaggedShardPrices, OfAStepThatDoesNotExistAreInfinite) {
  Bench bench({.mesh = "2"});
  const PricedTransition step =
      bench.pricer().price(ragged("RG(0:1,3)"), Placement::shard(0), 0, kMiB, DType::kF32);
  EXPECT_EQ(step.price.impossible,
            "no single step makes this change of a registered placement; the way over R does");
}

// -- Runs on virtual ranks ------------------------------------------------------------------------

// A layout with or without a RaggedShard, for a tensor whose rows 12 divides.
Layout random_layout(Random& random, const TensorMeta& meta, const DeviceMesh& mesh) {
  while (true) {
    Placements placements;
    for (int m = 0; m < mesh.ndim(); ++m) {
      const int kind = random.below(5);
      if (kind == 0) {
        placements.push_back(Placement::partial());
      } else if (kind == 1) {
        placements.push_back(Placement::shard(random.below(meta.ndim())));
      } else if (kind == 2) {
        placements.push_back(Placement::replicate());
      } else {
        std::int64_t left = random.pick(std::vector<std::int64_t>{1, 2, 3, 4, 6, 12});
        std::string units;
        for (std::int64_t i = 0; i < mesh.size(m); ++i) {
          const std::int64_t unit = i + 1 == mesh.size(m) ? left : random.between(0, left);
          left -= unit;
          units += (units.empty() ? "" : ",") + std::to_string(unit);
        }
        placements.push_back(ragged((random.percent(30) ? "RG(0,1:" : "RG(0:") + units + ")"));
      }
    }
    if (why_not_registered(meta.shape, placements, &mesh).empty()) return Layout(placements);
  }
}

TEST(RaggedShardRuns, MoveTheRightBytes) {
  Random random(94);
  SHARDLAB_TRACE_SEED();
  int registered = 0;
  for (int i = 0; i < random_cases(1500); ++i) {
    Bench bench(
        {.mesh = random.pick(std::vector<std::string>{"2", "3", "4", "2x2", "2x3", "3x2x2"})});
    TensorMeta meta = TensorMeta::parse(random.percent(50) ? "f32[12]" : "i32[12]");
    meta.shape = {random.pick(std::vector<std::int64_t>{0, 12, 24, 36}), random.between(1, 7)};
    if (random.percent(30)) meta.shape.push_back(random.between(1, 3));
    const Layout from = random_layout(random, meta, bench.mesh());
    const Layout to = random_layout(random, meta, bench.mesh());
    registered += from.has_registered() || to.has_registered() ? 1 : 0;
    const Plan plan = bench.redistributor().plan(meta, from, to);
    const std::string what = meta.text() + " " + from.text() + " to " + to.text() + " on " +
                             bench.mesh().text() + " by " + plan.path();
    if (!plan.impossible.empty() || !plan.unexecutable.empty()) continue;
    for (const PlanStep& step : plan.steps) {
      EXPECT_EQ(why_not_registered(meta.shape, step.after.placements, &bench.mesh()), "") << what;
    }
    EXPECT_EQ(plan.steps.empty() ? from : plan.steps.back().after, to) << what;
    const Executor executor(bench.mesh(), bench.topology(), {.reduction = {.divide_last = true}});
    DistributedTensor tensor =
        executor.distribute(meta, from, {.seed = static_cast<std::uint64_t>(i)});
    EXPECT_TRUE(executor.verify(tensor).verified) << what;
    const ExecutionResult result = executor.run(plan, tensor);
    EXPECT_TRUE(result.executed && result.verified) << what << ": " << result.mismatch;
    EXPECT_TRUE(result.replicas_bitwise_equal) << what;
    Layout before = plan.start;
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      EXPECT_EQ(bytes_moved(plan.steps[s], before, meta, bench.mesh()), result.steps[s].bytes_moved)
          << "step " << s << " of " << what;
      before = plan.steps[s].after;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(registered, 0);
}

TEST(RaggedShardRuns, FindAWrongPart) {
  Bench bench({.mesh = "2"});
  const Executor executor(bench.mesh(), bench.topology(), {});
  const TensorMeta meta = TensorMeta::parse("f32[8,3]");
  DistributedTensor tensor = executor.distribute(meta, bench.layout("RG(0:1,3)"), {.seed = 5});
  std::swap(tensor.locals[0], tensor.locals[1]);
  EXPECT_FALSE(executor.verify(tensor).verified);
  EXPECT_FALSE(executor.has_local_shapes(tensor));
}

TEST(RegisteredExchange, CountsWhatStays) {
  // Member 0 has 2 of 8 rows before and 4 after; member 1 has 6 before and 4 after.
  EXPECT_EQ(elements_kept(ragged("RG(0:1,3)"), Placement::shard(0), {8, 5}, 2), (2 + 4) * 5);
  EXPECT_EQ(elements_kept(ragged("RG(0:1,3)"), Placement::shard(1), {8, 4}, 2), 2 * 2 + 6 * 2);
}

}  // namespace registered_placement_test
}  // namespace shardlab

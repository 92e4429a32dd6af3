// Steps are merged onto flattened meshes: conditions in their order, reasons, averages (regressions
// R38 to R43 and R54).
#include "sim/planners/merge.h"

#include <gtest/gtest.h>

#include "tests/support/dtensor_ring.h"
#include "tests/support/reference_chunks.h"
#include "tests/support/reference_redistribution.h"

namespace shardlab {
namespace merge_test {

using testing_support::Bench;
using testing_support::BenchChoice;
using testing_support::collectives_of;
using testing_support::rows_at;
using testing_support::steps_of;
using Axes = std::vector<std::vector<std::string>>;

// A step on one mesh dim, with this logical shape.
PlanStep step(int mesh_dim, const char* from, const char* to, const Shape& logical_shape = {8, 8}) {
  PlanStep s;
  s.mesh_dims = {mesh_dim};
  s.from = Placement::parse(from);
  s.to = Placement::parse(to);
  s.collective = collective_of(s.from, s.to);
  s.logical_shape = logical_shape;
  return s;
}

DeviceMesh mesh_with(const char* text, const Axes& flatten) {
  DeviceMesh mesh = DeviceMesh::parse(text);
  for (const auto& axes : flatten) mesh = mesh.flatten(axes);
  return mesh;
}

// The steps and warnings in the form "0+1:P(sum)>R/4 2:S(0)>R | reason(0,1)".
std::string merged(const DeviceMesh& mesh, const std::vector<PlanStep>& steps,
                   MergeOptions options = {}) {
  const MergeResult result = merge_steps(steps, mesh, options);
  std::string text;
  for (const PlanStep& s : result.steps) {
    std::string dims;
    for (const int dim : s.mesh_dims) dims += (dims.empty() ? "" : "+") + std::to_string(dim);
    text += (text.empty() ? "" : " ") + dims + ":" + s.from.text() + ">" + s.to.text();
    if (s.avg_scale > 1) text += "/" + std::to_string(s.avg_scale);
  }
  for (const MergeWarning& w : result.warnings) {
    text += " | " + w.reason + "(";
    for (const int dim : w.mesh_dims) text += std::to_string(dim);
    text += ")";
  }
  return text;
}

struct MergeCase {
  const char* name;
  const char* mesh;
  Axes flatten;
  std::vector<PlanStep> steps;
  const char* result;
};
void PrintTo(const MergeCase& c, std::ostream* out) { *out << c.name; }
class MergeTable : public testing::TestWithParam<MergeCase> {};

TEST_P(MergeTable, GivesTheseStepsAndReasons) {
  const MergeCase& c = GetParam();
  EXPECT_EQ(merged(mesh_with(c.mesh, c.flatten), c.steps), c.result);
}

const Axes kAB = {{"a", "b"}};
const Axes kAC = {{"a", "c"}};

INSTANTIATE_TEST_SUITE_P(
    Rules, MergeTable,
    testing::Values(MergeCase{"TwoAllReduces",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P", "R"), step(1, "P", "R")},
                              "0+1:P(sum)>R"},
                    MergeCase{"AllReducesInAnyOrder",
                              "a=2,b=4",
                              kAB,
                              {step(1, "P", "R"), step(0, "P", "R")},
                              "0+1:P(sum)>R"},
                    MergeCase{"AscendingReduceScatters",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P", "S(0)"), step(1, "P", "S(0)")},
                              "0+1:P(sum)>S(0)"},
                    MergeCase{"DescendingReduceScatters",
                              "a=2,b=4",
                              kAB,
                              {step(1, "P", "S(0)"), step(0, "P", "S(0)")},
                              "1:P(sum)>S(0) 0:P(sum)>S(0) | non_ascending_mesh_dims(01)"},
                    MergeCase{"DescendingAllGathers",
                              "a=2,b=4",
                              kAB,
                              {step(1, "S(0)", "R"), step(0, "S(0)", "R")},
                              "0+1:S(0)>R"},
                    MergeCase{"AscendingAllGathers",
                              "a=2,b=4",
                              kAB,
                              {step(0, "S(0)", "R"), step(1, "S(0)", "R")},
                              "0:S(0)>R 1:S(0)>R | non_ascending_mesh_dims(01)"},
                    MergeCase{"NoFlattenedMesh",
                              "a=2,b=4",
                              {},
                              {step(0, "P", "R"), step(1, "P", "R")},
                              "0:P(sum)>R 1:P(sum)>R | no_flattened_mesh(01)"},
                    MergeCase{"AnotherFlattenedMesh",
                              "a=2,b=2,c=2",
                              kAC,
                              {step(0, "P", "R"), step(1, "P", "R")},
                              "0:P(sum)>R 1:P(sum)>R | no_flattened_mesh(01)"},
                    MergeCase{"TheOrderIsCheckedBeforeTheMesh",
                              "a=2,b=4",
                              {},
                              {step(1, "P", "S(0)"), step(0, "P", "S(0)")},
                              "1:P(sum)>S(0) 0:P(sum)>S(0) | non_ascending_mesh_dims(01)"},
                    MergeCase{"TheMeshIsCheckedBeforeTheShape",
                              "a=2,b=4",
                              {},
                              {step(0, "P", "S(0)", {7, 8}), step(1, "P", "S(0)", {4, 8})},
                              "0:P(sum)>S(0) 1:P(sum)>S(0) | no_flattened_mesh(01)"},
                    MergeCase{"UnevenReduceScatter",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P", "S(0)", {12, 8}), step(1, "P", "S(0)", {6, 8})},
                              "0:P(sum)>S(0) 1:P(sum)>S(0) | uneven_tensor_shape(01)"},
                    MergeCase{"UnevenOnAnotherDimOnly",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P", "S(0)", {16, 7}), step(1, "P", "S(0)", {8, 7})},
                              "0+1:P(sum)>S(0)"},
                    MergeCase{"UnevenAllReduceDoesNotMatter",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P", "R", {7, 7}), step(1, "P", "R", {7, 7})},
                              "0+1:P(sum)>R"},
                    MergeCase{"UnevenAllGather",
                              "a=2,b=2",
                              kAB,
                              {step(1, "S(0)", "R", {3, 3}), step(0, "S(0)", "R", {5, 3})},
                              "1:S(0)>R 0:S(0)>R | uneven_tensor_shape(01)"},
                    MergeCase{"OtherTargetsDoNotMerge",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P", "S(0)"), step(1, "P", "S(1)")},
                              "0:P(sum)>S(0) 1:P(sum)>S(1)"},
                    MergeCase{"OtherSourcesDoNotMerge",
                              "a=2,b=4",
                              kAB,
                              {step(1, "S(1)", "R"), step(0, "S(0)", "R")},
                              "1:S(1)>R 0:S(0)>R"},
                    MergeCase{"OtherOpsDoNotMerge",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P(max)", "R"), step(1, "P(min)", "R")},
                              "0:P(max)>R 1:P(min)>R"},
                    MergeCase{"EqualMaximaMerge",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P(max)", "R"), step(1, "P(max)", "R")},
                              "0+1:P(max)>R"},
                    MergeCase{"AMaskPartialIsNoSum",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P", "R"), step(1, "MP", "R")},
                              "0:P(sum)>R 1:MP>R"},
                    MergeCase{"AllToAllsNeverMerge",
                              "a=2,b=4",
                              kAB,
                              {step(0, "S(0)", "S(1)"), step(1, "S(0)", "S(1)")},
                              "0:S(0)>S(1) 1:S(0)>S(1)"},
                    MergeCase{"ChunksNeverMerge",
                              "a=2,b=4",
                              kAB,
                              {step(0, "R", "S(0)"), step(1, "R", "S(0)")},
                              "0:R>S(0) 1:R>S(0)"},
                    MergeCase{"StridedShardsNeverMerge",
                              "a=2,b=4",
                              kAB,
                              {step(1, "_S(0,2)", "R"), step(0, "_S(0,2)", "R")},
                              "1:_S(0,2)>R 0:_S(0,2)>R"},
                    MergeCase{"NeverSkipsOverAStep",
                              "a=2,b=2,c=2",
                              kAC,
                              {step(0, "P", "R"), step(1, "P", "S(0)"), step(2, "P", "R")},
                              "0:P(sum)>R 1:P(sum)>S(0) 2:P(sum)>R"},
                    MergeCase{"WithAGapOnANestedMesh",
                              "a=2,b=2,c=2",
                              kAC,
                              {step(0, "P", "R"), step(2, "P", "R")},
                              "0+2:P(sum)>R"},
                    MergeCase{"ThreeOrNothing",
                              "a=2,b=2,c=2",
                              kAB,
                              {step(0, "P", "R"), step(1, "P", "R"), step(2, "P", "R")},
                              "0:P(sum)>R 1:P(sum)>R 2:P(sum)>R | no_flattened_mesh(012)"},
                    MergeCase{"ThreeOnTheWholeMesh",
                              "a=2,b=2,c=2",
                              Axes{{"a", "b", "c"}},
                              {step(0, "P", "R"), step(1, "P", "R"), step(2, "P", "R")},
                              "0+1+2:P(sum)>R"},
                    MergeCase{"TwoRunsTwoMerges",
                              "a=2,b=2,c=2,d=2",
                              Axes{{"a", "b"}, {"c", "d"}},
                              {step(0, "P", "R"), step(1, "P", "R"), step(3, "S(0)", "R"),
                               step(2, "S(0)", "R")},
                              "0+1:P(sum)>R 2+3:S(0)>R"},
                    MergeCase{
                        "OneWarningForEachMeshDimsAndReason",
                        "a=2,b=2",
                        {},
                        {step(0, "P", "R"), step(1, "P", "R"), step(0, "R", "S(0)"),
                         step(1, "S(1)", "R"), step(0, "S(1)", "R")},
                        "0:P(sum)>R 1:P(sum)>R 0:R>S(0) 1:S(1)>R 0:S(1)>R | no_flattened_mesh(01)"},
                    MergeCase{"R43SumThenAvg",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P", "R"), step(1, "P(avg)", "R")},
                              "0+1:P(sum)>R/4"},
                    MergeCase{"R43AvgThenSum",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P(avg)", "R"), step(1, "P", "R")},
                              "0+1:P(sum)>R/2"},
                    MergeCase{"R43AvgTwice",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P(avg)", "R"), step(1, "P(avg)", "R")},
                              "0+1:P(sum)>R/8"},
                    MergeCase{"R43AUnitAvgNeedsNoScale",
                              "a=4,b=1",
                              kAB,
                              {step(0, "P", "R"), step(1, "P(avg)", "R")},
                              "0+1:P(sum)>R"},
                    MergeCase{"R43SumAndAvgScatter",
                              "a=2,b=4",
                              kAB,
                              {step(0, "P", "S(0)"), step(1, "P(avg)", "S(0)")},
                              "0+1:P(sum)>S(0)/4"}),
    [](const auto& test) { return std::string(test.param.name); });

// The merged step must reduce by sum. Otherwise four contributions are divided by 4, although their
// average is over one rank. PyTorch 2.13.0 has this fault: it keeps the average of the first step
// where the divisor is 1.
TEST(Merge, AUnitAvgBeforeASumStillSums) {
  const DeviceMesh mesh = mesh_with("a=1,b=4", kAB);
  EXPECT_EQ(merged(mesh, {step(0, "P(avg)", "R"), step(1, "P", "R")}), "0+1:P(sum)>R");
}

TEST(Merge, TheMergedStepHasTheOutermostShapeAndTheLastLayout) {
  std::vector<PlanStep> steps = {step(1, "S(0)", "R", {4, 8}), step(0, "S(0)", "R", {8, 8})};
  steps[0].after = Layout::parse("S(0)R", 2);
  steps[1].after = Layout::parse("RR", 2);
  const MergeResult result = merge_steps(steps, mesh_with("a=2,b=2", kAB), {});
  ASSERT_EQ(result.steps.size(), 1U);
  EXPECT_EQ(result.steps[0].logical_shape, (Shape{8, 8}));
  EXPECT_EQ(result.steps[0].after.text(), "RR");
  EXPECT_EQ(result.steps[0].flattened_mesh, "a_b");
  EXPECT_TRUE(result.steps[0].is_merged());
}

TEST(Merge, R41TheReleasesSwitchMergesUnevenGathers) {
  const DeviceMesh mesh = mesh_with("a=2,b=2", kAB);
  const std::vector<PlanStep> steps = {step(1, "S(0)", "R", {3, 3}), step(0, "S(0)", "R", {5, 3})};
  EXPECT_EQ(merged(mesh, steps, {.mends_faults = false}), "0+1:S(0)>R");
}

// The check allows exactly those merges where nested shards hold the same rows as flat ones.
TEST(Merge, R41ADivisibleGatherHoldsTheSameRowsNestedAndFlat) {
  for (const auto& [nested, flat] :
       {std::pair("2x2", "4"), std::pair("2x3", "6"), std::pair("3x2", "6")}) {
    const DeviceMesh mesh = DeviceMesh::parse(nested);
    const DeviceMesh line = DeviceMesh::parse(flat);
    int unequal = 0;
    for (std::int64_t extent = 1; extent <= 17; ++extent) {
      bool equal = true;
      for (std::int64_t r = 0; r < mesh.size(); ++r) {
        equal =
            equal && rows_at(extent, 0, Layout::parse("S(0)S(0)", 2), mesh, mesh.coordinate(r)) ==
                         rows_at(extent, 0, Layout::parse("S(0)", 1), line, line.coordinate(r));
      }
      if (extent % mesh.size() == 0) {
        EXPECT_TRUE(equal) << extent << " rows on " << nested;
      }
      unequal += equal ? 0 : 1;
    }
    EXPECT_GT(unequal, 5) << nested;
  }
}

TEST(Merge, R40TheLogicalExtentCountsAndNotTheGlobalOne) {
  // 4096 rows on a mesh 1024x2x2 leave 4 rows for the inner mesh dims, which 2 * 2 divides.
  const DeviceMesh mesh = mesh_with("a=1024,b=2,c=2", Axes{{"b", "c"}});
  EXPECT_EQ(merged(mesh, {step(1, "P", "S(0)", {4}), step(2, "P", "S(0)", {2})}),
            "1+2:P(sum)>S(0)");
  EXPECT_EQ(merged(mesh, {step(1, "P", "S(0)", {6}), step(2, "P", "S(0)", {3})}),
            "1:P(sum)>S(0) 2:P(sum)>S(0) | uneven_tensor_shape(12)");
}

// -- The rule of the pull request that came first ------------------------------------------------

const MergeOptions kFirst = {.rule = MergeRule::kNeighbouringAllReduces};

TEST(MergeNeighbours, AllReducesOverNeighbouringMeshDimsBecomeOne) {
  const DeviceMesh mesh = mesh_with("a=2,b=2,c=2", {{"a", "b", "c"}});
  EXPECT_EQ(merged(mesh, {step(0, "P", "R"), step(1, "P", "R"), step(2, "P", "R")}, kFirst),
            "0+1+2:P(sum)>R");
  EXPECT_EQ(merged(mesh, {step(2, "P", "R"), step(1, "P", "R"), step(0, "P", "R")}, kFirst),
            "0+1+2:P(sum)>R");
}

TEST(MergeNeighbours, MeshDimsThatAreNoNeighboursStayApartAndNothingIsWarnedOf) {
  const DeviceMesh mesh = mesh_with("a=2,b=2,c=2", kAC);
  const std::vector<PlanStep> steps = {step(0, "P", "R"), step(2, "P", "R")};
  EXPECT_EQ(merged(mesh, steps), "0+2:P(sum)>R");
  EXPECT_EQ(merged(mesh, steps, kFirst), "0:P(sum)>R 2:P(sum)>R");
}

TEST(MergeNeighbours, OtherCollectivesStayApart) {
  const DeviceMesh mesh = mesh_with("a=2,b=2", kAB);
  EXPECT_EQ(merged(mesh, {step(1, "S(0)", "R"), step(0, "S(0)", "R")}, kFirst),
            "1:S(0)>R 0:S(0)>R");
  EXPECT_EQ(merged(mesh, {step(0, "P", "S(0)"), step(1, "P", "S(0)")}, kFirst),
            "0:P(sum)>S(0) 1:P(sum)>S(0)");
}

TEST(MergeNeighbours, SumsAndAveragesAreNotMixed) {
  const DeviceMesh mesh = mesh_with("a=2,b=2", kAB);
  EXPECT_EQ(merged(mesh, {step(0, "P", "R"), step(1, "P(avg)", "R")}, kFirst),
            "0:P(sum)>R 1:P(avg)>R");
}

// The successor refuses the whole run, since no flattened mesh has the layout of all three dims.
TEST(MergeNeighbours, TheLongestRunThatIsRegisteredIsTaken) {
  const DeviceMesh mesh = mesh_with("a=2,b=2,c=2", {{"b", "c"}});
  const std::vector<PlanStep> steps = {step(0, "P", "R"), step(1, "P", "R"), step(2, "P", "R")};
  EXPECT_EQ(merged(mesh, steps, kFirst), "0:P(sum)>R 1+2:P(sum)>R");
  EXPECT_EQ(merged(mesh, steps), "0:P(sum)>R 1:P(sum)>R 2:P(sum)>R | no_flattened_mesh(012)");
}

// -- Merging whole plans ------------------------------------------------------------------------

BenchChoice merging(const char* mesh, const Axes& flatten, MergeMode mode) {
  return {.mesh = mesh, .merge = mode, .flatten = flatten};
}

TEST(MergePlan, R38TwoPartialsAcrossAReplica) {
  const char* mesh = "a=2,b=2,c=2";
  EXPECT_EQ(
      collectives_of(Bench(merging(mesh, {}, MergeMode::kExecute)).plan("f32[8]", "PRP", "RRR")),
      "all_reduce all_reduce");
  Bench flat(merging(mesh, kAC, MergeMode::kExecute));
  const Plan plan = flat.plan("f32[8]", "PRP", "RRR");
  EXPECT_EQ(steps_of(plan), "0+2:P(sum)>R");
  EXPECT_EQ(plan.path(), "P(sum)RP(sum)-->RRR");
  EXPECT_EQ(flat.mesh().groups(flat.mesh().flattened("a_c").layout(0)),
            (std::vector<std::vector<std::int64_t>>{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(MergePlan, R38OneWarningWithoutAFlattenedMesh) {
  Bench bench(merging("a=2,b=2,c=2", {}, MergeMode::kExecute));
  const Plan plan = bench.plan("f32[8]", "PPP", "RRR");
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_EQ(plan.warnings[0].reason, "no_flattened_mesh");
  EXPECT_EQ(plan.warnings[0].steps, 3);
}

TEST(MergePlan, SwitchedOffItNeitherMergesNorWarns) {
  const Plan plan = Bench(merging("a=2,b=2", kAB, MergeMode::kOff)).plan("f32[8]", "PP", "RR");
  EXPECT_EQ(plan.steps.size(), 2U);
  EXPECT_TRUE(plan.warnings.empty());
}

TEST(MergePlan, TheReleasePricesTheUnmergedSteps) {
  Bench off(merging("a=2,b=2", {}, MergeMode::kOff));
  Bench executed(merging("a=2,b=2", kAB, MergeMode::kExecute));
  const Plan plan = executed.plan("f32[8,8]", "PP", "RR");
  EXPECT_EQ(plan.price.total.value(), off.cost("f32[8,8]", "PP", "RR"));
  EXPECT_EQ(plan.price.total.value(), executed.cost("f32[8,8]", "PP", "RR"));
  EXPECT_LT(plan.executed_price().total, plan.price.total);
}

TEST(MergePlan, APriceThatMergesIsThatOfOneCollectiveOnAllRanks) {
  Bench bench(merging("a=2,b=4", kAB, MergeMode::kPrice));
  Bench line({.mesh = "8"});
  EXPECT_EQ(bench.cost("f32[512,512]", "PP", "RR"), line.cost("f32[512,512]", "P", "R"));
  EXPECT_EQ(bench.plan("f32[512,512]", "PP", "RR").price.total.value(),
            bench.cost("f32[512,512]", "PP", "RR"));
  EXPECT_EQ(bench.cost("f32[512,512]", "S(0)S(0)", "RR"), 20.543354475484605);
  EXPECT_DOUBLE_EQ(testing_support::gather(8, 1024 * 1024, testing_support::kInHost),
                   20.543354475484605);
}

TEST(MergePlan, AMergedGatherMovesAllBytesOnce) {
  Bench bench(merging("a=2,b=4", kAB, MergeMode::kExecute));
  const Plan plan = bench.plan("f32[512,512]", "S(0)S(0)", "RR");
  ASSERT_EQ(plan.steps.size(), 1U);
  EXPECT_EQ(plan.steps[0].full_bytes, 1048576.0);
  EXPECT_EQ(plan.path(), "S(0)[0]S(0)[1]-->RR");
}

TEST(MergePlan, OnASliceTheLayoutOfTheRootDecides) {
  const DeviceMesh root = DeviceMesh::parse("dp=2,pp=3,tp=4");
  const std::vector<PlanStep> steps = {step(0, "P", "R"), step(1, "P", "R")};
  const std::vector<std::string> slice = {"dp", "tp"};
  EXPECT_EQ(merged(root.flatten(std::vector<std::string>{"dp", "pp"}).slice(slice), steps),
            "0:P(sum)>R 1:P(sum)>R | no_flattened_mesh(01)");
  EXPECT_EQ(merged(root.flatten(slice).slice(slice), steps), "0+1:P(sum)>R");
}

}  // namespace merge_test
}  // namespace shardlab

// Lower bounds of volume, time and memory of plans whose ranks alone add up.
#include "sim/bounds.h"

#include <gtest/gtest.h>

#include "tests/support/dtensor_ring.h"
#include "tests/support/random_layouts.h"
#include "tests/support/reference_redistribution.h"

namespace shardlab {
namespace bounds_test {

using testing_support::Bench;
using testing_support::Random;
using testing_support::random_cases;
using testing_support::random_layout;
using testing_support::random_mesh;
using testing_support::random_tensor;

PlanBounds bounds(Bench& bench, const char* tensor, const char* from, const char* to) {
  return bounds_of(bench.plan(tensor, from, to), bench.mesh(), bench.topology());
}

TEST(Bounds, OneCollectiveAttainsItsVolume) {
  Bench bench({.mesh = "4"});
  for (const auto& [from, to] : {std::pair("S(0)", "R"), std::pair("P", "R"),
                                 std::pair("P", "S(0)"), std::pair("S(0)", "S(1)")}) {
    EXPECT_DOUBLE_EQ(bounds(bench, "f32[16,16]", from, to).volume_ratio.value_or(0), 1.0)
        << from << " to " << to;
  }
}

TEST(Bounds, AGatherAndAChunkMoveMoreThanNeeded) {
  // Greedy takes S(0)S(1) to S(1)S(0) on a mesh 2x2 by a gather from 16 to 32 of the 64 elements,
  // an exchange of these 32, and a chunk of 16. Each rank receives 16 + 16. It needs the 16 of its
  // new block minus those that it has: ranks 0 and 3 have all of them, ranks 1 and 2 none.
  Bench bench({.mesh = "2x2"});
  const PlanBounds b = bounds(bench, "f32[8,8]", "S(0)S(1)", "S(1)S(0)");
  EXPECT_DOUBLE_EQ(b.volume_ratio.value_or(0), 4.0 * 32 / 32);
}

TEST(Bounds, WhatNeedsNoBytesHasNoRatio) {
  Bench bench({.mesh = "2x2"});
  const PlanBounds b = bounds(bench, "f32[8,8]", "S(0)R", "S(0)S(1)");
  EXPECT_FALSE(b.volume_ratio.has_value());
  EXPECT_FALSE(b.time_ratio.has_value());
  EXPECT_DOUBLE_EQ(b.memory_ratio.value_or(0), 1.0);
}

TEST(Bounds, AnEmptyOrImpossiblePlanHasNone) {
  Bench bench({.mesh = "4"});
  for (const auto& [from, to] : {std::pair("S(0)", "S(0)"), std::pair("S(0)", "P")}) {
    const PlanBounds b = bounds(bench, "f32[8,8]", from, to);
    EXPECT_FALSE(b.volume_ratio || b.time_ratio || b.memory_ratio) << from << " to " << to;
  }
}

TEST(Bounds, MemoryIsComparedWithTheLargerEnd) {
  // On its way between two layouts of 16 elements a rank, greedy gathers rows and holds 32 of 64.
  Bench bench({.mesh = "2x2"});
  EXPECT_DOUBLE_EQ(bounds(bench, "f32[8,8]", "S(0)S(1)", "S(1)S(0)").memory_ratio.value_or(0), 2.0);
  EXPECT_DOUBLE_EQ(bounds(bench, "f32[8,8]", "S(0)S(1)", "RR").memory_ratio.value_or(0), 1.0);
}

TEST(Bounds, TimeIsThePriceOverOneStepOnTheFastestLink) {
  // Each of the 4 ranks receives 786432 bytes of the 1 MiB, in 0.6 + 1.747... us at 450 GB/s. The
  // price is 16.75 us.
  Bench bench({.mesh = "4"});
  EXPECT_DOUBLE_EQ(
      bounds(bench, "f32[512,512]", "S(0)", "R").time_ratio.value_or(0),
      testing_support::gather(4, 1024 * 1024, testing_support::kInHost) / (0.6 + 786432.0 / 450e3));
}

TEST(Bounds, OfAMeshTooLargeToListAreAbsent) {
  Bench bench({.mesh = "4097"});
  const PlanBounds b = bounds(bench, "f32[4097]", "S(0)", "R");
  EXPECT_FALSE(b.volume_ratio.has_value());
  EXPECT_TRUE(b.memory_ratio.has_value());
}

TEST(Bounds, AScatterIntoShardsOfBothMeshDimsIsNotBeaten) {
  // On the way from PR to S(0)S(1), a chunk on mesh dim 1 comes first and halves what is reduced.
  Bench bench({.mesh = "2x2", .planner = PlannerKind::kGraph});
  EXPECT_GE(bounds(bench, "f32[1024,1024]", "PR", "S(0)S(1)").volume_ratio.value_or(1), 1 - 1e-9);
}

TEST(Bounds, ReplicasThatShareAReductionAreNotBeaten) {
  // From PR to S(0)R on a mesh 8x2, each of the two replicas could reduce one half of the tensor
  // and then give it to the other.
  Bench bench({.mesh = "8x2", .planner = PlannerKind::kGraph});
  EXPECT_GE(bounds(bench, "f32[4096,4096]", "PR", "S(0)R").volume_ratio.value_or(1), 1 - 1e-9);
}

TEST(Bounds, NoPlanBeatsThemForRandomLayouts) {
  Random random(71);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(600); ++i) {
    const DeviceMesh mesh = random_mesh(random, 3, 4);
    Bench bench({.mesh = mesh.text(),
                 .planner = random.percent(50) ? PlannerKind::kGraph : PlannerKind::kGreedy});
    const TensorMeta meta = random_tensor(random, 3, 24);
    const Layout from = random_layout(random, mesh, meta.ndim());
    const Layout to = random_layout(random, mesh, meta.ndim());
    const Plan plan = bench.redistributor().plan(meta, from, to);
    const PlanBounds b = bounds_of(plan, mesh, bench.topology());
    EXPECT_GE(b.volume_ratio.value_or(1), 1 - 1e-9)
        << "volume of " << meta.text() << " " << plan.path() << " on " << mesh.text();
    EXPECT_GE(b.memory_ratio.value_or(1), 1 - 1e-9)
        << "memory of " << meta.text() << " " << plan.path() << " on " << mesh.text();
    if (HasFailure()) return;
  }
}

}  // namespace bounds_test
}  // namespace shardlab

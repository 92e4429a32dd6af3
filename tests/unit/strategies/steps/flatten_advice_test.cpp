// Which flattened meshes are advised, of steps whose times are made up.
#include "strategies/steps/flatten_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/base/error.h"

namespace shardlab {
namespace flatten_advice_test {

using Axes = std::vector<std::string>;

bool has(const DeviceMesh& mesh, const std::vector<int>& dims) {
  return mesh.find_flattened(dims).has_value();
}

TEST(FlattenAdvice, KeepsWhatShortensTheStepTheMostFirst) {
  const DeviceMesh mesh = DeviceMesh::parse("a=2,b=4,c=8");
  const FlattenAdvice advice = advise_flattening(mesh, [](const DeviceMesh& flattened) {
    return 100.0 - (has(flattened, {1, 2}) ? 3.0 : 0.0) - (has(flattened, {0, 1}) ? 10.0 : 0.0) +
           (has(flattened, {0, 2}) ? 1.0 : 0.0);
  });
  EXPECT_EQ(advice.step_us, 100.0);
  EXPECT_EQ(advice.tried, 4);
  ASSERT_EQ(advice.worth.size(), 2U);
  EXPECT_EQ(advice.worth[0].axes, (Axes{"a", "b"}));
  EXPECT_EQ(advice.worth[0].ranks, 8);
  EXPECT_DOUBLE_EQ(advice.worth[0].saved_us, 10.0);
  EXPECT_EQ(advice.worth[1].axes, (Axes{"b", "c"}));
  EXPECT_EQ(advice.worth[1].ranks, 32);
  EXPECT_DOUBLE_EQ(advice.saved_us(), 13.0);
}

TEST(FlattenAdvice, WhatSavesNothingBesideAnotherIsLeftOut) {
  const DeviceMesh mesh = DeviceMesh::parse("a=2,b=4,c=8");
  const FlattenAdvice advice = advise_flattening(mesh, [](const DeviceMesh& flattened) {
    return has(flattened, {0, 1, 2}) ? 90.0 : has(flattened, {0, 1}) ? 95.0 : 100.0;
  });
  ASSERT_EQ(advice.worth.size(), 1U);
  EXPECT_EQ(advice.worth[0].axes, (Axes{"a", "b", "c"}));
}

TEST(FlattenAdvice, TriesWhatIsNotRegisteredOnMeshDimsOfSeveralRanks) {
  const auto tried = [](const DeviceMesh& mesh) {
    return advise_flattening(mesh, [](const DeviceMesh&) { return 1.0; }).tried;
  };
  EXPECT_EQ(tried(DeviceMesh::parse("8")), 0);
  EXPECT_EQ(tried(DeviceMesh::parse("a=2,b=1,c=8")), 1);
  EXPECT_EQ(tried(DeviceMesh::parse("a=2,b=4,c=8,d=2")), 11);
  const Axes two = {"a", "b"};
  EXPECT_EQ(tried(DeviceMesh::parse("a=2,b=4,c=8").flatten(two)), 3);
}

TEST(FlattenAdvice, MeshDimsWithoutNamesCannotBeFlattened) {
  EXPECT_THROW(
      (void)advise_flattening(DeviceMesh::parse("2x4"), [](const DeviceMesh&) { return 1.0; }),
      TextError);
}

}  // namespace flatten_advice_test
}  // namespace shardlab

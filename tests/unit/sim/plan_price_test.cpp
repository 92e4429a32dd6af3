// The price of a plan is added up step by step, and the bytes are handed from step to step.
#include "sim/plan_price.h"

#include <gtest/gtest.h>

#include "sim/transition.h"
#include "tests/support/dtensor_ring.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace plan_price_test {

using testing_support::collective_model;
using testing_support::compute_model;
using testing_support::gather;
using testing_support::kInHost;
using testing_support::topology_with;

class PlanPriceTest : public testing::Test {
 protected:
  [[nodiscard]] TransitionPricer pricer(std::string_view version) const {
    return {DeviceMesh::parse("2x2"), topology_, edge_semantics(version), *model_, *kernels_};
  }

  Topology topology_ = topology_with(8);
  std::unique_ptr<CostModel> model_ = collective_model("dtensor", topology_);
  std::unique_ptr<ComputeModel> kernels_ = compute_model("none", topology_);
};

TEST_F(PlanPriceTest, AStepStartsFromTheBytesThatTheStepBeforeItLeft) {
  const TransitionPricer v3 = pricer("v3");
  PlanPrice<Micros> price(64.0, DType::kF32);
  price.add_step(v3, Placement::shard(0), Placement::replicate(), 1);
  EXPECT_EQ(price.local_bytes(), 128.0);
  price.add_step(v3, Placement::shard(0), Placement::replicate(), 0);
  EXPECT_EQ(price.local_bytes(), 256.0);
  EXPECT_DOUBLE_EQ(price.sum().value(), gather(2, 128, kInHost) + gather(2, 256, kInHost));
  price.add_step(v3, Placement::replicate(), Placement::shard(1), 0);
  EXPECT_EQ(price.local_bytes(), 128.0);
}

TEST_F(PlanPriceTest, TheTotalIsTheSameWithAndWithoutItsParts) {
  const TransitionPricer v3 = pricer("v3");
  PlanPrice<Micros> total(64.0, DType::kF32, Micros(2.0));
  PlanPrice<Price> parts(64.0, DType::kF32, Price::of(Micros(2.0), Micros()));
  for (const int mesh_dim : {1, 0}) {
    total.add_step(v3, Placement::shard(0), Placement::replicate(), mesh_dim);
    const PricedTransition step =
        parts.add_step(v3, Placement::shard(0), Placement::replicate(), mesh_dim);
    EXPECT_EQ(step.collective, Collective::kAllGather);
  }
  EXPECT_EQ(total.sum(), parts.sum().total);
}

TEST_F(PlanPriceTest, WithoutAPlanOnlyMeshDimsThatChangeHaveAStep) {
  const TransitionPricer v0 = pricer("v0");
  const Placements from = {Placement::shard(0), Placement::shard(1)};
  const Placements to = {Placement::replicate(), Placement::shard(1)};
  EXPECT_DOUBLE_EQ(
      price_without_plan<Micros>(v0.semantics(), v0, TensorMeta::parse("f32[8,8]"), 64.0, from, to)
          .value(),
      gather(2, 128, kInHost));
}

}  // namespace plan_price_test
}  // namespace shardlab

// Prices by a function of the user's in the place of those of the edge semantics.
#include "sim/transition_function.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "costmodel/base/units.h"
#include "sim/redistribute.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace transition_function_test {

// Charges 100 us for a step along mesh dim 0 and 10 us along any other, and forbids all-to-alls. It
// notes what it was asked.
class Charges final : public TransitionFunction {
 public:
  [[nodiscard]] std::shared_ptr<const OnMesh> on(const DeviceMesh& mesh,
                                                 std::int64_t domain_devices) const override {
    return std::make_shared<Prices>(mesh.text() + " of " + std::to_string(domain_devices), asked);
  }

  std::shared_ptr<std::vector<std::string>> asked = std::make_shared<std::vector<std::string>>();

 private:
  class Prices final : public OnMesh {
   public:
    Prices(std::string mesh, std::shared_ptr<std::vector<std::string>> asked)
        : mesh_(std::move(mesh)), asked_(std::move(asked)) {}
    [[nodiscard]] Result price(const Placement& from, const Placement& to, int mesh_dim,
                               Bytes bytes) const override {
      asked_->push_back(mesh_ + ": " + from.text() + "->" + to.text() + " along " +
                        std::to_string(mesh_dim));
      if (from.is_shard() && to.is_shard()) return {Micros(kInfinity), bytes};
      return {Micros(mesh_dim == 0 ? 100.0 : 10.0), to.is_replicate() ? 2 * bytes : bytes / 2};
    }

   private:
    std::string mesh_;
    std::shared_ptr<std::vector<std::string>> asked_;
  };
};

class PricedByFunction : public testing::Test {
 protected:
  PricedByFunction()
      : function_(std::make_shared<Charges>()),
        redistributor_(DeviceMesh::parse("2x2"), topology_,
                       {.semantics = priced_by(edge_semantics("v3"), function_)}, *collectives_,
                       *kernels_) {}

  Plan plan(const std::string& from, const std::string& to) {
    return redistributor_.plan(TensorMeta::parse("f32[16,16]"), Layout::parse(from, 2),
                               Layout::parse(to, 2));
  }

  Topology topology_ = testing_support::topology_with(8);
  std::unique_ptr<CostModel> collectives_ =
      make_collective_model(read_model_choice("dtensor", {"test", ""}), topology_);
  std::unique_ptr<ComputeModel> kernels_ =
      make_compute_model(read_model_choice("none", {"test", ""}), topology_);
  std::shared_ptr<Charges> function_;
  Redistributor redistributor_;
};

TEST_F(PricedByFunction, EveryStepIsAskedForAlongItsMeshDim) {
  const Plan gather = plan("S(0)P", "RR");
  EXPECT_EQ(gather.price.total.value(), 110.0);
  EXPECT_EQ(redistributor_.cost_us(gather.meta, gather.from, gather.to), 110.0);
  EXPECT_EQ(function_->asked->front(), "2x2 of 8: P(sum)->R along 1");
}

TEST_F(PricedByFunction, KeepingAChunkHasTheFunctionsPrice) {
  EXPECT_EQ(plan("RP", "S(0)P").price.total.value(), 100.0);
}

TEST_F(PricedByFunction, WhatNeedsNoPlanKeepsItsPrice) {
  EXPECT_EQ(plan("RR", "S(0)S(1)").price.total.value(), 0.0);  // a replicated source is free in v3
}

TEST_F(PricedByFunction, AnInfinitePriceIsImpossible) {
  const Plan swap = plan("S(0)R", "S(1)R");
  EXPECT_EQ(swap.impossible, "the cost function gives it an infinite price");
  EXPECT_EQ(redistributor_.cost_us(swap.meta, swap.from, swap.to), kInfinity);
}

TEST_F(PricedByFunction, MergedMeshDimsAreAskedForAsOne) {
  const DeviceMesh mesh = DeviceMesh::parse("a=2,b=2");
  Redistributor merging(
      mesh.flatten(std::vector<std::string>{"a", "b"}), topology_,
      {.semantics = priced_by(edge_semantics("v3"), function_), .merge = MergeMode::kPrice},
      *collectives_, *kernels_);
  const Plan reduce =
      merging.plan(TensorMeta::parse("f32[16,16]"), Layout::parse("PP", 2), Layout::parse("RR", 2));
  EXPECT_EQ(reduce.price.total.value(), 100.0);
  EXPECT_EQ(function_->asked->back(), "4 of 8: P(sum)->R along 0");
}

}  // namespace transition_function_test
}  // namespace shardlab

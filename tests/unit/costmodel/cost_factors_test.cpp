#include "costmodel/cost_factors.h"

#include <gtest/gtest.h>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace cost_factors_test {

using testing_support::topology_with;

ModelChoice choice_of(const std::string& name, nlohmann::json params = nlohmann::json::object()) {
  return read_model_choice({{"name", name}, {"params", std::move(params)}}, {"test", ""});
}

TEST(CostFactors, ScaledPartsAreThoseOfAModelWithScaledParameters) {
  CostFactors factors;
  const auto scaled =
      with_factors(make_collective_model(choice_of("dtensor"), topology_with(8)), factors);
  for (const double f : {1.0, 0.25, 3.0}) {
    const auto latency =
        make_collective_model(choice_of("dtensor", {{"base_latency_us", 6.6 * f},
                                                    {"intra_host_hop_us", 0.6 * f},
                                                    {"inter_host_hop_us", 2.7 * f}}),
                              topology_with(8));
    const auto bandwidth = make_collective_model(
        choice_of("dtensor", {{"bandwidth_gb_per_s", 87.7 * f}}), topology_with(8));
    for (const Collective kind : {Collective::kAllGather, Collective::kAllReduce}) {
      const CollectiveQuery query{kind, 1 << 22, {.ranks = 8, .walk = 8}};
      factors = {.latency = f};
      EXPECT_NEAR(scaled->price(query).total.value(), latency->price(query).total.value(), 1e-9);
      factors = {.transfer = 1.0 / f};
      EXPECT_NEAR(scaled->price(query).total.value(), bandwidth->price(query).total.value(), 1e-9);
    }
  }
}

TEST(CostFactors, FactorsOfOneChangeNoDigit) {
  const CostFactors factors;
  const auto model = make_collective_model(choice_of("dtensor"), topology_with(1));
  const auto same =
      with_factors(make_collective_model(choice_of("dtensor"), topology_with(1)), factors);
  for (int bytes = 1; bytes < 100'000; bytes = bytes * 3 + 1) {
    const CollectiveQuery query{Collective::kAllGather, static_cast<double>(bytes), {.ranks = 4}};
    EXPECT_EQ(model->price(query).total.value(), same->price(query).total.value());
  }
}

TEST(FlooredKernels, TheFloorIsScaledAndTheWorkIsNot) {
  const FlooredKernels kernels(choice_of("roofline", {{"launch_us", 5.0}}), topology_with(8));
  const KernelQuery small{.kind = Kernel::kCopy, .bytes = 1024};
  const KernelQuery large{.kind = Kernel::kCopy, .bytes = 1e9};
  const double work = kernels.price(large, 1.0).total.value();
  EXPECT_EQ(kernels.floor().value(), 5.0);
  EXPECT_EQ(kernels.price(small, 1.0).total.value(), 5.0);
  EXPECT_GT(work, 100.0);
  EXPECT_EQ(kernels.price(small, 3.0).total.value(), 15.0);
  EXPECT_EQ(kernels.price(large, 3.0).total.value(), work);
  EXPECT_EQ(kernels.price(large, 1000.0).total.value(), 5000.0);
}

TEST(FlooredKernels, AKernelLeavesItsFloorWhereItsWorkTakesAsLong) {
  const FlooredKernels kernels(choice_of("roofline", {{"launch_us", 5.0}}), topology_with(8));
  const KernelQuery large{.kind = Kernel::kCopy, .bytes = 1e9};
  const std::optional<double> threshold = kernels.threshold(large);
  ASSERT_TRUE(threshold.has_value());
  EXPECT_NEAR(*threshold, kernels.price(large, 1.0).total.value() / 5.0, 1e-9);
  EXPECT_EQ(kernels.threshold({.bytes = 0.0}), std::nullopt);
}

TEST(FlooredKernels, AModelWithoutFloorHasNone) {
  const FlooredKernels kernels(choice_of("none"), topology_with(8));
  EXPECT_EQ(kernels.floor().value(), 0.0);
  EXPECT_EQ(kernels.price({.bytes = 100}, 1.0).total.value(), 0.0);
  EXPECT_EQ(kernels.threshold({.bytes = 100}), std::nullopt);
}

}  // namespace cost_factors_test
}  // namespace shardlab

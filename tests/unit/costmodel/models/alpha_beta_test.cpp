// The model alpha_beta: launch + steps * alpha + bytes * volume / beta, on the link level that the
// group crosses.
#include <gtest/gtest.h>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace alpha_beta_test {

using testing_support::collective_model;
using testing_support::topology_with;

constexpr GroupSpan kHost{.ranks = 8, .hosts = 1, .ranks_per_host = 8, .extent = 8, .walk = 8};
constexpr GroupSpan kTwoHosts{
    .ranks = 16, .hosts = 2, .ranks_per_host = 8, .extent = 16, .walk = 16};
constexpr GroupSpan kOnePerHost{
    .ranks = 2, .hosts = 2, .ranks_per_host = 1, .extent = 9, .walk = 16};

class AlphaBeta : public testing::Test {
 protected:
  const Topology topology_ = topology_with(8);
  const std::unique_ptr<CostModel> model_ = collective_model("alpha_beta", topology_);
};

TEST_F(AlphaBeta, AllGatherInAHostIsSevenNvlinkSteps) {
  // 7 us launch + 7 * 0.6 us; 450 kB * 7/8 over 450 kB/us = 0.875 us.
  const Price price = model_->price({Collective::kAllGather, 450e3, kHost});
  EXPECT_DOUBLE_EQ(price.latency.value(), 11.2);
  EXPECT_DOUBLE_EQ(price.transfer.value(), 0.875);
  EXPECT_DOUBLE_EQ(price.total.value(), 12.075);
}

TEST_F(AlphaBeta, AllReduceInAHostIsFourteenStepsAndTwiceTheVolume) {
  const Price price = model_->price({Collective::kAllReduce, 450e3, kHost});
  EXPECT_DOUBLE_EQ(price.latency.value(), 7 + 14 * 0.6);
  EXPECT_DOUBLE_EQ(price.transfer.value(), 1.75);
}

TEST_F(AlphaBeta, ABroadcastIsOneStepOfAllBytes) {
  const Price price = model_->price({Collective::kBroadcast, 450e3, kHost});
  EXPECT_DOUBLE_EQ(price.latency.value(), 7.6);
  EXPECT_DOUBLE_EQ(price.transfer.value(), 1.0);
}

TEST_F(AlphaBeta, OneRankPerHostUsesOneNetworkLink) {
  // 50 GB/s is 50 kB/us, so that half of 100 kB takes 1 us. There is one step of 2.7 us.
  const Price price = model_->price({Collective::kAllGather, 100e3, kOnePerHost});
  EXPECT_DOUBLE_EQ(price.latency.value(), 9.7);
  EXPECT_DOUBLE_EQ(price.transfer.value(), 1.0);
}

TEST_F(AlphaBeta, EightRanksPerHostDriveEightNetworkLinks) {
  // min(450, 8 * 50) = 400 GB/s; 400 kB * 15/16 / 400 kB/us = 0.9375 us.
  const Price price = model_->price({Collective::kAllGather, 400e3, kTwoHosts});
  EXPECT_DOUBLE_EQ(price.latency.value(), 7 + 15 * 2.7);
  EXPECT_DOUBLE_EQ(price.transfer.value(), 0.9375);
}

TEST_F(AlphaBeta, InAnAllToAllEachRankDrivesItsOwnLink) {
  // Half of 400 kB leave the host, at 50 kB/us; meanwhile 7/16 go to the other ranks of the host.
  const Price price = model_->price({Collective::kAllToAll, 400e3, kTwoHosts});
  EXPECT_DOUBLE_EQ(price.latency.value(), 7 + 15 * 2.7);
  EXPECT_DOUBLE_EQ(price.transfer.value(), 4.0);
  const Price alone = model_->price({Collective::kAllToAll, 400e3, kOnePerHost});
  EXPECT_DOUBLE_EQ(alone.transfer.value(), 4.0);
  const Price in_a_host = model_->price({Collective::kAllToAll, 450e3, kHost});
  EXPECT_DOUBLE_EQ(in_a_host.transfer.value(), 0.875);
}

TEST_F(AlphaBeta, TheBandwidthInsideAHostCapsTheNetworkLinks) {
  GroupSpan wide = kTwoHosts;
  wide.ranks = 64;
  wide.ranks_per_host = 32;  // 32 * 50 = 1600 GB/s, which the 450 GB/s inside a host limit
  const Price price = model_->price({Collective::kBroadcast, 450e3, wide});
  EXPECT_DOUBLE_EQ(price.transfer.value(), 1.0);
}

TEST_F(AlphaBeta, OneRankAndLocalWorkAreFree) {
  EXPECT_EQ(model_->price({Collective::kAllReduce, 1e9, {.ranks = 1}}).total.value(), 0.0);
  EXPECT_EQ(model_->price({Collective::kLocal, 1e9, kHost}).total.value(), 0.0);
}

TEST_F(AlphaBeta, GivenParametersHoldOnEveryLevel) {
  const auto model = collective_model(
      {{"name", "alpha_beta"},
       {"params", {{"launch_us", 1}, {"latency_us", 2}, {"bandwidth_gb_per_s", 1}}}},
      topology_);
  for (const GroupSpan& group : {kHost, kTwoHosts, kOnePerHost}) {
    const auto n = static_cast<double>(group.ranks);
    const Price price = model->price({Collective::kAllGather, 1000, group});
    EXPECT_DOUBLE_EQ(price.latency.value(), 1 + 2 * (n - 1));
    EXPECT_DOUBLE_EQ(price.transfer.value(), (n - 1) / n);
  }
}

TEST_F(AlphaBeta, GivenALatencyAloneTheBandwidthStaysTheLevels) {
  const auto model =
      collective_model({{"name", "alpha_beta"}, {"params", {{"latency_us", 0}}}}, topology_);
  const Price price = model->price({Collective::kAllGather, 100e3, kOnePerHost});
  EXPECT_DOUBLE_EQ(price.latency.value(), 7.0);
  EXPECT_DOUBLE_EQ(price.transfer.value(), 1.0);
}

}  // namespace alpha_beta_test
}  // namespace shardlab

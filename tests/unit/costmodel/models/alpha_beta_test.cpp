// The model alpha_beta: launch + steps * alpha + bytes * volume / beta, on the link level that the
// group crosses.
#include <gtest/gtest.h>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace alpha_beta_test {

using testing_support::collective_model;
using testing_support::domain_topology;
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

TEST_F(AlphaBeta, ALoneRankReceivesThroughItsOwnLink) {
  // Nine ranks on hosts of eight: 450 kB * 8/9 at 50 kB/us take 8 us.
  const GroupSpan nine{.ranks = 9, .hosts = 2, .ranks_per_host = 1, .extent = 9, .walk = 9};
  EXPECT_DOUBLE_EQ(model_->price({Collective::kAllGather, 450e3, nine}).transfer.value(), 8.0);
  EXPECT_DOUBLE_EQ(model_->price({Collective::kAllToAll, 450e3, nine}).transfer.value(), 8.0);
}

// Groups of 18 on each of two NVLink domains of 72 drive 18 * 50 GB/s, up to NVLink's 450.
TEST_F(AlphaBeta, AnNvlinkDomainOfSeveralHostsDrivesAllItsLinks) {
  const auto model = collective_model("alpha_beta", domain_topology(72));
  const GroupSpan thin{.ranks = 36, .hosts = 36, .domains = 2, .extent = 141, .walk = 144};
  EXPECT_DOUBLE_EQ(model->price({Collective::kBroadcast, 450e3, thin}).transfer.value(), 1.0);
  const GroupSpan all{.ranks = 144, .hosts = 36, .domains = 2, .extent = 144, .walk = 144};
  // Half of an all-to-all's bytes leave the domain, at 50 kB/us.
  EXPECT_DOUBLE_EQ(model->price({Collective::kAllToAll, 100e3, all}).transfer.value(), 1.0);
}

// Hosts of 4 in domains of 8 have the links of hosts of 8.
TEST_F(AlphaBeta, EqualLinksHaveEqualPricesHoweverTheyAreDescribed) {
  const auto trays = collective_model("alpha_beta", domain_topology(8));
  for (const Collective kind : {Collective::kAllGather, Collective::kAllReduce,
                                Collective::kAllToAll, Collective::kBroadcast}) {
    for (const std::int64_t ranks : {2, 4, 8, 16, 32}) {
      const auto parts = [&](std::int64_t block) {
        return std::max<std::int64_t>(1, ranks / block);
      };
      const GroupSpan of_hosts{
          .ranks = ranks, .hosts = parts(8), .domains = parts(8), .extent = ranks};
      const GroupSpan of_trays{
          .ranks = ranks, .hosts = parts(4), .domains = parts(8), .extent = ranks};
      EXPECT_DOUBLE_EQ(model_->price({kind, 1e6, of_hosts}).total.value(),
                       trays->price({kind, 1e6, of_trays}).total.value())
          << to_string(kind) << " of " << ranks;
    }
  }
}

// Links of 100 GB/s join hosts of 4 in a domain, and 450 GB/s the devices of a host.
TEST_F(AlphaBeta, ADomainMayHaveSlowerLinksThanItsHosts) {
  nlohmann::json json = testing_support::topology_json(4);
  json["domain_devices"] = 8;
  const nlohmann::json between_hosts = {
      {"name", "domain"}, {"joins", "domain"}, {"latency_us", 0.6}, {"bandwidth_gb_per_s", 100.0}};
  json["links"] = {json["links"][0], between_hosts, json["links"][1]};
  const auto model =
      collective_model("alpha_beta", Topology::from_json(json, {"layered.json", ""}));
  const GroupSpan domain{.ranks = 8, .hosts = 2, .domains = 1, .extent = 8};
  // min(450, 4 * 100) = 400 GB/s.
  EXPECT_DOUBLE_EQ(model->price({Collective::kBroadcast, 400e3, domain}).transfer.value(), 1.0);
  // 4/8 at 100 kB/us and 3/8 at 450 kB/us.
  EXPECT_DOUBLE_EQ(model->price({Collective::kAllToAll, 1800e3, domain}).transfer.value(), 10.5);
}

// Hosts of 4 with PCIe of 25 GB/s and as fast an interface for each device.
TEST_F(AlphaBeta, APcieLaneCarriesWhatGoesToTheNetworkToo) {
  nlohmann::json json = testing_support::topology_json(4);
  json["links"][0]["kind"] = "pcie";
  json["links"][0]["bandwidth_gb_per_s"] = 25.0;
  json["links"][1]["bandwidth_gb_per_s"] = 25.0;
  const GroupSpan eight{.ranks = 8, .hosts = 2, .domains = 2, .extent = 8};
  const auto transfer = [&](Collective kind, const GroupSpan& group) {
    return collective_model("alpha_beta", Topology::from_json(json, {"pcie.json", ""}))
        ->price({kind, 200e3, group})
        .transfer.value();
  };
  EXPECT_DOUBLE_EQ(transfer(Collective::kAllToAll, eight), 7.0);  // 7/8 of 200 kB at 25 kB/us
  // A faster interface does not widen the lane.
  json["links"][1]["bandwidth_gb_per_s"] = 50.0;
  EXPECT_DOUBLE_EQ(transfer(Collective::kAllToAll, eight), 7.0);
  const GroupSpan apart{.ranks = 2, .hosts = 2, .domains = 2, .extent = 5};
  EXPECT_DOUBLE_EQ(transfer(Collective::kAllGather, apart), 4.0);
  // A slower one takes longer for its half than the lane for everything.
  json["links"][1]["bandwidth_gb_per_s"] = 10.0;
  EXPECT_DOUBLE_EQ(transfer(Collective::kAllToAll, eight), 10.0);
}

// Two of eight GPUs share one link of 64 GB/s. In a group on two hosts, the two members of a host
// are bounded by that link, not by their network interfaces of 50 GB/s each.
TEST_F(AlphaBeta, PairwiseLinksCarryWhatGoesBetweenTheirEnds) {
  const auto pairs = collective_model("alpha_beta", testing_support::pairwise_topology());
  const auto transfer = [&](Collective kind, const GroupSpan& group) {
    return pairs->price({kind, 64e6, group}).transfer.value();
  };
  constexpr GroupSpan kTwo{.ranks = 2, .hosts = 1, .ranks_per_host = 2, .extent = 2, .walk = 2};
  constexpr GroupSpan kTwoOfEach{
      .ranks = 4, .hosts = 2, .ranks_per_host = 2, .extent = 10, .walk = 16};
  EXPECT_DOUBLE_EQ(transfer(Collective::kAllGather, kTwo), 500.0);
  EXPECT_DOUBLE_EQ(transfer(Collective::kAllToAll, kTwo), 500.0);
  EXPECT_DOUBLE_EQ(transfer(Collective::kSendRecv, kHost), 1000.0);
  EXPECT_DOUBLE_EQ(transfer(Collective::kAllGather, kHost), 125.0);
  EXPECT_DOUBLE_EQ(transfer(Collective::kAllToAll, kHost), 125.0);
  EXPECT_DOUBLE_EQ(transfer(Collective::kAllGather, kTwoOfEach), 750.0);
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

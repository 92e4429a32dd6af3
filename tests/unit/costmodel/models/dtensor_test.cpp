// The model dtensor gives the figures of PyTorch 2.13.0 to the last digit.
#include <gtest/gtest.h>

#include "costmodel/base/text.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace dtensor_test {

using testing_support::collective_model;
using testing_support::domain_topology;
using testing_support::topology_with;

// A group of n ranks that is all of a one-dimensional mesh, so that its walk is n.
GroupSpan group_of(std::int64_t n) { return {.ranks = n, .extent = n, .walk = n}; }

double price(Collective kind, double bytes, std::int64_t ranks, std::int64_t devices_per_host) {
  const Topology topology = topology_with(devices_per_host);
  return collective_model("dtensor", topology)->price({kind, bytes, group_of(ranks)}).total.value();
}

struct GoldenRow {
  std::int64_t devices_per_host;
  std::int64_t n;
  double gather;      // S->R and P->S0 of 1 MiB
  double all_reduce;  // P->R
  double all_to_all;  // S0->S1 of the local bytes, 1 MiB / n; the semantics v3 add 1 us to it
};
void PrintTo(const GoldenRow& r, std::ostream* out) {
  *out << "H=" << r.devices_per_host << " n=" << r.n;
}
class DTensorGoldenTable : public testing::TestWithParam<GoldenRow> {
 protected:
  static constexpr double kMiB = 1048576;
};

TEST_P(DTensorGoldenTable, AllGatherOfOneMebibyte) {
  EXPECT_EQ(price(Collective::kAllGather, kMiB, GetParam().n, GetParam().devices_per_host),
            GetParam().gather);
}
TEST_P(DTensorGoldenTable, ReduceScatterCostsWhatTheAllGatherCosts) {
  EXPECT_EQ(price(Collective::kReduceScatter, kMiB, GetParam().n, GetParam().devices_per_host),
            GetParam().gather);
}
TEST_P(DTensorGoldenTable, AllReduceOfOneMebibyte) {
  EXPECT_EQ(price(Collective::kAllReduce, kMiB, GetParam().n, GetParam().devices_per_host),
            GetParam().all_reduce);
}
TEST_P(DTensorGoldenTable, AllToAllIsPricedOnLocalBytes) {
  const double local = kMiB / static_cast<double>(GetParam().n);
  EXPECT_EQ(price(Collective::kAllToAll, local, GetParam().n, GetParam().devices_per_host),
            GetParam().all_to_all);
}

INSTANTIATE_TEST_SUITE_P(
    Section11, DTensorGoldenTable,
    testing::Values(GoldenRow{8, 2, 12.767631128848347, 18.935262257696692, 9.983815564424173},
                    GoldenRow{8, 4, 16.75144669327252, 26.90289338654504, 10.487861673318129},
                    GoldenRow{8, 8, 20.543354475484605, 34.486708950969216, 12.017919309435577},
                    GoldenRow{1, 2, 34.607414222037946, 62.61482844407588, 21.95370711101897},
                    GoldenRow{1, 4, 52.66112133305691, 98.72224266611383, 24.190280333264226},
                    GoldenRow{1, 8, 69.7879748885664, 132.97594977713277, 31.0359968610708}),
    [](const auto& test) {
      return "H" + std::to_string(test.param.devices_per_host) + "n" + std::to_string(test.param.n);
    });

TEST(DTensorModel, TenByTenFloatsOnFourRanks) {
  EXPECT_EQ(price(Collective::kAllGather, 400, 4, 1), 14.714481018574928);
  EXPECT_EQ(price(Collective::kAllReduce, 400, 4, 1), 22.828962037149857);
  EXPECT_EQ(price(Collective::kAllGather, 400, 4, 8), 8.403185824086483);
  EXPECT_EQ(price(Collective::kAllReduce, 400, 4, 8), 10.206371648172967);
}

TEST(DTensorModel, TheThreadOf170107To17Digits) {
  EXPECT_EQ(price(Collective::kAllGather, 128, 2, 8), 7.2006796424717825);
  EXPECT_EQ(price(Collective::kAllGather, 256, 2, 8), 7.201359284943566);
}

TEST(DTensorModel, TheThreadOf169439To16Digits) {
  EXPECT_EQ(price(Collective::kAllGather, 8192, 2, 1), 9.497714173609673);
  EXPECT_EQ(price(Collective::kAllGather, 4096, 2, 1), 9.398857086804837);
}

TEST(DTensorModel, TheThreadOf172282) {
  // f32[8,8] (256 B) on 4 ranks between hosts: 6.6 + 6 * 2.7 + (256 / 2^30 * 6 / 4) / 19.294 * 1e6
  // us.
  EXPECT_EQ(price(Collective::kAllReduce, 256, 4, 1), 22.81853570377591);
}

TEST(DTensorModel, IsBasePlusHopsPlusGibibytesOverGigabytes) {
  // 2^30 bytes among 4 ranks of a host take 3 hops, and 3/4 GiB over 87.7 "GB/s".
  const Topology topology = topology_with(8);
  const Price p =
      collective_model("dtensor", topology)->price({Collective::kAllGather, 1 << 30, group_of(4)});
  EXPECT_EQ(p.latency.value(), 6.6 + 3 * 0.6);
  EXPECT_EQ(p.transfer.value(), (1.0 * 3 / 4) / 87.7 * 1e6);
  EXPECT_EQ(p.total, p.latency + p.transfer);
}

TEST(DTensorModel, OneRankIsChargedTheBaseLatency) {
  EXPECT_EQ(price(Collective::kAllGather, 1048576, 1, 8), 6.6);
  EXPECT_EQ(price(Collective::kAllReduce, 1048576, 1, 8), 6.6);
}

TEST(DTensorModel, LocalWorkIsFree) { EXPECT_EQ(price(Collective::kLocal, 1e9, 8, 1), 0.0); }

TEST(DTensorModel, TheWalkProductDecidesBetweenHostsAndNotTheGroup) {
  // On a mesh (2, 8) with 8 devices per host, the walk of the outer mesh dim is 16, so that its 2
  // ranks count as on several hosts.
  const Topology topology = topology_with(8);
  const auto model = collective_model("dtensor", topology);
  GroupSpan outer = group_of(2);
  outer.walk = 16;
  EXPECT_EQ(model->price({Collective::kAllGather, 1048576, outer}).total.value(),
            34.607414222037946);
  outer.walk = 8;
  EXPECT_EQ(model->price({Collective::kAllGather, 1048576, outer}).total.value(),
            12.767631128848347);
}

TEST(DTensorModel, ADomainOf72CountsAsOneHost) {
  const Topology gb200 = domain_topology(72);
  const auto model = collective_model("dtensor", gb200);
  EXPECT_EQ(model->price({Collective::kAllGather, 1048576, group_of(8)}).total.value(),
            20.543354475484605);
  EXPECT_EQ(model->price({Collective::kAllGather, 0, group_of(72)}).total.value(), 6.6 + 71 * 0.6);
  EXPECT_EQ(model->price({Collective::kAllGather, 0, group_of(73)}).total.value(), 6.6 + 72 * 2.7);
}

TEST(DTensorModel, ItsParametersReplaceTheConstants) {
  const Topology topology = topology_with(8);
  const auto model = collective_model({{"name", "dtensor"},
                                       {"params",
                                        {{"base_latency_us", 1},
                                         {"intra_host_hop_us", 2},
                                         {"inter_host_hop_us", 4},
                                         {"bandwidth_gb_per_s", 100},
                                         {"inter_host_factor", 0.5}}}},
                                      topology);
  const double gib = 1024.0 * 1024 * 1024;
  // Two ranks take one hop with half of the bytes: 1 + 2 + 0.5 / 100 * 1e6 us inside a host,
  // 1 + 4 + 0.5 / 50 * 1e6 us between hosts.
  EXPECT_EQ(model->price({Collective::kAllGather, gib, group_of(2)}).total.value(), 5003.0);
  GroupSpan outer = group_of(2);
  outer.walk = 16;
  EXPECT_EQ(model->price({Collective::kAllGather, gib, outer}).total.value(), 10005.0);
}

}  // namespace dtensor_test
}  // namespace shardlab

#include "sim/flows/mesh_flows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "costmodel/base/error.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace mesh_flows_test {

using namespace testing_support;
using nlohmann::json;

MeshTransfer over(MeshDims mesh_dims, Collective kind = Collective::kAllGather, double bytes = 1e9,
                  double start_us = 0.0) {
  return {
      .mesh_dims = std::move(mesh_dims), .kind = kind, .wire_bytes = bytes, .start_us = start_us};
}

std::vector<double> slowdowns(const std::string& mesh, const Topology& topology,
                              const std::vector<MeshTransfer>& transfers, bool fold = true) {
  return MeshFlows(DeviceMesh::parse(mesh), topology, fold).slowdowns(transfers);
}

// Hosts of 8 devices, in rails of 4 hosts, below a spine at half of its rate; NVLink 450 GB/s,
// network 50 GB/s.
Topology rails(std::int64_t nics = 8) {
  json value = topology_json(8);
  value["links"][1] = {{"name", "rail"},
                       {"joins", "rail"},
                       {"devices", 32},
                       {"latency_us", 2.7},
                       {"bandwidth_gb_per_s", 50.0}};
  value["links"].push_back({{"name", "spine"},
                            {"joins", "all"},
                            {"oversubscription", 2.0},
                            {"latency_us", 2.7},
                            {"bandwidth_gb_per_s", 50.0}});
  value["nics_per_host"] = nics;
  return Topology::from_json(value, {"test.json", ""});
}

auto near(std::vector<double> expected) {
  return testing::Pointwise(testing::DoubleNear(1e-12), std::move(expected));
}

TEST(MeshFlows, TransfersOverTheSameLevelShareIt) {
  const Topology h100 = topology_with(8);
  using Factors = std::vector<double>;
  EXPECT_EQ(slowdowns("4x8", h100, {over({0}), over({0})}), (Factors{2, 2}));
  EXPECT_EQ(slowdowns("4x8", h100, {over({1}), over({1})}), (Factors{2, 2}));
  EXPECT_EQ(slowdowns("4x8", h100, {over({0}), over({1})}), (Factors{1, 1}));
  EXPECT_EQ(slowdowns("4x8", h100, {over({0}), over({1}), over({0}), over({0})}),
            (Factors{3, 1, 3, 3}));
  // Groups of 16 leave their hosts, and so do those of dim 0.
  EXPECT_EQ(slowdowns("2x16", h100, {over({0}), over({1})}), (Factors{2, 2}));
  EXPECT_EQ(slowdowns("2x2x4", h100, {over({0}), over({1}), over({2})}), (Factors{1, 2, 2}));
}

// Where links join pairs, groups of different mesh dims have none in common, though all of them are
// of one device; groups that share a mesh dim share the links along it.
TEST(MeshFlows, PairwiseLinksOfDifferentMeshDimsAreDifferentLinks) {
  const Topology pairs = testing_support::pairwise_topology();
  for (const bool fold : {true, false}) {
    using Factors = std::vector<double>;
    EXPECT_EQ(slowdowns("2x4", pairs, {over({0}), over({1})}, fold), (Factors{1, 1}));
    EXPECT_EQ(slowdowns("2x4", pairs, {over({0}), over({0})}, fold), (Factors{2, 2}));
    EXPECT_EQ(slowdowns("2x4", pairs, {over({0, 1}), over({1})}, fold), (Factors{2, 2}));
    const MeshFlows flows(DeviceMesh::parse("2x4"), pairs, fold);
    EXPECT_DOUBLE_EQ(flows.alone(over({0})).value(), 1e9 / 64e3);
    EXPECT_DOUBLE_EQ(flows.alone(over({1})).value(), 1e9 / 192e3);
    EXPECT_DOUBLE_EQ(flows.alone(over({0, 1})).value(), 1e9 / 448e3);
    EXPECT_DOUBLE_EQ(flows.alone(over({1}, Collective::kSendRecv)).value(), 1e9 / 64e3);
  }
}

TEST(MeshFlows, ARingThroughAllHostsLoadsNvlinkToo) {
  // Of each byte 1/8 leaves the host at 50 GB/s, and 7/8 goes on at 450 GB/s: NVLink is in use for
  // 7/9 of the time, and both share it at 1 / (1 + 7/9).
  EXPECT_THAT(slowdowns("4x8", topology_with(8), {over({0, 1}), over({1})}),
              near({16.0 / 9, 16.0 / 9}));
  // An all-to-all sends 24/31 of its bytes to other hosts, and 7/31 over NVLink.
  const double nvlink = 7.0 / 450 / (24.0 / 50);
  EXPECT_THAT(slowdowns("4x8", topology_with(8), {over({0, 1}, Collective::kAllToAll), over({1})}),
              near({1 + nvlink, 1 + nvlink}));
}

TEST(MeshFlows, ATransferOnIdleLinksIsNotSlowedDownAtAll) {
  for (const char* mesh :
       {"8", "4x8", "2x16", "64x128x128", "2x2x2x2", "12", "5x3", "3x5", "7x2x3"}) {
    for (const Topology& topology :
         {topology_with(8), rails(), rails(4), domain_topology(8), pairwise_topology()}) {
      const int dims = DeviceMesh::parse(mesh).ndim();
      for (int m = 0; m < dims; ++m) {
        for (const Collective kind :
             {Collective::kAllGather, Collective::kAllToAll, Collective::kSendRecv}) {
          EXPECT_EQ(slowdowns(mesh, topology, {over({m}, kind)}), std::vector<double>{1.0})
              << mesh << " dim " << m << " " << to_string(kind);
        }
      }
    }
  }
}

TEST(MeshFlows, TheSpineIsNarrowerThanTheNetworkInterface) {
  // Dim 1 stays on its rail at 50 GB/s; dim 0 crosses the spine at 25 GB/s, half of the interface.
  EXPECT_THAT(slowdowns("2x4x8", rails(), {over({1}), over({0})}), near({1.5, 1.5}));
  EXPECT_THAT(slowdowns("2x4x8", rails(), {over({0}), over({0})}), near({2, 2}));
  // Interfaces that several devices share have the bandwidth of all of them.
  EXPECT_THAT(slowdowns("2x4x8", rails(2), {over({1}), over({0})}), near({1.5, 1.5}));
}

TEST(MeshFlows, DevicesThatShareANetworkInterfaceShareItsBandwidth) {
  json value = topology_json(3);
  value["nics_per_host"] = 2;
  const Topology uneven = Topology::from_json(value, {"test.json", ""});
  // Devices 0 and 1 share an interface of 75 GB/s and want 50 GB/s each; device 2 has one for
  // itself.
  EXPECT_FALSE(MeshFlows(DeviceMesh::parse("2x3"), uneven).folds());
  EXPECT_THAT(slowdowns("2x3", uneven, {over({0})}), near({4.0 / 3}));
  // The slice has one group, of device 0 on each host; two transfers fill the interface's 75 GB/s.
  const std::vector<std::string> first = {"a"};
  const MeshFlows one(DeviceMesh::parse("a=2,b=3").slice(first), uneven);
  EXPECT_EQ(one.slowdowns(std::vector{over({0})}), std::vector<double>{1.0});
  EXPECT_THAT(one.slowdowns(std::vector{over({0}), over({0})}), near({4.0 / 3, 4.0 / 3}));
}

TEST(MeshFlows, HostsThatAreNotFilledEvenlyAreFollowedOneByOne) {
  // 8 members on host 0 and 4 on host 1, whose interfaces carry twice as much.
  const MeshFlows flows(DeviceMesh::parse("12"), topology_with(8));
  EXPECT_FALSE(flows.folds());
  EXPECT_DOUBLE_EQ(flows.alone(over({0}, Collective::kAllGather, 1e9)).value(), 1e6 / 50 / 4);
  EXPECT_THAT(flows.slowdowns(std::vector{over({0}), over({0})}), near({2, 2}));
  const auto uses = flows.uses({0}, Collective::kAllGather);
  double most = 0.0;
  for (const ResourceUse& use : uses[0]) most = std::max(most, use.amount);
  EXPECT_EQ(most, 1.0);
  EXPECT_EQ(uses[0].size(), 24U);  // of each rank NVLink and the network
  EXPECT_TRUE(uses[1].empty());
}

TEST(MeshFlows, TransfersStartAndEnd) {
  const MeshFlows flows(DeviceMesh::parse("4x8"), topology_with(8));
  const double alone = flows.alone(over({0})).value();
  EXPECT_EQ(alone, 20000.0);  // 1e9 bytes at 50 GB/s
  const auto ends = [&](const std::vector<MeshTransfer>& transfers) {
    return flows.finish_times(transfers);
  };
  constexpr Collective kGather = Collective::kAllGather;
  EXPECT_EQ(ends({over({0}, kGather, 1e9, 3.0)}), std::vector<double>{3.0 + alone});
  // Half of the first is done when the second starts; then both are half as fast.
  EXPECT_THAT(ends({over({0}), over({0}, kGather, 1e9, 10000), over({1}, kGather, 450e6, 7)}),
              near({30000, 40000, 1007}));
  // The second ends first, and the first gets its bandwidth back.
  EXPECT_THAT(ends({over({0}), over({0}, kGather, 1e8)}), near({22000, 4000}));
  EXPECT_EQ(ends({over({0}, kGather, 0.0, 5.0)}), std::vector<double>{5.0});
  EXPECT_THROW((void)ends({over({0}, kGather, 1.0, -1.0)}), ContractError);
  EXPECT_THROW((void)ends({over({0}, kGather, -1.0)}), ContractError);
}

// Folding is an exact shortcut: following every rank's links gives the same.
TEST(MeshFlows, FoldedRanksSeeWhatAllRanksSee) {
  std::mt19937_64 random(1);
  const auto pick = [&](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % sizeof...(values)];
  };
  int folded = 0;
  int slowed = 0;
  for (int round = 0; round < 600; ++round) {
    json value = topology_json(pick(1, 2, 4, 8));
    const auto devices = value["devices_per_host"].get<std::int64_t>();
    if (random() % 3 == 0)
      value["nics_per_host"] = std::max<std::int64_t>(1, devices / pick(1, 2, 4));
    const auto level = [](const char* joins, double bandwidth) {
      return json{{"name", joins},
                  {"joins", joins},
                  {"latency_us", 1.0},
                  {"bandwidth_gb_per_s", bandwidth}};
    };
    json links = json::array({level("host", 450.0)});
    if (random() % 3 == 0) {
      value["domain_devices"] = 2 * devices;
      links.push_back(level("domain", pick(100.0, 900.0)));
    }
    const bool has_rails = random() % 3 == 0;
    if (has_rails) {
      links.push_back(level("rail", 50.0));
      links.back()["devices"] = 4 * devices;
    }
    links.push_back(level("all", 50.0));
    if (has_rails) links.back()["oversubscription"] = pick(2.0, 3.0);
    value["links"] = links;
    const Topology topology = Topology::from_json(value, {"test.json", ""});
    std::vector<std::int64_t> sizes;
    const auto ndim = 1 + random() % 3;
    for (std::uint64_t m = 0; m < ndim; ++m) sizes.push_back(pick(1, 2, 3, 4, 8));
    const DeviceMesh mesh = DeviceMesh::make(sizes);
    const MeshFlows flows(mesh, topology);
    if (!flows.folds()) continue;
    ++folded;
    const MeshFlows all(mesh, topology, false);
    ASSERT_FALSE(all.folds());
    std::vector<MeshTransfer> transfers;
    const auto count = 1 + random() % 4;
    for (std::uint64_t t = 0; t < count; ++t) {
      MeshDims dims;
      for (int m = 0; m < mesh.ndim(); ++m) {
        if (random() % 2 == 0) dims.push_back(m);
      }
      transfers.push_back(over(dims,
                               pick(Collective::kAllGather, Collective::kAllToAll,
                                    Collective::kSendRecv, Collective::kAllReduce),
                               1e6 * static_cast<double>(1 + random() % 9),
                               static_cast<double>(random() % 50)));
    }
    const std::vector<double> factors = flows.slowdowns(transfers);
    const std::vector<double> factors_of_all = all.slowdowns(transfers);
    const std::vector<double> ends = flows.finish_times(transfers);
    const std::vector<double> ends_of_all = all.finish_times(transfers);
    for (std::size_t t = 0; t < transfers.size(); ++t) {
      if (factors[t] > 1.0) ++slowed;
      ASSERT_NEAR(factors[t], factors_of_all[t], 1e-9) << mesh.text() << " " << value;
      ASSERT_NEAR(ends[t], ends_of_all[t], 1e-6) << mesh.text() << " " << value;
    }
  }
  EXPECT_GT(folded, 200);
  EXPECT_GT(slowed, 200);
}

TEST(MeshFlows, AMillionRanksCostWhatOneHostCosts) {
  const MeshFlows flows(DeviceMesh::parse("64x128x128"), topology_with(8));
  EXPECT_TRUE(flows.folds());
  EXPECT_EQ(flows.ports(), 2);  // NVLink and network of one device
  EXPECT_EQ(flows.slowdowns(std::vector{over({0}), over({1})}), (std::vector<double>{2, 2}));
  EXPECT_THAT(flows.slowdowns(std::vector{over({2}), over({2}), over({0})}), near({3, 3, 3}));
}

TEST(MeshFlows, RefusesWhatItCannotFollow) {
  EXPECT_THROW((void)slowdowns("4x8", topology_with(8), {over({2})}), ContractError);
  EXPECT_THROW((void)slowdowns("4x8", topology_with(8), {over({1, 1})}), ContractError);
  const auto large = [] { (void)slowdowns("65536x3", topology_with(8), {over({0})}); };
  EXPECT_THROW(large(), LimitError);
}

}  // namespace mesh_flows_test
}  // namespace shardlab

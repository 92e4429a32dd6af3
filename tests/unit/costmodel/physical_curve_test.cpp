// The curve that links allow: which figures of a topology move it, and in which direction.
#include "costmodel/physical_curve.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace physical_curve_test {

using namespace testing_support;

GroupSpan span(std::int64_t ranks, std::int64_t hosts) {
  return {.ranks = ranks,
          .hosts = hosts,
          .domains = hosts,
          .ranks_per_host = ranks / hosts,
          .extent = ranks,
          .walk = ranks};
}

PhysicalCurve curve_of(Collective kind, const GroupSpan& group, const Topology& topology) {
  return physical_curve(physical_group(kind, group, topology));
}

TEST(PhysicalCurve, GoesFromItsFloorToItsPlateau) {
  const PhysicalCurve curve = curve_of(Collective::kAllGather, span(8, 1), topology_with(8));
  // 0.8 of 450 GB/s, over the 7/8 of the bytes that cross a link.
  EXPECT_NEAR(curve.bytes_per_us, 0.8 * 450e3 * 8 / 7, 1e-6);
  EXPECT_NEAR(curve.us_at_bend(curve.bend(1)), curve.floor_us, 1e-3 * curve.floor_us);
  const double huge = 1e13;
  EXPECT_NEAR(curve.us_at_bend(curve.bend(huge)), huge / curve.bytes_per_us,
              1e-3 * huge / curve.bytes_per_us);
  EXPECT_NEAR(PhysicalCurve::plateau_share(0.0), 0.5, 1e-12);
}

// Between two hosts of 8 devices, a tree sends the buffer once over the 8 links of a host.
TEST(PhysicalCurve, AnAllReduceOfTwoHostsCrossesTheNetworkOnce) {
  const PhysicalCurve curve = curve_of(Collective::kAllReduce, span(16, 2), topology_with(8));
  EXPECT_NEAR(curve.bytes_per_us, 1.04 * 450e3 / (2 * 15.0 / 16), 1e-6) << "NVLink bounds it";
  const PhysicalCurve two = curve_of(Collective::kAllReduce, span(2, 2), topology_with(8));
  EXPECT_NEAR(two.bytes_per_us, 0.85 * 50e3, 1e-6);
}

// One of nine ranks on hosts of eight is alone, and its link carries what the eight others send.
TEST(PhysicalCurve, TheDomainWithTheFewestRanksBoundsAGroup) {
  const GroupSpan nine{.ranks = 9, .hosts = 2, .domains = 2, .ranks_per_host = 1, .extent = 9};
  for (const Collective kind :
       {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllToAll}) {
    EXPECT_NEAR(curve_of(kind, nine, topology_with(8)).bytes_per_us, 0.85 * 50e3 * 9 / 8, 1e-6)
        << to_string(kind);
  }
  EXPECT_NEAR(curve_of(Collective::kAllReduce, nine, topology_with(8)).bytes_per_us, 0.85 * 50e3,
              1e-6);
}

// The plateau of an all_reduce whose NVLinks bound it, over that of its ring.
double share_of_nvlink(std::int64_t capability, const char* kind, std::int64_t ranks,
                       std::int64_t hosts = 1) {
  nlohmann::json json = topology_json(8);
  json["device"]["compute_capability"] = capability;
  json["links"][0]["kind"] = kind;
  const Topology topology = Topology::from_json(json, {"test.json", ""});
  const auto n = static_cast<double>(ranks);
  return curve_of(Collective::kAllReduce, span(ranks, hosts), topology).bytes_per_us *
         (2 * (n - 1) / n) / 450e3;
}

// NVLink SHARP: without a switch, or on A100, an all_reduce of 8 has the ring's bandwidth.
TEST(PhysicalCurve, SwitchesOfHopperAddUp) {
  EXPECT_NEAR(share_of_nvlink(90, "nvswitch", 8), 1.06, 1e-9);
  EXPECT_NEAR(share_of_nvlink(100, "nvswitch", 8), 0.96, 1e-9);
  EXPECT_NEAR(share_of_nvlink(90, "nvlink", 8), 0.8, 1e-9);
  EXPECT_NEAR(share_of_nvlink(80, "nvswitch", 8), 0.8, 1e-9);
  EXPECT_NEAR(share_of_nvlink(90, "nvswitch", 4), 0.8, 1e-9);
}

// The tree of two hosts has one level; those of more hosts pass on what they receive.
TEST(PhysicalCurve, TwoSwitchesReachMoreThanSeveral) {
  EXPECT_NEAR(share_of_nvlink(90, "nvswitch", 16, 2), 1.04, 1e-9);
  EXPECT_NEAR(share_of_nvlink(90, "nvswitch", 32, 4), 0.8, 1e-9);
  EXPECT_NEAR(share_of_nvlink(80, "nvswitch", 16, 2), 0.8, 1e-9);
}

// A topology whose links differ in these figures from those of 8 GPUs a host.
Topology patched(const char* host, const char* network, std::int64_t capability = 90) {
  nlohmann::json json = topology_json(8);
  json["device"]["compute_capability"] = capability;
  json["links"][0].merge_patch(nlohmann::json::parse(host));
  json["links"][1].merge_patch(nlohmann::json::parse(network));
  return Topology::from_json(json, {"test.json", ""});
}

TEST(PhysicalCurve, NvlsCanBeTurnedOff) {
  const auto share = [](const Topology& topology) {
    return curve_of(Collective::kAllReduce, span(8, 1), topology).bytes_per_us * 1.75 / 450e3;
  };
  EXPECT_NEAR(share(patched("{}", "{}")), 1.06, 1e-9);
  EXPECT_NEAR(share(patched(R"({"reduces": false})", "{}")), 0.8, 1e-9);
}

// On a network of 12.5 GB/s a device, which bounds them, an all_reduce of four hosts sends 2 * 3 /
// 4 of the buffer through the links of a host, and one with SHARP sends it once.
TEST(PhysicalCurve, ANetworkThatReducesCarriesTheBufferOnce) {
  constexpr const char* kSlow = R"({"bandwidth_gb_per_s": 12.5})";
  constexpr const char* kSharp = R"({"bandwidth_gb_per_s": 12.5, "reduces": true})";
  const auto plateau = [](Collective kind, std::int64_t hosts, const char* network) {
    return curve_of(kind, span(8 * hosts, hosts), patched("{}", network, 80)).bytes_per_us;
  };
  constexpr double kNetwork = 0.85 * 8 * 12.5e3;
  EXPECT_NEAR(plateau(Collective::kAllReduce, 4, kSlow), kNetwork / 1.5, 1e-6);
  EXPECT_NEAR(plateau(Collective::kAllReduce, 4, kSharp), kNetwork, 1e-6);
  EXPECT_NEAR(plateau(Collective::kAllReduce, 64, kSharp), kNetwork, 1e-6);
  EXPECT_NEAR(plateau(Collective::kAllReduce, 2, kSharp), plateau(Collective::kAllReduce, 2, kSlow),
              1e-6);
  EXPECT_EQ(plateau(Collective::kAllGather, 4, kSharp), plateau(Collective::kAllGather, 4, kSlow));
  EXPECT_EQ(plateau(Collective::kReduceScatter, 4, kSharp),
            plateau(Collective::kReduceScatter, 4, kSlow));
}

// On a fast network, the chain inside the hosts bounds an all_reduce with SHARP.
TEST(PhysicalCurve, TheChainInsideTheHostsBoundsSharp) {
  const Topology fast = patched("{}", R"({"reduces": true})");
  EXPECT_NEAR(curve_of(Collective::kAllReduce, span(96, 12), fast).bytes_per_us, 0.8 * 450e3 / 1.75,
              1e-6);
  EXPECT_NEAR(curve_of(Collective::kAllReduce, span(12, 12), fast).bytes_per_us, 0.85 * 50e3, 1e-6)
      << "one device a host has no chain";
  EXPECT_NEAR(curve_of(Collective::kAllReduce, span(16, 2), fast).bytes_per_us,
              1.04 * 450e3 / (2 * 15.0 / 16), 1e-6)
      << "two hosts are faster with NVLS and a tree";
}

// The floor of many hosts is that of eight.
TEST(PhysicalCurve, ANetworkThatReducesHasFewSteps) {
  const Topology plain = patched("{}", "{}");
  const Topology sharp = patched("{}", R"({"reduces": true})");
  const auto floor = [](const Topology& topology, std::int64_t hosts) {
    return curve_of(Collective::kAllReduce, span(8 * hosts, hosts), topology).floor_us;
  };
  for (const std::int64_t hosts : {2, 4, 8}) EXPECT_EQ(floor(sharp, hosts), floor(plain, hosts));
  EXPECT_EQ(floor(sharp, 64), floor(plain, 8));
  EXPECT_LT(floor(sharp, 64), 0.75 * floor(plain, 64));
}

struct Option {
  const char* name;
  const char* slow_host;
  const char* slow_network;
  const char* fast_host;
  const char* fast_network;
};
void PrintTo(const Option& c, std::ostream* out) { *out << c.name; }
class Options : public testing::TestWithParam<Option> {};

// For every GPU, collective, group and size.
TEST_P(Options, NeverMakeAPriceRise) {
  const Option& option = GetParam();
  for (const std::int64_t capability : {80, 90, 100}) {
    const Topology slow = patched(option.slow_host, option.slow_network, capability);
    const Topology fast = patched(option.fast_host, option.fast_network, capability);
    for (const Named<Collective>& kind : EnumNames<Collective>::kNames) {
      if (kind.value == Collective::kLocal) continue;
      for (const std::int64_t hosts : {1, 2, 3, 8, 64}) {
        for (const std::int64_t per_host : {1, 2, 4, 8}) {
          if (hosts * per_host < 2) continue;
          const GroupSpan group = span(hosts * per_host, hosts);
          const PhysicalCurve before = curve_of(kind.value, group, slow);
          const PhysicalCurve after = curve_of(kind.value, group, fast);
          for (double bytes = 1; bytes < 1e11; bytes *= 8) {
            EXPECT_LE(after.us_at_bend(after.bend(bytes)),
                      before.us_at_bend(before.bend(bytes)) * (1 + 1e-12))
                << kind.name << " " << hosts << "x" << per_host << " " << bytes;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Options,
    testing::Values(Option{"Sharp", "{}", "{}", "{}", R"({"reduces": true})"},
                    Option{"SharpOnASlowNetwork", "{}", R"({"bandwidth_gb_per_s": 6.25})", "{}",
                           R"({"bandwidth_gb_per_s": 6.25, "reduces": true})"},
                    Option{"SharpWithoutNvls", R"({"reduces": false})", "{}",
                           R"({"reduces": false})", R"({"reduces": true})"},
                    Option{"Nvls", R"({"reduces": false})", "{}", "{}", "{}"},
                    Option{"NvlsWithSharp", R"({"reduces": false})", R"({"reduces": true})", "{}",
                           R"({"reduces": true})"},
                    Option{"TwiceTheNics", "{}", R"({"bandwidth_gb_per_s": 25})", "{}", "{}"},
                    Option{"TwiceTheNicsWithSharp", "{}",
                           R"({"bandwidth_gb_per_s": 25, "reduces": true})", "{}",
                           R"({"reduces": true})"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(PhysicalCurve, SlowerNetworksTakeLongerBetweenHostsAlone) {
  const Topology topology = topology_with(8);
  const NetworkFigures slow{.bandwidth = GBps(12.5), .latency = Micros(5.4)};
  const auto curves = [&](const GroupSpan& group) {
    return std::pair(curve_of(Collective::kAllGather, group, topology),
                     physical_curve(physical_group(Collective::kAllGather, group, topology, slow)));
  };
  const auto [between, slow_between] = curves(span(16, 2));
  EXPECT_NEAR(slow_between.floor_us, 2 * between.floor_us, 1e-9);
  EXPECT_LT(slow_between.bytes_per_us, 0.4 * between.bytes_per_us);
  const auto [inside, slow_inside] = curves(span(8, 1));
  EXPECT_EQ(slow_inside.floor_us, inside.floor_us);
  EXPECT_EQ(slow_inside.bytes_per_us, inside.bytes_per_us);
}

TEST(PhysicalCurve, PairwiseLinksAreThoseBetweenMembers) {
  const Topology pairs = testing_support::pairwise_topology();
  const auto host = [&](Collective kind, const GroupSpan& group) {
    return physical_group(kind, group, pairs).host;
  };
  EXPECT_EQ(host(Collective::kAllReduce, span(2, 1)), GBps(64));
  EXPECT_EQ(host(Collective::kAllReduce, span(4, 1)), GBps(192));
  EXPECT_EQ(host(Collective::kAllReduce, span(8, 1)), GBps(448));
  EXPECT_EQ(host(Collective::kSendRecv, span(8, 1)), GBps(64));
  EXPECT_EQ(host(Collective::kAllReduce, span(4, 2)), GBps(64)) << "two members on each host";
  EXPECT_EQ(host(Collective::kAllReduce, span(16, 2)), GBps(448));
}

// The hosts of a rack that NVLink joins are one domain.
TEST(PhysicalCurve, ARackOfNvlinkIsOneDomain) {
  GroupSpan group = span(8, 2);
  group.domains = 1;
  const PhysicalGroup rack = physical_group(Collective::kAllReduce, group, domain_topology(72));
  EXPECT_EQ(rack.domains, 1);
  EXPECT_EQ(rack.host, GBps(450));
  EXPECT_EQ(physical_group(Collective::kAllReduce, group, topology_with(4)).domains, 2);
}

}  // namespace physical_curve_test
}  // namespace shardlab

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
  EXPECT_NEAR(curve.bytes_per_us, 0.8 * 450e3 / (2 * 15.0 / 16), 1e-6) << "NVLink bounds it";
  const PhysicalCurve two = curve_of(Collective::kAllReduce, span(2, 2), topology_with(8));
  EXPECT_NEAR(two.bytes_per_us, 0.85 * 50e3, 1e-6);
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

#include "costmodel/topology.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace topology_test {

using nlohmann::json;
using testing_support::domain_topology;
using testing_support::topology_json;
using testing_support::topology_with;

Topology read(const json& value) { return Topology::from_json(value, {"t.json", ""}); }

TEST(Topology, ReadsWhatTheFileSays) {
  const Topology topology = topology_with(8);
  EXPECT_EQ(topology.name(), "test");
  EXPECT_EQ(topology.source(), "tests");
  EXPECT_EQ(topology.devices_per_host(), 8);
  ASSERT_EQ(topology.links().size(), 2U);
  EXPECT_EQ(topology.links()[0].latency.value(), 0.6);
  EXPECT_EQ(topology.links()[1].bandwidth.value(), 50.0);
  EXPECT_EQ(topology.device().memory_bandwidth.value(), 3350.0);
  EXPECT_EQ(topology.device().memory_gib, 74.5);
  EXPECT_EQ(topology.device().launch.value(), 7.0);
}

TEST(Topology, ADTypeWithoutItsOwnPeakHasTheDefault) {
  const Topology topology = topology_with(8);
  EXPECT_EQ(topology.peak(DType::kBF16).value(), 989.0);
  EXPECT_EQ(topology.peak(DType::kI32).value(), 67.0);
}

TEST(Topology, WithoutADomainTheDomainIsTheHost) {
  EXPECT_EQ(topology_with(8).domain_devices(), 8);
  EXPECT_EQ(domain_topology(72).domain_devices(), 72);
}

TEST(Topology, ToJsonReadsBackToTheSame) {
  for (const Topology& topology : {topology_with(8), domain_topology(72)}) {
    EXPECT_EQ(read(topology.to_json()), topology);
    EXPECT_EQ(read(topology.to_json()).to_json(), topology.to_json());
  }
}

TEST(Topology, ToJsonKeepsTheDomainOnlyWhereTheFileHadOne) {
  EXPECT_FALSE(topology_with(8).to_json().contains("domain_devices"));
  EXPECT_EQ(domain_topology(72).to_json()["domain_devices"], 72);
}

TEST(Topology, TheGpuIsTheTopologysNameUnlessTheFileSaysWhich) {
  EXPECT_EQ(topology_with(8).gpu(), "test");
  json value = topology_json(8);
  value["device"]["gpu"] = "h100";
  EXPECT_EQ(read(value).gpu(), "h100");
  EXPECT_EQ(read(value).to_json(), value);
}

TEST(Topology, ToJsonKeepsTheTitle) {
  json value = topology_json(8);
  value["title"] = "a machine";
  EXPECT_EQ(read(value).to_json()["title"], "a machine");
}

TEST(Link, AGroupInOneHostUsesTheInnerLevel) {
  const Topology topology = topology_with(8);
  EXPECT_EQ(topology.link({.ranks = 8, .hosts = 1, .extent = 8}).name, "nvlink");
  EXPECT_EQ(topology.link({.ranks = 1}).name, "nvlink");
}

TEST(Link, AGroupOverTwoHostsUsesTheNetwork) {
  EXPECT_EQ(topology_with(8).link({.ranks = 2, .hosts = 2, .domains = 2, .extent = 9}).name,
            "network");
}

TEST(Link, ADomainJoinsSeveralHosts) {
  // With hosts of 4 devices in a domain of 72, 8 ranks on 2 hosts still talk over NVLink, but 144
  // ranks do not.
  const Topology gb200 = domain_topology(72);
  EXPECT_EQ(gb200.link({.ranks = 8, .hosts = 2, .domains = 1, .ranks_per_host = 4}).name, "nvlink");
  EXPECT_EQ(gb200.link({.ranks = 144, .hosts = 36, .domains = 2, .ranks_per_host = 4}).name,
            "network");
}

// Hosts of two sockets, each with two PCIe switches of 2 devices; rails of 4 hosts; a spine at half
// its rate.
json layered_json() {
  json value = topology_json(8);
  const auto level = [](const char* name, const char* joins, double bandwidth) {
    return json{
        {"name", name}, {"joins", joins}, {"latency_us", 1.0}, {"bandwidth_gb_per_s", bandwidth}};
  };
  value["links"] = {level("switch", "pcie", 50), level("cpu", "socket", 25),
                    level("qpi", "host", 20), level("rail", "rail", 12), level("spine", "all", 12)};
  value["links"][0]["devices"] = 2;
  value["links"][1]["devices"] = 4;
  value["links"][2]["kind"] = "pcie";
  value["links"][3]["devices"] = 32;
  value["links"][4]["oversubscription"] = 2.0;
  value["nics_per_host"] = 4;
  value["device"]["compute_capability"] = 80;
  return value;
}

TEST(LayeredTopology, ToJsonReadsBackToTheSame) {
  const Topology layered = read(layered_json());
  EXPECT_EQ(layered.to_json(), layered_json());
  EXPECT_EQ(read(layered.to_json()), layered);
  EXPECT_EQ(layered.nics_per_host(), 4);
  EXPECT_EQ(layered.device().compute_capability, 80);
  EXPECT_EQ(layered.host_link().name, "qpi");
}

TEST(LayeredTopology, OversubscriptionDividesTheBandwidth) {
  const Topology layered = read(layered_json());
  EXPECT_EQ(layered.links()[4].bandwidth.value(), 6.0);
  EXPECT_EQ(layered.links()[4].nominal_bandwidth.value(), 12.0);
}

TEST(LayeredTopology, PartsOfAHostUseTheLevelThatJoinsThem) {
  const Topology layered = read(layered_json());
  const auto level = [&](std::int64_t ranks, std::int64_t extent) {
    return layered.link({.ranks = ranks, .ranks_per_host = ranks, .extent = extent}).name;
  };
  EXPECT_EQ(level(2, 2), "switch");
  EXPECT_EQ(level(4, 4), "cpu");
  EXPECT_EQ(level(8, 8), "qpi");
  // Every other device, such as 0 and 2, may be in one socket or not: an extent of 3 divides no
  // block.
  EXPECT_EQ(level(2, 3), "qpi");
  EXPECT_EQ(level(3, 3), "qpi");
}

TEST(LayeredTopology, DevicesInTheSamePlaceOfTheirHostsShareARail) {
  const Topology layered = read(layered_json());
  const auto level = [&](std::int64_t ranks, std::int64_t hosts, std::int64_t extent) {
    return layered
        .link({.ranks = ranks,
               .hosts = hosts,
               .domains = hosts,
               .ranks_per_host = ranks / hosts,
               .extent = extent})
        .name;
  };
  EXPECT_EQ(level(4, 4, 25), "rail");   // one device of every host
  EXPECT_EQ(level(2, 2, 17), "rail");   // one device of every second host
  EXPECT_EQ(level(8, 8, 57), "spine");  // on more hosts than a rail joins
  EXPECT_EQ(level(16, 2, 16), "rail");  // whole hosts, so that a ring stays on its rails
  EXPECT_EQ(level(64, 8, 64), "spine");
  EXPECT_EQ(level(4, 2, 13), "rail");   // devices 0 and 4 of two hosts
  EXPECT_EQ(level(16, 4, 31), "rail");  // every second device of four hosts
  EXPECT_EQ(level(4, 2, 10), "spine");  // devices 0 and 1, so far as a span tells
  EXPECT_EQ(level(8, 2, 12), "spine");  // the same four devices of two hosts
  EXPECT_EQ(level(2, 2, 10), "spine");  // another position on the second host
}

TEST(Topology, AGroupHasTheLinksBetweenItsMembers) {
  const Topology pairs = testing_support::pairwise_topology();
  const LinkLevel& level = pairs.host_link();
  constexpr Collective kRing = Collective::kAllReduce;
  EXPECT_EQ(pairs.bandwidth(level, kRing, 2), GBps(64));
  EXPECT_EQ(pairs.bandwidth(level, kRing, 4), GBps(192));
  EXPECT_EQ(pairs.bandwidth(level, kRing, 8), GBps(448));
  EXPECT_EQ(pairs.bandwidth(level, kRing, 16), GBps(448)) << "there are no more links";
  EXPECT_EQ(pairs.bandwidth(level, Collective::kSendRecv, 8), GBps(64)) << "one link of a ring";
  EXPECT_EQ(pairs.bandwidth(level, kRing, 1), GBps(448)) << "nothing is sent";
  EXPECT_EQ(read(pairs.to_json()), pairs);
  const Topology switched = topology_with(8);
  EXPECT_EQ(switched.bandwidth(switched.host_link(), kRing, 2), GBps(450));
}

// What a file says of each level, or nothing.
struct Reduction {
  const char* name;
  std::int64_t capability;
  const char* inner;  // the link of the host, as a JSON merge patch
  const char* outer;  // the network
  bool host_reduces;
  bool network_reduces;
};
void PrintTo(const Reduction& c, std::ostream* out) { *out << c.name; }
class Reductions : public testing::TestWithParam<Reduction> {};

TEST_P(Reductions, FollowTheFileOrElseTheDevice) {
  json value = topology_json(8);
  value["device"]["compute_capability"] = GetParam().capability;
  value["links"][0].merge_patch(json::parse(GetParam().inner));
  value["links"][1].merge_patch(json::parse(GetParam().outer));
  const Topology topology = read(value);
  EXPECT_EQ(topology.links()[0].reduces, GetParam().host_reduces);
  EXPECT_EQ(topology.links()[1].reduces, GetParam().network_reduces);
  EXPECT_EQ(topology.to_json(), value) << "what the file does not say is not written";
  EXPECT_EQ(read(topology.to_json()), topology);
}

INSTANTIATE_TEST_SUITE_P(
    All, Reductions,
    testing::Values(Reduction{"HopperHasNvls", 90, "{}", "{}", true, false},
                    Reduction{"BlackwellHasNvls", 103, "{}", "{}", true, false},
                    Reduction{"AmpereHasNone", 80, "{}", "{}", false, false},
                    Reduction{"NvlinkAloneHasNone", 90, R"({"kind": "nvlink"})", "{}", false,
                              false},
                    Reduction{"NvlsOff", 90, R"({"reduces": false})", "{}", false, false},
                    Reduction{"NvlsStated", 90, R"({"reduces": true})", "{}", true, false},
                    Reduction{"Sharp", 80, "{}", R"({"reduces": true})", false, true},
                    Reduction{"NoSharp", 80, R"({"kind": "pcie", "reduces": false})",
                              R"({"reduces": false})", false, false}),
    [](const auto& test) { return std::string(test.param.name); });

// Like the models, a topology takes a device without a compute capability for a Hopper.
TEST(Topology, WithoutAComputeCapabilityNvswitchReduces) {
  EXPECT_TRUE(topology_with(8).links()[0].reduces);
}

struct TopologyError {
  const char* name;
  const char* patch;  // a JSON merge patch of the valid file
  const char* message;
};
void PrintTo(const TopologyError& c, std::ostream* out) { *out << c.patch; }
class TopologyErrors : public testing::TestWithParam<TopologyError> {};

TEST_P(TopologyErrors, AreTheseWordForWord) {
  json value = topology_json(8);
  value.merge_patch(json::parse(GetParam().patch));
  EXPECT_THROW_MSG(read(value), ConfigError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, TopologyErrors,
    testing::Values(
        TopologyError{"OtherSchema", R"({"schema": "shardlab/stack/1"})",
                      "t.json:/schema: found \"shardlab/stack/1\"; valid: "
                      "\"shardlab/topology/1\""},
        TopologyError{"NoSource", R"({"source": null})", "t.json: missing key \"source\""},
        TopologyError{"NoDevices", R"({"devices_per_host": 0})",
                      "t.json:/devices_per_host: found 0; valid: an integer from 1 to "
                      "1099511627776"},
        TopologyError{"HalfADevice", R"({"devices_per_host": 7.5})",
                      "t.json:/devices_per_host: found 7.5; valid: an integer from 1 to "
                      "1099511627776"},
        TopologyError{"NoLinks", R"({"links": []})",
                      "t.json:/links: the last link level must join \"all\" ranks"},
        TopologyError{"LastLinkJoinsAHost",
                      R"({"links": [{"name": "n", "joins": "host", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
                      "t.json:/links: the last link level must join \"all\" ranks"},
        TopologyError{
            "LevelsOutOfOrder",
            R"({"links": [{"name": "a", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1},
                                    {"name": "b", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
            "t.json:/links/1: found a level that joins \"all\" after one that joins \"all\"; "
            "valid: each once, from inner to outer: pcie, socket, host, domain, rail, all"},
        TopologyError{
            "UnknownScope",
            R"({"links": [{"name": "a", "joins": "rack", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
            "t.json:/links/0/joins: found \"rack\"; valid: pcie, socket, host, domain, rail, all"},
        TopologyError{"MisspeltKeyInALink",
                      R"({"links": [{"name": "a", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "bandwith_gb_per_s": 2}]})",
                      "t.json:/links/0/bandwith_gb_per_s: unknown key (did you mean "
                      "\"bandwidth_gb_per_s\"?); valid: name, joins, latency_us, "
                      "bandwidth_gb_per_s, kind, oversubscription, reduces, pairwise"},
        TopologyError{
            "ASwitchThatJoinsPairs",
            R"({"links": [{"name": "a", "joins": "host", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "pairwise": true},
                                    {"name": "b", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
            "t.json:/links/0/pairwise: found true on a level of kind \"nvswitch\" "
            "that joins \"host\"; valid: true on a level of kind \"nvlink\" that joins at "
            "most \"domain\""},
        TopologyError{"ReductionIsNoBoolean",
                      R"({"links": [{"name": "a", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "reduces": 1}]})",
                      "t.json:/links/0/reduces: found 1; valid: true or false"},
        TopologyError{"PcieThatReduces",
                      R"({"links": [{"name": "a", "joins": "host", "latency_us": 1, "kind": "pcie",
                                     "bandwidth_gb_per_s": 1, "reduces": true},
                                    {"name": "b", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
                      "t.json:/links/0/reduces: found true on a level of kind \"pcie\"; valid: "
                      "true on a network, and on an nvswitch from compute capability 90 on"},
        TopologyError{"AnAmpereSwitchThatReduces",
                      R"({"device": {"compute_capability": 80},
                          "links": [{"name": "a", "joins": "host", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "reduces": true},
                                    {"name": "b", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
                      "t.json:/links/0/reduces: found true on an nvswitch of compute capability "
                      "80; valid: true on a network, and on an nvswitch from compute capability "
                      "90 on"},
        TopologyError{"UnknownKind",
                      R"({"links": [{"name": "a", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "kind": "wire"}]})",
                      "t.json:/links/0/kind: found \"wire\"; valid: nvlink, nvswitch, pcie, "
                      "network"},
        TopologyError{"APartOfAHostOfNoSize",
                      R"({"links": [{"name": "a", "joins": "pcie", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
                      "t.json:/links/0: missing key \"devices\""},
        TopologyError{"APartOfAHostAboveTheHost",
                      R"({"links": [{"name": "a", "joins": "socket", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "devices": 9}]})",
                      "t.json:/links/0/devices: found 9; valid: an integer from 1 to 8"},
        TopologyError{"BlocksThatDoNotFillAHost",
                      R"({"links": [{"name": "a", "joins": "pcie", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "devices": 3},
                                    {"name": "b", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
                      "t.json:/links/0/devices: found 3; valid: a divisor of 8, the devices of a "
                      "host"},
        TopologyError{"BlocksThatDoNotFillTheNextOnes",
                      R"({"links": [{"name": "a", "joins": "pcie", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "devices": 4},
                                    {"name": "b", "joins": "socket", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "devices": 2},
                                    {"name": "c", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
                      "t.json:/links/0/devices: found 4; valid: a divisor of 2, the devices of the "
                      "next level"},
        TopologyError{"TwoLevelsOfOneName",
                      R"({"links": [{"name": "a", "joins": "host", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1},
                                    {"name": "a", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1}]})",
                      "t.json:/links/1/name: found \"a\", the name of an inner level; valid: a "
                      "name of its own"},
        TopologyError{"ADomainThatNoLevelJoins", R"({"domain_devices": 72})",
                      "t.json:/domain_devices: found 72, but no level of links joins \"domain\"; "
                      "valid: such a level, or no domain_devices"},
        TopologyError{
            "ADomainOfPartsOfHosts", R"({"domain_devices": 12})",
            "t.json:/domain_devices: found 12; valid: a multiple of devices_per_host (8), "
            "since a domain is made of whole hosts"},
        TopologyError{"AGpuWithoutAName", R"({"device": {"gpu": ""}})",
                      "t.json:/device/gpu: found \"\"; valid: the name of a GPU, or no such key"},
        TopologyError{"NoMemory", R"({"device": {"memory_gib": 0}})",
                      "t.json:/device/memory_gib: found 0; valid: a number from 1e-06 to 1e+09"},
        TopologyError{"OversubscribedBelowOne",
                      R"({"links": [{"name": "a", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 1, "oversubscription": 0.5}]})",
                      "t.json:/links/0/oversubscription: found 0.5; valid: a number from 1 to "
                      "1e+06"},
        TopologyError{"ZeroBandwidth",
                      R"({"links": [{"name": "a", "joins": "all", "latency_us": 1,
                                     "bandwidth_gb_per_s": 0}]})",
                      "t.json:/links/0/bandwidth_gb_per_s: found 0; valid: a number from 1e-06 "
                      "to 1e+09"},
        TopologyError{"NegativeLaunch", R"({"device": {"launch_us": -1}})",
                      "t.json:/device/launch_us: found -1; valid: a number from 0 to 1e+09"},
        TopologyError{"PeaksAreNoObject", R"({"device": {"peak_tflops": 67}})",
                      "t.json:/device/peak_tflops: found 67; valid: an object"},
        TopologyError{"NoDefaultPeak", R"({"device": {"peak_tflops": {"default": null}}})",
                      "t.json:/device/peak_tflops: missing key \"default\""},
        TopologyError{"PeakOfAnUnknownDType", R"({"device": {"peak_tflops": {"fp16": 1}}})",
                      "t.json:/device/peak_tflops/fp16: unknown dtype; valid: default f64 f32 f16 "
                      "bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 b8 u64 c64 f4e2m1 tf32"},
        TopologyError{"UnknownKeyAtTheTop", R"({"device_per_host": 8})",
                      "t.json:/device_per_host: unknown key (did you mean \"devices_per_host\"?); "
                      "valid: schema, name, title, source, devices_per_host, domain_devices, "
                      "nics_per_host, links, device"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace topology_test
}  // namespace shardlab

// NCCL's topology XML: the topology that it becomes, and every error word for word.
#include "costmodel/measurements/topology_xml.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace topology_xml_test {

using testing_support::topology_with;

std::string seed(const std::string& name) {
  std::ifstream file(SHARDLAB_SOURCE_DIR "/tests/fuzz/corpus/xml_fuzz/" + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

NcclTopology read_noted(const std::string& text) {
  nlohmann::json h200 = testing_support::topology_json(8);
  h200["name"] = "h200";
  h200["device"]["memory_gib"] = 131.0;
  const std::vector<Topology> known = {topology_with(8),
                                       Topology::from_json(h200, {"h200.json", ""})};
  return topology_of_nccl_xml(text, "dumps/host.xml", known);
}
Topology read(const std::string& text) { return read_noted(text).topology; }

// A host of GPUs, each on a CPU of its own: `gpus` holds what stands inside each <gpu>. GPU i is on
// bus 0000:0i:00.0.
std::string host_of(const std::vector<std::string>& gpus, const std::string& attributes = "") {
  std::string text = "<system version=\"1\"><cpu vendor=\"AuthenticAMD\" arch=\"x86_64\">";
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    text += "<pci busid=\"0000:0" + std::to_string(i) +
            ":00.0\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"" + attributes +
            "><gpu dev=\"" + std::to_string(i) + "\" sm=\"80\">" + gpus[i] + "</gpu></pci>";
  }
  return text + "</cpu></system>";
}
std::string bridge_to(int gpu) {
  return "<nvlink target=\"0000:0" + std::to_string(gpu) +
         ":00.0\" count=\"12\" tclass=\"0x030200\"/>";
}

TEST(NcclXml, AHostOfEightOnNvswitch) {
  const Topology h100 = read(seed("h100"));
  EXPECT_EQ(h100.name(), "host");
  EXPECT_EQ(h100.devices_per_host(), 8);
  EXPECT_EQ(h100.domain_devices(), 8);
  EXPECT_EQ(h100.nics_per_host(), 8);  // the slow interface is left out
  EXPECT_EQ(h100.device().compute_capability, 90);
  ASSERT_EQ(h100.links().size(), 2U);
  EXPECT_EQ(h100.links()[0].joins, LinkScope::kHost);
  EXPECT_EQ(h100.links()[0].kind, LinkKind::kNvswitch);
  EXPECT_EQ(h100.links()[0].bandwidth.value(), 450.0);
  EXPECT_EQ(h100.links()[1].bandwidth.value(), 50.0);
  EXPECT_EQ(h100.device().memory_gib, 74.5);
  EXPECT_EQ(
      h100.source(),
      "NCCL's topology XML dumps/host.xml; memory, peak rates and launch of the topology "
      "test, whose GPU is the most similar one; latencies: NCCL's tuning constants (ring, LL)");
}

// Four A100-PCIe in two pairs, as Azure's NC96ads_A100_v4 has them.
TEST(NcclXml, BridgesBetweenPairsAreALevelBelowTheHost) {
  const Topology pairs = read(host_of({bridge_to(1), bridge_to(0), bridge_to(3), bridge_to(2)}));
  ASSERT_EQ(pairs.links().size(), 3U);
  EXPECT_EQ(pairs.links()[0].devices, 2);
  EXPECT_EQ(pairs.links()[0].kind, LinkKind::kNvlink);
  EXPECT_EQ(pairs.links()[0].bandwidth.value(), 300.0);
  EXPECT_EQ(pairs.links()[1].joins, LinkScope::kHost);
  EXPECT_EQ(pairs.links()[1].kind, LinkKind::kPcie);
  EXPECT_NEAR(pairs.links()[1].bandwidth.value(), 16.0 * 16 / 8 * 128 / 130, 1e-9);
}

TEST(NcclXml, BridgesThatJoinNoBlocksAreLeftOutWithANote) {
  const NcclTopology crossed =
      read_noted(host_of({bridge_to(2), bridge_to(3), bridge_to(0), bridge_to(1)}));
  ASSERT_EQ(crossed.topology.links().size(), 2U);
  EXPECT_EQ(crossed.topology.links()[0].kind, LinkKind::kPcie);
  ASSERT_EQ(crossed.notes.size(), 2U);
  EXPECT_EQ(crossed.notes[1],
            "dumps/host.xml: NVLinks join some GPUs of a host that are no blocks of consecutive "
            "devices; they are left out, and all GPUs are joined by PCIe");
}

TEST(NcclXml, BridgesThatJoinAllGpusJoinTheHost) {
  const Topology ring = read(host_of({bridge_to(1) + bridge_to(2), bridge_to(0) + bridge_to(3),
                                      bridge_to(0) + bridge_to(3), bridge_to(1) + bridge_to(2)}));
  ASSERT_EQ(ring.links().size(), 2U);
  EXPECT_EQ(ring.links()[0].kind, LinkKind::kNvlink);
  EXPECT_EQ(ring.links()[0].bandwidth.value(), 600.0);
  EXPECT_FALSE(ring.links()[0].pairwise) << "two corners have no bridge";
}

// Every two of four GPUs have a bridge of their own, so that two of them have one of three.
TEST(NcclXml, GpusThatAreAllJoinedWithoutASwitchAreJoinedPairwise) {
  const Topology all = read(host_of(
      {bridge_to(1) + bridge_to(2) + bridge_to(3), bridge_to(0) + bridge_to(2) + bridge_to(3),
       bridge_to(0) + bridge_to(1) + bridge_to(3), bridge_to(0) + bridge_to(1) + bridge_to(2)}));
  EXPECT_TRUE(all.links()[0].pairwise);
  EXPECT_EQ(all.bandwidth(all.links()[0], Collective::kAllReduce, 2), GBps(300));
  EXPECT_EQ(all.bandwidth(all.links()[0], Collective::kAllReduce, 4), GBps(900));
}

// What RCCL writes of one GPU: "sm" is the number of its compute units, and links to some others.
std::string amd_gpu(int gpu, const std::string& device, const std::string& gcn,
                    const std::vector<int>& joined_to) {
  std::string text = "<pci busid=\"0000:0" + std::to_string(gpu) + ":00.0\" vendor=\"0x1002\"" +
                     device + " link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" +
                     std::to_string(gpu) + "\" sm=\"304\" gcn=\"" + gcn + "\">";
  for (const int other : joined_to) {
    text += "<xgmi target=\"0000:0" + std::to_string(other) +
            ":00.0\" count=\"1\" tclass=\"0x120000\"/>";
  }
  return text + "</gpu></pci>";
}
// A host in which each GPU has a link to every other one of its block of so many.
std::string amd_host(int gpus, int block, const std::string& device, const std::string& gcn) {
  std::string text = "<system version=\"2\"><cpu vendor=\"AuthenticAMD\" arch=\"x86_64\">";
  for (int gpu = 0; gpu < gpus; ++gpu) {
    std::vector<int> others;
    for (int other = gpu / block * block; other < (gpu / block + 1) * block; ++other) {
      if (other != gpu) others.push_back(other);
    }
    text += amd_gpu(gpu, device, gcn, others);
  }
  return text + "</cpu></system>";
}
NcclTopology read_beside_mi300x(const std::string& text) {
  std::ifstream file(SHARDLAB_SOURCE_DIR "/configs/topologies/mi300x.json");
  const std::vector<Topology> known = {
      topology_with(8), Topology::from_json(nlohmann::json::parse(file), {"mi300x.json", ""})};
  return topology_of_nccl_xml(text, "dumps/host.xml", known);
}

TEST(RcclXml, AHostOfMi300xHasTheFiguresAndLinksOfTheShippedTopology) {
  const NcclTopology read = read_beside_mi300x(amd_host(8, 8, R"( device="0x74a1")", "gfx942"));
  EXPECT_TRUE(read.notes.empty());
  EXPECT_EQ(read.topology.gpu(), "mi300x");
  EXPECT_EQ(read.topology.device().compute_capability, 94);
  const LinkLevel& host = read.topology.links().front();
  EXPECT_EQ(host.name, "xgmi");
  EXPECT_EQ(host.kind, LinkKind::kNvlink);
  EXPECT_EQ(host.joins, LinkScope::kHost);
  EXPECT_TRUE(host.pairwise);
  EXPECT_EQ(host.bandwidth, GBps(448));
  EXPECT_EQ(host.latency, Micros(0.6));
  EXPECT_EQ(read.topology.source(),
            "RCCL's topology XML dumps/host.xml; memory, peak rates and launch of the topology "
            "mi300x; rate of a link from the topology mi300x; latencies: NCCL's tuning constants "
            "(ring, LL); network assumed: the XML has none");
}

// An older architecture, under the number that RCCL once wrote for it, in two blocks of four GPUs.
TEST(RcclXml, OlderGpusHaveTheLinkRateOfRcclAndTheFiguresOfMi300xWithANote) {
  const NcclTopology read = read_beside_mi300x(amd_host(8, 4, R"( device="0x740C")", "910"));
  EXPECT_EQ(read.topology.gpu(), "mi250x");
  EXPECT_EQ(read.topology.device().compute_capability, 94);
  const LinkLevel& block = read.topology.links().front();
  EXPECT_EQ(block.devices, 4);
  EXPECT_TRUE(block.pairwise);
  EXPECT_EQ(block.bandwidth, GBps(3 * 36.0));
  ASSERT_EQ(read.notes.size(), 1U);
  EXPECT_TRUE(read.notes[0].starts_with(
      "dumps/host.xml has the GPU mi250x, of which no topology is shipped: memory, peak rates and "
      "launch are those of mi300x, which is the most similar;"))
      << read.notes[0];
  EXPECT_NE(read.topology.source().find("rate of a link from RCCL's topo.h"), std::string::npos);
}

TEST(RcclXml, AnArchitectureWithoutADeviceNumberIsNamedInTheNote) {
  const NcclTopology read = read_beside_mi300x(amd_host(2, 2, "", "gfx906:sramecc+"));
  EXPECT_EQ(read.topology.links().front().bandwidth, GBps(24));
  ASSERT_EQ(read.notes.size(), 1U);
  EXPECT_TRUE(
      read.notes[0].starts_with("dumps/host.xml has a GPU of the architecture gfx906, but "
                                "does not say which: memory"))
      << read.notes[0];
}

TEST(NcclXml, NvlinksToACpuJoinNoGpus) {
  const std::string to_cpu = R"(<nvlink target="0004:04:00.0" count="3" tclass="0x060400"/>)";
  EXPECT_EQ(read(host_of({to_cpu, to_cpu})).links()[0].kind, LinkKind::kPcie);
}

TEST(NcclXml, ASlotThatIsSlowerThanItsInterfacesCounts) {
  const auto network = [](const std::string& slot, const std::string& interfaces) {
    return read("<system><cpu><gpu sm=\"90\"/><pci busid=\"0000:40:00.0\" " + slot + "><nic>" +
                interfaces + "</nic></pci></cpu></system>")
        .links()
        .back()
        .bandwidth.value();
  };
  const std::string net = R"(<net speed="400000"/>)";
  EXPECT_NEAR(network(R"(link_speed="8.0 GT/s PCIe" link_width="16")", net),
              8.0 * 16 / 8 * 128 / 130, 1e-9);
  EXPECT_EQ(network(R"(link_speed="32.0 GT/s PCIe" link_width="16")", net), 50.0);
  EXPECT_NEAR(network(R"(link_speed="32.0 GT/s PCIe" link_width="16")", net + net),
              32.0 * 16 / 8 * 128 / 130, 1e-9)
      << "two ports share a slot";
  EXPECT_EQ(network("", net), 50.0) << "a slot of unknown speed";
  EXPECT_EQ(network(R"(link_speed="8.0 GT/s PCIe" link_width="16")",
                    R"(<net speed="10000"/><net speed="100000"/>)"),
            12.5)
      << "slow interfaces are left out";
}

// The dump is that of a virtual machine: eth0 is no PCI device, and both CPUs list it.
TEST(NcclXml, AVirtualInterfaceOfTwoCpusCountsOnce) {
  const auto host = [](const std::string& hash, const std::string& first,
                       const std::string& second) {
    const std::string cpu = "<cpu host_hash=\"" + hash + "\">";
    return cpu + "<gpu sm=\"90\"/><nic><net name=\"" + first + "\" speed=\"10000\"/></nic></cpu>" +
           cpu + "<gpu sm=\"90\"/><nic><net name=\"" + second + "\" speed=\"10000\"/></nic></cpu>";
  };
  const Topology shared = read("<system>" + host("0x1", "eth0", "eth0") + "</system>");
  EXPECT_EQ(shared.nics_per_host(), 1);
  EXPECT_EQ(shared.links().back().bandwidth, GBps(1.25 / 2));
  const Topology two = read("<system>" + host("0x1", "eth0", "eth1") + "</system>");
  EXPECT_EQ(two.nics_per_host(), 2);
  EXPECT_EQ(two.links().back().bandwidth, GBps(2.5 / 2));
  const Topology hosts =
      read("<system>" + host("0x1", "eth0", "eth0") + host("0x2", "eth0", "eth0") + "</system>");
  EXPECT_EQ(hosts.nics_per_host(), 1);
  EXPECT_EQ(hosts.links().back().bandwidth, GBps(1.25 / 2)) << "each host has its own";
}

TEST(NcclXml, TheDeviceOfAKnownGpuIsThatOfItsTopology) {
  const NcclTopology h200 = read_noted(host_of({"", ""}, R"( device="0x2335")"));
  EXPECT_EQ(h200.topology.device().memory_gib, 131.0);
  EXPECT_EQ(h200.topology.gpu(), "h200");
  EXPECT_TRUE(h200.notes.empty());
  EXPECT_NE(h200.topology.source().find("launch of the topology h200;"), std::string::npos);
}

TEST(NcclXml, AGpuWithoutATopologyIsSaidToHaveFiguresOfAnother) {
  const std::string figures =
      ": memory, peak rates and launch are those of test, which is the most similar; set those of "
      "your GPU with --set device.memory_gib=..., device.memory_bandwidth_gb_per_s, "
      "device.peak_tflops.bf16 and its other dtypes, and device.multiprocessors";
  const NcclTopology l40s = read_noted(host_of({""}, R"( device="0x26b9")"));
  EXPECT_EQ(l40s.topology.gpu(), "l40s");
  EXPECT_EQ(l40s.notes,
            std::vector<std::string>{
                "dumps/host.xml has the GPU l40s, of which no topology is shipped" + figures});
  const NcclTopology unknown = read_noted(host_of({""}, R"( device="0xFFFF")"));
  EXPECT_EQ(unknown.topology.gpu(), "host");
  EXPECT_EQ(unknown.notes,
            std::vector<std::string>{
                "dumps/host.xml has a GPU that is not known, of the PCI device 0xffff" + figures +
                ", and name it with device.gpu"});
  EXPECT_EQ(read_noted(host_of({""})).notes,
            std::vector<std::string>{"dumps/host.xml does not say which GPU it has" + figures +
                                     ", and name it with device.gpu"});
}

// A topology from the XML of a DGX H100 has the same prices as one from the shipped figures.
TEST(NcclXml, PricesAsTheSameFiguresInJson) {
  const auto of_xml = testing_support::collective_model("nccl", read(seed("h100")));
  const auto of_json = testing_support::collective_model("nccl", topology_with(8));
  for (const std::int64_t hosts : {1, 2, 8}) {
    const CollectiveQuery query{Collective::kAllReduce,
                                1e7,
                                {.ranks = 8 * hosts,
                                 .hosts = hosts,
                                 .domains = hosts,
                                 .ranks_per_host = 8,
                                 .extent = 8 * hosts}};
    EXPECT_EQ(of_xml->price(query).total, of_json->price(query).total);
  }
}

TEST(NcclXml, WithoutNvlinkTheSocketsAreLevels) {
  const Topology pcie = read(seed("pcie"));
  EXPECT_EQ(pcie.devices_per_host(), 4);
  EXPECT_EQ(pcie.nics_per_host(), 1);
  ASSERT_EQ(pcie.links().size(), 3U);
  EXPECT_EQ(pcie.links()[0].joins, LinkScope::kSocket);
  EXPECT_EQ(pcie.links()[0].devices, 2);
  EXPECT_EQ(pcie.links()[0].kind, LinkKind::kPcie);
  EXPECT_NEAR(pcie.links()[0].bandwidth.value(), 32.0 * 16 / 8 * 128 / 130, 1e-9);
  EXPECT_EQ(pcie.links()[1].bandwidth.value(), 16.0);
  EXPECT_EQ(pcie.links()[2].bandwidth.value(), 12.5 / 4);
}

// The GB/s of NCCL between two sockets of this CPU. PCIe of 63 GB/s is faster than each of them.
double socket_gbps(const std::string& cpu) {
  std::string text = "<system>";
  for (int socket = 0; socket < 2; ++socket) {
    text += "<cpu " + cpu + "><pci link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">";
    for (int gpu = 0; gpu < 2; ++gpu) {
      text += "<gpu dev=\"" + std::to_string(2 * socket + gpu) + "\" sm=\"89\"/>";
    }
    text += "</pci></cpu>";
  }
  return read(text + "</system>").links()[1].bandwidth.value();
}

TEST(NcclXml, SocketsOfIntelAreAsFastAsTheirModel) {
  const auto intel = [](const std::string& attributes) {
    return socket_gbps(R"(arch="x86_64" vendor="GenuineIntel" )" + attributes);
  };
  EXPECT_EQ(intel(R"(familyid="6" modelid="84")"), 6.0);
  EXPECT_EQ(intel(R"(familyid="6" modelid="85")"), 10.0) << "Skylake-SP";
  EXPECT_EQ(intel(R"(familyid="6" modelid="142")"), 10.0);
  EXPECT_EQ(intel(R"(familyid="6" modelid="143")"), 22.0) << "Sapphire Rapids";
  EXPECT_EQ(intel(R"(familyid="6" modelid="206")"), 22.0);
  EXPECT_EQ(intel(R"(familyid="6" modelid="207")"), 40.0) << "Emerald Rapids";
  EXPECT_EQ(intel(R"(familyid="15" modelid="207")"), 6.0);
  EXPECT_EQ(intel(""), 10.0) << "a model that the XML does not name";
  EXPECT_EQ(socket_gbps(R"(arch="x86_64" vendor="AuthenticAMD" familyid="6" modelid="207")"), 16.0);
  EXPECT_EQ(socket_gbps(R"(arch="arm64")"), 6.0);
}

TEST(NcclXml, HostsOfOneNvlinkDomainAreToldApart) {
  const Topology domain = read(seed("domain"));
  EXPECT_EQ(domain.devices_per_host(), 4);
  EXPECT_EQ(domain.domain_devices(), 8);
  EXPECT_EQ(domain.links()[0].joins, LinkScope::kDomain);
  EXPECT_EQ(domain.links()[0].bandwidth.value(), 900.0);
  EXPECT_EQ(domain.nics_per_host(), 4);
}

TEST(NcclXml, WithoutInterfacesTheNetworkIsAssumedAndTheSourceSaysSo) {
  const Topology alone = read("<system version=\"1\"><cpu><gpu sm=\"80\"/></cpu></system>");
  EXPECT_EQ(alone.links().back().bandwidth.value(), 12.0);
  EXPECT_TRUE(alone.source().ends_with("; network assumed: the XML has none"));
}

TEST(Xml, KeepsAttributesElementsAndLines) {
  const XmlElement root = parse_xml(
      "<?xml version='1.0'?>\n<!-- a > b -->\n<a x = '1'\n y=\"&lt;&amp;&quot;&nbsp;\">text"
      "<b/><c>\n<d/></c></a>\n",
      "x.xml");
  EXPECT_EQ(root.name, "a");
  EXPECT_EQ(root.line, 3);
  EXPECT_EQ(*root.attribute("x"), "1");
  EXPECT_EQ(*root.attribute("y"), "<&\"&nbsp;");
  EXPECT_EQ(root.attribute("z"), nullptr);
  ASSERT_EQ(root.children.size(), 2U);
  EXPECT_EQ(root.children[1].children.at(0).name, "d");
  EXPECT_EQ(root.children[1].children[0].line, 5);
}

struct Refusal {
  const char* name;
  const char* text;
  const char* message;
};
void PrintTo(const Refusal& r, std::ostream* out) { *out << r.text; }
class XmlRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(XmlRefusals, AreTheseWordForWord) {
  EXPECT_THROW_MSG(read(GetParam().text), ConfigError,
                   std::string("dumps/host.xml:") + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, XmlRefusals,
    testing::Values(
        Refusal{"Empty", "",
                "1: found the end of the file; valid: an element such as <system version=\"1\">"},
        Refusal{"NoXml", "{}",
                "1: found the end of the file; valid: an element such as <system version=\"1\">"},
        Refusal{"Open", "<system>\n<cpu>", "2: found the end of the file inside <cpu>"},
        Refusal{"Crossed", "<system>\n<cpu></system>", "2: found </system>; valid: </cpu>"},
        Refusal{"ClosedFirst", "</system>", "1: found </system>; valid: an element"},
        Refusal{"Two", "<system/><system/>",
                "1: found more text after </system>; valid: one element"},
        Refusal{"NoQuotes", "<system version=1/>", "1: found \"1\"; valid: a value in quotes"},
        Refusal{"NoValue", "<system version>", "1: found \">\" after \"version\"; valid: \"=\""},
        Refusal{"OpenValue", "<system version=\"1>", "1: found a value without its closing quote"},
        Refusal{"TagInAValue", "<system version=\"<\">", "1: found \"<\" in a value"},
        Refusal{"OpenComment", "\n<!-- <system/>", "2: found a comment without an end"},
        Refusal{"Markup", "<!DOCTYPE a>", "1: found \"!\"; valid: a name"},
        Refusal{"Graph", "<graphs version=\"1\"/>",
                "1: found <graphs>; valid: <system>, as NCCL_TOPO_DUMP_FILE writes it"},
        Refusal{"NoGpu", "<system>\n<cpu/></system>",
                "1: found no <gpu> inside a <cpu>; valid: at least one, as in what NCCL writes to "
                "NCCL_TOPO_DUMP_FILE; a file for NCCL_TOPO_FILE may leave out the GPUs, which NCCL "
                "finds"},
        Refusal{"NoCapability", "<system><cpu>\n<gpu dev=\"0\"/></cpu></system>",
                "2: found <gpu> without the attribute \"sm\""},
        Refusal{"OddCapability", "<system><cpu>\n<gpu sm=\"9x\"/></cpu></system>",
                "2: found <gpu sm=\"9x\">; valid: a number from 10 to 10000"},
        Refusal{"Uneven",
                "<system><cpu host_hash=\"1\"><gpu sm=\"90\"/><gpu sm=\"90\"/></cpu>"
                "<cpu host_hash=\"2\"><gpu sm=\"90\"/></cpu></system>",
                "1: found hosts of 2 and of 1 GPUs; valid: the same number of GPUs on each host"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(XmlRefusal, OfNestingWithoutEnd) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "<pci>";
  EXPECT_THROW_MSG(read(text), ConfigError,
                   "dumps/host.xml:1: found more than 64 elements inside each other");
}

TEST(XmlRefusal, OfEveryPrefixOfADump) {
  const std::string text = seed("h100");
  for (std::size_t length = 0; length + 2 < text.size(); length += 7) {
    EXPECT_THROW(static_cast<void>(read(text.substr(0, length))), ConfigError) << length;
  }
}

}  // namespace topology_xml_test
}  // namespace shardlab

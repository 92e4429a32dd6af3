// NCCL's own prediction: it estimates the time of every algorithm and protocol that it weighs, and
// runs the cheapest.
//
//   t = latency + bytes / bandwidth, in us, for TREE, RING, COLLNET_*, NVLS* and PAT, each with LL,
//       LL128 and SIMPLE where NCCL has them
//   latency     base + steps inside hosts * NVLink's (or PCIe's) latency
//                    + steps between hosts * the network's latency
//   bandwidth   the channels that NCCL's search finds on the topology (nccl_tuning.h), capped by
//               protocol and architecture; for trees times a correction by size
// All-to-all, scatter and send_recv are sends and receives (P2P), which NCCL does not estimate.
// Their model here takes the base and step latencies of the ring and sends each peer's share over
// the links; all_to_all and all_gather inside a host may also use copy engines (CE).
// Source: NCCL 2.27 and 2.28.3, src/graph/tuning.cc; each parameter has its own status. Valid: for
// uniform hosts and groups that fill them; devices that share network interfaces have equal parts
// of them. Not: for other contention, jitter, or what a framework adds.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "costmodel/base/index.h"
#include "costmodel/nccl_tuning.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

constexpr std::string_view kTuning = "NCCL 2.27, src/graph/tuning.cc";
constexpr std::string_view kSearch = "NCCL 2.27, src/graph/search.cc";

#define LATENCY(name, help) \
  ParamSpec { name, std::nullopt, 0.0, 1e6, help "; default: NCCL's", kTuning, "derived" }
#define CAP(name, help) \
  ParamSpec { name, std::nullopt, 0.0, 1e9, help "; default: NCCL's", kTuning, "derived" }

constexpr ParamSpec kParams[] = {
    {"nccl_version", 22705, 20000, 99999,
     "version as NCCL counts it: 22705 is 2.27.5; from 22800 on, the formulas and constants are "
     "those of 2.28.3",
     kTuning, "derived"},
    switch_spec("ll128", 1, "1: LL128 is weighed if the links inside hosts are NVLink", kTuning,
                "derived"),
    switch_spec("nvls", 1,
                "1: NVLS is weighed on NVSwitch that reduces, as Hopper's and later ones do",
                kTuning, "derived"),
    switch_spec(
        "collnet", std::nullopt,
        "1: CollNet (SHARP in the network) is weighed, and NVLS between hosts; default: where the "
        "topology's network reduces",
        kTuning, "derived"),
    switch_spec("pat", 1, "1: PAT is weighed for groups of one rank per host", kTuning, "derived"),
    switch_spec("copy_engine", 0,
                "1: copy engines are weighed for all_gather and all_to_all inside a host",
                "NCCL 2.28 release notes", "derived"),
    switch_spec(
        "amd_cpu", 0,
        "1: the caps and the network overhead are those of AMD CPUs; 0: those of Intel CPUs",
        kTuning, "derived"),
    // The free constants, which a calibration fits.
    {"base_latency_factor", 1, 0, 1e3, "factor on every base latency", "none: 1 is NCCL's",
     "assumed"},
    {"step_latency_factor", 1, 0, 1e3, "factor on every step inside a host", "none: 1 is NCCL's",
     "assumed"},
    {"network_latency_factor", 1, 0, 1e3, "factor on every step between hosts", "none: 1 is NCCL's",
     "assumed"},
    {"intra_bandwidth_factor", 1, 1e-6, 1e3, "factor on the bandwidth of groups in one host",
     "none: 1 is NCCL's", "assumed"},
    {"inter_bandwidth_factor", 1, 1e-6, 1e3, "factor on the bandwidth of groups on several hosts",
     "none: 1 is NCCL's", "assumed"},
    {"net_latency_us", 0, 0, 1e6, "latency of the network per step, counted twice for SIMPLE",
     kSearch, "derived"},
    {"net_overhead_us", 1, 0, 1e6,
     "least latency of a ring step in groups of several hosts; three times as long for SIMPLE, "
     "twice as long for AMD CPUs",
     kTuning, "derived"},
    {"p2p_peer_us", 0.5, 0, 1e6, "time for each peer of an all_to_all on another host",
     "slope of AutoParallel's all-to-all latencies from 2 to 16 hosts of 8 GPUs", "fitted"},
    {"copy_engine_launch_us", 12, 0, 1e6, "start-up of a collective on copy engines", "none",
     "assumed"},
    {"copy_engine_peer_us", 1, 0, 1e6, "time for each peer's copy on copy engines", "none",
     "assumed"},
    {"copy_engine_share", 0.95, 1e-6, 1,
     "share of the links' datasheet rate that copy engines reach", "none", "assumed"},
    LATENCY("tree_ll_base_us", "base latency of a tree with LL"),
    LATENCY("tree_ll128_base_us", "base latency of a tree with LL128"),
    LATENCY("tree_simple_base_us", "base latency of a tree with SIMPLE"),
    LATENCY("ring_ll_base_us", "base latency of a ring with LL"),
    LATENCY("ring_ll128_base_us", "base latency of a ring with LL128"),
    LATENCY("ring_simple_base_us", "base latency of a ring with SIMPLE"),
    LATENCY("pat_base_us", "base latency of PAT"),
    LATENCY("tree_ll_nvlink_us", "latency of one step of a tree over NVLink with LL"),
    LATENCY("tree_ll128_nvlink_us", "latency of one step of a tree over NVLink with LL128"),
    LATENCY("tree_simple_nvlink_us", "latency of one step of a tree over NVLink with SIMPLE"),
    LATENCY("ring_ll_nvlink_us", "latency of one step of a ring over NVLink with LL"),
    LATENCY("ring_ll128_nvlink_us", "latency of one step of a ring over NVLink with LL128"),
    LATENCY("ring_simple_nvlink_us", "latency of one step of a ring over NVLink with SIMPLE"),
    LATENCY("collnet_direct_nvlink_us", "latency of CollNet direct over NVLink"),
    LATENCY("collnet_chain_nvlink_us", "latency of one step of CollNet chain over NVLink"),
    LATENCY("nvls_nvlink_us", "latency of NVLS over NVLink"),
    LATENCY("nvls_tree_nvlink_us", "latency of an NVLS tree inside a host"),
    LATENCY("tree_ll_pci_us", "latency of one step of a tree over PCIe with LL"),
    LATENCY("tree_ll128_pci_us", "latency of one step of a tree over PCIe with LL128"),
    LATENCY("tree_simple_pci_us", "latency of one step of a tree over PCIe with SIMPLE"),
    LATENCY("ring_ll_pci_us", "latency of one step of a ring over PCIe with LL"),
    LATENCY("ring_ll128_pci_us", "latency of one step of a ring over PCIe with LL128"),
    LATENCY("ring_simple_pci_us", "latency of one step of a ring over PCIe with SIMPLE"),
    LATENCY("tree_ll_network_us", "latency of one step of a tree between hosts with LL"),
    LATENCY("tree_ll128_network_us", "latency of one step of a tree between hosts with LL128"),
    LATENCY("tree_simple_network_us", "latency of one step of a tree between hosts with SIMPLE"),
    LATENCY("ring_ll_network_us", "latency of one step of a ring between hosts with LL"),
    LATENCY("ring_ll128_network_us", "latency of one step of a ring between hosts with LL128"),
    LATENCY("ring_simple_network_us", "latency of one step of a ring between hosts with SIMPLE"),
    LATENCY("collnet_direct_network_us", "latency of CollNet direct between hosts"),
    LATENCY("collnet_chain_network_us", "latency of CollNet chain between hosts"),
    LATENCY("nvls_network_us", "latency of NVLS between hosts"),
    LATENCY("nvls_tree_network_us", "latency of one step of an NVLS tree between hosts"),
    LATENCY("pat_network_us", "latency of one step of PAT between hosts"),
    CAP("ll_cap_1_host", "cap on the GB/s of a ring or tree with LL on 1 host"),
    CAP("ll_cap_2_hosts", "cap on the GB/s of a ring or tree with LL on 2 hosts"),
    CAP("ll_cap_3_hosts", "cap on the GB/s of a ring or tree with LL on 3 or more hosts"),
    CAP("ring_ll128_cap_1_host", "cap on the GB/s of a channel of a ring with LL128 on 1 host"),
    CAP("ring_ll128_cap_2_hosts", "cap on the GB/s of a channel of a ring with LL128 on 2 hosts"),
    CAP("ring_ll128_cap_3_hosts",
        "cap on the GB/s of a channel of a ring with LL128 on 3 or more hosts"),
    CAP("tree_ll128_cap_1_host", "cap on the GB/s of a channel of a tree with LL128 on 1 host"),
    CAP("tree_ll128_cap_2_hosts", "cap on the GB/s of a channel of a tree with LL128 on 2 hosts"),
    CAP("tree_ll128_cap_3_hosts",
        "cap on the GB/s of a channel of a tree with LL128 on 3 or more hosts"),
    CAP("tree_cap_1_host", "cap on the GB/s of a channel of a tree on 1 host"),
    CAP("tree_cap_2_hosts", "cap on the GB/s of a channel of a tree on 2 hosts"),
    CAP("tree_cap_3_hosts", "cap on the GB/s of a channel of a tree on 3 or more hosts"),
    CAP("nvls_tree_cap_2_hosts",
        "cap on the GB/s of a channel of an NVLS tree on 2 hosts, from NCCL 2.28 on"),
    CAP("nvls_tree_cap_3_hosts",
        "cap on the GB/s of a channel of an NVLS tree on 3 or more hosts, from NCCL 2.28 on"),
    CAP("nvls_efficiency", "share of the links' bandwidth that NVLS reaches, from NCCL 2.28 on"),
};
#undef LATENCY
#undef CAP

// NCCL's constants, with the parameters that were given in their place.
NcclConstants constants_of(const Params& params, NcclArchitecture architecture) {
  NcclConstants c = nccl_constants(static_cast<int>(params["nccl_version"]), architecture);
  if (params["amd_cpu"] >= 0.5) c.ll_cap = c.ll_cap_amd;
  const auto over = [&](const std::string& name, double& value) {
    value = params.get(name).value_or(value);
  };
  struct ParamStem {
    const char* name;
    NcclAlgorithm algorithm;
  };
  constexpr std::array<ParamStem, 2> kAllProtocols = {
      {{"tree", NcclAlgorithm::kTree}, {"ring", NcclAlgorithm::kRing}}};
  constexpr std::array<const char*, 3> kProtocols = {"_ll", "_ll128", "_simple"};
  for (const ParamStem& of : kAllProtocols) {
    for (std::size_t p = 0; p < 3; ++p) {
      const std::string stem = std::string(of.name) + kProtocols[p];
      const std::size_t a = to_index(of.algorithm);
      over(stem + "_base_us", c.base[a][p]);
      over(stem + "_nvlink_us", c.nvlink[a][p]);
      over(stem + "_pci_us", c.pci[a][p]);
      over(stem + "_network_us", c.network[a][p]);
    }
  }
  constexpr std::array<ParamStem, 4> kSimpleOnly = {{
      {"collnet_direct", NcclAlgorithm::kCollnetDirect},
      {"collnet_chain", NcclAlgorithm::kCollnetChain},
      {"nvls", NcclAlgorithm::kNvls},
      {"nvls_tree", NcclAlgorithm::kNvlsTree},
  }};
  constexpr std::size_t kSimple = to_index(NcclProtocol::kSimple);
  for (const ParamStem& of : kSimpleOnly) {
    const std::string stem = of.name;
    over(stem + "_nvlink_us", c.nvlink[to_index(of.algorithm)][kSimple]);
    over(stem + "_network_us", c.network[to_index(of.algorithm)][kSimple]);
  }
  over("pat_base_us", c.base[to_index(NcclAlgorithm::kPat)][kSimple]);
  over("pat_network_us", c.network[to_index(NcclAlgorithm::kPat)][kSimple]);
  constexpr std::array<const char*, 3> kHosts = {"_1_host", "_2_hosts", "_3_hosts"};
  for (std::size_t h = 0; h < 3; ++h) {
    const std::string end = kHosts[h];
    over("ll_cap" + end, c.ll_cap[h]);
    over("ring_ll128_cap" + end, c.ring_ll128_cap[h]);
    over("tree_ll128_cap" + end, c.tree_ll128_cap[h]);
    over("tree_cap" + end, c.tree_cap[h]);
    if (h > 0) over("nvls_tree_cap" + end, c.nvls_tree_cap[h]);
  }
  over("nvls_efficiency", c.nvls_efficiency);
  const double base = params["base_latency_factor"];
  const double step = params["step_latency_factor"];
  const double network = params["network_latency_factor"];
  for (std::size_t a = 0; a < c.base.size(); ++a) {
    for (std::size_t p = 0; p < 3; ++p) {
      c.base[a][p] *= base;
      c.nvlink[a][p] *= step;
      c.pci[a][p] *= step;
      c.network[a][p] *= network;
    }
  }
  return c;
}

// As NCCL's log2i: floor(log2(n)), but 0 for numbers below 1.
double log2i(double n) { return n < 1 ? 0.0 : std::ilogb(n); }

// The alternatives of one query, kept off the heap since every price needs them.
struct Weighed {
  std::array<Alternative, 16> all;
  std::size_t size = 0;

  void add(std::string_view algorithm, std::string_view protocol, double latency, double bytes,
           double gbps) {
    if (!(gbps > 0)) return;
    all[size++] = {algorithm, protocol,
                   Price::of(Micros(latency), transfer_time(bytes, GBps(gbps)))};
  }
};

class NcclModel final : public CostModel {
 public:
  explicit NcclModel(const ModelInput& input)
      : topology_(input.topology),
        capability_(topology_.device().compute_capability.value_or(kDefaultComputeCapability)),
        architecture_(nccl_architecture(capability_)),
        constants_(constants_of(input.params, architecture_)),
        ll128_(input.params["ll128"] >= 0.5),
        nvls_(input.params["nvls"] >= 0.5),
        collnet_(input.params.get("collnet")),
        pat_(input.params["pat"] >= 0.5),
        copy_engine_(input.params["copy_engine"] >= 0.5),
        intra_factor_(input.params["intra_bandwidth_factor"]),
        inter_factor_(input.params["inter_bandwidth_factor"]),
        net_latency_(input.params["net_latency_us"]),
        net_overhead_(input.params["net_overhead_us"] *
                      (input.params["amd_cpu"] >= 0.5 ? 2.0 : 1.0)),
        peer_us_(input.params["p2p_peer_us"]),
        copy_launch_us_(input.params["copy_engine_launch_us"]),
        copy_peer_us_(input.params["copy_engine_peer_us"]),
        copy_share_(input.params["copy_engine_share"]) {
    // NCCL treats an NVLink domain of several hosts as one node.
    node_devices_ = topology_.domain_devices();
    for (std::size_t i = 0; i < topology_.links().size(); ++i) {
      const bool is_inner = topology_.links()[i].joins <= LinkScope::kDomain;
      for (std::int64_t n = 1; n <= std::min(node_devices_, kTabled); ++n) {
        tabled_.push_back(search(i, n, !is_inner));
      }
    }
  }

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal || query.group.ranks <= 1) return {};
    const Weighed weighed = weigh(query);
    const auto cheapest = std::min_element(
        weighed.all.begin(), weighed.all.begin() + static_cast<std::ptrdiff_t>(weighed.size),
        [](const Alternative& a, const Alternative& b) { return a.price.total < b.price.total; });
    return cheapest->price;
  }

  [[nodiscard]] std::vector<Alternative> alternatives(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal || query.group.ranks <= 1) return {};
    const Weighed weighed = weigh(query);
    std::vector<Alternative> all(weighed.all.begin(),
                                 weighed.all.begin() + static_cast<std::ptrdiff_t>(weighed.size));
    std::stable_sort(all.begin(), all.end(), [](const Alternative& a, const Alternative& b) {
      return a.price.total < b.price.total;
    });
    return all;
  }

 private:
  // Graphs for up to this many devices of a node are searched once and kept; larger ones are
  // searched at every query.
  static constexpr std::int64_t kTabled = 256;

  // A query as NCCL sees it.
  struct Group {
    double ranks;
    double nodes;
    double ppn;              // ranks per node, not rounded
    double local;            // ranks per node, rounded down
    double fewest;           // ranks of the node that has the fewest
    std::size_t bucket;      // index into NcclByHosts: 1, 2, or 3 and more nodes
    bool nvlink;             // whether NVLink joins the ranks of a node
    const LinkLevel* inner;  // joins the ranks of a node
    const LinkLevel* outer;  // joins nodes; null for a single node
    NcclGraphs graphs;
  };

  // What NCCL takes a device to have among so many members of a group on its node.
  [[nodiscard]] double device_gbps(const LinkLevel& inner, Collective kind,
                                   std::int64_t members) const {
    return nccl_device_gbps(topology_.bandwidth(inner, kind, members).value(), inner.kind,
                            architecture_);
  }
  [[nodiscard]] NcclGraphs search(std::size_t level, std::int64_t devices, bool several) const {
    const LinkLevel& link = topology_.links()[level];
    const LinkLevel& inner = several ? topology_.domain_link() : link;
    NcclHost host;
    host.compute_capability = capability_;
    host.kind = inner.kind;
    host.reduces = inner.reduces;
    host.device_gbps = device_gbps(inner, Collective::kAllReduce, devices);
    host.nics_per_device = static_cast<double>(topology_.nics_per_host()) /
                           static_cast<double>(topology_.devices_per_host());
    // Devices that share an interface share it with the other groups of the mesh as well, which run
    // the same collective at the same time, so that a group has its own devices' share.
    const double share = static_cast<double>(devices) * link.bandwidth.value();
    const double nics =
        std::max(1.0, std::floor(static_cast<double>(devices) * host.nics_per_device));
    host.nic_gbps =
        host.nics_per_device < 1.0 ? share / nics : link.bandwidth.value() / host.nics_per_device;
    return nccl_graphs(host, devices, several);
  }

  [[nodiscard]] NcclGraphs graphs(const LinkLevel& link, std::int64_t devices, bool several) const {
    const auto level = static_cast<std::size_t>(&link - topology_.links().data());
    const std::int64_t tabled = std::min(node_devices_, kTabled);
    if (devices > tabled) return search(level, devices, several);
    return tabled_[level * static_cast<std::size_t>(tabled) + static_cast<std::size_t>(devices) -
                   1];
  }

  [[nodiscard]] Group group_of(const GroupSpan& span) const {
    Group g{};
    const std::int64_t nodes = std::clamp<std::int64_t>(topology_.domains_of(span), 1, span.ranks);
    const std::int64_t fewest = topology_.ranks_per_domain_of(span);
    g.ranks = static_cast<double>(span.ranks);
    g.nodes = static_cast<double>(nodes);
    g.ppn = g.ranks / g.nodes;
    g.local = std::floor(g.ppn);
    g.fewest = static_cast<double>(fewest);
    g.bucket = static_cast<std::size_t>(std::min<std::int64_t>(nodes, 3) - 1);
    const LinkLevel& crossed = topology_.link(span);
    // On a topology of one level, inner and outer are the same.
    g.outer = nodes > 1 ? &crossed : nullptr;
    g.inner = nodes > 1 ? &topology_.domain_link() : &crossed;
    g.nvlink = g.inner->kind == LinkKind::kNvlink || g.inner->kind == LinkKind::kNvswitch;
    // All nodes run as many channels, and as fast ones, as the poorest of them found.
    g.graphs = graphs(crossed, fewest, crossed.joins > LinkScope::kDomain);
    return g;
  }

  [[nodiscard]] Weighed weigh(const CollectiveQuery& query) const {
    const Group g = group_of(query.group);
    Weighed out;
    switch (query.kind) {
      case Collective::kAllReduce:
        weigh_ring(g, query, out);
        weigh_tree(g, query.full_bytes, out);
        weigh_switches(g, query, out);
        break;
      case Collective::kAllGather:
      case Collective::kReduceScatter:
        weigh_ring(g, query, out);
        weigh_switches(g, query, out);
        weigh_pat(g, query.full_bytes, out);
        if (query.kind == Collective::kAllGather) weigh_copy_engine(g, query.full_bytes, out);
        break;
      case Collective::kBroadcast:
        weigh_ring(g, query, out);
        break;
      case Collective::kAllToAll:
        weigh_p2p(g, query, out);
        weigh_copy_engine(g, query.full_bytes, out);
        break;
      case Collective::kScatter:
      case Collective::kSendRecv:
        weigh_p2p(g, query, out);
        break;
      case Collective::kLocal:
        break;
    }
    return out;
  }

  [[nodiscard]] double factor(const Group& g) const {
    return g.nodes > 1 ? inter_factor_ : intra_factor_;
  }
  [[nodiscard]] double intra_latency(const Group& g, NcclAlgorithm a, std::size_t p) const {
    return (g.nvlink ? constants_.nvlink : constants_.pci)[to_index(a)][p];
  }
  // With one rank per host, no work inside the host hides the network, so NCCL uses the latency of
  // a tree for every algorithm.
  [[nodiscard]] double inter_latency(const Group& g, NcclAlgorithm a, std::size_t p) const {
    const NcclAlgorithm used = g.ppn == 1 ? NcclAlgorithm::kTree : a;
    return constants_.network[to_index(used)][p] +
           net_latency_ * (p == to_index(NcclProtocol::kSimple) ? 2 : 1);
  }
  [[nodiscard]] bool weighs(const Group& g, std::size_t p) const {
    return p != to_index(NcclProtocol::kLL128) || (ll128_ && g.nvlink);
  }

  void weigh_ring(const Group& g, const CollectiveQuery& query, Weighed& out) const {
    constexpr auto kRing = NcclAlgorithm::kRing;
    const NcclGraph& graph = g.graphs.ring;
    const bool reduces_all = query.kind == Collective::kAllReduce;
    const bool one_way = query.kind == Collective::kBroadcast;
    const double steps = one_way ? g.ranks : (reduces_all ? 2 : 1) * (g.ranks - 1);
    const double between = g.nodes > 1 ? (reduces_all ? 2 : 1) * (g.nodes - 1) : 0.0;
    const double channels = graph.channels;
    const double bus = channels * (g.nodes <= 2 ? graph.intra : graph.inter);
    for (std::size_t p = 0; p < 3; ++p) {
      if (!weighs(g, p)) continue;
      double rate = bus;
      if (p == to_index(NcclProtocol::kLL)) rate = std::min(constants_.ll_cap[g.bucket], 0.5 * bus);
      if (p == to_index(NcclProtocol::kLL128)) {
        rate = std::min(0.92 * bus, channels * constants_.ring_ll128_cap[g.bucket]);
      }
      const bool simple = p == to_index(NcclProtocol::kSimple);
      double latency = constants_.base[to_index(kRing)][p];
      if (one_way) {
        // On one host, or with one rank per host, all channels take the same path, and NCCL counts
        // a broadcast as one step.
        if (g.nodes == 1) {
          latency += intra_latency(g, kRing, p);
        } else if (g.ppn == 1) {
          latency += constants_.network[to_index(kRing)][p];
        } else {
          latency += steps * constants_.network[to_index(simple ? NcclAlgorithm::kTree : kRing)][p];
        }
      } else {
        const double overhead = g.nodes > 1 ? net_overhead_ * (simple ? 3 : 1) : 0.0;
        latency += (steps - between) * std::max(intra_latency(g, kRing, p), overhead) +
                   between * inter_latency(g, kRing, p);
      }
      // The factor is 2 because NCCL connects each channel twice.
      if (simple && reduces_all && g.nodes > 1 &&
          std::floor(query.full_bytes / (2 * channels * g.ranks)) >= 64) {
        latency *= constants_.plateau;
      }
      out.add(to_string(kRing), to_string(static_cast<NcclProtocol>(p)), latency, query.full_bytes,
              rate * (g.ranks / steps) * factor(g));
    }
  }

  void weigh_tree(const Group& g, double bytes, Weighed& out) const {
    constexpr auto kTree = NcclAlgorithm::kTree;
    const NcclGraph& graph = g.graphs.tree;
    const double channels = graph.channels;
    const double bus = std::min(0.92 * channels * (g.nodes <= 2 ? graph.intra : graph.inter),
                                channels * constants_.tree_cap[g.bucket]);
    // From Hopper on, NCCL's search ends with the plain tree, which NCCL counts at 85 %.
    const double pattern = capability_ >= 90 ? 0.85 : 1.0;
    const int size = static_cast<int>(std::min(64.0, log2i(std::floor(bytes) / 64)));
    for (std::size_t p = 0; p < 3; ++p) {
      if (!weighs(g, p)) continue;
      double rate = bus;
      if (p == to_index(NcclProtocol::kLL)) rate = std::min(bus / 3.8, constants_.ll_cap[g.bucket]);
      if (p == to_index(NcclProtocol::kLL128)) {
        rate = std::min(bus * (g.nodes > 1 ? 120.0 / 128.0 : 7.0 / 9.0),
                        channels * constants_.tree_ll128_cap[g.bucket]);
      }
      const double latency =
          constants_.base[to_index(kTree)][p] + 2 * ((g.local - 1) * intra_latency(g, kTree, p) +
                                                     log2i(g.nodes) * inter_latency(g, kTree, p));
      const auto protocol = static_cast<NcclProtocol>(p);
      out.add(to_string(kTree), to_string(protocol), latency, bytes,
              rate * pattern * 0.5 * nccl_tree_correction(protocol, size) * factor(g));
    }
  }

  // Whether the network reduces: as the parameter says, or else the topology.
  [[nodiscard]] bool has_collnet(const Group& g) const {
    if (g.outer == nullptr) return false;
    if (collnet_) return *collnet_ >= 0.5;
    return g.outer->kind == LinkKind::kNetwork && g.outer->reduces;
  }

  // Weighs NVLS and CollNet, which reduce in a switch and have only the protocol SIMPLE.
  void weigh_switches(const Group& g, const CollectiveQuery& query, Weighed& out) const {
    constexpr std::size_t p = to_index(NcclProtocol::kSimple);
    const bool reduces_all = query.kind == Collective::kAllReduce;
    const double steps = (reduces_all ? 2 : 1) * (g.ranks - 1);
    const NcclGraph& graph = g.graphs.nvls;
    const double channels = graph.channels;
    const auto add = [&](NcclAlgorithm a, double latency, double rate) {
      out.add(to_string(a), to_string(NcclProtocol::kSimple), latency, query.full_bytes,
              rate * factor(g));
    };
    const double share =
        reduces_all ? (constants_.nvls_is_five_sixths ? 5.0 / 6.0 : g.ranks / steps) : 1.0;
    double inside = graph.intra;
    if (!constants_.nvls_is_five_sixths) {
      inside *= constants_.nvls_efficiency * (channels - 1) / std::max(1.0, channels);
      if (reduces_all) inside *= 2;
    }
    if (!reduces_all) inside *= (g.ppn - 1) / g.ppn;
    // Gathers and scatters need a network interface for each device.
    const bool collnet = has_collnet(g) &&
                         (reduces_all || topology_.nics_per_host() >= topology_.devices_per_host());
    if (nvls_ && channels > 0 && (g.nodes == 1 || collnet)) {
      double between = graph.inter;
      if (constants_.nvls_is_five_sixths && !reduces_all) between *= 0.9;
      const double latency = intra_latency(g, NcclAlgorithm::kNvls, p) +
                             (g.nodes > 1 ? inter_latency(g, NcclAlgorithm::kNvls, p) : 0.0);
      add(NcclAlgorithm::kNvls, latency, channels * std::min(inside, between) * share);
    }
    if (nvls_ && channels > 0 && g.nodes > 1 && reduces_all) {
      double rate = 0.0;
      if (constants_.nvls_is_five_sixths) {
        rate = std::min(inside, g.nodes <= 2 ? graph.inter : graph.inter / 2);
      } else {
        rate = std::min(
            {inside, graph.inter * (g.nodes <= 2 ? 2 : 1), constants_.nvls_tree_cap[g.bucket]});
      }
      add(NcclAlgorithm::kNvlsTree,
          constants_.base[to_index(NcclAlgorithm::kNvlsTree)][p] +
              intra_latency(g, NcclAlgorithm::kNvlsTree, p) +
              2 * log2i(g.nodes) * inter_latency(g, NcclAlgorithm::kNvlsTree, p),
          channels * rate * share);
    }
    if (!collnet) return;
    const NcclGraph& net = g.graphs.collnet;
    if (g.inner->kind == LinkKind::kNvswitch) {
      constexpr auto kDirect = NcclAlgorithm::kCollnetDirect;
      double rate = 0.0;
      if (reduces_all) {
        const double crowd = g.ppn / net.channels;  // devices per network interface
        rate = 0.5 * net.channels * net.intra / (crowd - (crowd - 1) / 2);
        if (capability_ >= 90) rate *= 0.85;
      } else {
        rate = g.ppn * std::min(net.intra, 0.9 * net.inter);
      }
      add(kDirect,
          2 * (std::min(1.0, g.local - 1) * intra_latency(g, kDirect, p) + (g.local - 1) * 0.4) +
              inter_latency(g, kDirect, p),
          rate);
    }
    if (reduces_all) {
      constexpr auto kChain = NcclAlgorithm::kCollnetChain;
      add(kChain, 2 * (g.local - 1) * intra_latency(g, kChain, p) + inter_latency(g, kChain, p),
          0.5 * net.channels * net.intra);
    }
  }

  void weigh_pat(const Group& g, double bytes, Weighed& out) const {
    constexpr auto kPat = NcclAlgorithm::kPat;
    constexpr std::size_t p = to_index(NcclProtocol::kSimple);
    if (!pat_ || g.nodes <= 1 || g.nodes != g.ranks) return;
    const NcclGraph& graph = g.graphs.tree;
    const double rate = 0.75 * graph.channels * (g.nodes <= 2 ? graph.intra : graph.inter);
    out.add(to_string(kPat), to_string(NcclProtocol::kSimple),
            constants_.base[to_index(kPat)][p] + log2i(g.nodes) * inter_latency(g, kPat, p) / 3.5 +
                g.ranks * 2.8,
            bytes, rate * factor(g));
  }

  // Weighs sends and receives (P2P) by the bytes that one rank sends to peers on its own node and
  // to peers on other nodes. That rank is any rank of an all_to_all, the root of a scatter, or the
  // sender of a send_recv, which has a single peer.
  void weigh_p2p(const Group& g, const CollectiveQuery& query, Weighed& out) const {
    constexpr auto kRing = NcclAlgorithm::kRing;
    const bool single = query.kind == Collective::kSendRecv;
    const double remote = single ? (g.nodes > 1 ? 1.0 : 0.0) : g.ranks - g.fewest;
    const double near = single ? (g.nodes > 1 ? 0.0 : 1.0) : g.local - 1;
    const double part = single ? 1.0 : 1.0 / g.ranks;  // share of the bytes that goes to one peer
    const double inside = device_gbps(*g.inner, query.kind, static_cast<std::int64_t>(g.local));
    for (const NcclProtocol protocol : {NcclProtocol::kLL, NcclProtocol::kSimple}) {
      const std::size_t p = to_index(protocol);
      double latency = constants_.base[to_index(kRing)][p] + remote * peer_us_ * (single ? 0 : 1);
      if (near > 0) latency += intra_latency(g, kRing, p);
      if (remote > 0) latency += constants_.network[to_index(kRing)][p] + net_latency_;
      // Both kinds of links are busy at the same time, so the slower one counts. A PCIe lane
      // carries what goes to the network, too.
      const double on_lane = g.inner->kind == LinkKind::kPcie ? near + remote : near;
      double us_a_byte = part * on_lane / (inside * intra_factor_);
      if (g.outer != nullptr) {
        us_a_byte =
            std::max(us_a_byte, part * remote / (g.outer->bandwidth.value() * inter_factor_));
      }
      if (protocol == NcclProtocol::kLL) us_a_byte *= 2;  // half of LL's words are flags
      out.add("P2P", to_string(protocol), latency, query.full_bytes, 1 / us_a_byte);
    }
  }

  // Inside one host or NVLink domain, copy engines copy to each peer without a kernel.
  void weigh_copy_engine(const Group& g, double bytes, Weighed& out) const {
    if (!copy_engine_ || g.nodes > 1 || !g.nvlink) return;
    const auto members = static_cast<std::int64_t>(g.ranks);
    const double rate = topology_.bandwidth(*g.inner, Collective::kAllToAll, members).value() *
                        copy_share_ * g.ranks / (g.ranks - 1);
    out.add("CE", to_string(NcclProtocol::kSimple), copy_launch_us_ + (g.ranks - 1) * copy_peer_us_,
            bytes, rate * intra_factor_);
  }

  Topology topology_;
  std::int64_t capability_;
  NcclArchitecture architecture_;
  NcclConstants constants_;
  bool ll128_;
  bool nvls_;
  std::optional<double> collnet_;
  bool pat_;
  bool copy_engine_;
  double intra_factor_;
  double inter_factor_;
  double net_latency_;
  double net_overhead_;
  double peer_us_;
  double copy_launch_us_;
  double copy_peer_us_;
  double copy_share_;
  std::int64_t node_devices_ = 1;
  std::vector<NcclGraphs> tabled_;  // by link level, then by the number of a node's devices
};

constexpr std::string_view kFitted[] = {"base_latency_factor", "step_latency_factor",
                                        "network_latency_factor", "intra_bandwidth_factor",
                                        "inter_bandwidth_factor"};

// The percentages are of the million random queries in CostModelContractSlow.
constexpr ContractExemption kExemptions[] = {
    {"never_falls_with_bytes",
     "NCCL's bandwidth correction for trees rises in steps at powers of two, so in 0.05 % of "
     "random pairs of sizes the larger one is cheaper"},
    {"all_reduce_within_reduce_scatter_and_all_gather",
     "a large all-reduce by ring counts its latency 1.4 times, and the two collectives that it is "
     "compared with may use PAT; 10 % of random queries break the rule"},
    {"reduce_scatter_within_all_reduce",
     "an all-reduce by tree takes 2 log2(hosts) steps between hosts, but a reduce-scatter is a "
     "ring or PAT; 23 % of random queries break the rule"},
};

}  // namespace

COST_MODEL(nccl){
    .name = "nccl",
    .summary =
        "NCCL's own estimate: the cheapest algorithm and protocol on the channels that its search "
        "finds",
    .formula =
        "min over algorithm and protocol of latency + bytes / (channels * bandwidth * n / "
        "steps)",
    .source = "NCCL 2.27 and 2.28.3, src/graph/tuning.cc, search.cc and topo.h",
    .valid_range = "what NCCL expects of uniform hosts; not contention, jitter or launches",
    .params = kParams,
    .exemptions = kExemptions,
    .fitted = kFitted,
    .make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
      return std::make_unique<NcclModel>(input);
    },
};

}  // namespace shardlab

// Hockney's alpha-beta model applied to ring collectives, on the link level that the group crosses.
//
//   t = launch + steps * alpha + S * volume / beta
//   launch the floor of any kernel, in us; S full_bytes; steps and volume those of a ring
//   (collective.h); alpha the latency of one step, in us, and beta the bandwidth of one rank, in
//   GB/s, on the slowest level that the group crosses
// A group with g ranks in each of its NVLink domains, which are hosts unless the topology says
// more, drives g network links at once, up to the bandwidth inside the domain:
// beta = min(beta_inner, g * beta_network). In an all-to-all each rank sends bytes of its own to
// each other rank, (n - g) / n of S through its own network link and (g - 1) / n inside the domain
// at the same time; the longer of the two counts. Where a group has fewer ranks in one domain than
// in others, g are the fewest. Inside a domain of several hosts with h ranks on each, beta =
// min(beta_host, h * beta_domain), and an all-to-all sends (g - h) / n of S between the hosts and
// (h - 1) / n inside them, through the same ports, so that the two times add up. Where the links
// inside hosts are PCIe, each rank has one lane for all that it sends, the network's bytes too.
// Source: Hockney 1994, "The communication challenge for MPP"; volume factors of NCCL Tests,
// doc/PERFORMANCE.md. Valid: for uniform link levels and large messages. Not: where NCCL switches
// to LL, LL128, trees or NVLS; switches that reduce (LinkLevel::reduces) change nothing for a ring.
// Status: derived; launch, alpha and beta are the topology's
// (datasheet figures) unless given as parameters.
#include <algorithm>

#include "costmodel/registry.h"

namespace shardlab {
namespace {

constexpr ParamSpec kParams[] = {
    {"launch_us", std::nullopt, 0.0, 1e6,
     "start-up time of one collective; default: the device's launch floor"},
    {"latency_us", std::nullopt, 0.0, 1e6,
     "start-up time of one ring step (alpha), on every level; default: the level's own"},
    {"bandwidth_gb_per_s", std::nullopt, 1e-6, 1e9,
     "bandwidth of one rank (beta, 1 GB = 1e9 B), on every level; default: the level's own"},
};

class AlphaBetaModel final : public CostModel {
 public:
  explicit AlphaBetaModel(const ModelInput& input)
      : topology_(input.topology),
        launch_(input.params.get("launch_us").value_or(input.topology.device().launch.value())),
        latency_(input.params.get("latency_us")),
        bandwidth_(input.params.get("bandwidth_gb_per_s")) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal || query.group.ranks <= 1) return {};
    const LinkLevel& level = topology_.link(query.group);
    const Micros alpha = latency_ ? Micros(*latency_) : level.latency;
    if (query.kind == Collective::kAllToAll && !bandwidth_ &&
        level.joins > topology_.host_link().joins) {
      return Price::of(launch_ + ring_steps(query.kind, query.group.ranks) * alpha,
                       all_to_all_transfer(level, query));
    }
    const GBps beta = bandwidth_ ? GBps(*bandwidth_) : bandwidth(level, query.kind, query.group);
    return Price::of(
        launch_ + ring_steps(query.kind, query.group.ranks) * alpha,
        ring_volume_factor(query.kind, query.group.ranks) * transfer_time(query.full_bytes, beta));
  }

 private:
  // The bandwidth that one rank has on a level. The members of each block inside the level leave
  // the block by links of their own, all at once.
  [[nodiscard]] GBps bandwidth(const LinkLevel& level, Collective kind,
                               const GroupSpan& group) const {
    const LinkLevel& domain = topology_.domain_link();
    const LinkLevel& host = topology_.host_link();
    const bool leaves_domain = level.joins > domain.joins;
    if (!leaves_domain && level.joins <= host.joins) {
      const bool joins_domain = level.joins == LinkScope::kDomain;
      return topology_.bandwidth(
          level, kind, joins_domain ? topology_.ranks_per_domain_of(group) : group.ranks_per_host);
    }
    const std::int64_t members =
        leaves_domain ? topology_.ranks_per_domain_of(group) : group.ranks_per_host;
    if (members <= 1 && host.kind != LinkKind::kPcie) return level.bandwidth;
    return std::min(bandwidth(leaves_domain ? domain : host, kind, group),
                    static_cast<double>(members) * level.bandwidth);
  }
  [[nodiscard]] Micros all_to_all_transfer(const LinkLevel& level,
                                           const CollectiveQuery& query) const {
    const auto ranks = static_cast<double>(query.group.ranks);
    const auto per_host = static_cast<double>(query.group.ranks_per_host);
    const auto per_domain = static_cast<double>(topology_.ranks_per_domain_of(query.group));
    const auto sent = [&](double peers, const LinkLevel& over) {
      const auto members = static_cast<std::int64_t>(peers) + 1;
      return peers / ranks *
             transfer_time(query.full_bytes, topology_.bandwidth(over, query.kind, members));
    };
    const LinkLevel& host = topology_.host_link();
    const Micros inside =
        host.kind == LinkKind::kPcie
            ? sent(ranks - 1.0, host)
            : sent(per_host - 1.0, host) + sent(per_domain - per_host, topology_.domain_link());
    return std::max(sent(ranks - per_domain, level), inside);
  }

  Topology topology_;
  Micros launch_;
  std::optional<double> latency_;
  std::optional<double> bandwidth_;
};

constexpr std::string_view kFitted[] = {"launch_us", "latency_us", "bandwidth_gb_per_s"};

double prior(std::string_view name, const Topology& topology, const GroupSpan& group) {
  if (name == "launch_us") return topology.device().launch.value();
  if (name == "latency_us") return topology.link(group).latency.value();
  return topology.bandwidth(topology.link(group), Collective::kAllReduce, group.ranks).value();
}

}  // namespace

COST_MODEL(alpha_beta){
    .name = "alpha_beta",
    .summary = "start-up plus bytes over bandwidth, for rings on the topology's link levels",
    .formula =
        "launch + steps * alpha + full_bytes * volume / beta; all_gather: n-1 steps, volume "
        "(n-1)/n",
    .source = "Hockney 1994; NCCL Tests doc/PERFORMANCE.md",
    .valid_range = "uniform link levels, large messages; not LL, LL128, trees or NVLS",
    .params = kParams,
    .fitted = kFitted,
    .prior = prior,
    .make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
      return std::make_unique<AlphaBetaModel>(input);
    },
};

}  // namespace shardlab

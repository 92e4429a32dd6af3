#include "costmodel/price_doubts.h"

#include <algorithm>

#include "costmodel/base/text.h"

namespace shardlab {
namespace {

// Prices within this part of a bound are not doubted: figures of links are rounded.
constexpr double kRounding = 0.02;
constexpr double kBytesInAUs = 1e3;

std::string us_text(double us) { return format_fixed(us, us < 100.0 ? 1 : 0) + " us"; }

std::string hosts_text(const GroupSpan& group) {
  return std::to_string(group.ranks) + (group.ranks == 1 ? " rank" : " ranks") + " on " +
         std::to_string(group.hosts) + (group.hosts == 1 ? " host" : " hosts");
}

// The bytes that one rank must receive, as a part of full_bytes.
double received_by_rank(Collective kind, double ranks) {
  switch (kind) {
    case Collective::kBroadcast:
    case Collective::kSendRecv:
      return 1.0;
    case Collective::kScatter:
      return 1.0 / ranks;
    case Collective::kLocal:
      return 0.0;
    default:
      return (ranks - 1.0) / ranks;
  }
}

// Whether the switches between the domains of a group add up.
bool network_reduces(const CollectiveQuery& query, const Topology& topology) {
  const LinkLevel& level = topology.link(query.group);
  return query.group.domains > 1 && level.kind == LinkKind::kNetwork && level.reduces;
}

// The bytes that must enter or leave the domain with the fewest of a group's ranks, as a part of
// full_bytes. Assumes several domains.
double passed_by_domain(const CollectiveQuery& query, const Topology& topology) {
  const auto ranks = static_cast<double>(query.group.ranks);
  const auto domains = static_cast<double>(query.group.domains);
  const auto members = static_cast<double>(topology.ranks_per_domain_of(query.group));
  switch (query.kind) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return 1.0 - members / ranks;
    case Collective::kAllToAll:
      return members * (1.0 - members / ranks);
    case Collective::kAllReduce: {
      // What all domains receive together, for the share of the interfaces that this one has.
      const double together = 2.0 * (domains - 1.0) * members / ranks;
      return network_reduces(query, topology) ? 1.0 : std::max(1.0, together);
    }
    case Collective::kBroadcast:
      return 1.0;
    default:
      return 0.0;
  }
}

// The rate at which the members of that domain send and receive, in GB/s: that of their network
// interfaces, which a member may have alone where several devices share one.
double interfaces_gbps(const CollectiveQuery& query, const Topology& topology) {
  const double sharers = std::max(1.0, static_cast<double>(topology.devices_per_host()) /
                                           static_cast<double>(topology.nics_per_host()));
  const auto members = static_cast<double>(topology.ranks_per_domain_of(query.group));
  return std::min(members * sharers, static_cast<double>(topology.domain_devices())) *
         topology.links().back().nominal_bandwidth.value();
}

}  // namespace

double least_us(const CollectiveQuery& query, const Topology& topology) {
  if (!communicates(query)) return 0.0;
  const auto ranks = static_cast<double>(query.group.ranks);
  double fastest = 0.0;
  for (const LinkLevel& level : topology.links()) {
    const GBps most = level.pairwise ? topology.bandwidth(level, query.kind, query.group.ranks)
                                     : level.nominal_bandwidth;
    fastest = std::max(fastest, most.value());
  }
  double us = query.full_bytes * received_by_rank(query.kind, ranks) / (kBytesInAUs * fastest);
  if (query.group.domains > 1) {
    const double passed = passed_by_domain(query, topology);
    us = std::max(us, query.full_bytes * passed / (kBytesInAUs * interfaces_gbps(query, topology)));
  }
  return us;
}

double PriceDoubt::ratio() const {
  return std::max(price_us, other_us) / std::max(1e-9, std::min(price_us, other_us));
}

std::string PriceDoubt::text() const {
  const std::string what = std::string(to_string(query.kind)) + " of " + hosts_text(query.group) +
                           ", " + format_bytes(query.full_bytes) + ": " + us_text(price_us);
  switch (kind) {
    case DoubtKind::kFasterThanLinks:
      return what + " is less than the links allow, " + us_text(other_us);
    case DoubtKind::kBelowAllGather:
      return what + " is less than the same stack's all_gather takes, " + us_text(other_us) +
             ", though an all_reduce moves no less";
    case DoubtKind::kUnlikeMeasured:
      break;
  }
  const bool is_above = price_us > other_us;
  return what + " is " + format_fixed(ratio(), ratio() < 10.0 ? 1 : 0) +
         (is_above ? " times what " : " times less than what ") + other_name + " says, " +
         us_text(other_us);
}

std::optional<PriceDoubt> PriceDoubts::of(const CollectiveQuery& query) const {
  if (!communicates(query)) return std::nullopt;
  const Price price = model_.price(query);
  if (!price.is_possible()) return std::nullopt;
  const double us = price.total.value();
  const double least = least_us(query, topology_);
  if (us < (1.0 - kRounding) * least) {
    return PriceDoubt{DoubtKind::kFasterThanLinks, query, us, least, {}};
  }
  if (query.kind == Collective::kAllReduce && query.full_bytes >= kBandwidthBound &&
      !network_reduces(query, topology_)) {
    CollectiveQuery gather = query;
    gather.kind = Collective::kAllGather;
    const Price other = model_.price(gather);
    if (other.is_possible() && us < (1.0 - kRounding) * other.total.value()) {
      return PriceDoubt{DoubtKind::kBelowAllGather, query, us, other.total.value(), {}};
    }
  }
  if (measured_.model == nullptr) return std::nullopt;
  const double measured = measured_.model->price(query).total.value();
  PriceDoubt doubt{DoubtKind::kUnlikeMeasured, query, us, measured, measured_.name};
  if (us <= 0.0 || measured <= 0.0 || doubt.ratio() <= kUnlike) return std::nullopt;
  return doubt;
}

}  // namespace shardlab

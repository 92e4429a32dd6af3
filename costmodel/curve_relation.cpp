#include "costmodel/curve_relation.h"

#include <algorithm>
#include <cmath>

namespace shardlab {
namespace {

// How poorly the curve of one collective predicts that of another: 0 for the same collective.
double distance(Collective a, Collective b) {
  const auto rank = [](Collective kind) {
    switch (kind) {
      case Collective::kAllGather:
      case Collective::kReduceScatter:
        return 0;
      case Collective::kAllReduce:
      case Collective::kBroadcast:
      case Collective::kScatter:
        return 1;
      default:
        return 2;
    }
  };
  if (a == b) return 0.0;
  if (rank(a) == 0 && rank(b) == 0) return 0.3;
  return rank(a) == 2 || rank(b) == 2 ? 2.0 : 1.0;
}

double log_ratio(std::int64_t a, std::int64_t b) {
  return std::log(static_cast<double>(a) / static_cast<double>(b));
}

}  // namespace

double latency_factor(const CurveGroup& group) {
  const std::int64_t ranks = group.ranks;
  const std::int64_t hosts = group.hosts;
  const double steps = static_cast<double>(ranks - 1);
  if (hosts <= 1) {
    switch (group.kind) {
      case Collective::kAllReduce:
        return 0.8 + 0.3 * steps;
      case Collective::kAllToAll:
        return 1.0 + 0.4 * steps;
      case Collective::kBroadcast:
      case Collective::kScatter:
        return 0.7 + 0.28 * steps;
      case Collective::kSendRecv:
        return 1.0;
      default:
        return 0.7 + 0.33 * steps;
    }
  }
  const double per_host = std::max(1.0, static_cast<double>(ranks) / static_cast<double>(hosts));
  switch (group.kind) {
    case Collective::kAllReduce:
      return std::log2(static_cast<double>(hosts)) + 0.1 * per_host;
    case Collective::kAllToAll:
      return 0.5 + 0.25 * steps;
    case Collective::kSendRecv:
      return 1.0;
    default:
      return 0.6 + 0.1 * steps;
  }
}

double volume_factor(const CurveGroup& group) {
  const auto [kind, ranks, hosts, g] = group;
  const double ring = ring_volume_factor(kind, ranks);
  if (hosts <= 1) return ring;
  const auto n = static_cast<double>(ranks);
  if (kind == Collective::kAllToAll) return (n - g) / n;
  if (kind == Collective::kSendRecv) return 1.0;
  return ring / g;
}

double relation_weight(const CurveGroup& known, const CurveGroup& asked) {
  if ((known.hosts > 1) != (asked.hosts > 1)) return 0.0;
  const double ranks = log_ratio(asked.ranks, known.ranks);
  const double hosts = log_ratio(asked.hosts, known.hosts);
  const double kinds = distance(known.kind, asked.kind);
  return 1.0 / (ranks * ranks + hosts * hosts + kinds * kinds + 1e-6);
}

}  // namespace shardlab

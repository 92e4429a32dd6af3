#include "costmodel/collective.h"

namespace shardlab {

std::string_view to_string(Collective collective) { return name_of(collective); }
std::optional<Collective> collective_from_name(std::string_view name) {
  return from_name<Collective>(name);
}

double ring_volume_factor(Collective kind, std::int64_t ranks) {
  const double n = static_cast<double>(ranks);
  switch (kind) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return (n - 1) / n;
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kBroadcast:
    case Collective::kScatter:
    case Collective::kSendRecv:
      return ranks > 1 ? 1.0 : 0.0;
    case Collective::kLocal:
      break;
  }
  return 0.0;
}

double ring_steps(Collective kind, std::int64_t ranks) {
  const double n = static_cast<double>(ranks);
  switch (kind) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return n - 1;
    case Collective::kAllReduce:
      return 2 * (n - 1);
    case Collective::kBroadcast:
    case Collective::kScatter:
    case Collective::kSendRecv:
      return ranks > 1 ? 1.0 : 0.0;
    case Collective::kLocal:
      break;
  }
  return 0.0;
}

}  // namespace shardlab

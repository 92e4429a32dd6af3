#include "costmodel/collective.h"

#include <array>
#include <cstddef>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"all_gather", "all_reduce", "reduce_scatter",
                                                    "all_to_all", "broadcast",  "scatter",
                                                    "send_recv",  "local"};

}  // namespace

std::string_view to_string(Collective collective) { return kNames[to_index(collective)]; }

std::optional<Collective> collective_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Collective>(i);
  }
  return std::nullopt;
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

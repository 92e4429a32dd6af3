#include "costmodel/measured_ranges.h"

#include <algorithm>

#include "costmodel/base/text.h"

namespace shardlab {

std::string MeasuredGap::text() const {
  std::string text = std::string(to_string(kind)) + " of " + std::to_string(ranks) + " ranks on " +
                     std::to_string(hosts) + (hosts == 1 ? " host" : " hosts");
  if (below) text += " below " + format_bytes(*below);
  if (above) text += " above " + format_bytes(*above);
  if (!gpus.empty()) text += " (the rows are of " + gpus + ")";
  return text;
}

MeasuredRanges::MeasuredRanges(const std::vector<MeasuredRange>& ranges) {
  for (const MeasuredRange& range : ranges) {
    const auto same = std::find_if(ranges_.begin(), ranges_.end(), [&](const MeasuredRange& other) {
      return other.kind == range.kind && other.ranks == range.ranks && other.hosts == range.hosts;
    });
    if (same == ranges_.end()) {
      ranges_.push_back(range);
    } else {
      same->smallest = std::min(same->smallest, range.smallest);
      same->largest = std::max(same->largest, range.largest);
    }
  }
}

std::optional<MeasuredGap> MeasuredRanges::gap(const CollectiveQuery& query) const {
  if (!communicates(query)) return std::nullopt;
  const GroupSpan& group = query.group;
  const MeasuredRange* range = find(query.kind, group.ranks, group.hosts);
  if (range == nullptr) range = find(query.kind, group.ranks, MeasuredRange::kAnyHosts);
  MeasuredGap gap{.kind = query.kind, .ranks = group.ranks, .hosts = group.hosts};
  if (range == nullptr) return gap;
  gap.gpus = range->gpus;
  if (!gap.gpus.empty()) return gap;
  if (query.full_bytes < range->smallest) {
    gap.below = range->smallest;
  } else if (query.full_bytes > range->largest) {
    gap.above = range->largest;
  } else {
    return std::nullopt;
  }
  return gap;
}

const MeasuredRange* MeasuredRanges::find(Collective kind, std::int64_t ranks,
                                          std::int64_t hosts) const {
  const auto found = std::find_if(ranges_.begin(), ranges_.end(), [&](const MeasuredRange& range) {
    return range.kind == kind && range.ranks == ranks && range.hosts == hosts;
  });
  return found == ranges_.end() ? nullptr : &*found;
}

}  // namespace shardlab

#include "strategies/programs/layout_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "costmodel/base/error.h"
#include "sim/tensor_spec.h"

namespace shardlab {

static_assert(kMaxMeshDims <= 8, "a layout's code has a byte for each mesh dim");

// Codes begin at 1, so that the combined code of all mesh dims also shows how many mesh dims there
// are.
std::uint64_t LayoutTable::code(const Placement& placement) {
  const auto found = std::find(placements_.begin(), placements_.end(), placement);
  const auto position = static_cast<std::uint64_t>(found - placements_.begin());
  if (found == placements_.end()) {
    SHARDLAB_CHECK(placements_.size() < 255, placements_.size(), " placements");
    placements_.push_back(placement);
  }
  return position + 1;
}

Layout LayoutTable::layout_of(const Placements& placements) const {
  const Layout layout(placements);
  return mesh_ ? decode_strided_as_order(layout, *mesh_).value_or(layout) : layout;
}

LayoutId LayoutTable::id(const Placements& placements) {
  std::uint64_t all = 0;
  for (const Placement& placement : placements) all = all << 8U | code(placement);
  const auto [it, is_new] = by_code_.try_emplace(all, static_cast<LayoutId>(layouts_.size()));
  if (is_new) {
    Layout layout = layout_of(placements);
    placements_of_.push_back(placements);
    texts_.push_back(layout.text());
    layouts_.push_back(std::move(layout));
  }
  return it->second;
}

LayoutListId LayoutTable::list(std::vector<LayoutId> layouts) {
  std::size_t hash = layouts.size();
  for (const LayoutId id : layouts) hash = (hash ^ id) * 0x100000001b3ULL;  // FNV-1a
  const auto [begin, end] = lists_by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (lists_[it->second] == layouts) return it->second;
  }
  const auto id = static_cast<LayoutListId>(lists_.size());
  lists_by_hash_.emplace(hash, id);
  lists_.push_back(std::move(layouts));
  return id;
}

DistinctLayouts distinct_layouts(std::span<const LayoutId> list, std::size_t layouts) {
  constexpr std::uint32_t kUnseen = std::numeric_limits<std::uint32_t>::max();
  DistinctLayouts result;
  result.position.reserve(list.size());
  std::vector<std::uint32_t> seen(layouts, kUnseen);
  for (const LayoutId id : list) {
    if (seen[id] == kUnseen) {
      seen[id] = static_cast<std::uint32_t>(result.ids.size());
      result.ids.push_back(id);
    }
    result.position.push_back(seen[id]);
  }
  return result;
}

}  // namespace shardlab

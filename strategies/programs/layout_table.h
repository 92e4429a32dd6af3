// Numbers for layouts and for lists of layouts. Equal layouts (or lists) get the same number, so
// that they can be compared, stored and used as keys like integers.
//
//   LayoutTable layouts;
//   const LayoutId id = layouts.id(placements);        // layouts[id] is the way back
//   const LayoutListId list = layouts.list({id, id});  // layouts.list_at(list)
//
// A shard order other than the default is kept as strided shards (encode_order_as_strided), which
// say the same of every rank's rows; layout() and text() have it as an order again. Numbers are
// given out in the order of the calls, so that the same calls always give the same numbers. There
// may be at most 2^32 - 1 layouts of at most 255 distinct placements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/mesh.h"
#include "sim/placement.h"

namespace shardlab {

using LayoutId = std::uint32_t;
using LayoutListId = std::uint32_t;

class LayoutTable {
 public:
  LayoutTable() = default;
  // Without a mesh, strided shards are not read as shard orders.
  explicit LayoutTable(const DeviceMesh& mesh) : mesh_(mesh) {}

  [[nodiscard]] LayoutId id(const Placements& placements);
  [[nodiscard]] const Placements& operator[](LayoutId id) const { return placements_of_[id]; }
  // The layout as planners take it: where strided shards encode a shard order, it has plain shards
  // in that order.
  [[nodiscard]] const Layout& layout(LayoutId id) const { return layouts_[id]; }
  [[nodiscard]] std::size_t size() const { return layouts_.size(); }
  [[nodiscard]] const std::string& text(LayoutId id) const { return texts_[id]; }
  // The same text for a layout that need not be in the table.
  [[nodiscard]] std::string text_of(const Placements& placements) const {
    return layout_of(placements).text();
  }

  [[nodiscard]] LayoutListId list(std::vector<LayoutId> layouts);
  [[nodiscard]] std::span<const LayoutId> list_at(LayoutListId id) const { return lists_[id]; }

 private:
  [[nodiscard]] std::uint64_t code(const Placement& placement);
  [[nodiscard]] Layout layout_of(const Placements& placements) const;

  std::optional<DeviceMesh> mesh_;
  std::vector<Placement> placements_;
  std::vector<Placements> placements_of_;  // by layout
  std::vector<Layout> layouts_;
  std::vector<std::string> texts_;
  std::unordered_map<std::uint64_t, LayoutId> by_code_;
  std::vector<std::vector<LayoutId>> lists_;
  std::unordered_multimap<std::size_t, LayoutListId> lists_by_hash_;
};

// The distinct layouts of a list in the order in which they come first, and for each entry of the
// list which of them it is. All ids are below `layouts`.
struct DistinctLayouts {
  std::vector<LayoutId> ids;
  std::vector<std::uint32_t> position;
};
[[nodiscard]] DistinctLayouts distinct_layouts(std::span<const LayoutId> list, std::size_t layouts);

}  // namespace shardlab

// Numbers for layouts and for lists of layouts. Equal layouts (or lists) get the same number, so
// that they can be compared, stored and used as keys like integers.
//
//   LayoutTable layouts;
//   const LayoutId id = layouts.id(placements);        // layouts[id] is the way back
//   const LayoutListId list = layouts.list({id, id});  // layouts.list_at(list)
//
// Layouts are in default shard order. Numbers are given out in the order of the calls, so that the
// same calls always give the same numbers. There may be at most 2^32 - 1 layouts of at most 255
// distinct placements.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/placement.h"

namespace shardlab {

using LayoutId = std::uint32_t;
using LayoutListId = std::uint32_t;

class LayoutTable {
 public:
  [[nodiscard]] LayoutId id(const Placements& placements);
  [[nodiscard]] const Placements& operator[](LayoutId id) const { return layouts_[id]; }
  [[nodiscard]] std::size_t size() const { return layouts_.size(); }
  [[nodiscard]] const std::string& text(LayoutId id) const { return texts_[id]; }

  [[nodiscard]] LayoutListId list(std::vector<LayoutId> layouts);
  [[nodiscard]] std::span<const LayoutId> list_at(LayoutListId id) const { return lists_[id]; }

 private:
  [[nodiscard]] std::uint64_t code(const Placement& placement);

  std::vector<Placement> placements_;
  std::vector<Placements> layouts_;
  std::vector<std::string> texts_;
  std::unordered_map<std::uint64_t, LayoutId> by_code_;
  std::vector<std::vector<LayoutId>> lists_;
  std::unordered_multimap<std::size_t, LayoutListId> lists_by_hash_;
};

}  // namespace shardlab

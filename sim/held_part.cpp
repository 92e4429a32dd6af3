#include "sim/held_part.h"

#include <algorithm>
#include <optional>

#include "sim/registered_placement.h"

namespace shardlab {
namespace {

using Ranges = std::vector<HeldPart::Range>;

// Appends the elements with the positions [begin, end) among those that `held` lists.
void take(const Ranges& held, std::int64_t begin, std::int64_t end, Ranges& out) {
  std::int64_t position = 0;
  for (const HeldPart::Range& range : held) {
    const std::int64_t size = range.end - range.begin;
    const std::int64_t from = range.begin + std::max<std::int64_t>(begin - position, 0);
    const std::int64_t to = range.begin + std::min(end - position, size);
    position += size;
    if (from >= to) continue;
    if (!out.empty() && out.back().end == from) {
      out.back().end = to;
    } else {
      out.push_back({from, to});
    }
  }
}

// What a coordinate keeps of these ranges: its chunk of each of `factor` pieces.
Ranges sharded(const Ranges& held, std::int64_t factor, std::int64_t chunks, std::int64_t index) {
  std::int64_t extent = 0;
  for (const HeldPart::Range& range : held) extent += range.end - range.begin;
  Ranges kept;
  for (std::int64_t piece = 0; piece < factor; ++piece) {
    const Chunk outer = chunk_of(extent, factor, piece);
    if (outer.size == 0) break;  // all further pieces are empty too
    const Chunk inner = chunk_of(outer.size, chunks, index);
    const std::int64_t begin = outer.offset + inner.offset;
    take(held, begin, begin + inner.size, kept);
  }
  return kept;
}

std::string reduction_of(const Placement& placement) {
  if (placement.kind() == Placement::Kind::kMaskPartial) return "mask";
  if (placement.kind() == Placement::Kind::kNormPartial) return "norm";
  return std::string(to_string(placement.reduce_op()));
}

}  // namespace

bool HeldPart::is_empty() const {
  return is_listed && std::any_of(ranges.begin(), ranges.end(),
                                  [](const std::vector<Range>& dim) { return dim.empty(); });
}

HeldPart held_part(const TensorMeta& meta, const Layout& layout, const DeviceMesh& mesh,
                   std::span<const std::int64_t> coordinate) {
  HeldPart held;
  const std::optional<Layout> decoded =
      layout.encodes_order() ? decode_strided_as_order(layout, mesh) : std::nullopt;
  // Where an extent does not divide evenly, the decoded layout has the same parts in the same
  // order, but not of the same sizes.
  const Layout& ordered = decoded ? *decoded : layout;
  for (int d = 0; d < meta.ndim(); ++d) {
    for (const int m : ordered.mesh_dims_of(d)) {
      held.parts = saturating_product(held.parts, mesh.size(m));
      held.part = held.part * mesh.size(m) + coordinate[to_index(m)];
    }
  }
  const Placement* registered = nullptr;
  for (int m = 0; m < layout.ndim(); ++m) {
    if (!layout[m].is_registered()) continue;
    registered = &layout[m];
    held.parts = saturating_product(held.parts, mesh.size(m));
    held.part = held.part * mesh.size(m) + coordinate[to_index(m)];
    held.joins_dims = layout[m].registered().dims() > 1;
    held.is_listed = !held.joins_dims;
  }
  for (int m = 0; m < layout.ndim(); ++m) {
    held.is_listed = held.is_listed &&
                     (!layout[m].is_strided() || layout[m].split_factor() <= HeldPart::kMostPieces);
  }
  for (int d = 0; d < meta.ndim() && held.is_listed; ++d) {
    const std::int64_t extent = meta.shape[to_index(d)];
    Ranges ranges;
    if (extent > 0) ranges.push_back({0, extent});
    for (const int m : layout.mesh_dims_of(d)) {
      const std::int64_t factor = layout[m].is_strided() ? layout[m].split_factor() : 1;
      ranges = sharded(ranges, factor, mesh.size(m), coordinate[to_index(m)]);
    }
    if (registered != nullptr && registered->dim() == d) {
      const auto m = registered - layout.placements.data();
      ranges.clear();
      for (const RowRange& rows : registered->registered().rows(
               extent, mesh.size(static_cast<int>(m)), coordinate[static_cast<std::size_t>(m)])) {
        ranges.push_back({rows.begin, rows.end});
      }
    }
    held.ranges.push_back(std::move(ranges));
  }
  for (int m = 0; m < layout.ndim(); ++m) {
    if (!layout[m].is_partial() || mesh.size(m) == 1) continue;
    const std::string of = reduction_of(layout[m]);
    const auto same = std::find_if(held.summands.begin(), held.summands.end(),
                                   [&](const HeldPart::Summand& one) { return one.of == of; });
    if (same == held.summands.end()) {
      held.summands.push_back({of, coordinate[to_index(m)], mesh.size(m)});
    } else {
      same->index = same->index * mesh.size(m) + coordinate[to_index(m)];
      same->count = saturating_product(same->count, mesh.size(m));
    }
  }
  return held;
}

}  // namespace shardlab

#include "sim/placement.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr std::string_view kPlacementForms = "a placement: R, S(d), _S(d,f), P(op), MP or NP(p)";
constexpr std::string_view kTensorDim = "a tensor dim";

ReduceOp parse_op(TextCursor& cursor) {
  const std::size_t start = cursor.position();
  const std::optional<ReduceOp> op = from_name<ReduceOp>(cursor.word());
  if (!op) cursor.fail_at(start, "a reduce op: " + valid_names<ReduceOp>());
  return *op;
}

void close(TextCursor& cursor) { cursor.expect(")", "\")\""); }

Placement parse_placement(TextCursor& cursor) {
  if (cursor.take("_S(")) {
    const auto dim = static_cast<int>(cursor.integer(kTensorDim, 0, kMaxTensorDims - 1));
    cursor.expect(",", "\",\" and a split factor");
    const auto factor =
        static_cast<int>(cursor.integer("a split factor", 1, std::int64_t{1} << 30));
    close(cursor);
    return Placement::strided_shard(dim, factor);
  }
  if (cursor.take("S(")) {
    const auto dim = static_cast<int>(cursor.integer(kTensorDim, 0, kMaxTensorDims - 1));
    close(cursor);
    return Placement::shard(dim);
  }
  if (cursor.take("MP")) {
    if (!cursor.take("(")) return Placement::mask_partial();
    const auto dim = static_cast<int>(cursor.integer(kTensorDim, 0, kMaxTensorDims - 1));
    cursor.expect(",", "\",\" and the embedding's rows");
    const std::int64_t extent = cursor.integer("the embedding's rows", 0, std::int64_t{1} << 40);
    close(cursor);
    return Placement::mask_partial(dim, extent);
  }
  if (cursor.take("NP(")) {
    const std::size_t start = cursor.position();
    const double p = cursor.number("the p of a p-norm");
    if (p == 0) cursor.fail_at(start, "a p other than 0 (use P(sum)) and infinity (use P(max))");
    close(cursor);
    return Placement::norm_partial(p);
  }
  if (cursor.take("P(")) {
    const ReduceOp op = parse_op(cursor);
    close(cursor);
    return Placement::partial(op);
  }
  if (cursor.take("P")) return Placement::partial();
  if (cursor.take("R")) return Placement::replicate();
  cursor.fail(kPlacementForms);
}

}  // namespace

Placement Placement::parse(std::string_view text) {
  TextCursor cursor("placement", text);
  const Placement placement = parse_placement(cursor);
  if (!cursor.at_end()) cursor.fail("the end of the placement");
  return placement;
}

std::string Placement::text() const {
  switch (kind_) {
    case Kind::kReplicate:
      return "R";
    case Kind::kShard:
      return "S(" + std::to_string(dim_) + ")";
    case Kind::kStridedShard:
      return "_S(" + std::to_string(dim_) + "," + std::to_string(factor_) + ")";
    case Kind::kPartial:
      return "P(" + std::string(to_string(op_)) + ")";
    case Kind::kMaskPartial:
      return mask_extent() == 0 && dim_ == 0
                 ? "MP"
                 : "MP(" + std::to_string(dim_) + "," + std::to_string(mask_extent()) + ")";
    case Kind::kNormPartial:
      return "NP(" + format_double(value_) + ")";
  }
  return "";
}

ShardOrder ShardOrder::default_of(const Placements& placements) {
  ShardOrder order;
  std::array<std::uint8_t, kMaxTensorDims> count{};
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (!placements[i].is_shard_like()) continue;
    order.position_[i] = count[to_index(placements[i].dim())]++;
  }
  return order;
}

Layout Layout::replicated(int mesh_ndim) {
  return Layout(Placements(static_cast<std::size_t>(mesh_ndim), Placement::replicate()));
}

Layout Layout::parse(std::string_view text, int mesh_ndim) {
  TextCursor cursor("layout", text);
  Placements placements;
  std::array<int, kMaxMeshDims> index{};
  index.fill(-1);
  bool any_index = false;
  const std::string count_expected = std::to_string(mesh_ndim) +
                                     (mesh_ndim == 1 ? " placement" : " placements") +
                                     ", one per mesh dim";
  while (!cursor.at_end()) {
    if (cursor.take(",")) continue;
    const std::size_t start = cursor.position();
    const Placement placement = parse_placement(cursor);
    const std::size_t i = placements.size();
    if (static_cast<int>(i) == mesh_ndim) cursor.fail_at(start, count_expected);
    if (cursor.take("[")) {
      const std::size_t index_position = cursor.position();
      if (!placement.is_shard_like()) {
        cursor.fail_at(index_position, "an order index only after a shard");
      }
      index[i] = static_cast<int>(cursor.integer("an order index", 0, kMaxMeshDims - 1));
      cursor.expect("]", "\"]\"");
      any_index = true;
    }
    placements.push_back(placement);
  }
  if (static_cast<int>(placements.size()) != mesh_ndim) cursor.fail(count_expected);
  if (has_mixed_partials(placements)) {
    cursor.fail_at(0, "partials of one kind (only P(sum) and P(avg) may be mixed)");
  }
  Layout layout(placements);
  if (!any_index) return layout;
  for (int dim = 0; dim < kMaxTensorDims; ++dim) {
    const auto mesh_dims = layout.mesh_dims_of(dim);
    unsigned seen = 0;
    int given = 0;
    for (const int m : mesh_dims) {
      const int position = index[to_index(m)];
      if (position < 0) continue;
      ++given;
      seen |= 1U << static_cast<unsigned>(position);
      layout.order.set(m, position);
    }
    if (given == 0) continue;
    if (given != static_cast<int>(mesh_dims.size()) || seen != (1U << mesh_dims.size()) - 1U) {
      cursor.fail_at(0, "order indices 0 to " + std::to_string(mesh_dims.size() - 1) +
                            " on the shards of tensor dim " + std::to_string(dim));
    }
  }
  return layout;
}

bool Layout::has_default_order() const { return order == ShardOrder::default_of(placements); }

boost::container::static_vector<int, kMaxMeshDims> Layout::mesh_dims_of(int dim) const {
  boost::container::static_vector<int, kMaxMeshDims> mesh_dims;
  for (int i = 0; i < ndim(); ++i) {
    if (!(*this)[i].is_shard_like() || (*this)[i].dim() != dim) continue;
    // The few mesh dims are inserted in order, since std::stable_sort would allocate memory.
    const auto before = [&](int other) { return order.position(other) <= order.position(i); };
    auto place = mesh_dims.end();
    while (place != mesh_dims.begin() && !before(*(place - 1))) --place;
    mesh_dims.insert(place, i);
  }
  return mesh_dims;
}

std::string Layout::text(bool always_order) const {
  const ShardOrder defaults = ShardOrder::default_of(placements);
  std::string out;
  for (int i = 0; i < ndim(); ++i) {
    const Placement& p = (*this)[i];
    out += p.text();
    if (!p.is_shard_like()) continue;
    bool other_order = false;
    int sharded = 0;
    for (int j = 0; j < ndim(); ++j) {
      if (!(*this)[j].is_shard_like() || (*this)[j].dim() != p.dim()) continue;
      ++sharded;
      other_order = other_order || order.position(j) != defaults.position(j);
    }
    if (other_order || (always_order && sharded > 1)) {
      out += "[" + std::to_string(order.position(i)) + "]";
    }
  }
  return out;
}

bool has_mixed_partials(const Placements& placements) {
  const Placement* first = nullptr;
  for (const Placement& p : placements) {
    if (!p.is_partial()) continue;
    if (first == nullptr) {
      first = &p;
      continue;
    }
    if (p.kind() != first->kind()) return true;
    if (p.reduce_op() != first->reduce_op() &&
        !(is_linear(p.reduce_op()) && is_linear(first->reduce_op()))) {
      return true;
    }
  }
  return false;
}

}  // namespace shardlab

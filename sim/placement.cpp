#include "sim/placement.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "sim/placement_text.h"
#include "sim/registered_placement.h"

namespace shardlab {
namespace {

// What a text may be instead of what was found.
std::string placement_forms() {
  std::string forms = "a placement: R, S(d), _S(d,f), P(op), MP or NP(p)";
  std::string registered;
  for (const PlacementEntry* entry : registered_entries()) {
    registered += (registered.empty() ? "; or one that is registered: " : ", ");
    registered += entry->form;
  }
  return forms + registered;
}

void close(TextCursor& cursor) { cursor.expect(")", "\")\""); }

// A tensor dim. One that counts from the last dim, such as -1, needs `tensor_ndim`.
int parse_dim(TextCursor& cursor, std::optional<int> tensor_ndim) {
  if (cursor.peek() != '-') {
    return static_cast<int>(cursor.integer("a tensor dim", 0, kMaxTensorDims - 1));
  }
  if (!tensor_ndim) {
    cursor.fail("a tensor dim from 0 to " + std::to_string(kMaxTensorDims - 1) +
                ", since a negative one counts from the last dim of a tensor, and no tensor is "
                "known here");
  }
  if (*tensor_ndim == 0) cursor.fail("no shard, since the tensor has no dims");
  const std::int64_t dim = cursor.integer("a tensor dim", -*tensor_ndim, *tensor_ndim - 1);
  return static_cast<int>(dim < 0 ? dim + *tensor_ndim : dim);  // "-0" is 0
}

// The name of an argument, as in "dim=0", which may be left out.
void skip_name(TextCursor& cursor, std::initializer_list<std::string_view> names) {
  const std::size_t start = cursor.position();
  const std::string_view word = cursor.word();
  const bool is_name = std::find(names.begin(), names.end(), word) != names.end();
  if (!is_name || !cursor.take("=")) cursor.move_to(start);
}

// A reduce op, which may stand in quotes.
ReduceOp parse_op(TextCursor& cursor) {
  const std::string_view quote = cursor.take("'") ? "'" : cursor.take("\"") ? "\"" : "";
  const std::size_t start = cursor.position();
  const std::optional<ReduceOp> op = from_name<ReduceOp>(cursor.word());
  if (!op) cursor.fail_at(start, "a reduce op: " + valid_names<ReduceOp>());
  if (!quote.empty()) cursor.expect(quote, "the quote that closes the reduce op");
  return *op;
}

// What follows "_S(" or "_StridedShard(".
Placement parse_strided(TextCursor& cursor, std::optional<int> tensor_ndim) {
  skip_name(cursor, {"dim"});
  const int dim = parse_dim(cursor, tensor_ndim);
  cursor.expect(",", "\",\" and a split factor");
  skip_name(cursor, {"sf", "split_factor"});
  const auto factor = static_cast<int>(cursor.integer("a split factor", 1, std::int64_t{1} << 30));
  close(cursor);
  return Placement::strided_shard(dim, factor);
}

// What follows "NP(", "_NormP(" or "_NormPartial(".
Placement parse_norm(TextCursor& cursor) {
  skip_name(cursor, {"norm_type"});
  const std::size_t start = cursor.position();
  constexpr std::string_view kValid = "a p other than 0 (use P(sum)) and infinity (use P(max))";
  if (cursor.take("inf") || cursor.take("-inf")) cursor.fail_at(start, kValid);
  const double p = cursor.number("the p of a p-norm");
  if (p == 0) cursor.fail_at(start, kValid);
  close(cursor);
  return Placement::norm_partial(p);
}

// What follows "MaskP(" or "_MaskPartial(": the reduce op, the embedding's shape or None, and the
// dim that the mask chunks.
Placement parse_mask(TextCursor& cursor) {
  skip_name(cursor, {"reduce_op"});
  const std::size_t start = cursor.position();
  if (parse_op(cursor) != ReduceOp::kSum) cursor.fail_at(start, "the reduce op sum for a mask");
  cursor.expect(",", "\",\" and the embedding's shape");
  skip_name(cursor, {"offset_shape"});
  boost::container::static_vector<std::int64_t, kMaxTensorDims> shape;
  const std::size_t shape_position = cursor.position();
  const bool has_shape = !cursor.take("None");
  if (has_shape) {
    cursor.expect("torch.Size([", "torch.Size([ROWS, ...]) or None");
    while (!cursor.take("]")) {
      if (static_cast<int>(shape.size()) == kMaxTensorDims) cursor.fail("\"]\"");
      shape.push_back(cursor.integer("a dim size", 0, std::int64_t{1} << 40));
      if (!cursor.take(",") && cursor.peek() != ']') cursor.fail("\",\" or \"]\"");
    }
    close(cursor);
  }
  cursor.expect(",", "\",\" and the dim that the mask chunks");
  skip_name(cursor, {"offset_dim"});
  const int dim = parse_dim(cursor, std::nullopt);
  if (has_shape && to_index(dim) >= shape.size()) {
    cursor.fail_at(shape_position, "a shape with a dim " + std::to_string(dim));
  }
  close(cursor);
  return Placement::mask_partial(dim, has_shape ? shape[to_index(dim)] : 0);
}

Placement parse_placement(TextCursor& cursor, std::optional<int> tensor_ndim) {
  if (Placement placement; parse_registered(cursor, placement)) return placement;
  if (cursor.take("_StridedShard(") || cursor.take("_S(")) {
    return parse_strided(cursor, tensor_ndim);
  }
  if (cursor.take("Shard(") || cursor.take("S(")) {
    skip_name(cursor, {"dim"});
    const int dim = parse_dim(cursor, tensor_ndim);
    close(cursor);
    return Placement::shard(dim);
  }
  if (cursor.take("MP")) {
    if (!cursor.take("(")) return Placement::mask_partial();
    const int dim = parse_dim(cursor, std::nullopt);
    cursor.expect(",", "\",\" and the embedding's rows");
    const std::int64_t extent = cursor.integer("the embedding's rows", 0, std::int64_t{1} << 40);
    close(cursor);
    return Placement::mask_partial(dim, extent);
  }
  if (cursor.take("_MaskPartial(") || cursor.take("MaskP(")) {
    return cursor.take(")") ? Placement::mask_partial() : parse_mask(cursor);
  }
  if (cursor.take("_NormPartial(")) {
    return cursor.take(")") ? Placement::norm_partial(2) : parse_norm(cursor);
  }
  if (cursor.take("_NormP(") || cursor.take("NP(")) return parse_norm(cursor);
  if (cursor.take("Partial(") || cursor.take("P(")) {
    skip_name(cursor, {"reduce_op"});
    if (cursor.take(")")) return Placement::partial();
    const ReduceOp op = parse_op(cursor);
    close(cursor);
    return Placement::partial(op);
  }
  if (cursor.take("Partial") || cursor.take("P")) return Placement::partial();
  if (cursor.take("Replicate")) {
    if (cursor.take("(")) close(cursor);
    return Placement::replicate();
  }
  if (cursor.take("R")) return Placement::replicate();
  cursor.fail(placement_forms());
}

// The position that the text gives each mesh dim among those that shard the same tensor dim; -1
// where it gives none.
using OrderIndices = std::array<int, kMaxMeshDims>;

// What follows "shard_order=": "None", "()", or
// "(ShardOrderEntry(tensor_dim=0, mesh_dims=(1, 0)),)".
void parse_shard_order(TextCursor& cursor, const Placements& placements,
                       std::optional<int> tensor_ndim, OrderIndices& index) {
  if (cursor.take("None")) return;
  cursor.expect("(", "\"(\" and the shard order, or None");
  while (!cursor.take(")")) {
    cursor.expect("ShardOrderEntry(", "ShardOrderEntry(tensor_dim=D, mesh_dims=(M, ...)) or \")\"");
    skip_name(cursor, {"tensor_dim"});
    const int dim = parse_dim(cursor, tensor_ndim);
    cursor.expect(",", "\",\" and mesh_dims");
    skip_name(cursor, {"mesh_dims"});
    cursor.expect("(", "\"(\" and mesh dims");
    int position = 0;
    while (!cursor.take(")")) {
      const std::size_t start = cursor.position();
      const std::int64_t m = cursor.integer("a mesh dim", 0, kMaxMeshDims - 1);
      if (static_cast<std::size_t>(m) >= placements.size() ||
          !placements[to_index(m)].is_shard_like() || placements[to_index(m)].dim() != dim ||
          index[to_index(m)] >= 0) {
        cursor.fail_at(start, "a mesh dim that shards tensor dim " + std::to_string(dim) +
                                  " and was not named before");
      }
      index[to_index(m)] = position++;
      if (!cursor.take(",") && cursor.peek() != ')') cursor.fail("\",\" or \")\"");
    }
    close(cursor);
    if (!cursor.take(",") && cursor.peek() != ')') cursor.fail("\",\" or \")\"");
  }
}

// Fails at the first partial that may not be mixed with an earlier one. `starts` are the places of
// the placements in the text.
[[noreturn]] void fail_mixed_partials(const TextCursor& cursor, const Placements& placements,
                                      std::span<const std::size_t> starts) {
  std::size_t first = 0;
  while (!placements[first].is_partial()) ++first;
  std::size_t other = first + 1;
  while (!has_mixed_partials({placements[first], placements[other]})) ++other;
  const auto named = [&](std::size_t m) {
    return placements[m].text() + " on mesh dim " + std::to_string(m);
  };
  cursor.fail_at(starts[other], "partials of one kind (only P(sum) and P(avg) may be mixed), not " +
                                    named(first) + " and " + named(other));
}

enum class MixedPartials { kRefused, kAllowed };

Layout parse_layout_text(std::string_view text, int mesh_ndim, std::optional<int> tensor_ndim,
                         MixedPartials mixed = MixedPartials::kRefused) {
  TextCursor cursor("layout", text);
  Placements placements;
  std::array<std::size_t, kMaxMeshDims> starts{};
  OrderIndices index{};
  index.fill(-1);
  const std::string count_expected = std::to_string(mesh_ndim) +
                                     (mesh_ndim == 1 ? " placement" : " placements") +
                                     ", one per mesh dim";
  const std::string_view end = cursor.take("[") ? "]" : cursor.take("(") ? ")" : "";
  bool closed = end.empty();
  bool any_index = false;
  std::size_t end_position = 0;
  while (!cursor.at_end()) {
    end_position = cursor.position();
    if (!closed && cursor.take(end)) {
      closed = true;
      break;
    }
    if (cursor.take(",")) continue;
    const std::size_t start = cursor.position();
    const Placement placement = parse_placement(cursor, tensor_ndim);
    const std::size_t i = placements.size();
    if (static_cast<int>(i) == mesh_ndim) cursor.fail_at(start, count_expected);
    starts[i] = start;
    if (cursor.take("[")) {
      const std::size_t index_position = cursor.position();
      if (!placement.is_shard_like()) {
        cursor.fail_at(index_position, placement.is_registered()
                                           ? "no order index, which only S and _S have"
                                           : "an order index only after a shard");
      }
      index[i] = static_cast<int>(cursor.integer("an order index", 0, kMaxMeshDims - 1));
      cursor.expect("]", "\"]\"");
      any_index = true;
    }
    placements.push_back(placement);
  }
  if (!closed) cursor.fail("\"" + std::string(end) + "\" at the end of the layout");
  if (static_cast<int>(placements.size()) != mesh_ndim) {
    cursor.fail_at(end.empty() ? cursor.position() : end_position, count_expected);
  }
  if (!end.empty()) {
    if (cursor.take(",")) {
      cursor.expect("shard_order=", "shard_order=, or the end of the layout");
      if (any_index) cursor.fail("one shard order; the placements have order indices already");
      parse_shard_order(cursor, placements, tensor_ndim, index);
      any_index = true;
    }
    if (!cursor.at_end()) cursor.fail("the end of the layout");
  }
  if (mixed == MixedPartials::kRefused && has_mixed_partials(placements)) {
    fail_mixed_partials(cursor, placements, starts);
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
    for (const int m : mesh_dims) layout.own_strided |= placements[to_index(m)].is_strided();
    if (given != static_cast<int>(mesh_dims.size()) || seen != (1U << mesh_dims.size()) - 1U) {
      cursor.fail_at(0, "order indices 0 to " + std::to_string(mesh_dims.size() - 1) +
                            " on the shards of tensor dim " + std::to_string(dim));
    }
  }
  for (std::size_t i = 0; layout.own_strided && i < placements.size(); ++i) {
    if (!placements[i].is_strided() || index[i] >= 0) continue;
    cursor.fail_at(starts[i], "an order index on each strided shard, or on none");
  }
  return layout;
}

}  // namespace

Placement Placement::parse(std::string_view text) {
  TextCursor cursor("placement", text);
  const Placement placement = parse_placement(cursor, std::nullopt);
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
    case Kind::kRegistered:
      return registered().text();
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
  return parse_layout_text(text, mesh_ndim, std::nullopt);
}

Layout parse_layout_of(std::string_view text, int mesh_ndim, int tensor_ndim) {
  return parse_layout_text(text, mesh_ndim, tensor_ndim);
}

Placements parse_candidate_placements(std::string_view text, int mesh_ndim) {
  return parse_layout_text(text, mesh_ndim, std::nullopt, MixedPartials::kAllowed).placements;
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
      other_order = other_order || order.position(j) != defaults.position(j) ||
                    (own_strided && !always_order && (*this)[j].is_strided());
    }
    if (other_order || (always_order && sharded > 1)) {
      out += "[" + std::to_string(order.position(i)) + "]";
    }
  }
  return out;
}

std::string torch_text(const Placement& placement) {
  const std::string dim = std::to_string(placement.dim());
  switch (placement.kind()) {
    case Placement::Kind::kReplicate:
      return "Replicate()";
    case Placement::Kind::kShard:
      return "Shard(dim=" + dim + ")";
    case Placement::Kind::kStridedShard:
      return "_StridedShard(dim=" + dim + ", sf=" + std::to_string(placement.split_factor()) + ")";
    case Placement::Kind::kRegistered:
      return placement.registered().torch_text();
    case Placement::Kind::kPartial:
      return "Partial(" + std::string(to_string(placement.reduce_op())) + ")";
    case Placement::Kind::kMaskPartial: {
      std::string shape = "None";
      if (placement.mask_extent() > 0) {
        shape = "torch.Size([";
        for (int d = 0; d < placement.dim(); ++d) shape += "1, ";
        shape += std::to_string(placement.mask_extent()) + "])";
      }
      return "_MaskPartial(reduce_op=sum, offset_shape=" + shape + ", offset_dim=" + dim + ")";
    }
    case Placement::Kind::kNormPartial:
      return "_NormPartial(" + format_double(placement.norm()) + ")";
  }
  return "";
}

std::string torch_text(const Layout& layout, bool always_order) {
  std::string out = "(";
  std::set<int> dims;  // those whose order is written
  const ShardOrder defaults = ShardOrder::default_of(layout.placements);
  const bool own_strided = layout.own_strided && layout.has_strided();
  for (int m = 0; m < layout.ndim(); ++m) {
    out += (m > 0 ? ", " : "") + torch_text(layout[m]);
    if (!layout[m].is_shard_like()) continue;
    if (own_strided || layout.order.position(m) != defaults.position(m) ||
        (always_order && layout.mesh_dims_of(layout[m].dim()).size() > 1)) {
      dims.insert(layout[m].dim());
    }
  }
  out += layout.ndim() == 1 ? ",)" : ")";
  if (dims.empty()) return out;
  out += ", shard_order=(";
  for (const int dim : dims) {
    const auto order = layout.mesh_dims_of(dim);
    std::string mesh_dims;
    for (const int m : order) {
      mesh_dims += (mesh_dims.empty() ? "" : ", ") + std::to_string(m);
    }
    if (order.size() == 1) mesh_dims += ",";
    out += (dim == *dims.begin() ? "" : ", ") + std::string("ShardOrderEntry(tensor_dim=") +
           std::to_string(dim) + ", mesh_dims=(" + mesh_dims + "))";
  }
  return out + (dims.size() == 1 ? ",)" : ")");
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

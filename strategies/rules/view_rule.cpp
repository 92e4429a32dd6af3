#include "strategies/rules/view_rule.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"

namespace shardlab {
namespace {

// a * b, or the largest number where the product overflows. Assumes that neither is negative.
std::int64_t times(std::int64_t a, std::int64_t b) {
  return a == 0 || b == 0 ? 0 : saturating_product(a, b);
}

std::int64_t product_of(std::span<const std::int64_t> extents) {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) product = times(product, extent);
  return product;
}

std::int64_t product_of(const Shape& extents) {
  return product_of(std::span<const std::int64_t>(extents.data(), extents.size()));
}

// -- The rule of a reshape -------------------------------------------------------------------

// Flattens the input dims `begin` to `end` - 1 into one. Like PyTorch, it leaves out dims of extent
// 0.
ViewDim flattened(const Shape& from, int begin, int end) {
  ViewDim dim;
  for (int i = begin; i < end; ++i) {
    if (from[to_index(i)] >= 1) dim.inputs.push_back(i);
  }
  if (dim.inputs.size() == 1) dim.kind = ViewDim::Kind::kInput;
  if (dim.inputs.size() > 1) dim.kind = ViewDim::Kind::kFlatten;
  return dim;
}

// Appends the output dims that a group of input dims becomes.
void add_parts(ViewRule& rule, const ViewDim& whole, std::span<const std::int64_t> extents) {
  if (extents.size() == 1) {
    rule.push_back(whole);
    return;
  }
  Shape parts(extents.begin(), extents.end());
  parts.erase(std::remove(parts.begin(), parts.end(), 1), parts.end());
  int part = 0;
  for (const std::int64_t extent : extents) {
    ViewDim dim;
    if (extent != 1) {
      dim = {.kind = ViewDim::Kind::kSplit, .inputs = whole.inputs, .parts = parts, .part = part++};
    }
    rule.push_back(dim);
  }
}

}  // namespace

ViewRule reshape_rule(std::string_view op, const Shape& from, const Shape& to) {
  const auto fail = [&] {
    throw InputError(std::string(op) + ": PyTorch can't match the dims of an empty tensor");
  };
  ViewRule rule;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < from.size() || j < to.size()) {
    std::int64_t have = i < from.size() ? from[i] : 1;
    std::int64_t want = j < to.size() ? to[j] : 1;
    const std::size_t i_begin = i;
    const std::size_t j_begin = j;
    if (have == 1 && want != 1) {  // no output dim shows this input dim
      if (i == from.size()) fail();
      ++i;
      continue;
    }
    if (have != 1 && want == 1) {  // this output dim shows no input dim
      if (j == to.size()) fail();
      ++j;
      rule.emplace_back();
      continue;
    }
    i = std::min(i + 1, from.size());
    j = std::min(j + 1, to.size());
    while (have != want && (i < from.size() || j < to.size())) {
      if (have == 0 && i < from.size() && j < to.size()) fail();
      if (i < from.size() && (j == to.size() || want % have == 0 || want > have)) {
        have = times(have, from[i++]);
      } else {
        want = times(want, to[j++]);
      }
    }
    if (j == j_begin) continue;
    add_parts(rule, flattened(from, static_cast<int>(i_begin), static_cast<int>(i)),
              {to.data() + j_begin, j - j_begin});
  }
  return rule;
}

// -- What PyTorch does -----------------------------------------------------------------------

namespace {

class DTensorView {
 public:
  DTensorView(std::string_view op, const ViewRule& rule, const Shape& shape,
              const Placements& placements, const DeviceMesh& mesh, bool strict)
      : op_(op), rule_(rule), shape_(shape), source_(placements), mesh_(mesh), strict_(strict) {
    const std::size_t ndim = shape.size();
    allowed_.assign(ndim, std::vector<bool>(placements.size(), false));
    shown_by_.resize(ndim);
    for (const ViewDim& dim : rule) {
      for (const int in : dim.inputs) allowed_[to_index(in)].assign(placements.size(), true);
    }
  }

  [[nodiscard]] ViewLayouts layouts() {
    for (std::size_t out = 0; out < rule_.size(); ++out) analyze(static_cast<int>(out));
    ViewLayouts layouts;
    layouts.input = kept_input();
    extents_ = shape_;
    for (std::size_t m = 0; m < layouts.input.size(); ++m) {
      const Placement& p = layouts.input[m];
      layouts.output.push_back(p.is_shard()     ? rewrite_shard(layouts.input, m)
                               : p.is_strided() ? rewrite_strided(layouts.input, m)
                                                : p);
    }
    return layouts;
  }

 private:
  [[nodiscard]] std::int64_t mesh_size(std::size_t m) const {
    return mesh_.size(static_cast<int>(m));
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw InputError(std::string(op_) + ": " + why);
  }
  [[nodiscard]] std::string uneven(std::int64_t extent, std::size_t m) const {
    return " of extent " + std::to_string(extent) + " is not divisible by the " +
           std::to_string(mesh_size(m)) + " ranks of mesh dim " + std::to_string(m) +
           "; redistribute the tensor before this operation";
  }

  // The first mesh dim that has a plain shard of the input dim.
  [[nodiscard]] std::optional<std::size_t> plain_shard_of(int dim) const {
    for (std::size_t m = 0; m < source_.size(); ++m) {
      if (source_[m].is_shard_of(dim)) return m;
    }
    return std::nullopt;
  }

  // A strided shard of `dim` on mesh dim `m` is a plain shard of the output dim `split` if it has
  // this split factor: the product of the parts before that dim, divided by the sizes of the mesh
  // dims before `m` that also shard `dim`. Nothing if the division leaves a remainder.
  [[nodiscard]] std::optional<std::int64_t> factor_of_part(const ViewDim& split,
                                                           const Placements& placements, int dim,
                                                           std::size_t m) const {
    std::int64_t factor = product_of({split.parts.data(), static_cast<std::size_t>(split.part)});
    for (std::size_t before = 0; before < m; ++before) {
      if (!placements[before].is_shard_like() || placements[before].dim() != dim) continue;
      if (factor % mesh_size(before) != 0) return std::nullopt;
      factor /= mesh_size(before);
    }
    return factor;
  }

  // The input dims whose shards the output dim can take. Also sets on which mesh dims these shards
  // may stay.
  std::vector<int> analyze_flatten(const ViewDim& dim) {
    std::vector<int> sharded;
    for (const int in : dim.inputs) {
      const std::optional<std::size_t> m = plain_shard_of(in);
      if (!m) continue;
      const bool even = shape_[to_index(in)] % mesh_size(*m) == 0;
      const bool first = in == dim.inputs.front();
      if (strict_ && in != dim.inputs.back() && !even) {
        fail("cannot flatten unevenly sharded tensor: dim " + std::to_string(in) +
             uneven(shape_[to_index(in)], *m));
      }
      if (strict_ || first) sharded.push_back(in);
      allowed_[to_index(in)].assign(source_.size(), strict_ || (first && even));
    }
    if (sharded.empty()) sharded.push_back(dim.inputs.front());
    return sharded;
  }

  // The first mesh dim whose shard this part can take over and no other part has taken over.
  [[nodiscard]] std::optional<std::size_t> shard_for_part(const ViewDim& split, int in) const {
    for (std::size_t m = 0; m < source_.size(); ++m) {
      const Placement& p = source_[m];
      if (!p.is_shard_like() || p.dim() != in || taken_over_.count(m) != 0) continue;
      if (p.is_shard() || factor_of_part(split, source_, in, m) == p.split_factor()) return m;
    }
    return std::nullopt;
  }

  std::vector<int> analyze_split(const ViewDim& split) {
    if (split.inputs.empty()) return {};
    const bool flattens = split.inputs.size() > 1;
    const int in = flattens ? analyze_flatten(split).front() : split.inputs.front();
    // Shards of the flattened dims after the first are gathered, even if `strict`.
    for (std::size_t i = 1; i < split.inputs.size(); ++i) {
      for (std::size_t m = 0; m < source_.size(); ++m) {
        if (!source_[m].is_shard_of(split.inputs[i])) continue;
        allowed_[to_index(split.inputs[i])][m] = false;
        gathered_.insert({split.inputs[i], m});
      }
    }
    const std::int64_t extent = split.parts[to_index(split.part)];
    const std::optional<std::size_t> shard = shard_for_part(split, in);
    const auto refuse = [&](std::size_t m) {
      fail("cannot unflatten unevenly sharded tensor: output part " + std::to_string(split.part) +
           uneven(extent, m));
    };
    if (split.part == 0) {
      for (std::size_t m = 0; m < source_.size(); ++m) {
        allowed_[to_index(in)][m] = extent % mesh_size(m) == 0;
      }
      const std::optional<std::size_t> plain = plain_shard_of(in);
      if (strict_ && plain && !allowed_[to_index(in)][*plain]) refuse(*plain);
    }
    if (shard && source_[*shard].is_strided()) {
      const bool even = extent % mesh_size(*shard) == 0;
      const bool last = split.part + 1 == static_cast<int>(split.parts.size());
      if (strict_ && !last && !even) refuse(*shard);
      taken_over_.insert(*shard);
      allowed_[to_index(in)][*shard] = even || last;
    }
    if (split.part == 0) return {in};
    return {};
  }

  void analyze(int out) {
    const ViewDim& dim = rule_[to_index(out)];
    switch (dim.kind) {
      case ViewDim::Kind::kNew:
      case ViewDim::Kind::kBroadcast:
        return;
      case ViewDim::Kind::kRepeat:
        allowed_[to_index(dim.inputs.front())].assign(source_.size(), false);
        return;
      case ViewDim::Kind::kInput:
        shown_by_[to_index(dim.inputs.front())].push_back(out);
        return;
      case ViewDim::Kind::kFlatten:
        for (const int in : analyze_flatten(dim)) shown_by_[to_index(in)].assign(1, out);
        return;
      case ViewDim::Kind::kSplit:
        break;
    }
    const std::vector<int> first = analyze_split(dim);
    if (!first.empty()) {
      shown_by_[to_index(first.front())].push_back(out);
    } else if (!dim.inputs.empty() && !shown_by_[to_index(dim.inputs.front())].empty()) {
      shown_by_[to_index(dim.inputs.front())].push_back(out);
    }
  }

  [[nodiscard]] Placements kept_input() const {
    Placements kept;
    for (std::size_t m = 0; m < source_.size(); ++m) {
      const Placement& p = source_[m];
      const bool lost = p.is_shard_like() && !allowed_[to_index(p.dim())][m];
      if (lost && strict_ && gathered_.count({p.dim(), m}) == 0) {
        fail("would remove or reshape sharded dim " + std::to_string(p.dim()) +
             ", which requires redistribution; redistribute the tensor before this operation");
      }
      kept.push_back(lost ? Placement::replicate() : p);
    }
    return kept;
  }

  // The output dims that show an input dim, except those that a strided shard has claimed.
  [[nodiscard]] std::vector<int> free_dims(int in) const {
    std::vector<int> dims;
    for (const int out : shown_by_[to_index(in)]) {
      if (claimed_.count({in, out}) == 0) dims.push_back(out);
    }
    if (dims.empty()) fail("PyTorch finds no output dim for a shard of dim " + std::to_string(in));
    return dims;
  }

  [[nodiscard]] Placement strided(int out, std::int64_t factor) const {
    if (factor < 1 || factor > std::numeric_limits<std::int32_t>::max()) {
      fail("PyTorch would make a strided shard with a split factor of " + std::to_string(factor) +
           "; valid: 1 to 2^31 - 1");
    }
    return Placement::strided_shard(out, static_cast<int>(factor));
  }

  Placement rewrite_shard(const Placements& input, std::size_t m) {
    const int in = input[m].dim();
    const std::vector<int> dims = free_dims(in);
    int out = dims.front();
    if (dims.size() > 1) {
      const auto is_first_part = [&](int d) {
        return rule_[to_index(d)].kind == ViewDim::Kind::kSplit && rule_[to_index(d)].part == 0;
      };
      const auto found = std::find_if(dims.begin(), dims.end(), is_first_part);
      if (found == dims.end()) {
        fail("PyTorch finds no output dim that is the first part of dim " + std::to_string(in) +
             ", which is sharded");
      }
      out = *found;
    }
    const ViewDim& dim = rule_[to_index(out)];
    if (dim.kind == ViewDim::Kind::kSplit && in != dim.inputs.front()) {
      fail("PyTorch can't place a shard of dim " + std::to_string(in));
    }
    const std::int64_t extent = extents_[to_index(in)];
    extents_[to_index(in)] = extent / mesh_size(m);
    if (dim.kind != ViewDim::Kind::kFlatten) return Placement::shard(out);
    const int begin = dim.inputs.front();
    const int end = dim.inputs.back() + 1;
    Placement placement = Placement::shard(out);
    if (in != begin) {
      placement =
          strided(out, product_of({extents_.data() + begin, static_cast<std::size_t>(in - begin)}));
    }
    const auto later = [&](const Placement& p) {
      return p.is_shard_like() && begin <= p.dim() && p.dim() < end && p.dim() >= in;
    };
    if (extent % mesh_size(m) != 0 &&
        std::any_of(input.begin() + static_cast<std::ptrdiff_t>(m) + 1, input.end(), later)) {
      fail("cannot shard unevenly distributed tensor: dim " + std::to_string(in) +
           uneven(extent, m));
    }
    return placement;
  }

  // The output dim on which a strided shard stays strided: the first part such that every piece of
  // the shard holds a whole number of the part's rows.
  [[nodiscard]] std::optional<int> dim_that_keeps(const std::vector<int>& dims, const Placement& p,
                                                  std::size_t m) const {
    const std::int64_t pieces = saturating_product(mesh_size(m), p.split_factor());
    const std::int64_t extent = shape_[to_index(p.dim())];
    if (extent % pieces != 0) return std::nullopt;
    for (const int out : dims) {
      const ViewDim& dim = rule_[to_index(out)];
      if (dim.kind != ViewDim::Kind::kSplit) continue;
      const std::size_t next = static_cast<std::size_t>(dim.part) + 1;
      const std::int64_t inner = product_of({dim.parts.data() + next, dim.parts.size() - next});
      std::int64_t piece = extent / pieces;
      if (dim.inputs.size() > 1) {
        auto member = std::find(dim.inputs.begin(), dim.inputs.end(), p.dim());
        for (; member != dim.inputs.end(); ++member) {
          if (*member != p.dim()) piece = times(piece, shape_[to_index(*member)]);
        }
      }
      if (piece >= inner && inner > 0 && piece % inner == 0) return out;
    }
    return std::nullopt;
  }

  Placement rewrite_strided(const Placements& input, std::size_t m) {
    const Placement& p = input[m];
    const std::vector<int> dims = free_dims(p.dim());
    extents_[to_index(p.dim())] /= mesh_size(m);
    const auto is_split = [&](int d) { return rule_[to_index(d)].kind == ViewDim::Kind::kSplit; };
    for (const int out : dims) {
      if (!is_split(out) ||
          factor_of_part(rule_[to_index(out)], input, p.dim(), m) != p.split_factor()) {
        continue;
      }
      claimed_.insert({p.dim(), out});
      return Placement::shard(out);
    }
    const std::optional<int> out = dim_that_keeps(dims, p, m);
    if (!out && strict_ && std::any_of(dims.begin(), dims.end(), is_split)) {
      fail("cannot unflatten tensor with " + p.text() +
           ": its split factor matches no output dim; redistribute the tensor before this "
           "operation");
    }
    return p.with_dim(out.value_or(dims.front()));
  }

  std::string_view op_;
  const ViewRule& rule_;
  const Shape& shape_;
  const Placements& source_;
  const DeviceMesh& mesh_;
  bool strict_;
  std::vector<std::vector<bool>> allowed_;  // [input dim][mesh dim]: whether a shard may stay
  std::vector<std::vector<int>> shown_by_;  // [input dim]: the output dims that show it
  std::set<std::size_t> taken_over_;        // mesh dims whose strided shard has found its part
  std::set<std::pair<int, std::size_t>> gathered_;  // input dim and mesh dim of a gathered shard
  std::set<std::pair<int, int>> claimed_;           // input dim and the output dim that it claimed
  Shape extents_;  // extents of the input, divided by the mesh dims so far and rounded down
};

}  // namespace

ViewLayouts dtensor_view(std::string_view op, const ViewRule& rule, const Shape& shape,
                         const Placements& placements, const DeviceMesh& mesh, bool strict) {
  return DTensorView(op, rule, shape, placements, mesh, strict).layouts();
}

// -- Exact views -----------------------------------------------------------------------------

namespace {

// What one rank holds: a box of the input, and the box of the output that shows the same elements.
struct Boxes {
  Shape from;
  Shape to;
  friend bool operator<(const Boxes& a, const Boxes& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  }
};

// How a shard of one dim cuts a box. The elements of the box, in row-major order, form equal
// pieces, and each piece consists of rows. With c rows per chunk, rank r gets rows r c to (r + 1) c
// - 1 of each piece.
struct Cut {
  std::int64_t pieces = 1;
  std::int64_t rows = 1;  // how many rows are in one piece
  std::int64_t row = 1;   // how many elements are in one row
};

std::optional<Cut> cut_of(const Shape& box, int dim, std::int64_t factor) {
  const auto d = static_cast<std::size_t>(dim);
  if (box[d] % factor != 0) return std::nullopt;
  return Cut{product_of({box.data(), d}) * factor, box[d] / factor,
             product_of({box.data() + d + 1, box.size() - d - 1})};
}

// Whether both cuts give the same elements to each rank. Assumes that the boxes hold the same
// elements, and at least one.
bool cuts_alike(const Cut& a, const Cut& b, std::int64_t ranks) {
  if (a.pieces != b.pieces) return false;
  for (std::int64_t r = 1; r < ranks; ++r) {
    const std::int64_t end = a.row * chunk_of(a.rows, ranks, r).offset;
    if (end != b.row * chunk_of(b.rows, ranks, r).offset) return false;
    if (end == a.row * a.rows) break;  // the chunks after this one are empty in both
  }
  return true;
}

// Whether a shard of the input and a shard of the output hold the same elements of every box.
bool shards_alike(const std::set<Boxes>& boxes, const Placement& from, const Placement& to,
                  std::int64_t ranks) {
  return std::all_of(boxes.begin(), boxes.end(), [&](const Boxes& box) {
    const std::optional<Cut> a = cut_of(box.from, from.dim(), from.split_factor());
    const std::optional<Cut> b = cut_of(box.to, to.dim(), to.split_factor());
    return a && b && cuts_alike(*a, *b, ranks);
  });
}

// The shard of the output that holds the same elements as the given shard of the input, in every
// box.
std::optional<Placement> same_shard(const std::set<Boxes>& boxes, const Placement& shard,
                                    std::int64_t ranks) {
  std::optional<Placement> best;
  const Boxes& first = *boxes.begin();
  const std::optional<Cut> cut = cut_of(first.from, shard.dim(), shard.split_factor());
  if (!cut) return std::nullopt;
  for (int out = 0; out < static_cast<int>(first.to.size()); ++out) {
    const std::int64_t before = product_of({first.to.data(), static_cast<std::size_t>(out)});
    const std::int64_t factor = cut->pieces / before;
    if (cut->pieces % before != 0 || factor > std::numeric_limits<std::int32_t>::max()) continue;
    if (best && factor >= best->split_factor()) continue;
    const Placement shown = factor == 1 ? Placement::shard(out)
                                        : Placement::strided_shard(out, static_cast<int>(factor));
    if (shards_alike(boxes, shard, shown, ranks)) best = shown;
  }
  return best;
}

// What the ranks hold after the boxes are sharded. Boxes without elements are left out, because any
// shard of them is right.
std::set<Boxes> sharded(const std::set<Boxes>& boxes, const Placement& from, const Placement& to,
                        std::int64_t ranks) {
  const auto cut = [&](Shape& box, const Placement& p, std::int64_t r) {
    std::int64_t& extent = box[to_index(p.dim())];
    extent = p.split_factor() * chunk_of(extent / p.split_factor(), ranks, r).size;
    return extent > 0;
  };
  std::set<Boxes> all;
  for (const Boxes& box : boxes) {
    for (std::int64_t r = 0; r < ranks; ++r) {
      Boxes part = box;
      if (!cut(part.from, from, r) || !cut(part.to, to, r))
        break;  // all chunks after this one are empty too
      all.insert(std::move(part));
    }
  }
  return all;
}

}  // namespace

ViewLayouts exact_view(const Shape& from, const Shape& to, const Placements& placements,
                       const DeviceMesh& mesh) {
  ViewLayouts layouts;
  std::set<Boxes> boxes;
  if (product_of(from) > 0) boxes.insert({from, to});
  for (std::size_t m = 0; m < placements.size(); ++m) {
    const Placement& p = placements[m];
    std::optional<Placement> shown;
    if (!p.is_shard_like()) {
      shown = p;
    } else if (!boxes.empty()) {
      shown = same_shard(boxes, p, mesh.size(static_cast<int>(m)));
      if (shown) boxes = sharded(boxes, p, *shown, mesh.size(static_cast<int>(m)));
    }
    layouts.input.push_back(shown ? p : Placement::replicate());
    layouts.output.push_back(shown.value_or(Placement::replicate()));
  }
  return layouts;
}

bool shows_alike(const Shape& from, const Shape& to, const ViewLayouts& layouts,
                 const DeviceMesh& mesh) {
  std::set<Boxes> boxes;
  if (product_of(from) > 0) boxes.insert({from, to});
  for (std::size_t m = 0; m < layouts.input.size(); ++m) {
    const Placement& a = layouts.input[m];
    const Placement& b = layouts.output[m];
    if (!a.is_shard_like() || !b.is_shard_like()) {
      if (a != b) return false;
      continue;
    }
    const std::int64_t ranks = mesh.size(static_cast<int>(m));
    if (!shards_alike(boxes, a, b, ranks)) return false;
    boxes = sharded(boxes, a, b, ranks);
  }
  return true;
}

}  // namespace shardlab

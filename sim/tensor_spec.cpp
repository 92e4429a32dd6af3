#include "sim/tensor_spec.h"

#include <algorithm>
#include <array>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "sim/placement_text.h"
#include "sim/registered_placement.h"

namespace shardlab {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// "bf16", or PyTorch's name for it: "bfloat16", "torch.bfloat16".
DType parse_dtype(TextCursor& cursor) {
  const std::size_t start = cursor.position();
  std::string_view name = cursor.word();
  if (name == "torch" && cursor.take(".")) name = cursor.word();
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) cursor.fail_at(start, "a dtype: " + std::string(kDTypeNames));
  return *dtype;
}

TensorMeta parse_meta(TextCursor& cursor) {
  TensorMeta meta;
  const std::size_t start = cursor.position();
  meta.dtype = parse_dtype(cursor);
  cursor.expect("[", "\"[\" and the shape");
  if (!cursor.take("]")) {
    do {
      if (meta.ndim() == kMaxTensorDims) {
        cursor.fail("at most " + std::to_string(kMaxTensorDims) + " tensor dims");
      }
      meta.shape.push_back(cursor.integer("a dim size", 0, std::int64_t{1} << 53));
    } while (cursor.take(","));
    cursor.expect("]", "\",\" and another dim size, or \"]\"");
  }
  if (meta.bytes() > kMaxTensorBytes) cursor.fail_at(start, "a tensor of at most 2^53 bytes");
  return meta;
}

void check_dims(const Layout& layout, const TensorMeta& meta, std::string_view text,
                std::size_t position) {
  for (const Placement& p : layout.placements) {
    if (p.is_shard_like() && p.dim() >= meta.ndim()) {
      throw TextError("layout", text, position,
                      meta.ndim() == 0
                          ? "no shard, since the tensor has no dims; found " + p.text()
                          : "shards of tensor dims 0 to " + std::to_string(meta.ndim() - 1) +
                                ", found " + p.text());
    }
  }
}

// The extent that one coordinate keeps of a dim under one shard, plain or strided.
std::int64_t sharded_extent(std::int64_t extent, const Placement& placement, std::int64_t chunks,
                            std::int64_t index) {
  return placement.is_strided() ? strided_size(extent, placement.split_factor(), chunks, index)
                                : chunk_of(extent, chunks, index).size;
}

// What a rank holds under the registered placement of a layout.
struct RegisteredRows {
  const RegisteredPlacement* placement = nullptr;
  int dim = 0;  // the dim of viewed_shape() of which a rank holds `rows`
  std::vector<RowRange> rows;
};

// Throws InputError if the placement can't cut the tensor. Assumes that the layout has one.
RegisteredRows registered_rows(const Shape& shape, const Layout& layout, const DeviceMesh& mesh,
                               std::span<const std::int64_t> coordinate) {
  for (int m = 0; m < layout.ndim(); ++m) {
    if (!layout[m].is_registered()) continue;
    const RegisteredPlacement& own = layout[m].registered();
    const std::int64_t extent = extent_of(own, shape);
    const std::string why = own.why_not(extent, mesh.size(m));
    if (!why.empty()) throw InputError(own.text() + " " + why);
    return {&own, own.dim(), own.rows(extent, mesh.size(m), coordinate[to_index(m)])};
  }
  return {};
}

std::vector<std::int64_t> listed(const std::vector<RowRange>& ranges) {
  std::vector<std::int64_t> rows;
  for (const RowRange& range : ranges) {
    for (std::int64_t row = range.begin; row < range.end; ++row) rows.push_back(row);
  }
  return rows;
}

constexpr std::string_view kBlanks = " \t\n\r";

// The text without its last character, which has to be `closing`.
std::string_view without_last(TextCursor& cursor, std::string_view text, std::string_view closing) {
  const std::size_t last = text.find_last_not_of(kBlanks);
  if (text[last] != closing.front()) {
    cursor.fail_at(last + 1, "\"" + std::string(closing) + "\" at the end of the text");
  }
  return text.substr(0, last);
}

// Moves the cursor over one argument of a call that Python printed, up to the comma or the
// parenthesis that ends it, and returns its text.
std::string_view skip_argument(TextCursor& cursor, std::string_view text) {
  const std::size_t start = cursor.position();
  int depth = 0;
  for (std::size_t i = start; i < text.size(); ++i) {
    const char c = text[i];
    if (depth == 0 && (c == ',' || c == ')')) {
      cursor.move_to(i);
      return text.substr(start, i - start);
    }
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
  }
  cursor.fail_at(text.size(), "\")\" at the end of the text");
}

// Reads "(shape=torch.Size([8, 8]), stride=(8, 1), dtype=torch.float32)".
TensorMeta parse_meta_repr(TextCursor& cursor) {
  TensorMeta meta;
  cursor.expect("TensorMeta(shape=torch.Size([", "TensorMeta(shape=torch.Size([...]), ...)");
  const auto integers = [&](std::string_view closing, std::string_view expected) {
    Shape values;
    while (!cursor.take(closing)) {
      if (values.size() == kMaxTensorDims) {
        cursor.fail("at most " + std::to_string(kMaxTensorDims) + " tensor dims");
      }
      values.push_back(cursor.integer(expected, 0, std::int64_t{1} << 53));
      if (!cursor.take(",") && cursor.peek() != closing.front()) {
        cursor.fail("\",\" or \"" + std::string(closing) + "\"");
      }
    }
    return values;
  };
  const std::size_t start = cursor.position();
  meta.shape = integers("]", "a dim size");
  cursor.expect(")", "\")\"");
  cursor.expect(",", "\",\" and the stride");
  cursor.expect("stride=(", "stride=(...)");
  const std::size_t stride_position = cursor.position();
  meta.strides = integers(")", "a stride");
  double most_strided = 1.0;  // the stride of a dim before the first
  for (const std::int64_t extent : meta.shape) {
    most_strided *= static_cast<double>(std::max<std::int64_t>(extent, 1));
  }
  if (most_strided > kMaxTensorBytes) cursor.fail_at(start, "a tensor of at most 2^53 bytes");
  const bool is_empty = meta.bytes() == 0.0;  // its strides do not matter
  if (meta.strides.size() != meta.shape.size() || (!is_empty && !meta.is_contiguous())) {
    cursor.fail_at(stride_position,
                   "the stride of a contiguous tensor, because texts of tensors have no strides");
  }
  meta.strides.clear();
  cursor.expect(",", "\",\" and the dtype");
  cursor.expect("dtype=", "dtype=torch....");
  meta.dtype = parse_dtype(cursor);
  cursor.expect(")", "\")\"");
  if (meta.bytes() > kMaxTensorBytes) cursor.fail_at(start, "a tensor of at most 2^53 bytes");
  return meta;
}

// Reads what repr() of a DTensorSpec writes, from behind "DTensorSpec(": its placements, its tensor
// and its shard order. The mesh is left to the caller, who has one already.
TensorSpec parse_spec_repr(TextCursor& cursor, std::string_view text, int mesh_ndim) {
  std::string placements;
  std::string order;
  std::optional<TensorMeta> meta;
  while (!cursor.take(")")) {
    const std::string_view key = cursor.word();
    cursor.expect("=", "NAME=VALUE, as PyTorch prints a DTensorSpec");
    if (key == "tensor_meta" && !meta) {
      meta = parse_meta_repr(cursor);
    } else {
      const std::string_view value = skip_argument(cursor, text);
      if (key == "placements") placements = value;
      if (key == "shard_order") order = value;
    }
    if (!cursor.take(",") && cursor.peek() != ')') cursor.fail("\",\" or \")\"");
  }
  if (!cursor.at_end()) cursor.fail("the end of the DTensorSpec");
  if (!meta) cursor.fail("a DTensorSpec with a tensor_meta");
  TensorSpec spec{*meta, {}};
  if (!order.empty()) placements += ", shard_order=" + order;
  spec.layout = parse_layout(placements, mesh_ndim, spec.meta);
  return spec;
}

}  // namespace

TensorMeta TensorMeta::parse(std::string_view text) {
  TextCursor cursor("tensor", text);
  TensorMeta meta = parse_meta(cursor);
  if (!cursor.at_end()) cursor.fail("the end of the tensor");
  return meta;
}

Bytes TensorMeta::bytes() const {
  double bytes = itemsize(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<double>(extent);
  return bytes;
}

bool TensorMeta::is_contiguous() const {
  if (strides.empty()) return true;
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

Shape TensorMeta::all_strides() const {
  if (strides.size() == shape.size()) return strides;
  Shape own(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    own[i - 1] = own[i] * std::max<std::int64_t>(shape[i], 1);
  }
  return own;
}

std::string TensorMeta::text() const {
  std::string out(to_string(dtype));
  out += "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  }
  return out + "]";
}

TensorSpec TensorSpec::parse(std::string_view text, int mesh_ndim) {
  TextCursor cursor("tensor and layout", text);
  if (cursor.take("DTensorSpec(")) return parse_spec_repr(cursor, text, mesh_ndim);
  const bool is_spec = cursor.take("Spec(");  // what str() of a DTensorSpec writes
  const std::string_view inner = is_spec ? without_last(cursor, text, ")") : text;
  TensorSpec spec;
  spec.meta = parse_meta(cursor);
  static_cast<void>(cursor.peek());  // skips blanks
  const std::size_t start = std::min(cursor.position(), inner.size());
  if (start == inner.size() && mesh_ndim > 0) {  // without mesh dims the layout is empty
    cursor.fail("a layout of " + std::to_string(mesh_ndim) +
                (mesh_ndim == 1 ? " placement" : " placements") + " after the tensor, such as " +
                Layout::replicated(mesh_ndim).text());
  }
  spec.layout = parse_layout(inner.substr(start), mesh_ndim, spec.meta);
  return spec;
}

Layout parse_layout(std::string_view text, int mesh_ndim, const TensorMeta& meta) {
  Layout layout = parse_layout_of(text, mesh_ndim, meta.ndim());
  check_dims(layout, meta, text, 0);
  if (std::string why = why_not_registered(meta.shape, layout.placements, nullptr); !why.empty()) {
    throw TextError("layout", text, 0, "a layout that the tensor can have: " + why);
  }
  return layout;
}

std::string why_not_registered(const Shape& shape, const Placements& placements,
                               const DeviceMesh* mesh) {
  for (std::size_t m = 0; m < placements.size(); ++m) {
    if (!placements[m].is_registered()) continue;
    const RegisteredPlacement& own = placements[m].registered();
    const std::string name = own.text();
    if (own.dim() + own.dims() > static_cast<int>(shape.size())) {
      return name + " cuts tensor dims " + std::to_string(own.dim()) + " to " +
             std::to_string(own.dim() + own.dims() - 1) + "; valid: dims below " +
             std::to_string(shape.size()) + ", as many as the tensor has";
    }
    for (std::size_t other = 0; other < placements.size(); ++other) {
      const Placement& p = placements[other];
      if (other == m || !p.cuts()) continue;
      if (p.is_registered()) {
        return name + " and " + p.text() +
               " can't cut one tensor; valid: one registered placement in a layout";
      }
      if (p.is_strided()) {
        return name + " can't stand beside " + p.text() +
               ", whose rows depend on other mesh dims; valid beside it: R, P(op), and S(d) of "
               "tensor dims that it does not cut";
      }
      if (own.cuts(p.dim())) {
        return name + " and " + p.text() + " both cut tensor dim " + std::to_string(p.dim()) +
               "; valid beside it: R, P(op), and S(d) of tensor dims that it does not cut";
      }
    }
    if (mesh == nullptr) continue;
    const std::string why = own.why_not(extent_of(own, shape), mesh->size(static_cast<int>(m)));
    if (!why.empty()) return name + " " + why;
  }
  return "";
}

void expect_registered(const TensorMeta& meta, const Layout& layout, const DeviceMesh& mesh) {
  if (!layout.has_registered()) return;
  const std::string why = why_not_registered(meta.shape, layout.placements, &mesh);
  if (!why.empty()) {
    throw InputError(meta.text() + " " + layout.text() + " on mesh " + mesh.text() + ": " + why);
  }
}

Shape viewed_shape(const Shape& shape, const Placements& placements) {
  for (const Placement& p : placements) {
    if (!p.is_registered()) continue;
    const RegisteredPlacement& own = p.registered();
    Shape viewed(shape.begin(), shape.begin() + own.dim());
    viewed.push_back(extent_of(own, shape));
    viewed.insert(viewed.end(), shape.begin() + own.dim() + own.dims(), shape.end());
    return viewed;
  }
  return shape;
}

Bytes held_bytes(const TensorMeta& meta, const Placements& placements, const DeviceMesh& mesh) {
  Bytes bytes = meta.bytes() / static_cast<double>(num_shards(placements, mesh, true));
  for (std::size_t m = 0; m < placements.size(); ++m) {
    if (!placements[m].is_registered()) continue;
    bytes *= placements[m].registered().shares(mesh.size(static_cast<int>(m))).largest;
  }
  return bytes;
}

Chunk chunk_of(std::int64_t extent, std::int64_t chunks, std::int64_t index) {
  const std::int64_t full = ceil_div(extent, chunks);
  const std::int64_t begin = std::min(extent, full * index);
  const std::int64_t end = std::min(extent, full * (index + 1));
  return {end - begin, begin};
}

std::vector<std::int64_t> strided_rows(std::int64_t extent, std::int64_t factor,
                                       std::int64_t chunks, std::int64_t index,
                                       StridedVariant variant) {
  std::vector<std::int64_t> rows;
  if (variant == StridedVariant::kUnflatten) {
    const std::int64_t width = ceil_div(extent, factor);
    const Chunk columns = chunk_of(width, chunks, index);
    for (std::int64_t piece = 0; piece < factor && piece * width < extent; ++piece) {
      for (std::int64_t i = 0; i < columns.size; ++i) {
        const std::int64_t row = piece * width + columns.offset + i;
        if (row < extent) rows.push_back(row);
      }
    }
    return rows;
  }
  for (std::int64_t piece = 0; piece < factor; ++piece) {
    const Chunk outer = chunk_of(extent, factor, piece);
    if (outer.size == 0) break;  // all further pieces are empty too
    const Chunk inner = chunk_of(outer.size, chunks, index);
    for (std::int64_t i = 0; i < inner.size; ++i) rows.push_back(outer.offset + inner.offset + i);
  }
  return rows;
}

std::int64_t strided_size(std::int64_t extent, std::int64_t factor, std::int64_t chunks,
                          std::int64_t index) {
  // The first pieces are full, at most one is shorter, and the rest are empty.
  const std::int64_t full = ceil_div(extent, factor);
  if (full == 0) return 0;
  const std::int64_t full_pieces = extent / full;
  const std::int64_t rest = extent - full_pieces * full;
  return full_pieces * chunk_of(full, chunks, index).size + chunk_of(rest, chunks, index).size;
}

Shape local_shape(const Shape& shape, const Layout& layout, const DeviceMesh& mesh,
                  std::span<const std::int64_t> coordinate) {
  Shape local = shape;
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    for (const int m : layout.mesh_dims_of(dim)) {
      std::int64_t& extent = local[to_index(dim)];
      extent = sharded_extent(extent, layout[m], mesh.size(m), coordinate[to_index(m)]);
    }
  }
  if (!layout.has_registered()) return local;
  const auto cut = registered_rows(shape, layout, mesh, coordinate);
  local = viewed_shape(local, layout.placements);
  local[to_index(cut.dim)] = count_rows(cut.rows);
  return local;
}

Shape largest_local_shape(const Shape& shape, const Placements& placements,
                          const DeviceMesh& mesh) {
  std::array<std::int64_t, kMaxMeshDims> first{};
  const std::span<const std::int64_t> coordinate(first.data(),
                                                 static_cast<std::size_t>(mesh.ndim()));
  const Layout layout(placements);
  for (int m = 0; m < layout.ndim(); ++m) {  // the part of a registered placement that is largest
    if (!layout[m].is_registered()) continue;
    std::int64_t most = -1;
    std::int64_t fullest = 0;
    for (std::int64_t i = 0; i < mesh.size(m); ++i) {
      first[to_index(m)] = i;
      const std::int64_t rows = count_rows(registered_rows(shape, layout, mesh, coordinate).rows);
      if (rows > most) fullest = i;
      most = std::max(most, rows);
    }
    first[to_index(m)] = fullest;
  }
  return local_shape(shape, layout, mesh, coordinate);
}

double element_count(const Shape& shape) {
  double product = 1.0;
  for (const std::int64_t extent : shape) product *= static_cast<double>(extent);
  return product;
}

std::vector<std::int64_t> local_rows(const Shape& shape, int dim, const Layout& layout,
                                     const DeviceMesh& mesh,
                                     std::span<const std::int64_t> coordinate) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(shape[to_index(dim)]));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  for (const int m : layout.mesh_dims_of(dim)) {
    const auto extent = static_cast<std::int64_t>(rows.size());
    const std::int64_t index = coordinate[to_index(m)];
    const std::int64_t factor = layout[m].is_strided() ? layout[m].split_factor() : 1;
    std::vector<std::int64_t> kept;
    for (const std::int64_t row : strided_rows(extent, factor, mesh.size(m), index)) {
      kept.push_back(rows[to_index(row)]);
    }
    rows = std::move(kept);
  }
  if (!layout.has_registered()) return rows;
  const RegisteredRows cut = registered_rows(shape, layout, mesh, coordinate);
  if (!cut.placement->cuts(dim)) return rows;
  if (cut.placement->dims() != 1) {
    throw InputError(cut.placement->text() + " cuts tensor dim " + std::to_string(dim) +
                     " together with others, so that no rows of this dim alone can be listed; "
                     "valid: a tensor dim that it does not cut");
  }
  return listed(cut.rows);
}

RowLists rows_of(const TensorMeta& meta, const Layout& layout, const DeviceMesh& mesh,
                 std::span<const std::int64_t> coordinate) {
  RowLists rows;
  const RegisteredPlacement* cut = nullptr;
  for (const Placement& p : layout.placements) {
    if (p.is_registered()) cut = &p.registered();
  }
  for (int d = 0; d < meta.ndim(); ++d) {
    if (cut != nullptr && cut->cuts(d)) {
      if (d != cut->dim()) continue;  // one dim together with the first one
      rows.push_back(listed(registered_rows(meta.shape, layout, mesh, coordinate).rows));
      continue;
    }
    rows.push_back(local_rows(meta.shape, d, layout, mesh, coordinate));
  }
  return rows;
}

std::vector<std::int64_t> local_extents(const Shape& shape, int dim, const Layout& layout,
                                        const DeviceMesh& mesh) {
  std::set<std::int64_t> extents = {shape[to_index(dim)]};
  for (const int m : layout.mesh_dims_of(dim)) {
    std::set<std::int64_t> shards;
    for (const std::int64_t extent : extents) {
      for (std::int64_t i = 0; i < mesh.size(m); ++i) {
        const std::int64_t shard = sharded_extent(extent, layout[m], mesh.size(m), i);
        shards.insert(shard);
        if (shard == 0 && layout[m].is_shard()) break;  // all further shards are empty too
      }
    }
    extents = std::move(shards);
  }
  return {extents.begin(), extents.end()};
}

std::int64_t num_shards(const Placements& placements, const DeviceMesh& mesh, bool count_strided) {
  std::int64_t shards = 1;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (placements[i].is_shard() || (count_strided && placements[i].is_strided())) {
      shards *= mesh.size(static_cast<int>(i));
    }
  }
  return shards;
}

bool is_shardable(const Shape& shape, const Placements& placements, const DeviceMesh& mesh) {
  // The empty parts of a registered placement are intended.
  if (has_registered(placements) && !why_not_registered(shape, placements, &mesh).empty()) {
    return false;
  }
  std::array<std::int64_t, kMaxTensorDims> shards;
  shards.fill(1);
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Placement& p = placements[i];
    if (!p.is_shard_like()) continue;
    const auto dim = static_cast<std::size_t>(p.dim());
    if (dim >= shape.size()) return false;
    shards[dim] *= mesh.size(static_cast<int>(i));
    const std::int64_t needed =
        p.is_strided() ? saturating_product(shards[dim], p.split_factor()) : shards[dim];
    if (shape[dim] < needed) return false;
  }
  return true;
}

bool is_evenly_shardable_on_dim(const Shape& shape, const Placements& placements,
                                const DeviceMesh& mesh, int dim) {
  const std::int64_t extent = shape[to_index(dim)];
  std::int64_t shards = 1;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Placement& p = placements[i];
    if (!p.is_shard_like() || p.dim() != dim) continue;
    shards *= mesh.size(static_cast<int>(i));
    if (p.is_strided() && extent % saturating_product(shards, p.split_factor()) != 0) return false;
  }
  return extent % shards == 0;
}

Layout encode_order_as_strided(const Layout& layout, const DeviceMesh& mesh) {
  Placements encoded = layout.placements;
  for (int m = 0; m < layout.ndim(); ++m) {
    if (!layout[m].is_shard()) continue;
    std::int64_t factor = 1;
    for (const int other : layout.mesh_dims_of(layout[m].dim())) {
      if (other == m) break;
      if (other > m) factor *= mesh.size(other);
    }
    if (factor > 1) {
      encoded[to_index(m)] = Placement::strided_shard(layout[m].dim(), static_cast<int>(factor));
    }
  }
  return Layout(encoded);
}

std::optional<Layout> decode_strided_as_order(const Layout& layout, const DeviceMesh& mesh) {
  if (!layout.has_strided()) return Layout(layout.placements);
  if (layout.own_strided) return std::nullopt;
  std::array<boost::container::static_vector<int, kMaxMeshDims>, kMaxTensorDims> orders;
  Placements plain = layout.placements;
  for (int m = layout.ndim() - 1; m >= 0; --m) {
    const Placement& p = layout[m];
    if (!p.is_shard_like()) continue;
    auto& order = orders[to_index(p.dim())];
    const std::int64_t factor = p.is_strided() ? p.split_factor() : 1;
    std::int64_t product = 1;
    std::size_t position = 0;
    while (product != factor && position < order.size()) {
      product *= mesh.size(order[position]);
      ++position;
    }
    if (product != factor) return std::nullopt;
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(position), m);
    plain[to_index(m)] = Placement::shard(p.dim());
  }
  Layout decoded(plain);
  for (const auto& order : orders) {
    for (std::size_t i = 0; i < order.size(); ++i) decoded.order.set(order[i], static_cast<int>(i));
  }
  return decoded;
}

}  // namespace shardlab

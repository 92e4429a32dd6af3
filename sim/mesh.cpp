#include "sim/mesh.h"

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <map>
#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMaxRanks = std::int64_t{1} << 40;
// Up to this many ranks, the groups of a nested layout are listed to count the hosts they touch.
constexpr std::int64_t kMaxEnumeratedRanks = std::int64_t{1} << 22;
// In hosts of up to this many ranks, the positions where a group can start are tried one by one.
constexpr std::int64_t kMaxTriedStarts = 512;

std::string in_quotes(std::string_view word) { return "\"" + std::string(word) + "\""; }

[[noreturn]] void fail(std::string_view text, std::size_t position, std::string_view expected) {
  throw TextError("mesh", text, position, expected);
}

std::string joined(std::span<const std::string> names) { return join(names); }

// The fewest members that a group has in one of the blocks that it touches. The first member is at
// `start` in its block, and the others follow at steps of `stride`, up to `reach` behind it.
// Assumes several blocks, and a stride below the block.
std::int64_t fewest_ranks_in_block(std::int64_t start, std::int64_t stride, std::int64_t reach,
                                   std::int64_t block) {
  // How many members lie before the end of the block with this number.
  const auto up_to = [&](std::int64_t number) {
    return ((number + 1) * block - 1 - start) / stride + 1;
  };
  const std::int64_t last = (start + reach) / block;
  std::int64_t fewest = std::min(up_to(0), reach / stride + 1 - up_to(last - 1));
  // The blocks between them hold the whole part of block / stride, or one more.
  for (std::int64_t i = 1; i < last && fewest > block / stride; ++i) {
    fewest = std::min(fewest, up_to(i) - up_to(i - 1));
  }
  return fewest;
}

}  // namespace

std::int64_t MeshLayout::size() const {
  std::int64_t product = 1;
  for (const LayoutMode& mode : modes_) product *= mode.size;
  return product;
}

MeshLayout MeshLayout::coalesce() const {
  std::vector<LayoutMode> merged;
  for (const LayoutMode& mode : modes_) {
    if (mode.size == 1) continue;
    if (!merged.empty() && merged.back().stride == mode.size * mode.stride) {
      merged.back() = {merged.back().size * mode.size, mode.stride};
    } else {
      merged.push_back(mode);
    }
  }
  if (merged.empty()) merged.push_back({1, 1});
  return MeshLayout(std::move(merged));
}

MeshLayout MeshLayout::concatenate(const MeshLayout& inner) const {
  std::vector<LayoutMode> modes = modes_;
  modes.insert(modes.end(), inner.modes_.begin(), inner.modes_.end());
  return MeshLayout(std::move(modes));
}

std::vector<std::int64_t> MeshLayout::offsets() const {
  std::vector<std::int64_t> offsets = {0};
  for (const LayoutMode& mode : modes_) {
    std::vector<std::int64_t> next;
    next.reserve(offsets.size() * static_cast<std::size_t>(mode.size));
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < mode.size; ++i) next.push_back(offset + i * mode.stride);
    }
    offsets = std::move(next);
  }
  return offsets;
}

bool MeshLayout::overlaps() const {
  // In ascending order of strides, every pair must step over the full extent of the one before it.
  std::vector<LayoutMode> sorted;
  for (const LayoutMode& mode : modes_) {
    if (mode.size > 1) sorted.push_back(mode);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const LayoutMode& a, const LayoutMode& b) { return a.stride < b.stride; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].stride < sorted[i - 1].size * sorted[i - 1].stride) return true;
  }
  return false;
}

std::string MeshLayout::text() const {
  std::string out;
  for (const LayoutMode& mode : modes_) {
    if (!out.empty()) out += ",";
    out += std::to_string(mode.size) + ":" + std::to_string(mode.stride);
  }
  return modes_.size() == 1 ? out : "(" + out + ")";
}

DeviceMesh DeviceMesh::make(std::vector<std::int64_t> sizes, std::vector<std::string> names) {
  std::string text;
  for (const std::int64_t size : sizes) {
    text += (text.empty() ? "" : "x") + std::to_string(size);
  }
  if (sizes.empty()) fail(text, 0, "at least one mesh dim");
  if (sizes.size() > kMaxMeshDims) {
    fail(text, 0, "at most " + std::to_string(kMaxMeshDims) + " mesh dims");
  }
  if (!names.empty() && names.size() != sizes.size()) fail(text, 0, "a name for every mesh dim");
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (names[i] == names[j]) {
        fail(joined(names), 0, "distinct axis names, found " + in_quotes(names[i]) + " twice");
      }
    }
  }
  auto root = std::make_shared<Root>();
  for (const std::int64_t size : sizes) {
    if (size < 1) fail(text, 0, "mesh dims of at least 1 rank");
    if (root->world_size > kMaxRanks / size) fail(text, 0, "at most 2^40 ranks");
    root->world_size *= size;
  }
  std::int64_t stride = root->world_size;
  for (const std::int64_t size : sizes) {
    stride /= size;
    root->dims.push_back(MeshLayout({{size, stride}}));
  }
  root->names = names;

  DeviceMesh mesh{Empty{}};
  mesh.sizes_ = std::move(sizes);
  mesh.names_ = std::move(names);
  mesh.dims_ = root->dims;
  mesh.root_ = std::move(root);
  return mesh;
}

namespace {

// The sizes of a mesh as they were read, and their names if they have any.
struct MeshDimsText {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
};

// Reads "8x4", "8,4" or "dp=8,tp=4" up to the first character that does not belong to it. Inside
// brackets a comma may stand behind the last size.
MeshDimsText parse_mesh_dims(TextCursor& cursor, std::string_view closing) {
  MeshDimsText dims;
  auto& [sizes, names] = dims;
  constexpr std::string_view kSize = "a mesh dim size (8x8, dp=8,tp=8)";
  std::int64_t ranks = 1;
  do {
    if (!sizes.empty() && !closing.empty() && cursor.peek() == closing.front()) break;
    const std::size_t start = cursor.position();
    const std::string_view name = cursor.word();
    if (!name.empty()) {
      if (!sizes.empty() && names.empty()) cursor.fail_at(start, std::string(kSize));
      if (std::find(names.begin(), names.end(), name) != names.end()) {
        cursor.fail_at(start, "distinct axis names, found " + in_quotes(name) + " twice");
      }
      cursor.expect("=", "\"=\" and the size of axis " + in_quotes(name));
      names.emplace_back(name);
    } else if (!names.empty()) {
      cursor.fail("an axis such as tp=8");
    }
    if (sizes.size() == kMaxMeshDims) {
      cursor.fail_at(start, "at most " + std::to_string(kMaxMeshDims) + " mesh dims");
    }
    const std::size_t size_position = cursor.position();
    sizes.push_back(cursor.integer(kSize, 1, kMaxRanks));
    if (ranks > kMaxRanks / sizes.back()) {
      cursor.fail_at(size_position, "at most 2^40 ranks");
    }
    ranks *= sizes.back();
  } while (names.empty() ? cursor.take("x") || cursor.take(",") : cursor.take(","));
  return dims;
}

// Reads what DeviceMesh's repr() writes behind the sizes: ", 'cuda', stride=(4, 1))". A slice of a
// larger mesh has other strides than a mesh of its own sizes.
void parse_mesh_tail(TextCursor& cursor, std::span<const std::int64_t> sizes) {
  while (cursor.take(",")) {
    static_cast<void>(cursor.peek());  // skips blanks
    const std::size_t start = cursor.position();
    if (cursor.take("'")) {
      if (cursor.word().empty()) cursor.fail("a device type such as 'cuda'");
      cursor.expect("'", "the quote that closes the device type");
      continue;
    }
    cursor.expect("stride=(", "a device type such as 'cuda', or stride=(...)");
    boost::container::static_vector<std::int64_t, kMaxMeshDims> strides;
    while (!cursor.take(")")) {
      if (strides.size() == kMaxMeshDims) cursor.fail("\")\"");
      strides.push_back(cursor.integer("a stride", 0, kMaxRanks));
      if (!cursor.take(",") && cursor.peek() != ')') cursor.fail("\",\" or \")\"");
    }
    boost::container::static_vector<std::int64_t, kMaxMeshDims> whole(sizes.size(), 1);
    for (std::size_t i = whole.size(); i-- > 1;) whole[i - 1] = whole[i] * sizes[i];
    if (strides != whole) {
      std::string expected;
      for (const std::int64_t stride : whole) {
        expected += (expected.empty() ? "" : ", ") + std::to_string(stride);
      }
      cursor.fail_at(start, "stride=(" + expected + (whole.size() == 1 ? ",)" : ")") +
                                ", which the ranks of a whole mesh have; this is a slice of a "
                                "larger mesh, or has its ranks in another order");
    }
  }
  cursor.expect(")", "\")\" at the end of the mesh");
}

}  // namespace

DeviceMesh DeviceMesh::parse(std::string_view text) {
  TextCursor cursor("mesh", text);
  const bool is_repr = cursor.take("DeviceMesh(");
  const std::string_view closing = cursor.take("(") ? ")" : cursor.take("[") ? "]" : "";
  if (is_repr && closing.empty()) cursor.fail("\"(\" and the sizes of the mesh");
  MeshDimsText dims = parse_mesh_dims(cursor, closing);
  if (!closing.empty()) {
    cursor.expect(closing, "\",\" and another size, or \"" + std::string(closing) + "\"");
  }
  if (is_repr) parse_mesh_tail(cursor, dims.sizes);
  if (!cursor.at_end()) {
    cursor.fail(!closing.empty()     ? "the end of the mesh"
                : dims.names.empty() ? "\"x\" and another size, or the end (8x8, dp=8,tp=8)"
                                     : "\",\" and another axis, or the end (dp=8,tp=8)");
  }
  return make(std::move(dims.sizes), std::move(dims.names));
}

std::size_t DeviceMesh::index(int mesh_dim) const {
  SHARDLAB_CHECK(mesh_dim >= 0 && mesh_dim < ndim(), "mesh dim ", mesh_dim, " of ", ndim());
  return static_cast<std::size_t>(mesh_dim);
}

std::int64_t DeviceMesh::size() const {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes_) product *= size;
  return product;
}

int DeviceMesh::dim_of(std::string_view name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  return it == names_.end() ? -1 : static_cast<int>(it - names_.begin());
}

DeviceMesh DeviceMesh::slice(std::span<const std::string> names) const {
  DeviceMesh sub{Empty{}};
  sub.root_ = root_;
  MeshLayout all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (names[i] == names[j]) {
        fail(joined(names), 0, "distinct axis names, found " + in_quotes(names[i]) + " twice");
      }
    }
    const int dim = dim_of(names[i]);
    MeshLayout layout;
    if (dim >= 0) {
      layout = dims_[index(dim)];
    } else {
      const auto it = std::find_if(root_->flattened.begin(), root_->flattened.end(),
                                   [&](const Flattened& f) { return f.name == names[i]; });
      if (it == root_->flattened.end()) {
        std::vector<std::string> valid = names_;
        for (const Flattened& f : root_->flattened) valid.push_back(f.name);
        fail(joined(names), 0,
             valid.empty()
                 ? "a mesh with axis names (dp=2,tp=4), found none"
                 : "known axis names, found " + in_quotes(names[i]) + "; valid: " + joined(valid));
      }
      layout = it->layout;
    }
    sub.sizes_.push_back(layout.size());
    sub.names_.push_back(names[i]);
    sub.dims_.push_back(layout);
    all = all.concatenate(layout);
  }
  if (names.empty()) fail("", 0, "at least one axis name");
  if (all.overlaps()) fail(joined(names), 0, "axes whose ranks do not overlap");
  // In the root's order each axis steps at least as far as the ones after it. Axes of size 1 may
  // come anywhere.
  std::int64_t previous = 0;
  for (const MeshLayout& layout : sub.dims_) {
    if (layout.size() == 1) continue;
    const std::int64_t stride = layout.modes().front().stride;
    if (previous != 0 && stride > previous)
      fail(joined(names), 0, "axes in the order of the root mesh");
    previous = stride;
  }
  return sub;
}

DeviceMesh DeviceMesh::flatten(std::span<const std::string> names, std::string name) const {
  const DeviceMesh sub = slice(names);
  MeshLayout all;
  for (const MeshLayout& layout : sub.dims_) all = all.concatenate(layout);
  if (name.empty()) name = join(names, "_");
  if (std::find(root_->names.begin(), root_->names.end(), name) != root_->names.end()) {
    fail(joined(names), 0, "a new name for the flattened axis, found " + in_quotes(name));
  }
  auto root = std::make_shared<Root>(*root_);
  const MeshLayout flat = all.coalesce();
  for (const Flattened& existing : root->flattened) {
    if (existing.name == name && !(existing.layout == flat)) {
      fail(joined(names), 0, "a new name for the flattened axis, found " + in_quotes(name));
    }
  }
  root->flattened.push_back({name, flat});
  DeviceMesh mesh = *this;
  mesh.root_ = std::move(root);
  return mesh;
}

DeviceMesh DeviceMesh::flattened(std::string_view name) const {
  const std::string wanted(name);
  return slice(std::span(&wanted, 1));
}

std::optional<DeviceMesh::Flattened> DeviceMesh::find_flattened(
    std::span<const int> mesh_dims) const {
  if (names_.empty()) return std::nullopt;
  MeshLayout all;
  for (const int dim : mesh_dims) all = all.concatenate(layout(dim));
  const MeshLayout wanted = all.coalesce();
  for (const Flattened& flat : root_->flattened) {
    if (flat.layout == wanted) return flat;
  }
  return std::nullopt;
}

bool DeviceMesh::same_registry(const DeviceMesh& other) const {
  return std::equal(root_->flattened.begin(), root_->flattened.end(),
                    other.root_->flattened.begin(), other.root_->flattened.end(),
                    [](const Flattened& a, const Flattened& b) {
                      return a.name == b.name && a.layout == b.layout;
                    });
}

std::vector<std::vector<std::int64_t>> DeviceMesh::groups(const MeshLayout& layout) const {
  const std::vector<std::int64_t> offsets = layout.offsets();
  std::vector<bool> taken(static_cast<std::size_t>(root_->world_size), false);
  std::vector<std::vector<std::int64_t>> groups;
  for (std::int64_t first = 0; first < root_->world_size; ++first) {
    if (taken[to_index(first)]) continue;
    std::vector<std::int64_t> group;
    group.reserve(offsets.size());
    for (const std::int64_t offset : offsets) {
      const std::int64_t rank = first + offset;
      SHARDLAB_CHECK(rank < root_->world_size && !taken[to_index(rank)], "layout ", layout.text(),
                     " does not partition ", root_->world_size, " ranks");
      taken[to_index(rank)] = true;
      group.push_back(rank);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<std::int64_t> DeviceMesh::ranks() const {
  MeshLayout all;
  for (const MeshLayout& layout : dims_) all = all.concatenate(layout);
  return all.offsets();
}

std::vector<std::int64_t> DeviceMesh::coordinate(std::int64_t rank_index) const {
  SHARDLAB_CHECK(rank_index >= 0 && rank_index < size(), "rank ", rank_index, " of ", size());
  std::vector<std::int64_t> coordinate(sizes_.size());
  for (std::size_t i = sizes_.size(); i-- > 0;) {
    coordinate[i] = rank_index % sizes_[i];
    rank_index /= sizes_[i];
  }
  return coordinate;
}

std::int64_t DeviceMesh::rank(std::int64_t rank_index) const {
  SHARDLAB_CHECK(rank_index >= 0 && rank_index < size(), "rank ", rank_index, " of ", size());
  std::int64_t rank = 0;
  for (std::size_t i = dims_.size(); i-- > 0;) {
    const std::vector<LayoutMode>& modes = dims_[i].modes();
    for (auto mode = modes.rbegin(); mode != modes.rend(); ++mode) {
      rank += rank_index % mode->size * mode->stride;
      rank_index /= mode->size;
    }
  }
  return rank;
}

GroupSpan DeviceMesh::span(int mesh_dim, const Topology& topology) const {
  std::int64_t walk = 1;
  for (int i = ndim() - 1; i >= mesh_dim; --i) walk *= size(i);
  return span(layout(mesh_dim), walk, topology);
}

// How many blocks of `block` consecutive ranks (hosts or NVLink domains) the worst group of a
// layout touches, and the fewest ranks that a group which leaves its block has in one; an upper
// bound and an even split where counting would take too long.
DeviceMesh::BlocksTouched DeviceMesh::blocks_touched(const MeshLayout& layout,
                                                     std::int64_t block) const {
  const std::int64_t ranks = layout.size();
  const auto evenly = [&](std::int64_t blocks) {
    return BlocksTouched{blocks, ranks_of_part(ranks, blocks)};
  };
  if (root_->world_size <= block) return evenly(1);
  if (layout.modes().size() == 1) {
    const auto [size, stride] = layout.modes().front();
    if (stride >= block) return evenly(size);  // every member is in a block of its own
    // Members step by less than a block, so a group touches every block between its first and its
    // last member. Groups repeat every `extent` ranks. If they are aligned with the blocks, all of
    // them touch equally many; otherwise every position of the first member is tried.
    const std::int64_t extent = size * stride;
    if (extent % block == 0) return evenly(extent / block);
    if (block % extent == 0) return evenly(1);
    const std::int64_t reach = (size - 1) * stride;
    if (block > kMaxTriedStarts) return evenly((block - 1 + reach) / block + 1);
    const std::int64_t repeats =
        std::min(root_->world_size / extent, block / std::gcd(block, extent));
    BlocksTouched worst = evenly(1);
    for (std::int64_t i = 0; i < repeats; ++i) {
      for (std::int64_t first = 0; first < stride; ++first) {
        const std::int64_t start = (i * extent + first) % block;
        const std::int64_t touched = (start + reach) / block + 1;
        worst.most = std::max(worst.most, touched);
        if (touched > 1) {
          worst.fewest_ranks =
              std::min(worst.fewest_ranks, fewest_ranks_in_block(start, stride, reach, block));
        }
      }
    }
    return worst;
  }
  if (root_->world_size > kMaxEnumeratedRanks) {
    std::int64_t reach = 0;
    for (const LayoutMode& mode : layout.modes()) reach += (mode.size - 1) * mode.stride;
    return evenly(std::min(ranks, (block - 1 + reach) / block + 1));
  }
  BlocksTouched worst = evenly(1);
  for (const std::vector<std::int64_t>& group : groups(layout)) {
    std::map<std::int64_t, std::int64_t> members;  // by block
    for (const std::int64_t rank : group) ++members[rank / block];
    worst.most = std::max(worst.most, std::ssize(members));
    for (const auto& [place, count] : members) {
      worst.fewest_ranks = std::min(worst.fewest_ranks, count);
    }
  }
  return worst;
}

GroupSpan DeviceMesh::span(const MeshLayout& layout, std::int64_t walk,
                           const Topology& topology) const {
  const BlocksTouched hosts = blocks_touched(layout, topology.devices_per_host());
  const BlocksTouched domains =
      topology.has_wide_domains() ? blocks_touched(layout, topology.domain_devices()) : hosts;
  std::int64_t extent = 1;
  for (const LayoutMode& mode : layout.modes()) extent += (mode.size - 1) * mode.stride;
  return {.ranks = layout.size(),
          .hosts = hosts.most,
          .domains = domains.most,
          .ranks_per_host = hosts.fewest_ranks,
          .ranks_per_domain = domains.fewest_ranks,
          .extent = extent,
          .walk = walk};
}

std::string DeviceMesh::text() const {
  std::string out;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (names_.empty()) {
      out += (i == 0 ? "" : "x") + std::to_string(sizes_[i]);
    } else {
      out += (i == 0 ? "" : ",") + names_[i] + "=" + std::to_string(sizes_[i]);
    }
  }
  return out;
}

}  // namespace shardlab

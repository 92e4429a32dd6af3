// Device meshes and their layout algebra.
//
//   DeviceMesh mesh = DeviceMesh::parse("dp=2,pp=3,tp=4");       // 24 ranks, row-major
//   using Names = std::vector<std::string>;
//   DeviceMesh sub = mesh.slice(Names{"dp", "tp"});              // the root's strides: 2:12, 4:1
//   DeviceMesh with = mesh.flatten(Names{"dp", "pp"}, "dp_pp");  // registers a flattened mesh
//   with.find_flattened(std::vector{0, 1})                       // looked up by layout, not name
//
// A mesh dim is described by a layout over the ranks of the root mesh, as in CuTe: pairs
// size:stride, outermost first. A dim with more than one pair is nested; it is still a legal 1-D
// mesh, whose ranks are in row-major order over the pairs. A slice keeps the ranks and the
// flattened meshes of its root, the mesh that was made first. Meshes are immutable. Source of the
// semantics: PyTorch 2.13.0, torch/distributed/device_mesh.py and _mesh_layout.py.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/collective.h"
#include "costmodel/topology.h"

namespace shardlab {

inline constexpr int kMaxMeshDims = 8;

// One pair size:stride.
struct LayoutMode {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  friend bool operator==(const LayoutMode&, const LayoutMode&) = default;
};

// The ranks of one group along a mesh dim (or along several at once), as offsets from its first
// rank.
class MeshLayout {
 public:
  MeshLayout() = default;
  explicit MeshLayout(std::vector<LayoutMode> modes) : modes_(std::move(modes)) {}

  [[nodiscard]] const std::vector<LayoutMode>& modes() const { return modes_; }
  [[nodiscard]] std::int64_t size() const;
  // Merges neighbouring pairs a:s and b:t into (a*b):t exactly when s == b*t, and drops pairs of
  // size 1. A layout of one rank becomes 1:1.
  [[nodiscard]] MeshLayout coalesce() const;
  [[nodiscard]] MeshLayout concatenate(const MeshLayout& inner) const;
  // The offsets of all members, row-major over the pairs.
  [[nodiscard]] std::vector<std::int64_t> offsets() const;
  // Whether two of the pairs reach the same rank.
  [[nodiscard]] bool overlaps() const;
  [[nodiscard]] std::string text() const;  // "2:12" or "(2:12,4:1)"

  friend bool operator==(const MeshLayout&, const MeshLayout&) = default;

 private:
  std::vector<LayoutMode> modes_;
};

class DeviceMesh {
 public:
  DeviceMesh() : DeviceMesh(make({1})) {}  // a mesh of one rank
  // A mesh of 1 to kMaxMeshDims dims, each of at least one rank, with a distinct name for every dim
  // or no names at all. Throws TextError for anything else, and for more than 2^40 ranks.
  [[nodiscard]] static DeviceMesh make(std::vector<std::int64_t> sizes,
                                       std::vector<std::string> names = {});
  // Reads "8x8", "4", or "dp=8,tp=8". Throws TextError.
  [[nodiscard]] static DeviceMesh parse(std::string_view text);

  [[nodiscard]] int ndim() const { return static_cast<int>(dims_.size()); }
  [[nodiscard]] std::int64_t size(int mesh_dim) const { return sizes_[index(mesh_dim)]; }
  [[nodiscard]] std::int64_t size() const;  // ranks in the mesh
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const MeshLayout& layout(int mesh_dim) const { return dims_[index(mesh_dim)]; }
  [[nodiscard]] std::int64_t world_size() const { return root_->world_size; }

  // The sub-mesh of the named dims, which may be flattened ones. Throws TextError for an unknown or
  // repeated name, for names that are not in the root's order (descending strides), and for layouts
  // that overlap.
  [[nodiscard]] DeviceMesh slice(std::span<const std::string> names) const;
  // The same mesh with one more flattened mesh registered at its root. If no name is given, the
  // names of its dims are joined by "_". Throws TextError as slice() does, and for a name that is
  // taken.
  [[nodiscard]] DeviceMesh flatten(std::span<const std::string> names, std::string name = "") const;
  // The flattened mesh of this name, as a 1-D mesh. Throws TextError when none is registered.
  [[nodiscard]] DeviceMesh flattened(std::string_view name) const;

  struct Flattened {
    std::string name;
    MeshLayout layout;
  };
  // The first registered flattened mesh whose layout equals that of these mesh dims, which are in
  // ascending order. Nothing when there is none, or when the mesh dims have no names.
  [[nodiscard]] std::optional<Flattened> find_flattened(std::span<const int> mesh_dims) const;

  // Whether any flattened mesh is registered. Steps of a plan can only be merged onto such a mesh.
  [[nodiscard]] bool has_flattened() const { return !root_->flattened.empty(); }
  [[nodiscard]] bool same_registry(const DeviceMesh& other) const;

  // All groups of a layout, as lists of global ranks. They partition the root's ranks.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> groups(const MeshLayout& layout) const;
  [[nodiscard]] std::vector<std::vector<std::int64_t>> groups(int mesh_dim) const {
    return groups(layout(mesh_dim));
  }

  // ranks() lists the global ranks of the mesh in row-major order; coordinate() and rank() give the
  // coordinate and the global rank at one index of that list.
  [[nodiscard]] std::vector<std::int64_t> ranks() const;
  [[nodiscard]] std::vector<std::int64_t> coordinate(std::int64_t index) const;
  [[nodiscard]] std::int64_t rank(std::int64_t index) const;

  // What a communicator along a mesh dim, or along a flattened layout, spans on a topology. Groups
  // may differ in their spans; the worst one is returned. GroupSpan explains `walk`.
  [[nodiscard]] GroupSpan span(int mesh_dim, const Topology& topology) const;
  [[nodiscard]] GroupSpan span(const MeshLayout& layout, std::int64_t walk,
                               const Topology& topology) const;

  [[nodiscard]] std::string text() const;  // "8x8" or "dp=8,tp=8"

  friend bool operator==(const DeviceMesh& a, const DeviceMesh& b) {
    return a.dims_ == b.dims_ && a.names_ == b.names_ && a.root_->world_size == b.root_->world_size;
  }

 private:
  struct Root {
    std::int64_t world_size = 1;
    std::vector<std::string> names;
    std::vector<MeshLayout> dims;
    std::vector<Flattened> flattened;
  };

  // The most blocks of consecutive ranks (hosts or NVLink domains) that a group touches, and the
  // fewest ranks that a group has in one of several blocks that it touches.
  struct BlocksTouched {
    std::int64_t most = 1;
    std::int64_t fewest_ranks = 1;
  };
  [[nodiscard]] BlocksTouched blocks_touched(const MeshLayout& layout, std::int64_t block) const;
  struct Empty {};
  explicit DeviceMesh(Empty /*tag*/) {}
  [[nodiscard]] std::size_t index(int mesh_dim) const;
  [[nodiscard]] int dim_of(std::string_view name) const;  // -1 when no dim has this name

  std::vector<std::int64_t> sizes_;
  std::vector<std::string> names_;
  std::vector<MeshLayout> dims_;
  std::shared_ptr<const Root> root_;
};

}  // namespace shardlab

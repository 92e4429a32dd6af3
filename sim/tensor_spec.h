// A distributed tensor: its global shape, dtype and layout, and the shapes that each rank holds.
//
//   TensorMeta::parse("bf16[8192,4096]")
//   local_shape({5}, Layout::parse("S(0)S(0)", 2), mesh 2x2, coordinate {0, 0})
//       // [2]: the chunks are nested, 2,1 / 1,1
//
// Mesh dims that shard the same tensor dim apply one after another in shard order, each to what the
// one before it leaves. A dim of N rows is cut into n chunks as in torch.chunk: with c = ceil(N/n),
// chunk r covers rows [min(N, c r), min(N, c (r+1))), so trailing chunks are short or empty.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/dtype.h"
#include "costmodel/base/enum_names.h"
#include "costmodel/base/units.h"
#include "sim/mesh.h"
#include "sim/placement.h"

namespace shardlab {

using Shape = boost::container::static_vector<std::int64_t, kMaxTensorDims>;

inline constexpr double kMaxTensorBytes = 9007199254740992.0;  // 2^53: doubles are exact up to it

struct TensorMeta {
  DType dtype = DType::kF32;
  Shape shape;    // the global shape
  Shape strides;  // in elements; empty for a contiguous tensor

  // Reads "bf16[8192,4096]" or "f32[]": at most kMaxTensorDims dims and 2^53 bytes. Throws
  // TextError.
  [[nodiscard]] static TensorMeta parse(std::string_view text);
  [[nodiscard]] int ndim() const { return static_cast<int>(shape.size()); }
  [[nodiscard]] Bytes bytes() const;  // the size of the global tensor
  [[nodiscard]] bool is_contiguous() const;
  // `strides`, or those of a row-major tensor if they are empty.
  [[nodiscard]] Shape all_strides() const;
  [[nodiscard]] std::string text() const;

  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};

struct TensorSpec {
  TensorMeta meta;
  Layout layout;

  // Reads a tensor, a blank and a layout: "f32[16,16] S(0)R". Throws TextError, also for a shard of
  // a dim that the tensor lacks.
  [[nodiscard]] static TensorSpec parse(std::string_view text, int mesh_ndim);
  [[nodiscard]] std::string text() const { return meta.text() + " " + layout.text(); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// Reads a layout for a tensor. Throws TextError, also for a shard of a dim that the tensor lacks,
// and for what a registered placement can't be combined with (why_not_registered).
[[nodiscard]] Layout parse_layout(std::string_view text, int mesh_ndim, const TensorMeta& meta);

// One chunk of a dim.
struct Chunk {
  std::int64_t size = 0;
  // The offset of its first row. For an empty chunk past the end it is the whole extent.
  std::int64_t offset = 0;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};
[[nodiscard]] Chunk chunk_of(std::int64_t extent, std::int64_t chunks, std::int64_t index);

// The rows that coordinate `index` of `chunks` holds under a strided shard. The extent is cut into
// `factor` pieces and each piece into `chunks` chunks; the coordinate keeps its chunk of every
// piece.
//   extent 9, factor 2, chunks 4: [0,1,5] [2,3,6] [4,7] [8]
// kUnflatten follows the proposal of pytorch/pytorch#168134 instead: it views the extent as a
// matrix (factor, ceil(extent/factor)) and shards the second dim.
//   extent 5, factor 2, chunks 2: [0,1,3,4] [2]
enum class StridedVariant : std::uint8_t { kChunkOfChunks, kUnflatten };
template <>
struct EnumNames<StridedVariant> {
  static constexpr std::string_view kKind = "variant";
  static constexpr std::array kNames = {Named{StridedVariant::kChunkOfChunks, "chunk-of-chunks"},
                                        Named{StridedVariant::kUnflatten, "unflatten"}};
};
[[nodiscard]] std::vector<std::int64_t> strided_rows(
    std::int64_t extent, std::int64_t factor, std::int64_t chunks, std::int64_t index,
    StridedVariant variant = StridedVariant::kChunkOfChunks);
// How many rows strided_rows() has under kChunkOfChunks, without listing them.
[[nodiscard]] std::int64_t strided_size(std::int64_t extent, std::int64_t factor,
                                        std::int64_t chunks, std::int64_t index);

// Registered placements (registered_placement.h). A layout may have one of them, on tensor dims
// that no other mesh dim cuts, and no strided shard beside it. Says what forbids the layout for a
// tensor of this shape, or nothing when it is allowed; without a mesh, whether the placement can
// cut the extent among the ranks is left open.
[[nodiscard]] std::string why_not_registered(const Shape& shape, const Placements& placements,
                                             const DeviceMesh* mesh);
// Throws InputError with that reason. Layouts without registered placements always pass.
void expect_registered(const TensorMeta& meta, const Layout& layout, const DeviceMesh& mesh);
// The shape in which the dims that a registered placement cuts together are one dim. The elements
// stay in the same order. It is `shape` itself for every other layout.
[[nodiscard]] Shape viewed_shape(const Shape& shape, const Placements& placements);
// The bytes of the fullest rank's part as prices count them: the bytes of the tensor over the
// number of its shards, times the largest share of a registered placement.
[[nodiscard]] Bytes held_bytes(const TensorMeta& meta, const Placements& placements,
                               const DeviceMesh& mesh);

// The shape that the rank at `coordinate` holds. Shards are applied in shard order. The dims that a
// registered placement cuts together are one dim of the result.
[[nodiscard]] Shape local_shape(const Shape& shape, const Layout& layout, const DeviceMesh& mesh,
                                std::span<const std::int64_t> coordinate);
// The shape that coordinate 0 holds. No rank holds more, because chunk 0 is the largest one. Of a
// registered placement it is the largest part.
[[nodiscard]] Shape largest_local_shape(const Shape& shape, const Placements& placements,
                                        const DeviceMesh& mesh);
// The number of elements as prices count them, which is not exact past 2^53.
[[nodiscard]] double element_count(const Shape& shape);
// The rows of tensor dim `dim` that the rank at `coordinate` holds, as global indices. Assumes that
// no registered placement cuts the dim together with others.
[[nodiscard]] std::vector<std::int64_t> local_rows(const Shape& shape, int dim,
                                                   const Layout& layout, const DeviceMesh& mesh,
                                                   std::span<const std::int64_t> coordinate);
// The same for every dim of viewed_shape().
using RowLists = std::vector<std::vector<std::int64_t>>;
[[nodiscard]] RowLists rows_of(const TensorMeta& meta, const Layout& layout, const DeviceMesh& mesh,
                               std::span<const std::int64_t> coordinate);
// The different extents of tensor dim `dim` that ranks hold, each listed once.
[[nodiscard]] std::vector<std::int64_t> local_extents(const Shape& shape, int dim,
                                                      const Layout& layout, const DeviceMesh& mesh);

// a * b, or the largest number if the product exceeds it: split factors and mesh sizes may be huge.
// Assumes that both are positive.
[[nodiscard]] inline std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return a > kMost / b ? kMost : a * b;
}

// The product of the sizes of the mesh dims that shard, with or without those that have a strided
// shard. PyTorch 2.13.0 counts them. Those with a registered placement, whose parts may be unequal,
// do not count (held_bytes).
[[nodiscard]] std::int64_t num_shards(const Placements& placements, const DeviceMesh& mesh,
                                      bool count_strided);

// Whether every shard gets at least one element: for the mesh dims that shard tensor dim d, taken
// one after another, shape[d] is at least the product of the sizes so far, times the split factor
// of a strided shard. False for a shard of a dim that the tensor lacks.
[[nodiscard]] bool is_shardable(const Shape& shape, const Placements& placements,
                                const DeviceMesh& mesh);
// Whether all shards of one tensor dim are equally long: as above, with "is divisible by" instead
// of "is at least".
[[nodiscard]] bool is_evenly_shardable_on_dim(const Shape& shape, const Placements& placements,
                                              const DeviceMesh& mesh, int dim);

// Writes a shard order as strided shards in default order. When mesh dims a0, a1, ... shard tensor
// dim d in this order, mesh dim ai gets as its split factor the product of size[aj] over all j < i
// with aj > ai; a factor of 1 is a plain shard. On a mesh (4,3,2) the order (2,0,1) becomes _S(d,2)
// _S(d,2) S(d).
[[nodiscard]] Layout encode_order_as_strided(const Layout& layout, const DeviceMesh& mesh);
// The way back: plain shards with an order, or nothing when no order explains the split factors, or
// when strided shards are placements of their own.
[[nodiscard]] std::optional<Layout> decode_strided_as_order(const Layout& layout,
                                                            const DeviceMesh& mesh);

}  // namespace shardlab

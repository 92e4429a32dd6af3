// A distributed tensor: global shape and dtype, mesh, layout; and the shapes each rank holds.
//
//   TensorMeta::parse("bf16[8192,4096]")
//   local_shape({5}, Layout::parse("S(0)S(0)", 2), mesh 2x2, coordinate {0, 0})
//       // [2]: the chunks are nested, 2,1 / 1,1
//
// Placements are applied left to right, each to the tensor left by the one before. Chunk semantics:
// c = ceil(N/n), chunk r covers [min(N, c r), min(N, c (r+1))): trailing chunks are short or empty.
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

inline constexpr double kMaxTensorBytes = 9007199254740992.0;  // 2^53: counts are exact doubles

struct TensorMeta {
  DType dtype = DType::kF32;
  Shape shape;    // global
  Shape strides;  // in elements; empty: contiguous

  // "bf16[8192,4096]", "f32[]". At most kMaxTensorDims dims and 2^53 bytes. Throws TextError.
  [[nodiscard]] static TensorMeta parse(std::string_view text);
  [[nodiscard]] int ndim() const { return static_cast<int>(shape.size()); }
  [[nodiscard]] Bytes bytes() const;  // itemsize * product of the global shape
  [[nodiscard]] bool is_contiguous() const;
  // `strides`, row-major where they are empty.
  [[nodiscard]] Shape all_strides() const;
  [[nodiscard]] std::string text() const;

  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};

struct TensorSpec {
  TensorMeta meta;
  Layout layout;

  // "f32[16,16] S(0)R": a tensor, a blank, a layout. Throws TextError, also for a shard of a dim
  // that the tensor lacks.
  [[nodiscard]] static TensorSpec parse(std::string_view text, int mesh_ndim);
  [[nodiscard]] std::string text() const { return meta.text() + " " + layout.text(); }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// A layout for a tensor; every shard must name a dim that the tensor has. Throws TextError.
[[nodiscard]] Layout parse_layout(std::string_view text, int mesh_ndim, const TensorMeta& meta);

// One chunk of an extent.
struct Chunk {
  std::int64_t size = 0;
  std::int64_t offset = 0;  // the extent itself for an empty chunk past the end
  friend bool operator==(const Chunk&, const Chunk&) = default;
};
[[nodiscard]] Chunk chunk_of(std::int64_t extent, std::int64_t chunks, std::int64_t index);

// Rows that coordinate `index` of `chunks` holds under a strided shard: the extent is cut into
// `factor` pieces, each piece into `chunks`, and the coordinate keeps its sub-chunk of every piece.
//   extent 9, factor 2, chunks 4: [0,1,5] [2,3,6] [4,7] [8]
// `unflatten`: the proposal of pytorch/pytorch#168134 instead (view the extent as (factor,
// ceil(extent/factor)), shard the second dim): extent 5, factor 2, chunks 2: [0,1,3,4] [2].
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
// Rows that the coordinate holds (without listing them). Chunk-of-chunks.
[[nodiscard]] std::int64_t strided_size(std::int64_t extent, std::int64_t factor,
                                        std::int64_t chunks, std::int64_t index);

// The shape that the rank at `coordinate` holds. Shards are applied in shard order.
[[nodiscard]] Shape local_shape(const Shape& shape, const Layout& layout, const DeviceMesh& mesh,
                                std::span<const std::int64_t> coordinate);
// Of the rank that holds the most: every chunk rounded up (coordinate 0 holds the largest chunks).
[[nodiscard]] Shape largest_local_shape(const Shape& shape, const Placements& placements,
                                        const DeviceMesh& mesh);
// How many elements, as prices count them: not exact past 2^53.
[[nodiscard]] double element_count(const Shape& shape);
// Which rows of tensor dim `dim` the rank at `coordinate` holds, as global indices.
[[nodiscard]] std::vector<std::int64_t> local_rows(const Shape& shape, int dim,
                                                   const Layout& layout, const DeviceMesh& mesh,
                                                   std::span<const std::int64_t> coordinate);
// The same of every tensor dim.
using RowLists = std::vector<std::vector<std::int64_t>>;
[[nodiscard]] RowLists rows_of(const TensorMeta& meta, const Layout& layout, const DeviceMesh& mesh,
                               std::span<const std::int64_t> coordinate);
// The extents of tensor dim `dim` that ranks hold, each once.
[[nodiscard]] std::vector<std::int64_t> local_extents(const Shape& shape, int dim,
                                                      const Layout& layout, const DeviceMesh& mesh);

// a * b, or the largest number when that is past it: split factors and mesh sizes may be huge.
// Assumes both are positive.
[[nodiscard]] inline std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return a > kMost / b ? kMost : a * b;
}

// Product of the mesh sizes whose placement shards; strided ones count when asked (PyTorch 2.13.0
// counts them).
[[nodiscard]] std::int64_t num_shards(const Placements& placements, const DeviceMesh& mesh,
                                      bool count_strided);

// Every shard gets at least one element: for each prefix of the mesh dims that shard `d`, shape[d]
// >= product of their sizes (times the split factor where strided). False for a shard of a dim that
// the tensor lacks.
[[nodiscard]] bool is_shardable(const Shape& shape, const Placements& placements,
                                const DeviceMesh& mesh);
// Likewise with "is divisible by" for ">=", on one tensor dim.
[[nodiscard]] bool is_evenly_shardable_on_dim(const Shape& shape, const Placements& placements,
                                              const DeviceMesh& mesh, int dim);

// Shard order <-> strided shards. For the order d -> (a0, a1, ...) mesh dim ai gets the split
// factor prod(size[aj] : j < i and aj > ai); 1 is a plain shard. Mesh (4,3,2), order (2,0,1):
// _S(d,2) _S(d,2) S(d).
[[nodiscard]] Layout encode_order_as_strided(const Layout& layout, const DeviceMesh& mesh);
// Back: plain shards with an order, or nothing when no order explains the split factors.
[[nodiscard]] std::optional<Layout> decode_strided_as_order(const Layout& layout,
                                                            const DeviceMesh& mesh);

}  // namespace shardlab

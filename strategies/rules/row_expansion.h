// Rows on one mesh dim, taken to the power of the mesh's dims, less those that are no layouts of their
// tensors.
//
//   const auto layouts = expand_over_mesh(rows, metas, mesh);  // by tensor, then by row
//
// The last mesh dim is fastest. For a program's nodes, whose inputs have no layout yet; a call whose
// inputs have one is expanded by expansion.h.
#pragma once

#include <span>
#include <vector>

#include "sim/mesh.h"
#include "sim/tensor_spec.h"

namespace shardlab {

// More rows than this for one node are a LimitError.
inline constexpr std::size_t kMaxNodeRows = 1 << 16;

// Partials that may stand together, and every dim long enough for its shards: mesh dims left to right,
// sizes rounded up.
[[nodiscard]] bool is_layout_of(const TensorMeta& meta, const Placements& placements,
                                const DeviceMesh& mesh);

// Assumes rows of one entry for each tensor. Throws LimitError.
[[nodiscard]] std::vector<std::vector<Placements>> expand_over_mesh(
    const std::vector<std::vector<Placement>>& rows, std::span<const TensorMeta* const> metas,
    const DeviceMesh& mesh);

}  // namespace shardlab

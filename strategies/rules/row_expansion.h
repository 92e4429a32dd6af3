// Every way to choose one row for each mesh dim, except those in which the placements that a tensor
// gets are no layout of it.
//
//   const auto layouts = expand_over_mesh(rows, metas, mesh);  // by tensor, then by row
//
// The choice on the last mesh dim changes fastest. This is for the nodes of a program, whose inputs
// have no layouts yet; expansion.h expands a call whose inputs have them.
#pragma once

#include <span>
#include <vector>

#include "sim/mesh.h"
#include "sim/tensor_spec.h"

namespace shardlab {

// A node with more rows than this is refused with a LimitError.
inline constexpr std::size_t kMaxNodeRows = 1 << 16;

// Whether the partials may stand together, and every tensor dim is long enough for its shards: each
// mesh dim from left to right divides the local extent, rounded up.
[[nodiscard]] bool is_layout_of(const TensorMeta& meta, const Placements& placements,
                                const DeviceMesh& mesh);

// Assumes that each row has one entry for each tensor. Throws LimitError.
[[nodiscard]] std::vector<std::vector<Placements>> expand_over_mesh(
    const std::vector<std::vector<Placement>>& rows, std::span<const TensorMeta* const> metas,
    const DeviceMesh& mesh);

}  // namespace shardlab

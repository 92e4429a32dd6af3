// Lists every way to choose one row for each mesh dim, except those that give some tensor
// placements that it can't have.
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

// Whether the tensor can have these placements: it must not mix partials of different kinds, and
// every sharded dim must be long enough. Mesh dims are taken from left to right, and each divides
// the local extent, rounded up.
[[nodiscard]] bool is_layout_of(const TensorMeta& meta, const Placements& placements,
                                const DeviceMesh& mesh);

// Assumes that each row has one entry for each tensor. Throws LimitError.
[[nodiscard]] std::vector<std::vector<Placements>> expand_over_mesh(
    const std::vector<std::vector<Placement>>& rows, std::span<const TensorMeta* const> metas,
    const DeviceMesh& mesh);

}  // namespace shardlab

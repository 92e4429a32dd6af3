// Slow and obvious twins of the arithmetic of chunks and meshes: they cut lists of rows into
// pieces, and list ranks one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/tensor_spec.h"

namespace shardlab::testing_support {

using RowList = std::vector<std::int64_t>;

RowList all_rows(std::int64_t extent);
// torch.chunk, padded with empty pieces: each piece takes ceil(N/n) rows until none are left.
std::vector<RowList> cut(const RowList& rows, std::int64_t pieces);
// The strided shard of coordinate `index`: cuts into `factor` pieces, cuts each piece again, and
// keeps sub-piece `index` of every piece.
RowList cut_strided(const RowList& rows, std::int64_t factor, std::int64_t chunks,
                    std::int64_t index);
// The rows of tensor dim `dim` at a coordinate, found by cutting for one mesh dim after the other
// in shard order.
RowList rows_at(std::int64_t extent, int dim, const Layout& layout, const DeviceMesh& mesh,
                const std::vector<std::int64_t>& coordinate);

// The groups of ranks that differ in their coordinates of `mesh_dims` only (row-major over these),
// found by comparing all coordinates. Assumes a root mesh.
std::vector<RowList> groups_of(const DeviceMesh& mesh, const std::vector<int>& mesh_dims);
// How many blocks of `block` ranks (hosts or domains) one group touches at most.
std::int64_t most_blocks(const std::vector<RowList>& groups, std::int64_t block);
// The fewest ranks that any group has in one of several blocks that it touches; all of them, if no
// group leaves its block.
std::int64_t fewest_in_block(const std::vector<RowList>& groups, std::int64_t block);

}  // namespace shardlab::testing_support

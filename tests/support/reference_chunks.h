// Slow, obvious twins of the chunk and mesh arithmetic: lists of rows cut into pieces, ranks listed
// one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/tensor_spec.h"

namespace shardlab::testing_support {

using RowList = std::vector<std::int64_t>;

RowList all_rows(std::int64_t extent);
// torch.chunk, padded with empty pieces: ceil(N/n) rows a piece until none are left.
std::vector<RowList> cut(const RowList& rows, std::int64_t pieces);
// The strided shard of coordinate `index`: cut into `factor`, cut each again, keep sub-piece
// `index` of every piece.
RowList cut_strided(const RowList& rows, std::int64_t factor, std::int64_t chunks,
                    std::int64_t index);
// Rows of tensor dim `dim` at a coordinate, cutting one mesh dim after the other in shard order.
RowList rows_at(std::int64_t extent, int dim, const Layout& layout, const DeviceMesh& mesh,
                const std::vector<std::int64_t>& coordinate);

// Groups of the ranks that differ in the coordinate of `mesh_dims` only (row-major over them),
// found by comparing all coordinates of the root mesh. Assumes a root mesh.
std::vector<RowList> groups_of(const DeviceMesh& mesh, const std::vector<int>& mesh_dims);
// The most blocks of `block` ranks that one group touches (hosts, domains).
std::int64_t most_blocks(const std::vector<RowList>& groups, std::int64_t block);

}  // namespace shardlab::testing_support

#include "tests/support/reference_chunks.h"

#include <algorithm>
#include <map>
#include <set>

#include "costmodel/base/index.h"

namespace shardlab::testing_support {

RowList all_rows(std::int64_t extent) {
  RowList rows;
  for (std::int64_t i = 0; i < extent; ++i) rows.push_back(i);
  return rows;
}

std::vector<RowList> cut(const RowList& rows, std::int64_t pieces) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t full = (count + pieces - 1) / pieces;
  std::vector<RowList> result(static_cast<std::size_t>(pieces));
  for (std::int64_t i = 0; i < count; ++i) {
    result[to_index(i / full)].push_back(rows[to_index(i)]);
  }
  return result;
}

RowList cut_strided(const RowList& rows, std::int64_t factor, std::int64_t chunks,
                    std::int64_t index) {
  RowList kept;
  for (const RowList& piece : cut(rows, factor)) {
    const RowList mine = cut(piece, chunks)[to_index(index)];
    kept.insert(kept.end(), mine.begin(), mine.end());
  }
  return kept;
}

RowList rows_at(std::int64_t extent, int dim, const Layout& layout, const DeviceMesh& mesh,
                const std::vector<std::int64_t>& coordinate) {
  // The mesh dims that shard `dim`, by their order index.
  std::map<int, int> by_position;
  for (int m = 0; m < layout.ndim(); ++m) {
    if (layout[m].is_shard_like() && layout[m].dim() == dim) {
      by_position[layout.order.position(m)] = m;
    }
  }
  RowList rows = all_rows(extent);
  for (const auto& [position, m] : by_position) {
    const std::int64_t index = coordinate[to_index(m)];
    rows = layout[m].is_strided() ? cut_strided(rows, layout[m].split_factor(), mesh.size(m), index)
                                  : cut(rows, mesh.size(m))[to_index(index)];
  }
  return rows;
}

std::vector<RowList> groups_of(const DeviceMesh& mesh, const std::vector<int>& mesh_dims) {
  std::map<std::vector<std::int64_t>, std::map<std::vector<std::int64_t>, std::int64_t>> groups;
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    std::vector<std::int64_t> rest = mesh.coordinate(rank);
    std::vector<std::int64_t> own;
    for (const int m : mesh_dims) {
      own.push_back(rest[to_index(m)]);
      rest[to_index(m)] = 0;
    }
    groups[rest][own] = rank;
  }
  std::vector<RowList> result;
  for (const auto& [rest, members] : groups) {
    RowList group;
    for (const auto& [own, rank] : members) group.push_back(rank);
    result.push_back(group);
  }
  return result;
}

std::int64_t most_blocks(const std::vector<RowList>& groups, std::int64_t block) {
  std::size_t most = 0;
  for (const RowList& group : groups) {
    std::set<std::int64_t> blocks;
    for (const std::int64_t rank : group) blocks.insert(rank / block);
    most = std::max(most, blocks.size());
  }
  return static_cast<std::int64_t>(most);
}

std::int64_t fewest_in_block(const std::vector<RowList>& groups, std::int64_t block) {
  std::size_t fewest = groups.front().size();
  for (const RowList& group : groups) {
    std::map<std::int64_t, std::size_t> members;
    for (const std::int64_t rank : group) ++members[rank / block];
    for (const auto& [number, count] : members) fewest = std::min(fewest, count);
  }
  return static_cast<std::int64_t>(fewest);
}

}  // namespace shardlab::testing_support

// What families of op rules share: entries of rows, and rows that many ops have.
#pragma once

#include <array>

#include "strategies/op_rule.h"

namespace shardlab::rows {

inline constexpr Placement kR = Placement::replicate();
inline constexpr Placement kSum = Placement::partial(ReduceOp::kSum);
inline constexpr Placement kAvg = Placement::partial(ReduceOp::kAvg);
inline constexpr Placement kMax = Placement::partial(ReduceOp::kMax);
inline constexpr Placement kMin = Placement::partial(ReduceOp::kMin);
// The partials that ops which move elements about let pass, in PyTorch's order.
inline constexpr std::array<Placement, 4> kPassThrough = {kSum, kAvg, kMin, kMax};

// ?d of a tensor, R where it lacks that dim (dim < 0).
[[nodiscard]] constexpr RowEntry shard_or_replicate(int dim) {
  return dim < 0 ? RowEntry(kR) : RowEntry::any_shard(dim);
}

// A row in which every entry is the same.
[[nodiscard]] inline Row all_alike(std::size_t tensors, const RowEntry& entry) {
  return Row(tensors, entry);
}

// Adds one row for each partial that passes through all tensors alike.
inline void add_pass_through(Rows& rows, std::size_t tensors) {
  for (const Placement& partial : kPassThrough) rows.push_back(all_alike(tensors, partial));
}

// Ops that work along dim `dim` of tensors of one shape: every other dim may be sharded, on all.
inline void add_shards_besides(Rows& rows, int ndim, int dim, std::size_t tensors) {
  for (int d = 0; d < ndim; ++d) {
    if (d != dim) rows.push_back(all_alike(tensors, RowEntry::any_shard(d)));
  }
}

// Every partial of the placements is reduced, and every shard of such a dim gathered.
template <class IsGathered>
[[nodiscard]] Placements replicated_where(const Placements& placements, IsGathered&& is_gathered) {
  Placements result;
  for (const Placement& p : placements) {
    const bool lost = p.is_partial() || (p.is_shard_like() && is_gathered(p.dim()));
    result.push_back(lost ? kR : p);
  }
  return result;
}

}  // namespace shardlab::rows

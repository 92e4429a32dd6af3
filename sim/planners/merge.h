// Merges consecutive collectives of a plan onto a flattened mesh, as DTensor does when it runs a
// plan.
//
//   merge_steps(plan.steps, mesh, {.shape = plan.meta.shape}).steps
//
// Steps are read from left to right, and never reordered or skipped. A run is a maximal sequence of
// all-reduces, reduce-scatters or all-gathers with the same placements as its first step; sums and
// averages that go to the same placement may be mixed. A run of two or more steps becomes one step
// if all of this holds, checked in this order. Otherwise there is a warning with the reason given.
//   1. The mesh dims of a reduce-scatter ascend, or those of an all-gather descend.
//      Reason: non_ascending_mesh_dims
//   2. A registered flattened mesh has the layout of the run's mesh dims in ascending order.
//      Reason: no_flattened_mesh
//   3. For a reduce-scatter, and with `mends_faults` for an all-gather too: the largest logical
//      extent of the tensor dim that is cut or gathered is divisible by the product of the mesh
//      sizes.
//      Reason: uneven_tensor_shape
// PyTorch 2.13.0 lacks the last check for all-gathers, and loses rows silently
// (pytorch/pytorch#194457). Source: PyTorch 2.13.0, _redistribute.py, _optimize_transform_infos;
// pytorch/pytorch#172119, #172610, #174630.
//
// The rule "neighbouring-all-reduces" is the one that came before it and was not merged,
// pytorch/pytorch#171913. It merges all-reduces of one placement alone, over mesh dims that are
// neighbours: at each step it takes the longest such run whose flattened mesh is registered, so
// that two of three steps may be merged, and it warns of nothing. Source: the pull request's
// description.
// Status: assumed where the description is silent, which is that longer runs are tried first and
// that a run may go through the mesh dims in either direction.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "sim/plan.h"

namespace shardlab {

// Which steps are merged: any run of one collective, as PyTorch does, or all-reduces over
// neighbouring mesh dims only.
enum class MergeRule : std::uint8_t { kRuns, kNeighbouringAllReduces };
template <>
struct EnumNames<MergeRule> {
  static constexpr std::string_view kKind = "merge rule";
  static constexpr std::array kNames = {
      Named{MergeRule::kRuns, "runs"},
      Named{MergeRule::kNeighbouringAllReduces, "neighbouring-all-reduces"}};
};

struct MergeOptions {
  MergeRule rule = MergeRule::kRuns;
  bool mends_faults = true;  // false merges as PyTorch 2.13.0 does
  // The tensor's global shape. Under uneven shards ranks have different logical extents, and
  // PyTorch decides rank by rank; with `mends_faults` those of all ranks must be divisible. When
  // the shape is empty, only the extents in the steps are looked at.
  Shape shape = {};
};

struct MergeResult {
  std::vector<PlanStep> steps;  // merged steps still have the price of their first step
  std::vector<MergeWarning> warnings;
};

[[nodiscard]] MergeResult merge_steps(const std::vector<PlanStep>& steps, const DeviceMesh& mesh,
                                      const MergeOptions& options);

}  // namespace shardlab

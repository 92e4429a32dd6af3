// Merging consecutive collectives of a plan onto a flattened mesh, as DTensor does when it runs a
// plan.
//
// Scan left to right; a run is a maximal sequence of all-reduces, reduce-scatters or all-gathers
// with the same placements as its first step (sums and averages of one target may be mixed). Never
// reorders, never skips over a step. A run of two or more becomes one step when, in this order:
//   1. reduce-scatter: its mesh dims ascend; all-gather: they descend
//      else non_ascending_mesh_dims
//   2. a registered flattened mesh has the layout of its (sorted) mesh dims
//      else no_flattened_mesh
//   3. reduce-scatter (all-gather: likewise, with `mends_faults`): the largest logical extent on
//      the scattered dim is divisible by the product of the mesh sizes
//      else uneven_tensor_shape
// PyTorch 2.13.0 lacks the check for all-gathers and loses rows silently (pytorch/pytorch#194457).
// Source: PyTorch 2.13.0, _redistribute.py, _optimize_transform_infos; pytorch/pytorch#172119,
// #172610, #174630.
#pragma once

#include <vector>

#include "sim/plan.h"

namespace shardlab {

struct MergeOptions {
  bool mends_faults = true;  // false: as PyTorch 2.13.0 merges
  // The tensor's global shape. Ranks of an uneven shard have other logical extents than the one that
  // the plan was made for (PyTorch decides rank by rank): with `mends_faults` all must divide.
  // Empty: the plan's own rank speaks for all.
  Shape shape = {};
};

struct MergeResult {
  std::vector<PlanStep> steps;  // prices and layouts of merged steps are left to the caller
  std::vector<MergeWarning> warnings;
};

[[nodiscard]] MergeResult merge_steps(const std::vector<PlanStep>& steps, const DeviceMesh& mesh,
                                      const MergeOptions& options);

}  // namespace shardlab

#include "sim/planners/merge.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "costmodel/base/index.h"

namespace shardlab {
namespace {

bool is_mergeable(const PlanStep& step) {
  if (step.from.is_strided() || step.to.is_strided()) return false;
  if (step.from.is_registered() || step.to.is_registered()) return false;
  return step.collective == Collective::kAllReduce ||
         step.collective == Collective::kReduceScatter || step.collective == Collective::kAllGather;
}

bool is_plain_linear(const Placement& p) {
  return p.kind() == Placement::Kind::kPartial && is_linear(p.reduce_op());
}

bool compatible(const PlanStep& step, const PlanStep& first) {
  if (step.to != first.to) return false;
  return step.from == first.from || (is_plain_linear(step.from) && is_plain_linear(first.from));
}

struct Attempt {
  std::optional<PlanStep> merged;
  std::string reason;
};

// Whether the extent of `dim` that the run's groups share is divisible by `ranks`, for every group.
bool divides_everywhere(std::span<const PlanStep> run, int dim, std::int64_t ranks,
                        const DeviceMesh& mesh, const Shape& shape) {
  Layout others = run.back().after;
  for (const PlanStep& step : run) {
    others.placements[to_index(step.mesh_dims.front())] = Placement::replicate();
  }
  const std::vector<std::int64_t> extents = local_extents(shape, dim, others, mesh);
  return std::all_of(extents.begin(), extents.end(),
                     [&](std::int64_t extent) { return extent % ranks == 0; });
}

Attempt merge_run(std::span<const PlanStep> run, const DeviceMesh& mesh,
                  const MergeOptions& options) {
  const PlanStep& first = run.front();
  MeshDims dims;
  for (const PlanStep& step : run) dims.push_back(step.mesh_dims.front());
  MeshDims sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  const bool ascends = dims == sorted;
  const bool descends = std::equal(dims.begin(), dims.end(), sorted.rbegin());
  if ((first.collective == Collective::kReduceScatter && !ascends) ||
      (first.collective == Collective::kAllGather && !descends)) {
    return {std::nullopt, "non_ascending_mesh_dims"};
  }
  const auto flat = mesh.find_flattened({sorted.data(), sorted.size()});
  if (!flat) return {std::nullopt, "no_flattened_mesh"};

  const PlanStep* outermost = &first;
  std::int64_t ranks = 1;
  for (const PlanStep& step : run) ranks *= mesh.size(step.mesh_dims.front());
  if (first.collective != Collective::kAllReduce) {
    const int dim = first.collective == Collective::kAllGather ? first.from.dim() : first.to.dim();
    const auto extent = [dim](const PlanStep& step) { return step.logical_shape[to_index(dim)]; };
    for (const PlanStep& step : run) {
      if (extent(step) > extent(*outermost)) outermost = &step;
    }
    const bool checked = first.collective == Collective::kReduceScatter || options.mends_faults;
    const bool divides = extent(*outermost) % ranks == 0 &&
                         (!options.mends_faults || options.shape.empty() ||
                          divides_everywhere(run, dim, ranks, mesh, options.shape));
    if (checked && !divides) return {std::nullopt, "uneven_tensor_shape"};
  }

  PlanStep merged = first;
  merged.mesh_dims = sorted;
  merged.logical_shape = outermost->logical_shape;
  merged.flattened_mesh = flat->name;
  for (const PlanStep& step : run) {
    if (step.from.is_partial() && step.from.reduce_op() == ReduceOp::kAvg) {
      merged.avg_scale *= mesh.size(step.mesh_dims.front());
    }
  }
  // If there is a sum among the averages, the merged step is a sum, divided by the sizes of only
  // those mesh dims that average. PyTorch 2.13.0 checks whether that divisor exceeds 1 instead, so
  // if an average over one rank comes before a sum, the sum is averaged, too.
  const bool any_sum = std::any_of(run.begin(), run.end(), [](const PlanStep& step) {
    return step.from.is_partial() && step.from.reduce_op() == ReduceOp::kSum;
  });
  if (merged.avg_scale > 1 || (any_sum && first.from.is_partial() && options.mends_faults &&
                               first.from.reduce_op() == ReduceOp::kAvg)) {
    merged.from = Placement::partial(ReduceOp::kSum);
  }
  merged.after = run.back().after;
  return {merged, ""};
}

// How many steps from the first on are all-reduces of one placement whose mesh dims are neighbours
// and go in one direction.
std::size_t neighbouring_all_reduces(std::span<const PlanStep> steps) {
  const PlanStep& first = steps.front();
  if (first.collective != Collective::kAllReduce) return 1;
  std::size_t length = 1;
  while (length < steps.size()) {
    const PlanStep& next = steps[length];
    if (next.collective != Collective::kAllReduce || next.from != first.from ||
        next.to != first.to) {
      break;
    }
    const int step = next.mesh_dims.front() - steps[length - 1].mesh_dims.front();
    const int direction = length == 1 ? step : steps[1].mesh_dims.front() - first.mesh_dims.front();
    if ((step != 1 && step != -1) || step != direction) break;
    ++length;
  }
  return length;
}

MergeResult merge_neighbouring_all_reduces(std::span<const PlanStep> steps, const DeviceMesh& mesh,
                                           const MergeOptions& options) {
  MergeResult result;
  while (!steps.empty()) {
    std::size_t taken = 1;
    PlanStep step = steps.front();
    for (std::size_t length = neighbouring_all_reduces(steps); length > 1; --length) {
      const Attempt attempt = merge_run(steps.first(length), mesh, options);
      if (!attempt.merged) continue;
      step = *attempt.merged;
      taken = length;
      break;
    }
    result.steps.push_back(std::move(step));
    steps = steps.subspan(taken);
  }
  return result;
}

}  // namespace

MergeResult merge_steps(const std::vector<PlanStep>& steps, const DeviceMesh& mesh,
                        const MergeOptions& options) {
  if (options.rule == MergeRule::kNeighbouringAllReduces) {
    return merge_neighbouring_all_reduces(steps, mesh, options);
  }
  MergeResult result;
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t end = i + 1;
    if (is_mergeable(steps[i])) {
      while (end < steps.size() && is_mergeable(steps[end]) && compatible(steps[end], steps[i])) {
        ++end;
      }
    }
    const std::span<const PlanStep> run(steps.data() + i, end - i);
    i = end;
    if (run.size() < 2) {
      result.steps.push_back(run.front());
      continue;
    }
    const Attempt attempt = merge_run(run, mesh, options);
    if (attempt.merged) {
      result.steps.push_back(*attempt.merged);
      continue;
    }
    MergeWarning warning;
    warning.reason = attempt.reason;
    warning.steps = static_cast<int>(run.size());
    for (const PlanStep& step : run) {
      warning.mesh_dims.push_back(step.mesh_dims.front());
      result.steps.push_back(step);
    }
    std::sort(warning.mesh_dims.begin(), warning.mesh_dims.end());
    const auto same = [&](const MergeWarning& w) {
      return w.reason == warning.reason && w.mesh_dims == warning.mesh_dims;
    };
    // There is one warning for each reason and set of mesh dims.
    if (std::none_of(result.warnings.begin(), result.warnings.end(), same)) {
      result.warnings.push_back(warning);
    }
  }
  return result;
}

}  // namespace shardlab

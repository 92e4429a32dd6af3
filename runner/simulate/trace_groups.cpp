#include "runner/simulate/trace_groups.h"

#include <algorithm>

#include "costmodel/base/index.h"

namespace shardlab {

std::int64_t first_member(const DeviceMesh& mesh, const MeshDims& mesh_dims, std::int64_t index) {
  std::int64_t stride = 1;
  for (int m = mesh.ndim() - 1; m >= 0; --m) {
    if (std::find(mesh_dims.begin(), mesh_dims.end(), m) != mesh_dims.end()) {
      index -= index / stride % mesh.size(m) * stride;
    }
    stride *= mesh.size(m);
  }
  return index;
}

TraceGroups::TraceGroups(const DeviceMesh& mesh, const Schedule& schedule)
    : mesh_(mesh), schedule_(schedule) {
  std::map<MeshDims, std::int64_t> calls;
  for (const ScheduledKernel& kernel : schedule.kernels) {
    numbers_.push_back(kernel.mesh_dims.empty() ? 0 : calls[kernel.mesh_dims]++);
  }
}

const TracedGroup& TraceGroups::of(int kernel, std::int64_t rank_index) {
  const MeshDims& dims = schedule_.kernels[to_index(kernel)].mesh_dims;
  const std::int64_t first = first_member(mesh_, dims, rank_index);
  const auto [it, is_new] = groups_.try_emplace({dims, first});
  TracedGroup& group = it->second;
  if (!is_new) return group;
  MeshLayout layout;
  for (const int m : dims) layout = layout.concatenate(mesh_.layout(m));
  layout = layout.coalesce();
  // Names begin with 1, because 0 is PyTorch's name for the group of all ranks.
  group.name = std::to_string(order_.size() + 1);
  group.size = layout.size();
  group.first = mesh_.rank(first);
  if (group.size <= kMaxListedRanks) {
    for (const std::int64_t offset : layout.offsets()) group.ranks.push_back(group.first + offset);
    group.first = 0;
  } else {
    group.stride = layout.modes().size() == 1 ? layout.modes()[0].stride : 0;
  }
  order_.push_back(&group);
  return group;
}

std::vector<const TracedGroup*> TraceGroups::all() const { return order_; }

}  // namespace shardlab

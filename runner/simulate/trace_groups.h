// The process groups of a simulated run, and the numbers of their calls, as traces name them.
//
//   TraceGroups groups(mesh, schedule);
//   groups.of(kernel, rank_index).ranks      // the ranks of the group that this rank is in
//   groups.number(kernel)                    // the call's index among all calls of its group
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "costmodel/base/index.h"
#include "costmodel/measurements/collective_trace.h"
#include "sim/simulator.h"

namespace shardlab {

// The ranks of larger groups are not listed. If they are evenly spaced, `first` and `stride`
// describe them; otherwise the stride is 0.
inline constexpr std::int64_t kMaxListedRanks = 4096;

// The index in the mesh of the first rank of this rank's group on these mesh dims.
[[nodiscard]] std::int64_t first_member(const DeviceMesh& mesh, const MeshDims& mesh_dims,
                                        std::int64_t index);

class TraceGroups {
 public:
  // Keeps references.
  TraceGroups(const DeviceMesh& mesh, const Schedule& schedule);

  // The group of a collective's rank. Assumes that the kernel is a collective. Groups are named by
  // numbers, in the order in which this function is first called for them.
  [[nodiscard]] const TracedGroup& of(int kernel, std::int64_t rank_index);
  [[nodiscard]] std::int64_t number(int kernel) const { return numbers_[to_index(kernel)]; }
  // All groups that of() has returned, in the order of their names.
  [[nodiscard]] std::vector<const TracedGroup*> all() const;

 private:
  const DeviceMesh& mesh_;
  const Schedule& schedule_;
  std::vector<std::int64_t> numbers_;
  std::map<std::pair<MeshDims, std::int64_t>, TracedGroup> groups_;
  std::vector<const TracedGroup*> order_;
};

}  // namespace shardlab

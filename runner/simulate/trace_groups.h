// The process groups and call numbers of a simulated run, as traces name them.
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

// Larger groups are not listed: where their ranks are evenly apart, first and stride say who they
// are; else the stride is 0.
inline constexpr std::int64_t kMaxListedRanks = 4096;

// The members of a collective have the same other coordinates; an index into the mesh.
[[nodiscard]] std::int64_t first_member(const DeviceMesh& mesh, const MeshDims& mesh_dims,
                                        std::int64_t index);

class TraceGroups {
 public:
  // Keeps references.
  TraceGroups(const DeviceMesh& mesh, const Schedule& schedule);

  // Assumes a collective. Groups are named by numbers, in the order in which they are asked for.
  [[nodiscard]] const TracedGroup& of(int kernel, std::int64_t rank_index);
  [[nodiscard]] std::int64_t number(int kernel) const { return numbers_[to_index(kernel)]; }
  // The groups that were asked for, in the order of their names.
  [[nodiscard]] std::vector<const TracedGroup*> all() const;

 private:
  const DeviceMesh& mesh_;
  const Schedule& schedule_;
  std::vector<std::int64_t> numbers_;
  std::map<std::pair<MeshDims, std::int64_t>, TracedGroup> groups_;
  std::vector<const TracedGroup*> order_;
};

}  // namespace shardlab

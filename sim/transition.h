// One mesh dim changes its placement: which collective that needs, the bytes it moves, the bytes it
// leaves, its price; in the versions that DTensor's cost function went through.
//
//   S->R all_gather    S->S' all_to_all    R->S, R->P local
//   P->R all_reduce    P->S reduce_scatter S->P, P->P' impossible
//
// How many microseconds a collective takes is the cost model's business: any model runs under any
// version. Sources: the pull requests named in each row of all_transition_rules(); PyTorch 2.13.0,
// _compute_placement_transition_cost.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "costmodel/base/index.h"
#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
#include "costmodel/topology.h"
#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/tensor_spec.h"

namespace shardlab {

struct TransitionRules {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // The cost follows the planner's steps; else (v0) it loops over the mesh dims and ignores the
  // shard order.
  bool follows_plan = true;
  bool replicate_to_shard_divides_bytes = true;
  // P(x)->P(y) is impossible; before, it cost nothing (and did nothing).
  bool partial_to_partial_impossible = true;
  // Added to an all-to-all, which is priced with the all-gather formula on local bytes.
  Micros all_to_all_penalty{1.0};
  // What R->P costs; the pull request never fixed a value.
  Micros replicate_to_partial{0.0};
  // A fully replicated source costs nothing, whatever the target.
  bool replicated_source_is_free = true;
  // AutoParallel's price of an edge: reshuffle copies and the copy that makes a tensor contiguous
  // are priced, and whatever it does not know is free.
  bool autoparallel = false;
  // Local kernels (chunks, partitions, reshuffle copies along a dim other than 0) are priced by the
  // compute model.
  bool prices_local_work = false;
  // A strided shard is priced like a shard; else its transitions cost nothing and, where a cost
  // function follows the plan, a spec whose shard order it can't tell costs infinity.
  bool prices_strided = false;
};

// v0 v1 v2 v3 v4 v3-rp v-compute autoparallel.
[[nodiscard]] std::span<const TransitionRules> all_transition_rules();
// Which collective a change of placement runs; kLocal when none.
[[nodiscard]] Collective collective_of(const Placement& from, const Placement& to);

struct PricedTransition {
  Collective collective = Collective::kLocal;
  Bytes full_bytes = 0.0;   // the larger of one rank's buffers
  Bytes bytes_after = 0.0;  // local bytes that the next step starts from
  Price price{};
};

// Prices transitions of one mesh on one topology. Immutable; keeps references to the models, which
// must outlive it.
class TransitionPricer {
 public:
  TransitionPricer(const DeviceMesh& mesh, const Topology& topology, const TransitionRules& rules,
                   const CostModel& collectives, const ComputeModel& kernels);

  [[nodiscard]] const TransitionRules& rules() const { return rules_; }
  [[nodiscard]] int mesh_ndim() const { return mesh_ndim_; }
  [[nodiscard]] std::int64_t mesh_size(int mesh_dim) const {
    return spans_[to_index(mesh_dim)].ranks;
  }
  [[nodiscard]] const GroupSpan& span(int mesh_dim) const { return spans_[to_index(mesh_dim)]; }

  // `bytes`: local bytes before the step (tensor bytes over the number of shards).
  [[nodiscard]] PricedTransition price(const Placement& from, const Placement& to, int mesh_dim,
                                       Bytes bytes, DType dtype) const {
    return price(from, to, spans_[to_index(mesh_dim)], bytes, dtype);
  }
  // The same along any communicator (a flattened mesh).
  [[nodiscard]] PricedTransition price(const Placement& from, const Placement& to,
                                       const GroupSpan& group, Bytes bytes, DType dtype) const;
  // A local copy of so many bytes, read and written.
  [[nodiscard]] Price copy(Bytes bytes, DType dtype, bool strided) const {
    return kernels_.price({Kernel::kCopy, 2 * bytes, 0.0, dtype, strided});
  }

 private:
  [[nodiscard]] PricedTransition autoparallel_price(const Placement& from, const Placement& to,
                                                    const GroupSpan& group, Bytes bytes,
                                                    DType dtype) const;
  [[nodiscard]] Price local_work(const Placement& from, const Placement& to, double ranks,
                                 Bytes bytes, DType dtype) const;

  TransitionRules rules_;
  const CostModel& collectives_;
  const ComputeModel& kernels_;
  std::array<GroupSpan, kMaxMeshDims> spans_;
  int mesh_ndim_;
};

}  // namespace shardlab

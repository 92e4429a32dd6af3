// Prices the steps of one mesh on one topology, under one semantics of edges.
//
//   TransitionPricer pricer(mesh, topology, edge_semantics("v3"), collectives, kernels);
//   pricer.price(Placement::shard(0), Placement::replicate(), 1, 4096.0, DType::kBF16)
//       // an all-gather along mesh dim 1 of ranks that hold 4096 bytes each
#pragma once

#include <array>
#include <memory>

#include "costmodel/base/index.h"
#include "costmodel/topology.h"
#include "sim/edge_semantics.h"
#include "sim/mesh.h"

namespace shardlab {

// Immutable. Keeps references to the models, which must outlive the pricer.
class TransitionPricer {
 public:
  TransitionPricer(const DeviceMesh& mesh, const Topology& topology,
                   std::shared_ptr<const EdgeSemantics> semantics, const CostModel& collectives,
                   const ComputeModel& kernels);

  [[nodiscard]] const EdgeSemantics& semantics() const { return *semantics_; }
  [[nodiscard]] int mesh_ndim() const { return mesh_ndim_; }
  [[nodiscard]] std::int64_t mesh_size(int mesh_dim) const {
    return spans_[to_index(mesh_dim)].ranks;
  }
  [[nodiscard]] const GroupSpan& span(int mesh_dim) const { return spans_[to_index(mesh_dim)]; }

  // A step along a mesh dim. `bytes` is what a rank holds before the step: the bytes of the tensor
  // over the number of its shards.
  [[nodiscard]] PricedTransition price(const Placement& from, const Placement& to, int mesh_dim,
                                       Bytes bytes, DType dtype) const {
    if (from == to) return {.bytes_after = bytes};
    const GroupSpan& group = spans_[to_index(mesh_dim)];
    return semantics_->price_step(models_, {from, to, group, bytes, dtype, mesh_dim});
  }
  // The same step along any communicator, for instance that of a flattened mesh.
  [[nodiscard]] PricedTransition price(const Placement& from, const Placement& to,
                                       const GroupSpan& group, Bytes bytes, DType dtype) const {
    if (from == to) return {.bytes_after = bytes};
    return semantics_->price_step(models_, {from, to, group, bytes, dtype});
  }
  // A local copy that reads and writes so many bytes.
  [[nodiscard]] Price copy(Bytes bytes, DType dtype, bool strided) const {
    return models_.copy(bytes, dtype, strided);
  }

 private:
  std::shared_ptr<const EdgeSemantics> semantics_;
  StepModels models_;
  std::array<GroupSpan, kMaxMeshDims> spans_;
  int mesh_ndim_;
};

}  // namespace shardlab

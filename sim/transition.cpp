#include "sim/transition.h"

#include <utility>

namespace shardlab {

TransitionPricer::TransitionPricer(const DeviceMesh& mesh, const Topology& topology,
                                   std::shared_ptr<const EdgeSemantics> semantics,
                                   const CostModel& collectives, const ComputeModel& kernels)
    : semantics_(std::move(semantics)), models_{collectives, kernels}, mesh_ndim_(mesh.ndim()) {
  for (int i = 0; i < mesh_ndim_; ++i) {
    spans_[to_index(i)] = mesh.span(i, topology);
  }
  if (auto bound = semantics_->bound_to(mesh, topology)) semantics_ = std::move(bound);
}

}  // namespace shardlab

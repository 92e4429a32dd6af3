// A function of the user's that prices one step of a redistribution, in the place of the price that
// the edge semantics give it.
//
//   options.semantics = priced_by(options.semantics, python_transitions(ask, "mine.py:price"));
//
// PyTorch has one such function, _compute_placement_transition_cost (2.13.0,
// torch/distributed/tensor/_collective_utils.py). Everything else about an edge stays as the
// semantics have it: which edges have a price without any plan, and whether an edge costs what the
// planner's steps cost.
//
// The graph planner assumes that one price holds for the shards of all tensor dims above 0, one for
// all partials that are made by a division, and one for all other partials. Where the function
// prices them differently, only the greedy planner's plans have exactly the function's prices.
#pragma once

#include <memory>

#include "sim/edge_semantics.h"

namespace shardlab {

// Safe to share between threads.
class TransitionFunction {
 public:
  TransitionFunction() = default;
  TransitionFunction(const TransitionFunction&) = delete;
  TransitionFunction& operator=(const TransitionFunction&) = delete;
  virtual ~TransitionFunction() = default;

  struct Result {
    Micros price;  // not negative; infinite if the step is impossible
    Bytes bytes_after = 0.0;
  };
  // The prices of steps along the mesh dims of one mesh.
  class OnMesh {
   public:
    OnMesh() = default;
    OnMesh(const OnMesh&) = delete;
    OnMesh& operator=(const OnMesh&) = delete;
    virtual ~OnMesh() = default;
    // `bytes` is what a rank holds before the step. Throws ConfigError, which names the call, when
    // the function raises an exception or returns what is not a price.
    [[nodiscard]] virtual Result price(const Placement& from, const Placement& to, int mesh_dim,
                                       Bytes bytes) const = 0;
  };
  // `domain_devices` is what a mesh dim's walk is compared with, which PyTorch's MeshTopoInfo calls
  // num_devices_per_host: the devices that NVLink joins.
  [[nodiscard]] virtual std::shared_ptr<const OnMesh> on(const DeviceMesh& mesh,
                                                         std::int64_t domain_devices) const = 0;
};

// The semantics `base` with the function's prices.
[[nodiscard]] std::shared_ptr<const EdgeSemantics> priced_by(
    std::shared_ptr<const EdgeSemantics> base, std::shared_ptr<const TransitionFunction> function);

}  // namespace shardlab

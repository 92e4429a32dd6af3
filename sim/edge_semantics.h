// The semantics of an edge, which is the change of a tensor from one layout to another: which
// collective each step needs, how many bytes it moves and leaves, and which edges have a price
// without any plan. There is one object for each version that DTensor's cost function went through,
// and one for AutoParallel's.
//
//   const std::shared_ptr<const EdgeSemantics> v3 = edge_semantics("v3");
//   v3->price_step({collectives, kernels}, {from, to, group, bytes, dtype}).price
//
// A step changes one placement, along one mesh dim or along several that are merged:
//
//   S->R   all_gather       S->S'  all_to_all          R->S, R->P   local
//   P->R   all_reduce       P->S   reduce_scatter      S->P, P->P'  impossible (P->P' since v3)
//
// Impossible means that the price is infinite, so that no strategy contains the step.
//
// The cost model decides how many microseconds a collective takes; any model works with any
// semantics. Sources: PyTorch 2.13.0, _compute_placement_transition_cost, and the pull requests
// that each row of all_edge_semantics() names. A new version is a class and a row in
// edge_semantics.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
#include "costmodel/topology.h"
#include "sim/mesh.h"
#include "sim/placement.h"
#include "sim/tensor_spec.h"

namespace shardlab {

// The collective that changes one placement into another; kLocal when none is needed.
[[nodiscard]] Collective collective_of(const Placement& from, const Placement& to);

// One step: a change of placement among the ranks of one communicator.
struct StepQuery {
  const Placement& from;
  const Placement& to;
  const GroupSpan& group;
  Bytes bytes;  // held by a rank before the step: tensor bytes over the number of shards
  DType dtype;
  int mesh_dim = kMergedMeshDims;

  static constexpr int kMergedMeshDims = -1;  // the communicator is that of several mesh dims
};

// What one step does and costs.
struct PricedTransition {
  Collective collective = Collective::kLocal;
  Bytes full_bytes = 0.0;   // the larger of one rank's two buffers
  Bytes bytes_after = 0.0;  // held by a rank after the step, and before the next one
  Price price{};
};

// The models that price steps. They must outlive whoever holds this.
struct StepModels {
  const CostModel& collectives;
  const ComputeModel& kernels;

  // A local copy: every byte is read once and written once.
  [[nodiscard]] Price copy(Bytes bytes, DType dtype, bool strided) const {
    return kernels.price({Kernel::kCopy, 2 * bytes, 0.0, dtype, strided});
  }
};

// The price of an edge that is known without looking at the steps.
struct KnownPrice {
  double cost_us = 0.0;
  std::string_view reason = {};  // why the price is infinite, a static text; else empty
};

// How a cost function that ignores the plan goes through the mesh dims.
struct MeshDimWalk {
  bool innermost_first = false;
  bool copies_first = false;  // the tensor is made contiguous before the first step
};

// The semantics of edges under one version. Immutable and safe to share between threads; only a
// function of the user's throws (sim/transition_function.h).
class EdgeSemantics {
 public:
  explicit EdgeSemantics(std::string_view name) : name_(name) {}  // a static text
  EdgeSemantics(const EdgeSemantics&) = delete;
  EdgeSemantics& operator=(const EdgeSemantics&) = delete;
  virtual ~EdgeSemantics() = default;

  [[nodiscard]] std::string_view name() const { return name_; }

  // The semantics to price the steps of one mesh with, if they depend on more of the mesh than the
  // communicator of a step; null if this object prices the steps of every mesh.
  [[nodiscard]] virtual std::shared_ptr<const EdgeSemantics> bound_to(const DeviceMesh& /*mesh*/,
                                                                      const Topology&) const {
    return nullptr;
  }

  // What a step does and costs. Assumes that its placements differ.
  [[nodiscard]] virtual PricedTransition price_step(const StepModels& models,
                                                    const StepQuery& step) const = 0;
  // Whether R->S costs nothing, whatever the models say.
  [[nodiscard]] virtual bool chunk_is_free() const { return true; }
  // The price of R->P, if it is a parameter of these semantics.
  [[nodiscard]] virtual std::optional<Micros> replicate_to_partial() const { return std::nullopt; }

  // Whether the graph planner may turn a shard into a P(sum) that the target asks for, at no cost
  // to its search. The plan's price is infinite all the same, so no strategy contains such a step.
  [[nodiscard]] virtual bool plans_sums_of_shards() const { return false; }

  // The price of an edge, if it is known without looking at the steps. Assumes that the layouts
  // differ. `hides_order`: whether strided shards at either end encode a shard order.
  [[nodiscard]] virtual std::optional<KnownPrice> known_price(const Placements& from,
                                                              const Placements& to,
                                                              bool hides_order) const = 0;
  // Whether an edge from a fully replicated source costs nothing, whatever the target.
  [[nodiscard]] virtual bool replicated_source_is_free() const { return true; }
  // Whether a strided shard is priced like a plain one, even if its shard order is unknown, so that
  // a planner may move it. Otherwise its steps cost nothing.
  [[nodiscard]] virtual bool prices_strided_shards() const { return false; }

  // Whether an edge costs what the planner's steps cost. Otherwise it costs one step for each mesh
  // dim whose placement changes, in the order of mesh_dim_walk(), whatever the shard order.
  [[nodiscard]] virtual bool follows_plan() const { return true; }
  [[nodiscard]] virtual MeshDimWalk mesh_dim_walk(const TensorMeta&, const Placements& /*from*/,
                                                  const Placements& /*to*/) const {
    return {};
  }

 private:
  std::string_view name_;
};

// One row of the table of semantics.
struct EdgeSemanticsRow {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // The default price of R->P, the only parameter; nothing if R->P is free by definition.
  std::optional<Micros> replicate_to_partial;
  std::shared_ptr<const EdgeSemantics> (*make_with)(std::string_view name, Micros);

  [[nodiscard]] std::shared_ptr<const EdgeSemantics> make() const {
    return make_with(name, replicate_to_partial.value_or(Micros()));
  }
  // The same semantics with another price of R->P. Assumes that the semantics have this parameter.
  [[nodiscard]] std::shared_ptr<const EdgeSemantics> make(Micros price_of_partition) const {
    return make_with(name, price_of_partition);
  }
};

// The table: v0 v1 v2 v3 v4 v3-rp v3-sp v-compute autoparallel.
[[nodiscard]] std::span<const EdgeSemanticsRow> all_edge_semantics();
// The row with this name; null when there is none.
[[nodiscard]] const EdgeSemanticsRow* find_edge_semantics(std::string_view name);
// The semantics with this name. Throws ContractError when there are none.
[[nodiscard]] std::shared_ptr<const EdgeSemantics> edge_semantics(std::string_view name);

}  // namespace shardlab

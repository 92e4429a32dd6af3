// What an edge costs: the change of a tensor from one layout to another. Which collective a step
// needs, how many bytes it moves and leaves, and which edges have a price without any plan, in the
// versions that DTensor's cost function went through and in AutoParallel's.
//
//   const auto semantics = edge_semantics("v3");
//   semantics->price_step(models, {.from = S(0), .to = R, .group = span, .bytes = 1024, ...})
//
// A step changes one placement, along one mesh dim or along several that are merged:
//
//   S->R all_gather    S->S' all_to_all    R->S, R->P local
//   P->R all_reduce    P->S reduce_scatter S->P, P->P' impossible
//
// How many microseconds a collective takes is the cost model's business: any model runs under any
// semantics. Bytes are those that one rank holds. Sources: the pull requests named in each row of
// all_edge_semantics(); PyTorch 2.13.0, _compute_placement_transition_cost. To add a version: a
// class and a row in edge_semantics.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
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
  Bytes bytes;  // that a rank holds before the step: tensor bytes over the number of shards
  DType dtype;
};

struct PricedTransition {
  Collective collective = Collective::kLocal;
  Bytes full_bytes = 0.0;   // the larger of one rank's two buffers
  Bytes bytes_after = 0.0;  // that a rank holds after the step: the next step starts from them
  Price price{};
};

// The models that steps are priced with. They must outlive whoever holds this.
struct StepModels {
  const CostModel& collectives;
  const ComputeModel& kernels;

  // A local copy: every byte is read once and written once.
  [[nodiscard]] Price copy(Bytes bytes, DType dtype, bool strided) const {
    return kernels.price({Kernel::kCopy, 2 * bytes, 0.0, dtype, strided});
  }
};

// The price of an edge that the cost function knows without looking at its steps.
struct KnownPrice {
  double cost_us = 0.0;
  std::string_view reason = {};  // why the price is infinite, a static text; else empty
};

// How a cost function that ignores the plan walks over the mesh dims.
struct MeshDimWalk {
  bool innermost_first = false;
  bool copies_first = false;  // the tensor is made contiguous before the first step
};

// Immutable, safe to share between threads. Nothing here throws.
class EdgeSemantics {
 public:
  explicit EdgeSemantics(std::string_view name) : name_(name) {}  // a static text
  EdgeSemantics(const EdgeSemantics&) = delete;
  EdgeSemantics& operator=(const EdgeSemantics&) = delete;
  virtual ~EdgeSemantics() = default;

  [[nodiscard]] std::string_view name() const { return name_; }

  // Assumes that the placements differ.
  [[nodiscard]] virtual PricedTransition price_step(const StepModels& models,
                                                    const StepQuery& step) const = 0;
  // R->S costs nothing, whatever the models.
  [[nodiscard]] virtual bool chunk_is_free() const { return true; }
  // What R->P costs; nothing where that is no parameter.
  [[nodiscard]] virtual std::optional<Micros> replicate_to_partial() const { return std::nullopt; }

  // Nothing when the price is that of the steps. Assumes that the layouts differ.
  [[nodiscard]] virtual std::optional<KnownPrice> known_price(const Placements& from,
                                                              const Placements& to) const = 0;
  // An edge from a fully replicated source costs nothing, whatever the target.
  [[nodiscard]] virtual bool replicated_source_is_free() const { return true; }
  // A strided shard is priced like a shard, also where its shard order can't be told, so a planner
  // may move it. Otherwise its steps cost nothing.
  [[nodiscard]] virtual bool prices_strided_shards() const { return false; }

  // The price is that of the planner's steps. Otherwise it is that of one step for each mesh dim
  // whose placement changes, in the order of mesh_dim_walk(), whatever the shard order.
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
  // The default of the one parameter, what R->P costs; nothing where R->P is free by definition.
  std::optional<Micros> replicate_to_partial;
  std::shared_ptr<const EdgeSemantics> (*make_with)(std::string_view name, Micros);

  [[nodiscard]] std::shared_ptr<const EdgeSemantics> make() const {
    return make_with(name, replicate_to_partial.value_or(Micros()));
  }
  // With another price of R->P. Assumes that it is a parameter.
  [[nodiscard]] std::shared_ptr<const EdgeSemantics> make(Micros price_of_partition) const {
    return make_with(name, price_of_partition);
  }
};

// v0 v1 v2 v3 v4 v3-rp v-compute autoparallel.
[[nodiscard]] std::span<const EdgeSemanticsRow> all_edge_semantics();
// Null for a name that is not in the table.
[[nodiscard]] const EdgeSemanticsRow* find_edge_semantics(std::string_view name);
// Throws ContractError for a name that is not in the table.
[[nodiscard]] std::shared_ptr<const EdgeSemantics> edge_semantics(std::string_view name);

}  // namespace shardlab

#include "sim/transition_function.h"

#include <algorithm>
#include <utility>

#include "costmodel/base/error.h"
#include "sim/semantics_upon.h"

namespace shardlab {
namespace {

// Semantics whose steps a function prices. An object that is not bound to a mesh prices nothing.
class PricedByFunction final : public SemanticsUpon {
 public:
  PricedByFunction(std::shared_ptr<const EdgeSemantics> base,
                   std::shared_ptr<const TransitionFunction> function)
      : SemanticsUpon(std::move(base)), function_(std::move(function)) {}

  [[nodiscard]] std::shared_ptr<const EdgeSemantics> bound_to(
      const DeviceMesh& mesh, const Topology& topology) const override {
    auto bound = std::make_shared<PricedByFunction>(base(), function_);
    bound->domain_devices_ = topology.domain_devices();
    bound->prices_ = function_->on(mesh, bound->domain_devices_);
    return bound;
  }

  [[nodiscard]] PricedTransition price_step(const StepModels&,
                                            const StepQuery& step) const override {
    SHARDLAB_CHECK(prices_ != nullptr, "a function's prices depend on a mesh");
    if (step.from.is_registered() || step.to.is_registered()) {
      PricedTransition refused;
      refused.price = Price::make_impossible("the cost function knows no registered placements");
      return refused;
    }
    const TransitionFunction::Result result =
        step.mesh_dim == StepQuery::kMergedMeshDims
            ? price_merged(step)
            : prices_->price(step.from, step.to, step.mesh_dim, step.bytes);
    PricedTransition priced{.collective = collective_of(step.from, step.to),
                            .full_bytes = std::max(step.bytes, result.bytes_after),
                            .bytes_after = result.bytes_after};
    priced.price = is_finite(result.price)
                       ? Price::of(result.price, Micros())
                       : Price::make_impossible("the cost function gives it an infinite price");
    return priced;
  }

  [[nodiscard]] bool chunk_is_free() const override { return false; }

 private:
  static bool is_finite(Micros price) { return price.value() < kInfinity; }

  // Merged mesh dims are one dim of a flattened mesh. The function is asked about a mesh of that
  // dim alone, whose ranks are as close together as those of the merged dims.
  [[nodiscard]] TransitionFunction::Result price_merged(const StepQuery& step) const {
    const std::int64_t stride = std::max<std::int64_t>(step.group.walk / step.group.ranks, 1);
    const auto flattened = function_->on(DeviceMesh::make({step.group.ranks}),
                                         std::max<std::int64_t>(domain_devices_ / stride, 1));
    return flattened->price(step.from, step.to, 0, step.bytes);
  }

  std::shared_ptr<const TransitionFunction> function_;
  std::shared_ptr<const TransitionFunction::OnMesh> prices_;  // null until bound to a mesh
  std::int64_t domain_devices_ = 1;
};

}  // namespace

std::shared_ptr<const EdgeSemantics> priced_by(std::shared_ptr<const EdgeSemantics> base,
                                               std::shared_ptr<const TransitionFunction> function) {
  return std::make_shared<PricedByFunction>(std::move(base), std::move(function));
}

}  // namespace shardlab

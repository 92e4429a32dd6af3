#include "sim/all_to_all_penalty.h"

#include <utility>

#include "sim/semantics_upon.h"

namespace shardlab {
namespace {

class FreeCollectives final : public CostModel {
 public:
  [[nodiscard]] Price price(const CollectiveQuery&) const override { return {}; }
};

class FreeKernels final : public ComputeModel {
 public:
  [[nodiscard]] Price price(const KernelQuery&) const override { return {}; }
};

// What the semantics add to an all-to-all by themselves.
Micros own_penalty(const EdgeSemantics& semantics) {
  const FreeCollectives collectives;
  const FreeKernels kernels;
  const GroupSpan group{.ranks = 2};
  return semantics
      .price_step({collectives, kernels},
                  {Placement::shard(0), Placement::shard(1), group, 1.0, DType::kF32})
      .price.total;
}

class WithAllToAllPenalty final : public SemanticsUpon {
 public:
  WithAllToAllPenalty(const std::shared_ptr<const EdgeSemantics>& below, Micros penalty)
      : SemanticsUpon(below), penalty_(penalty), own_penalty_(own_penalty(*below)) {}

  [[nodiscard]] Micros penalty() const { return penalty_; }

  [[nodiscard]] std::shared_ptr<const EdgeSemantics> bound_to(
      const DeviceMesh& mesh, const Topology& topology) const override {
    std::shared_ptr<const EdgeSemantics> bound = base()->bound_to(mesh, topology);
    if (bound == nullptr) return nullptr;
    return std::make_shared<WithAllToAllPenalty>(std::move(bound), penalty_);
  }

  [[nodiscard]] PricedTransition price_step(const StepModels& models,
                                            const StepQuery& step) const override {
    PricedTransition result = base()->price_step(models, step);
    const bool is_strided = step.from.is_strided() || step.to.is_strided();
    if (!step.from.cuts() || !step.to.cuts() || !result.price.is_possible()) return result;
    if (is_strided && !base()->prices_strided_shards()) return result;
    // A penalty that the base has already added cannot be taken off again without rounding.
    // Versions with a penalty price nothing but the collective, so that it is asked once more.
    if (own_penalty_ != Micros()) {
      result.price = models.collectives.price({result.collective, result.full_bytes, step.group});
    }
    result.price.total += penalty_;
    result.price.latency += penalty_;
    return result;
  }

 private:
  Micros penalty_;
  Micros own_penalty_;
};

}  // namespace

std::shared_ptr<const EdgeSemantics> with_all_to_all_penalty(
    const std::shared_ptr<const EdgeSemantics>& base, Micros penalty) {
  return std::make_shared<WithAllToAllPenalty>(base, penalty);
}

std::optional<Micros> all_to_all_penalty_given(const EdgeSemantics& semantics) {
  const auto* with = dynamic_cast<const WithAllToAllPenalty*>(&semantics);
  return with == nullptr ? std::nullopt : std::optional(with->penalty());
}

}  // namespace shardlab

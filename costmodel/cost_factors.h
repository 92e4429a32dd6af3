// What-if factors on the parameters of any model: what would prices be if every latency were f
// times as long, every bandwidth f times as large, the launch floor of kernels f times as high?
//
//   CostFactors factors{.latency = 2.0};
//   const auto model = with_factors(make_collective_model(choice, topology), factors);
//   model->price(query);              // at twice the latency
//
//   const FlooredKernels kernels(choice, topology);
//   kernels.price(query, 3.0);        // as if the launch floor were three times as high
//   kernels.threshold(query);         // the factor from which the floor hides this kernel's work
//
// Both scale the parts of a price (cost_model.h), so that they work on every model. With factors of
// 1 they return the model's own prices, to the last digit.
#pragma once

#include <memory>
#include <optional>

#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
#include "costmodel/registry.h"

namespace shardlab {

struct CostFactors {
  double latency = 1.0;   // on the latency of collectives
  double transfer = 1.0;  // on their transfer time: 1 / f for a bandwidth f times as large
  double launch = 1.0;    // on the launch floor of kernels

  friend bool operator==(const CostFactors&, const CostFactors&) = default;
};

// Keeps a reference to the factors, which may change between queries.
[[nodiscard]] std::unique_ptr<CostModel> with_factors(std::unique_ptr<CostModel> model,
                                                      const CostFactors& factors);

// Kernels whose launch floor is scaled by f: each takes max(f * floor, its time without a floor).
class FlooredKernels {
 public:
  FlooredKernels(const ModelChoice& choice, const Topology& topology);

  [[nodiscard]] Price price(const KernelQuery& query, double launch) const;

  // The factor of the launch floor below which the kernel's work takes longer than the floor. It is
  // absent if the model has no launch floor, or if the kernel has nothing to do.
  [[nodiscard]] std::optional<double> threshold(const KernelQuery& query) const;

  // The launch floor; 0 if the model has none.
  [[nodiscard]] Micros floor() const { return floor_; }

 private:
  [[nodiscard]] bool has_floor(const KernelQuery& query) const {
    return without_floor_ != nullptr && (query.bytes > 0 || query.flops > 0);
  }

  std::unique_ptr<ComputeModel> model_;
  std::unique_ptr<ComputeModel> without_floor_;  // null: no launch floor
  Micros floor_;
};

}  // namespace shardlab

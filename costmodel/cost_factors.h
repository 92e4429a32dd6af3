// What-if factors on the parameters of any model: how would prices be if every latency were f times
// as long, every bandwidth f times as large, the launch floor of kernels f times as high?
//
// Decorators scale the parts of a price (cost_model.h), so they work on every model; with factors of
// 1 they return the model's own prices, to the last digit. They keep references to the factors,
// which may change between queries.
#pragma once

#include <memory>
#include <vector>

#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
#include "costmodel/registry.h"

namespace shardlab {

struct CostFactors {
  double latency = 1.0;   // of collectives
  double transfer = 1.0;  // of their transfer times: 1 / f for a bandwidth f times as large
  double launch = 1.0;    // of kernels
};

[[nodiscard]] std::unique_ptr<CostModel> with_factors(std::unique_ptr<CostModel> model,
                                                      const CostFactors& factors);

// A kernel takes max(f * floor, what it takes without a floor).
class FlooredKernels final : public ComputeModel {
 public:
  FlooredKernels(const ModelChoice& choice, const Topology& topology, const CostFactors& factors);

  [[nodiscard]] Price price(const KernelQuery& query) const override;

  // 0: the model has no launch floor.
  [[nodiscard]] Micros floor() const { return floor_; }
  // The factors at which a kernel that was asked for since the last call leaves its floor; ascending,
  // once each.
  [[nodiscard]] std::vector<double> take_thresholds();

 private:
  const CostFactors& factors_;
  std::unique_ptr<ComputeModel> model_;
  std::unique_ptr<ComputeModel> without_floor_;  // null: no launch floor
  Micros floor_;
  mutable std::vector<double> thresholds_;
};

}  // namespace shardlab

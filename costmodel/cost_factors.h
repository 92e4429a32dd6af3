// What-if factors on the parameters of any model: what would prices be if every latency were f
// times as long, every bandwidth f times as large, or the launch floor of kernels f times as high?
//
//   CostFactors factors;
//   const auto model = with_factors(make_collective_model(choice, topology), factors);
//   factors.latency = 2.0;
//   model->price(query)            // at twice the latency
//
// The decorators scale the parts of a price (cost_model.h), so that they work on every model. With
// factors of 1 they return the model's own prices, to the last digit. They keep references to the
// factors, which may change between queries.
#pragma once

#include <memory>
#include <vector>

#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
#include "costmodel/registry.h"

namespace shardlab {

struct CostFactors {
  double latency = 1.0;   // on the latency of collectives
  double transfer = 1.0;  // on their transfer time: 1 / f for a bandwidth f times as large
  double launch = 1.0;    // on the launch floor of kernels
};

[[nodiscard]] std::unique_ptr<CostModel> with_factors(std::unique_ptr<CostModel> model,
                                                      const CostFactors& factors);

// A compute model under CostFactors::launch: a kernel takes max(launch * floor, what it takes
// without a floor).
class FlooredKernels final : public ComputeModel {
 public:
  FlooredKernels(const ModelChoice& choice, const Topology& topology, const CostFactors& factors);

  [[nodiscard]] Price price(const KernelQuery& query) const override;

  // 0 where the model has no launch floor.
  [[nodiscard]] Micros floor() const { return floor_; }
  // For the kernels that were priced since the last call: the launch factors above which the floor
  // decides their price. Ascending, each once.
  [[nodiscard]] std::vector<double> take_thresholds();

 private:
  const CostFactors& factors_;
  std::unique_ptr<ComputeModel> model_;
  std::unique_ptr<ComputeModel> without_floor_;  // null where there is no launch floor
  Micros floor_;
  mutable std::vector<double> thresholds_;
};

}  // namespace shardlab

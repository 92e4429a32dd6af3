#include "costmodel/cost_factors.h"

#include <algorithm>

namespace shardlab {
namespace {

class ScaledCollectives final : public CostModel {
 public:
  ScaledCollectives(std::unique_ptr<CostModel> model, const CostFactors& factors)
      : model_(std::move(model)), factors_(factors) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    return scaled(model_->price(query));
  }
  [[nodiscard]] std::vector<Alternative> alternatives(const CollectiveQuery& query) const override {
    std::vector<Alternative> all = model_->alternatives(query);
    for (Alternative& alternative : all) alternative.price = scaled(alternative.price);
    // Latency and transfer are scaled by different factors, which may change the order.
    std::stable_sort(all.begin(), all.end(), [](const Alternative& a, const Alternative& b) {
      return a.price.total < b.price.total;
    });
    return all;
  }

 private:
  [[nodiscard]] Price scaled(Price price) const {
    if (!price.is_possible() || (factors_.latency == 1.0 && factors_.transfer == 1.0)) return price;
    price.total += (factors_.latency - 1.0) * price.latency;
    price.total += (factors_.transfer - 1.0) * price.transfer;
    price.latency = factors_.latency * price.latency;
    price.transfer = factors_.transfer * price.transfer;
    return price;
  }

  std::unique_ptr<CostModel> model_;
  const CostFactors& factors_;
};

constexpr std::string_view kLaunch = "launch_us";

bool has_launch(const ModelEntry& entry) {
  return std::any_of(entry.params.begin(), entry.params.end(),
                     [](const ParamSpec& param) { return param.name == kLaunch; });
}

}  // namespace

std::unique_ptr<CostModel> with_factors(std::unique_ptr<CostModel> model,
                                        const CostFactors& factors) {
  return std::make_unique<ScaledCollectives>(std::move(model), factors);
}

FlooredKernels::FlooredKernels(const ModelChoice& choice, const Topology& topology)
    : model_(make_compute_model(choice, topology)) {
  if (!has_launch(*choice.entry)) return;
  ModelChoice without = choice;
  without.params[std::string(kLaunch)] = 0.0;
  without_floor_ = make_compute_model(without, topology);
  floor_ = model_->price({.kind = Kernel::kCopy, .bytes = 1e-300}).total;
}

Price FlooredKernels::price(const KernelQuery& query, double launch) const {
  if (launch == 1.0 || !has_floor(query)) return model_->price(query);
  return Price::of_compute(std::max(launch * floor_, without_floor_->price(query).total));
}

std::optional<double> FlooredKernels::threshold(const KernelQuery& query) const {
  if (!has_floor(query) || floor_.value() <= 0) return std::nullopt;
  return without_floor_->price(query).total.value() / floor_.value();
}

}  // namespace shardlab

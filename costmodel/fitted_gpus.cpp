#include "costmodel/fitted_gpus.h"

#include <algorithm>

#include "costmodel/base/text.h"
#include "costmodel/gpu_model.h"

namespace shardlab {
namespace {

class CarriedOver final : public CostModel {
 public:
  CarriedOver(std::unique_ptr<CostModel> model, std::string gpus)
      : model_(std::move(model)), gpus_(std::move(gpus)) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    return model_->price(query);
  }
  [[nodiscard]] std::vector<Alternative> alternatives(const CollectiveQuery& query) const override {
    return model_->alternatives(query);
  }
  [[nodiscard]] std::vector<MeasuredRange> measured() const override {
    std::vector<MeasuredRange> ranges = model_->measured();
    for (MeasuredRange& range : ranges) range.gpus = gpus_;
    return ranges;
  }

 private:
  std::unique_ptr<CostModel> model_;
  std::string gpus_;
};

}  // namespace

bool is_fitted_to(std::span<const std::string> gpus, const Topology& topology) {
  const std::string own = plain_gpu(topology.gpu());
  return gpus.empty() ||
         std::ranges::any_of(gpus, [&](const std::string& gpu) { return plain_gpu(gpu) == own; });
}

std::unique_ptr<CostModel> carried_over(std::unique_ptr<CostModel> model,
                                        std::span<const std::string> gpus) {
  return std::make_unique<CarriedOver>(std::move(model), join(gpus));
}

}  // namespace shardlab

#include "costmodel/price_watch.h"

#include <vector>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

// The same model on the topology of each watch.
template <class Model>
class Twins {
 public:
  // `make` makes the model on a topology.
  template <class Make>
  Twins(PriceWatches watches, const Make& make) {
    for (const std::shared_ptr<PriceWatch>& watch : watches) {
      try {
        twins_.push_back({watch, make(watch->other())});
      } catch (const ConfigError&) {
        watch->note_difference();
      } catch (const InputError&) {
        watch->note_difference();
      }
    }
  }

  template <class Query>
  void compare(const Query& query, const Price& own) const {
    for (const Twin& twin : twins_) {
      if (!twin.watch->is_open()) continue;
      if (twin.model->price(query).total != own.total) twin.watch->note_difference();
    }
  }

 private:
  struct Twin {
    std::shared_ptr<PriceWatch> watch;
    std::unique_ptr<Model> model;
  };
  std::vector<Twin> twins_;
};

class WatchedCollectives final : public CostModel {
 public:
  WatchedCollectives(std::unique_ptr<CostModel> model, Twins<CostModel> twins)
      : model_(std::move(model)), twins_(std::move(twins)) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    const Price own = model_->price(query);
    twins_.compare(query, own);
    return own;
  }
  [[nodiscard]] std::vector<Alternative> alternatives(const CollectiveQuery& query) const override {
    return model_->alternatives(query);
  }
  [[nodiscard]] std::optional<double> log_error(const CollectiveQuery& query) const override {
    return model_->log_error(query);
  }
  [[nodiscard]] double error_correlation(const CollectiveQuery& a,
                                         const CollectiveQuery& b) const override {
    return model_->error_correlation(a, b);
  }
  [[nodiscard]] std::vector<MeasuredRange> measured() const override { return model_->measured(); }

 private:
  std::unique_ptr<CostModel> model_;
  Twins<CostModel> twins_;
};

class WatchedKernels final : public ComputeModel {
 public:
  WatchedKernels(std::unique_ptr<ComputeModel> model, Twins<ComputeModel> twins)
      : model_(std::move(model)), twins_(std::move(twins)) {}

  [[nodiscard]] Price price(const KernelQuery& query) const override {
    const Price own = model_->price(query);
    twins_.compare(query, own);
    return own;
  }

 private:
  std::unique_ptr<ComputeModel> model_;
  Twins<ComputeModel> twins_;
};

}  // namespace

std::unique_ptr<CostModel> watched(std::unique_ptr<CostModel> model, const ModelChoice& choice,
                                   PriceWatches watches) {
  if (watches.empty() || choice.function) return model;
  return std::make_unique<WatchedCollectives>(
      std::move(model), Twins<CostModel>(watches, [&](const Topology& topology) {
        return make_collective_model(choice, topology);
      }));
}

std::unique_ptr<ComputeModel> watched(std::unique_ptr<ComputeModel> model,
                                      const ModelChoice& choice, PriceWatches watches) {
  if (watches.empty()) return model;
  return std::make_unique<WatchedKernels>(
      std::move(model), Twins<ComputeModel>(watches, [&](const Topology& topology) {
        return make_compute_model(choice, topology);
      }));
}

}  // namespace shardlab

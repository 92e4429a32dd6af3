// Which prices of a result a reader should doubt, as notes under the result: what breaks a bound of
// the links, and what lies far from every measured cluster of the same GPU
// (costmodel/price_doubts.h).
//
//   DoubtedPrices doubted(evaluator);
//   doubted.add(plan, evaluator.on(mesh));
//   session.print(doubted.text());   // "" or a line for each of the worst
//
// Prices are compared with those of the shipped stack calibrated-GPU of the topology's GPU.
// DTensor's constants and AutoParallel's default model are not checked: they are the same on every
// topology, and say so. Of models that were fitted to another GPU than the topology's, a line says
// so.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "costmodel/price_doubts.h"
#include "runner/config/configs.h"
#include "sim/redistribute.h"
#include "strategies/select/evaluator.h"

namespace shardlab {

class DoubtedPrices {
 public:
  // Keeps references to the evaluator's model and topology. The measured stack is as it was
  // shipped, whatever --set changes.
  explicit DoubtedPrices(const StackEvaluator& evaluator);

  void add(const CollectiveQuery& query);
  // All collectives of a plan.
  void add(const Plan& plan, const Redistributor& redistributor);

  // What was fitted to another GPU, then the worst doubts first, a line each: three at most, one
  // for each collective and group, and how many there are besides.
  [[nodiscard]] std::vector<std::string> lines() const;
  // The lines as notes; "" without any.
  [[nodiscard]] std::string text() const;
  // Adds what the lines say: all doubts as "doubtful", [{"collective", "ranks", "hosts",
  // "full_bytes", "price_us", "other_us", "reason"}], and models of another GPU as "other_gpu",
  // [{"prices", "fitted_gpus", "gpu"}]. Adds no empty list.
  void add_to(nlohmann::json& document) const;

 private:
  [[nodiscard]] std::vector<const PriceDoubt*> worst_first() const;

  // What a model prices that was fitted to other GPUs than the topology's.
  struct OtherGpu {
    std::string prices;  // "collectives", "kernels"
    std::vector<std::string> fitted_gpus;
  };
  [[nodiscard]] std::string text_of(const OtherGpu& other) const;

  std::string stack_;
  std::string topology_;
  std::string gpu_;  // of the topology
  std::vector<OtherGpu> other_gpus_;
  std::unique_ptr<CostModel> measured_;
  std::optional<PriceDoubts> doubts_;  // nothing for a stack that is not checked
  using Key = std::tuple<Collective, std::int64_t, std::int64_t, Bytes>;
  std::map<Key, std::optional<PriceDoubt>> known_;
};

}  // namespace shardlab

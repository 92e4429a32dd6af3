// Tells whether prices depend on a change of the topology: each price that a watched model is asked
// for is also asked of the same model on another topology, until two prices differ.
//
//   const auto watch = std::make_shared<PriceWatch>(topology_without_the_change);
//   const auto model = watched(make_collective_model(choice, topology), choice, {&watch, 1});
//   model->price(query);         // the model's own price, whether or not somebody watches
//   watch->close();              // the watch ends
//   watch->saw_difference();     // false: all prices were the same on both topologies
//
// A query says how many hosts and domains its group spans. So both topologies have to cut ranks
// into hosts and domains alike. Cost: a price takes up to twice as long while the watch is open.
// All of this is safe to share between threads.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
#include "costmodel/registry.h"
#include "costmodel/topology.h"

namespace shardlab {

class PriceWatch {
 public:
  explicit PriceWatch(Topology other) : other_(std::move(other)) {}

  [[nodiscard]] const Topology& other() const { return other_; }
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] bool saw_difference() const { return saw_difference_; }
  void close() { is_open_ = false; }
  void note_difference() {
    saw_difference_ = true;
    close();
  }

 private:
  Topology other_;
  std::atomic<bool> is_open_ = true;
  std::atomic<bool> saw_difference_ = false;
};

using PriceWatches = std::span<const std::shared_ptr<PriceWatch>>;

// The model itself where there are no watches, and where it is a function of the user's, which
// knows no topology. A model that can't be made on a watch's topology counts as a difference.
// `choice` is what `model` was made from, and has to outlive the call only.
[[nodiscard]] std::unique_ptr<CostModel> watched(std::unique_ptr<CostModel> model,
                                                 const ModelChoice& choice, PriceWatches watches);
[[nodiscard]] std::unique_ptr<ComputeModel> watched(std::unique_ptr<ComputeModel> model,
                                                    const ModelChoice& choice,
                                                    PriceWatches watches);

}  // namespace shardlab

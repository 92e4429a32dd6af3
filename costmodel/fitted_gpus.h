// The GPUs whose runs a model was fitted to, and what is left of its claims on another GPU.
//
//   is_fitted_to({"h100"}, topology)              // true on h100 and h100-roce, false on a100
//   carried_over(std::move(model), {"h100"})      // the same prices, but none of them is measured
//
// A model that names no GPU, as one that comes from a datasheet or from an older file, makes its
// claims on every topology. Names are told apart as those of logs are (costmodel/gpu_model.h).
#pragma once

#include <memory>
#include <span>
#include <string>

#include "costmodel/cost_model.h"
#include "costmodel/topology.h"

namespace shardlab {

// Whether one of the GPUs is that of the topology (Topology::gpu), or none is named.
[[nodiscard]] bool is_fitted_to(std::span<const std::string> gpus, const Topology& topology);

// A model on the topology of another GPU: its prices stay, its rows are said to be of `gpus`, and
// it does not know how far it is off.
[[nodiscard]] std::unique_ptr<CostModel> carried_over(std::unique_ptr<CostModel> model,
                                                      std::span<const std::string> gpus);

}  // namespace shardlab

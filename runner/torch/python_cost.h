// A cost function of the user's, which Python code answers for.
//
//   const AskPrice ask = price_asker(worker);                                     // a process
//   stack.redistribution.semantics =                                              // 5 parameters
//       priced_by(semantics, python_transitions(ask, "mine.py:price"));
//   stack.collective_model =                                                      // 3 parameters
//       choose_function(python_collectives(ask, "mine.py:price"));
//
// A function of five parameters has the signature of PyTorch's _compute_placement_transition_cost;
// one of three is fn(collective, bytes, group) and returns microseconds. Each distinct call is
// asked once and its answer kept; after a million answers they are forgotten and asked anew.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/collective_function.h"
#include "runner/torch/worker.h"
#include "sim/transition_function.h"

namespace shardlab {

// Answers one question of the request `prices` (python/torch_worker/README.md) by {"ok": ...} or
// {"error": ...}. Called by several threads.
using AskPrice = std::function<nlohmann::json(nlohmann::json question)>;

// Asks the cost function that a worker holds, or its PyTorch's own.
[[nodiscard]] AskPrice price_asker(std::shared_ptr<TorchWorker> worker);

// `text` is how messages call the function.
[[nodiscard]] std::shared_ptr<const TransitionFunction> python_transitions(AskPrice ask,
                                                                           std::string text);
[[nodiscard]] std::shared_ptr<const CollectiveFunction> python_collectives(AskPrice ask,
                                                                           std::string text);

}  // namespace shardlab

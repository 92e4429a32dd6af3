// What the files behind a live stack change without an effect on its answers, as sentences for
// people.
//
//   for (const std::string& note : live_notes(worker.hello(), changes, "dtensor-2.15")) {
//     std::cerr << note << "\n";
//   }
//   // "PyTorch ignores what is registered in op_strategy_funcs for aten.mm.default, since ..."
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runner/torch/machinery.h"

namespace shardlab {

// `hello` is the worker's answer to `start`, and `base` the stack of the nearest release. Empty
// where every change takes part in the answers.
[[nodiscard]] std::vector<std::string> live_notes(const nlohmann::json& hello,
                                                  const MachineryChanges& changes,
                                                  const std::string& base);

}  // namespace shardlab

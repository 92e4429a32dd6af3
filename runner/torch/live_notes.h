// What the files behind a live stack change without an effect on its answers, as sentences for
// people.
//
//   for (const std::string& note : live_notes(worker.hello())) { std::cerr << note << "\n"; }
//   // "PyTorch ignores what is registered in op_strategy_funcs for aten.mm.default, since ..."
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shardlab {

// `hello` is the worker's answer to `start`. Empty where every change takes part in the answers.
[[nodiscard]] std::vector<std::string> live_notes(const nlohmann::json& hello);

}  // namespace shardlab

// Checks a live stack against PyTorch itself: a sample of questions is asked whole, and the answers
// are compared with those that the stack gives from rows, prices and our own machinery. Of a
// redistribution, the steps and the price are compared.
//
//   const SampleCheck result = check_sample(stack, rules, questions, topology, {.budget_s = 10});
//   result.different.front()         // "aten.mv.default(f32[8,8] S(0)R, ...) on 2x4: ..."
//
// The sample is spread over ops, redistributions and numbers of mesh dims; equal seeds draw equal
// samples.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/topology.h"
#include "runner/torch/torch_rules.h"
#include "strategies/select/stack.h"
#include "strategies/select/suite.h"

namespace shardlab {

struct SampleOptions {
  std::optional<std::int64_t>
      count;  // how many questions; nothing means as many as the budget allows
  double budget_s = 10.0;
  std::int64_t at_least = 20;  // even if the budget is spent
  std::uint64_t seed = 0;
};

struct SampleCheck {
  std::int64_t asked = 0;
  std::int64_t equal = 0;
  std::vector<std::string> different;  // the question, and both answers
};

// Assumes that the stack's rules are `rules`.
[[nodiscard]] SampleCheck check_sample(const Stack& stack, TorchRules& rules,
                                       std::span<const Question* const> questions,
                                       const Topology& topology, const SampleOptions& options);

}  // namespace shardlab

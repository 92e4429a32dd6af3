// Puts into a comparison's record why its flips are decided as they are: candidates with the parts
// of their prices, steps, and the parameter that flips each choice first
// (strategies/select/explanation.h).
//
//   explain_flips({.stacks = stacks, .reference = reference, .topology = topology,
//                  .questions = questions, .threads = 4, .quiet = true}, record);
//
// The most telling flips come first (reports/comparison.h) and as many as kMostExplained are
// explained; the parameter, whose search takes some 10 ms with the graph planner, is looked for in
// the first kMostFlippedFirst of them.
#pragma once

#include <span>
#include <vector>

#include "reports/records/record.h"
#include "strategies/select/stack.h"
#include "strategies/select/suite.h"

namespace shardlab {

inline constexpr std::size_t kMostExplained = 2000;
inline constexpr std::size_t kMostFlippedFirst = 300;

struct FlipExplanations {
  std::span<const Stack> stacks;  // in the order of record.stacks
  const Stack& reference;
  const Topology& topology;
  std::span<const Question* const> questions;  // in the order of record.questions
  int threads = 1;
  bool quiet = false;
};

void explain_flips(const FlipExplanations& what, reports::ComparisonRecord& record);

}  // namespace shardlab

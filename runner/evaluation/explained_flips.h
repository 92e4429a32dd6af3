// Adds to a comparison's record an explanation of its flips: candidates with the parts of their
// prices, steps, and the parameter that flips each choice first (strategies/select/explanation.h).
//
//   explain_flips({.stacks = stacks, .reference = reference, .topology = topology,
//                  .questions = questions}, session, record);
//
// The first kMostExplained flips of the comparison (reports/comparison.h) are explained: those that
// save or lose most. The search for the parameter takes some 10 ms with the graph planner, so it is
// made only for the first kMostFlippedFirst flips.
#pragma once

#include <span>
#include <vector>

#include "reports/records/record.h"
#include "runner/session/session.h"
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
};

// Ctrl-C leaves the flips that are not explained by then without an explanation.
void explain_flips(const FlipExplanations& what, Session& session,
                   reports::ComparisonRecord& record);

}  // namespace shardlab

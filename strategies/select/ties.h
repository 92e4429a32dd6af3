// The audit of ties: does a question have one cheapest answer under a stack, or several, and does
// the order in which candidates are listed decide?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/select/evaluator.h"
#include "strategies/select/price_flips.h"
#include "strategies/select/stack.h"
#include "strategies/select/suite.h"

namespace shardlab {

struct TieItem {
  std::string choice;
  // The choices at the minimum, including the chosen one; at most kMaxListed of them.
  std::vector<std::string> tied;
  double total_us = 0.0;  // infinity when every candidate is impossible
  std::size_t candidates = 1;
  std::size_t exact = 1;  // how many candidates (or cheapest paths) are at the minimum
  std::size_t near = 0;   // how many more are within the given percentage of it
  std::optional<double> margin_us;
  bool order_dependent = false;
  // How many paths of a redistribution have the price of the plan. It is 0 where the planner makes
  // one plan and weighs no other, so that there is no tie to break.
  std::optional<std::size_t> paths;
  std::optional<PriceFlip> flip;  // the parameter whose smallest change flips the choice
  std::string error;              // why the question cannot be asked
};

inline constexpr std::size_t kMaxListed = 8;

// The ties of a redistribution are the paths that share the minimum; only the graph planner counts
// them, as the greedy planner has one path. `flips` is null where flips are not asked for.
[[nodiscard]] TieItem audit_ties(const Question& question, StackEvaluator& evaluator,
                                 double within_percent, PriceFlips* flips = nullptr);

}  // namespace shardlab

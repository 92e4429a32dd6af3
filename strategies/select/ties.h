// Tie audit: does a question have one cheapest answer under a stack, or several, and does the order
// in which candidates are listed decide?
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
  std::vector<std::string>
      tied;  // the choices at the minimum, the chosen one among them; at most kMaxListed
  double total_us = 0.0;  // infinity: every candidate is impossible
  std::size_t candidates = 1;
  std::size_t exact = 1;  // candidates (or cheapest paths) at the minimum
  std::size_t near = 0;   // further ones within the given percentage of it
  std::optional<double> margin_us;
  bool order_dependent = false;
  std::optional<PriceFlip> flip;  // the parameter whose change flips the choice first, if asked for
  std::string error;              // why the question can't be asked
};

inline constexpr std::size_t kMaxListed = 8;

// A redistribution's ties are the paths that share the minimum (graph planner only; the greedy
// planner has one). `flips`: null where flips are not asked for.
[[nodiscard]] TieItem audit_ties(const Question& question, StackEvaluator& evaluator,
                                 double within_percent, PriceFlips* flips = nullptr);

}  // namespace shardlab

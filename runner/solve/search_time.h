// How long `solve` looks for a plan: bounds on strategies first, then the search, within one time
// limit and until Ctrl-C. What is done between the two, such as pricing, is not counted.
//
//   SearchTime time(arguments.time_limit_s);
//   const PruneResult pruned =
//       time.bound([&](const Patience& patience) { return prune(patience); });
//   ... prices of the strategies that are left
//   const Interrupt interrupt;
//   search(time.for_search(interrupt));
#pragma once

#include <functional>
#include <optional>

#include "runner/base/interrupt.h"
#include "strategies/programs/pruned_strategies.h"
#include "strategies/solvers/bound_search.h"

namespace shardlab {

class SearchTime {
 public:
  // Seconds for both, zero or more; no limit if it is empty.
  explicit SearchTime(std::optional<double> limit_s);

  // Finds bounds, for at most half of the time. After Ctrl-C the search only has to take the best
  // plan that is known. If there is none yet, the program ends by the signal, as it does elsewhere;
  // in a process with a handler of its own this throws EnvironmentError.
  [[nodiscard]] PruneResult bound(const std::function<PruneResult(const Patience&)>& work);

  // For a search that begins now and has what is left. `interrupt` outlives it.
  [[nodiscard]] Patience for_search(const Interrupt& interrupt) const;

  // Whether Ctrl-C ended the bounds.
  [[nodiscard]] bool was_interrupted() const { return was_interrupted_; }

 private:
  double left_s_;  // infinite without a limit
  bool was_interrupted_ = false;
};

}  // namespace shardlab

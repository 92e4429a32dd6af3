#include "runner/solve/search_time.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>

#include "runner/base/stop_watch.h"

namespace shardlab {
namespace {

// The share of the time that bounds have, so that some of it is left for the search. Status:
// assumed.
constexpr double kShareOfBounds = 0.5;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

Patience patience_of(double seconds, const Interrupt& interrupt) {
  using std::chrono::steady_clock;
  Patience patience{.takes_gap = true, .stop = interrupt.flag()};
  if (seconds < kNoLimit) {
    patience.until = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                               std::chrono::duration<double>(seconds));
  }
  return patience;
}

}  // namespace

SearchTime::SearchTime(std::optional<double> limit_s) : left_s_(limit_s.value_or(kNoLimit)) {}

PruneResult SearchTime::bound(const std::function<PruneResult(const Patience&)>& work) {
  const StopWatch watch;
  PruneResult pruned;
  bool ends_process = false;
  {
    const Interrupt interrupt;
    pruned = work(patience_of(kShareOfBounds * left_s_, interrupt));
    was_interrupted_ = interrupt.came();
    ends_process = !interrupt.found_a_handler();
  }
  if (was_interrupted_ && !pruned.strategies) {
    if (ends_process) std::raise(SIGINT);
    throw EnvironmentError("interrupted before there was a plan");
  }
  left_s_ = was_interrupted_ ? 0.0 : std::max(left_s_ - 1e-3 * watch.ms(), 0.0);
  return pruned;
}

Patience SearchTime::for_search(const Interrupt& interrupt) const {
  return patience_of(left_s_, interrupt);
}

}  // namespace shardlab

// Bounds and search share one time limit, and Ctrl-C during the bounds also ends the search.
#include "runner/solve/search_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <limits>
#include <optional>
#include <thread>

#include "strategies/programs/program_strategies.h"

namespace shardlab {
namespace search_time_test {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Bounds that leave some strategies, so that there is a plan.
PruneResult with_plan() {
  PruneResult pruned;
  pruned.strategies.emplace();
  return pruned;
}

TEST(SearchTime, IsSharedByBoundsAndSearch) {
  SearchTime time(100.0);
  static_cast<void>(time.bound([](const Patience& patience) {
    EXPECT_TRUE(patience.takes_gap);
    EXPECT_LE(patience.seconds_left(), 50.0);
    EXPECT_GT(patience.seconds_left(), 49.0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return PruneResult();
  }));
  EXPECT_FALSE(time.was_interrupted());
  const Interrupt interrupt;
  const Patience patience = time.for_search(interrupt);
  EXPECT_TRUE(patience.takes_gap);
  EXPECT_LE(patience.seconds_left(), 99.98);
  EXPECT_GT(patience.seconds_left(), 90.0);
}

TEST(SearchTime, IsOverOnceBoundsHaveTakenIt) {
  SearchTime time(0.0);
  static_cast<void>(time.bound([](const Patience& patience) {
    EXPECT_EQ(patience.seconds_left(), 0.0);
    return PruneResult();
  }));
  const Interrupt interrupt;
  EXPECT_EQ(time.for_search(interrupt).seconds_left(), 0.0);
}

TEST(SearchTime, HasNoEndWithoutALimit) {
  SearchTime time(std::nullopt);
  static_cast<void>(time.bound([](const Patience& patience) {
    EXPECT_EQ(patience.seconds_left(), kNoLimit);
    return PruneResult();
  }));
  const Interrupt interrupt;
  const Patience patience = time.for_search(interrupt);
  EXPECT_EQ(patience.seconds_left(), kNoLimit);
  std::raise(SIGINT);
  EXPECT_EQ(patience.seconds_left(), 0.0);
}

TEST(SearchTime, CtrlCDuringTheBoundsLeavesNoneForTheSearch) {
  SearchTime time(std::nullopt);
  const PruneResult pruned = time.bound([](const Patience& patience) {
    std::raise(SIGINT);
    EXPECT_EQ(patience.seconds_left(), 0.0);
    return with_plan();
  });
  EXPECT_TRUE(pruned.strategies);
  EXPECT_TRUE(time.was_interrupted());
  const Interrupt interrupt;
  EXPECT_EQ(time.for_search(interrupt).seconds_left(), 0.0);
}

TEST(SearchTimeDeathTest, CtrlCBeforeThereIsAPlanEndsTheProgram) {
  EXPECT_EXIT(
      {
        SearchTime time(std::nullopt);
        static_cast<void>(time.bound([](const Patience&) {
          std::raise(SIGINT);
          return PruneResult();
        }));
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace search_time_test
}  // namespace shardlab

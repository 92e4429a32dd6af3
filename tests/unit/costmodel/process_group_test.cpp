// What a process group costs, by published figures.
#include "costmodel/process_group.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardlab {
namespace process_group_test {

TEST(ProcessGroup, FiguresHaveSourcesAndStandInOrder) {
  for (const auto costs : {process_group_times(), process_group_memory()}) {
    EXPECT_TRUE(std::ranges::is_sorted(costs, {}, &PublishedCost::amount));
    for (const PublishedCost& cost : costs) {
      EXPECT_GT(cost.amount, 0.0);
      EXPECT_TRUE(cost.source.starts_with("https://")) << cost.source;
    }
  }
}

TEST(ProcessGroup, TheMedianIsThatOfTheFigures) {
  const CostSpread seconds = spread_of(process_group_times());
  EXPECT_EQ(seconds.least, 0.15);
  EXPECT_NEAR(seconds.median, (16.3 / 8 + 2.84) / 2, 1e-12);
  EXPECT_NEAR(seconds.most, 41.674 / 7, 1e-12);
  const CostSpread bytes = spread_of(process_group_memory());
  EXPECT_EQ(bytes.least, 544.0 * 1024 * 1024);
  EXPECT_EQ(bytes.most, 688.0 * 1024 * 1024);
  EXPECT_EQ(bytes.median, process_group_memory()[1].amount);
}

}  // namespace process_group_test
}  // namespace shardlab

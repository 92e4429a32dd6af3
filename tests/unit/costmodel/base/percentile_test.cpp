// Percentiles of a few numbers.
#include "costmodel/base/percentile.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace percentile_test {

TEST(Percentile, InterpolatesBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(percentile({4.0, 1.0, 2.0}, 0.5), 2.0);
  EXPECT_DOUBLE_EQ(percentile({2.0, 1.0}, 0.9), 1.9);
  EXPECT_DOUBLE_EQ(percentile({3.0, 1.0, 2.0}, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(percentile({3.0, 1.0, 2.0}, 1.0), 3.0);
}

TEST(Percentile, OfNothingIsZero) { EXPECT_EQ(percentile({}, 0.5), 0.0); }

TEST(UpperMedian, IsOneOfTheValues) {
  EXPECT_EQ(upper_median({4.0, 1.0, 2.0}), 2.0);
  EXPECT_EQ(upper_median({4.0, 1.0, 2.0, 3.0}), 3.0);
}

}  // namespace percentile_test
}  // namespace shardlab

#include "costmodel/base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace shardlab {
namespace units_test {

static_assert(transfer_time(1000.0, GBps(1.0)) == Micros(1.0));
static_assert(compute_time(1e6, Tflops(1.0)) == Micros(1.0));

TEST(Units, OneGigabyteASecondMovesAThousandBytesAMicrosecond) {
  EXPECT_EQ(transfer_time(1e9, GBps(1.0)).value(), 1e6);      // 1 GB in 1 s
  EXPECT_EQ(transfer_time(450e3, GBps(450.0)).value(), 1.0);  // 450 kB / 450 GB/s
}

TEST(Units, AGibibyteTakesSevenPercentLongerThanAGigabyte) {
  EXPECT_DOUBLE_EQ(transfer_time(kBytesPerGiB, GBps(1.0)).value() / 1e6, 1.073741824);
}

TEST(Units, OneTeraflopDoesAMillionOperationsAMicrosecond) {
  EXPECT_EQ(compute_time(2.0 * 1024 * 1024 * 1024, Tflops(1.0)).value(), 2147.483648);
}

TEST(Units, QuantitiesAddSubtractScaleAndCompare) {
  Micros sum = Micros(1.5) + Micros(2.0);
  sum += Micros(0.5);
  EXPECT_EQ(sum, Micros(4.0));
  EXPECT_EQ(sum - Micros(1.0), Micros(3.0));
  EXPECT_EQ(2.0 * sum, Micros(8.0));
  EXPECT_LT(Micros(1.0), Micros(2.0));
  EXPECT_GT(Micros(std::numeric_limits<double>::infinity()), sum);
  EXPECT_EQ(Micros().value(), 0.0);
}

TEST(Units, HalfAByteIsKept) { EXPECT_EQ(transfer_time(0.5, GBps(1.0)).value(), 0.0005); }

}  // namespace units_test
}  // namespace shardlab

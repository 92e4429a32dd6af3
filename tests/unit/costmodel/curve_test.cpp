// The table that makes a curve fast and monotone.
#include "costmodel/curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardlab {
namespace curve_test {

TEST(TabulatedCurve, NeverFallsWithSize) {
  Curve curve{.latency_us = 10, .bytes_per_us = 1e5, .sharpness = 0.7, .kinks = {}};
  curve.kinks = {{8, 5.0}, {1024, 1.0}, {1 << 20, 3.0}, {1 << 22, 0.5}};
  const TabulatedCurve table(Collective::kAllGather, curve);
  double last = 0.0;
  for (double bytes = 0.0; bytes < 1e12; bytes = bytes * 1.1 + 1) {
    EXPECT_GE(table.us(bytes), last) << bytes;
    last = table.us(bytes);
  }
  // A small message that was late does not raise the times of larger ones.
  EXPECT_NEAR(table.us(1024),
              std::exp(smooth_log_us(Collective::kAllGather, curve, std::log(1024.0))), 0.2);
}

}  // namespace curve_test
}  // namespace shardlab

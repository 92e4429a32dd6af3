// Curves through measured times: whether their intervals hold the truth, and what rows leave open.
#include "costmodel/calibrate/curve_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/random_source.h"
#include "tests/unit/costmodel/calibrate/normal_variate.h"

namespace shardlab {
namespace curve_fit_test {

using namespace testing_support;

constexpr CurvePrior kPrior{10.0, 1e5};

// How often an interval of `at` holds the true curve, over sizes between those of the rows.
double curve_coverage(int clusters, Random& random) {
  int held = 0;
  int asked = 0;
  for (int i = 0; i < clusters; ++i) {
    Curve truth;
    truth.latency_us = std::exp2(3 + static_cast<double>(random.between(0, 300)) / 100);
    truth.bytes_per_us = std::exp2(13 + static_cast<double>(random.between(0, 500)) / 100);
    truth.sharpness = 0.5 + static_cast<double>(random.between(0, 50)) / 100;
    const auto at = static_cast<double>(random.between(12, 22));
    truth.kinks = {{std::exp2(at), 1.0}, {std::exp2(at + 2), 1.2}, {std::exp2(at + 6), 1.0}};
    const TabulatedCurve curve(Collective::kAllReduce, truth);
    std::vector<SizedTime> rows;
    for (int k = 0; k < 24; ++k) {
      const double bytes = std::exp2(8 + k);
      rows.push_back({bytes, curve.us(bytes) * (1 + 0.03 * normal_variate(random))});
    }
    const CurveFit fit = fit_curve(Collective::kAllReduce, rows, kPrior);
    for (int k = 0; k < 23; ++k) {
      const double bytes = std::exp2(8.5 + k);
      const CurveFit::Interval interval = fit.at(bytes);
      ++asked;
      held += interval.low_95 <= curve.us(bytes) && curve.us(bytes) <= interval.high_95 ? 1 : 0;
    }
  }
  return static_cast<double>(held) / asked;
}

TEST(FitCurve, ItsIntervalsHoldTheTrueCurve) {
  SHARDLAB_TRACE_SEED();
  Random random(75);
  const double share = curve_coverage(random_cases(50), random);
  RecordProperty("coverage_percent", std::to_string(100 * share));
  EXPECT_GE(share, 0.93);
  EXPECT_LE(share,
            0.985);  // 0.97 plus the sampling error of a thousand sizes that are not independent
}

TEST(FitCurve, GoesThroughSixExactRowsOfAStraightLine) {
  std::vector<SizedTime> rows;
  for (int k = 0; k < 6; ++k) {
    const double bytes = std::exp2(10 + 4 * k);
    rows.push_back({bytes, 12.0 + bytes / 2e5});
  }
  const CurveFit fit = fit_curve(Collective::kAllReduce, rows, kPrior);
  const TabulatedCurve curve(Collective::kAllReduce, fit.curve);
  for (const SizedTime& row : rows) EXPECT_NEAR(curve.us(row.bytes) / row.time_us, 1.0, 0.02);
}

// Sizes that differ by a billionth enter one by one, equal ones as their mean: the curve is the
// same.
TEST(FitCurve, RowsOfOneSizeCountAsIfTheyStoodAlone) {
  SHARDLAB_TRACE_SEED();
  Random random(76);
  const Curve truth{12.0, 2e5, 0.8, {}};
  const TabulatedCurve curve(Collective::kAllReduce, truth);
  std::vector<SizedTime> equal;
  std::vector<SizedTime> apart;
  for (int k = 0; k < 24; ++k) {
    for (int repeat = 0; repeat < 1 + k % 10; ++repeat) {
      const double bytes = std::exp2(8 + k);
      const double us = curve.us(bytes) * (1 + 0.04 * normal_variate(random));
      equal.push_back({bytes, us});
      apart.push_back({bytes * (1 + 1e-9 * repeat), us});
    }
  }
  ASSERT_LE(apart.size(), kMostSizes);
  const CurveFit together = fit_curve(Collective::kAllReduce, equal, kPrior);
  const CurveFit alone = fit_curve(Collective::kAllReduce, apart, kPrior);
  EXPECT_EQ(together.log_sizes.size(), 24U);
  EXPECT_EQ(alone.log_sizes.size(), apart.size());
  EXPECT_EQ(together.rows, alone.rows);
  EXPECT_EQ(together.noise, alone.noise);
  EXPECT_EQ(together.departure, alone.departure);
  for (int k = 0; k < 47; ++k) {
    const double bytes = std::exp2(8.0 + 0.5 * k);
    const CurveFit::Interval left = together.at(bytes);
    const CurveFit::Interval right = alone.at(bytes);
    EXPECT_NEAR(left.us / right.us, 1.0, 1e-6) << bytes;
    EXPECT_NEAR(left.low_95 / right.low_95, 1.0, 1e-6) << bytes;
    EXPECT_NEAR(left.high_95 / right.high_95, 1.0, 1e-6) << bytes;
  }
}

TEST(FitCurve, ManyDistinctSizesAreTakenTogether) {
  SHARDLAB_TRACE_SEED();
  Random random(77);
  const Curve truth{12.0, 2e5, 0.8, {}};
  const TabulatedCurve curve(Collective::kAllReduce, truth);
  std::vector<SizedTime> rows;
  for (int i = 0; i < 20'000; ++i) {
    const double bytes = std::exp2(8.0 + 20.0 * i / 20'000);
    rows.push_back({bytes, curve.us(bytes) * (1 + 0.05 * normal_variate(random))});
  }
  const CurveFit fit = fit_curve(Collective::kAllReduce, rows, kPrior);
  EXPECT_EQ(fit.log_sizes.size(), kMostSizes);
  EXPECT_EQ(fit.rows, rows.size());
  for (double exponent = 8.0; exponent <= 28.0; exponent += 0.37) {
    const double bytes = std::exp2(exponent);
    EXPECT_NEAR(fit.at(bytes).us / curve.us(bytes), 1.0, 0.02) << bytes;
  }
}

TEST(FitCurve, SmallRowsAloneDoNotTellTheBandwidth) {
  const std::vector<SizedTime> rows = {{64, 12.0}, {256, 12.1}, {1024, 12.0}, {4096, 12.2}};
  const CurveFit fit = fit_curve(Collective::kAllReduce, rows, kPrior);
  EXPECT_TRUE(fit.tells_latency);
  EXPECT_FALSE(fit.tells_bandwidth);
}

TEST(FitCurve, WhatNoRowTellsIsWide) {
  const std::vector<SizedTime> rows = {{64, 12.0}, {256, 12.1}, {1024, 12.0}, {4096, 12.2}};
  const CurveFit fit = fit_curve(Collective::kAllReduce, rows, kPrior);
  const CurveFit::Interval known = fit.at(1024);
  const CurveFit::Interval open = fit.at(1e9);
  // One row more than parameters: Student's t is 12.7 there, so that even what is known is wide.
  EXPECT_LT(known.high_95 / known.low_95, 1.6);
  EXPECT_GT(open.high_95 / open.low_95, 100.0);
}

}  // namespace curve_fit_test
}  // namespace shardlab

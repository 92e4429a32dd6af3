// How sure prices are: of plans, of schedules at one bound, and of the difference between two
// plans.
#include "sim/price_interval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/reference_topology.h"

namespace shardlab {
namespace price_interval_test {

using testing_support::compute_model;
using testing_support::topology_with;

// Every collective takes 100 us, of which 60 are its transfer. All-gathers are off by 10 %, and
// all-reduces by 20 %, half of which they share.
class UnsureModel final : public CostModel {
 public:
  [[nodiscard]] Price price(const CollectiveQuery&) const override {
    return Price::of(Micros(40.0), Micros(60.0));
  }
  [[nodiscard]] std::optional<double> log_error(const CollectiveQuery& query) const override {
    return query.kind == Collective::kAllReduce ? 0.2 : 0.1;
  }
  [[nodiscard]] double error_correlation(const CollectiveQuery& a,
                                         const CollectiveQuery& b) const override {
    return a == b ? 1.0 : 0.5;
  }
};

double factor_of(double log_error) { return std::exp(1.959963984540054 * log_error); }
double half_width_of(double log_error) {
  return 0.5 * 100.0 * (factor_of(log_error) - 1.0 / factor_of(log_error));
}

class PriceIntervalTest : public testing::Test {
 protected:
  [[nodiscard]] Plan plan(const char* from, const char* to) {
    const TensorMeta meta = TensorMeta::parse("f32[64,64]");
    return redistributor_.plan(meta, parse_layout(from, 2, meta), parse_layout(to, 2, meta));
  }
  [[nodiscard]] std::vector<UnsurePrice> unsure(const Plan& plan) const {
    std::vector<UnsurePrice> prices;
    add_unsure_prices(prices, plan, redistributor_, model_);
    return prices;
  }

  Topology topology_ = topology_with(8);
  UnsureModel model_;
  std::unique_ptr<ComputeModel> kernels_ = compute_model("none", topology_);
  DeviceMesh mesh_ = DeviceMesh::parse("2x4");
  Redistributor redistributor_{mesh_, topology_, {}, model_, *kernels_};
};

TEST_F(PriceIntervalTest, BoundsOfAPlanAreTheSumsOfTheBoundsOfItsSteps) {
  const Plan both = plan("S(0)P", "RR");
  const auto interval = interval_of(both, redistributor_, model_);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low_us, 100.0 / factor_of(0.1) + 100.0 / factor_of(0.2), 1e-9);
  EXPECT_NEAR(interval->high_us, 100.0 * factor_of(0.1) + 100.0 * factor_of(0.2), 1e-9);
}

TEST_F(PriceIntervalTest, ASchedulesBoundScalesCollectivesAndTheirTransfersAlone) {
  Schedule schedule;
  ScheduledKernel kernel;
  kernel.name = "aten.mm.default";
  kernel.price = Micros(7.0);
  (void)schedule.add(kernel);
  (void)add_plan(schedule, plan("S(0)R", "RR"), {0});
  const Schedule low = at_bound(schedule, PriceBound::kLow, redistributor_, model_);
  const Schedule high = at_bound(schedule, PriceBound::kHigh, redistributor_, model_);
  EXPECT_EQ(low.kernels[0].price.value(), 7.0);
  EXPECT_EQ(high.kernels[0].price.value(), 7.0);
  EXPECT_NEAR(low.kernels[1].price.value(), 100.0 / factor_of(0.1), 1e-9);
  EXPECT_NEAR(high.kernels[1].price.value(), 100.0 * factor_of(0.1), 1e-9);
  EXPECT_NEAR(high.kernels[1].transfer.value(), 60.0 * factor_of(0.1), 1e-9);
  EXPECT_EQ(high.kernels[1].after, schedule.kernels[1].after);
}

TEST_F(PriceIntervalTest, WhatTwoPlansHaveInCommonIsNoErrorOfTheirDifference) {
  const std::vector<UnsurePrice> gather = unsure(plan("S(0)R", "RR"));
  const std::vector<UnsurePrice> both = unsure(plan("S(0)P", "RR"));
  ASSERT_EQ(gather.size(), 1U);
  ASSERT_EQ(both.size(), 2U);
  // The root of what rounding leaves of a difference of squares.
  EXPECT_LT(error_of_difference_us(both, both, model_),
            1e-7 * error_of_difference_us(both, {}, model_));
  EXPECT_NEAR(error_of_difference_us(gather, {}, model_), half_width_of(0.1), 1e-9);
}

TEST_F(PriceIntervalTest, ErrorsThatAreAlikeCancelInPart) {
  const std::vector<UnsurePrice> gather = unsure(plan("S(0)R", "RR"));
  const std::vector<UnsurePrice> reduce = unsure(plan("PR", "RR"));
  const double a = half_width_of(0.1);
  const double b = half_width_of(0.2);
  EXPECT_NEAR(error_of_difference_us(gather, reduce, model_), std::sqrt(a * a + b * b - a * b),
              1e-9);
}

}  // namespace price_interval_test
}  // namespace shardlab

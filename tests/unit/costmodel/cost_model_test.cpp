#include "costmodel/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardlab {
namespace cost_model_test {

TEST(Price, TotalIsLatencyPlusTransfer) {
  const Price price = Price::of(Micros(6.6), Micros(2.0));
  EXPECT_EQ(price.total.value(), 8.6);
  EXPECT_EQ(price.latency.value(), 6.6);
  EXPECT_EQ(price.transfer.value(), 2.0);
  EXPECT_TRUE(price.is_possible());
}

TEST(Price, SumsAddTotalsAndParts) {
  Price straggling = Price::of(Micros(1), Micros(2));
  straggling.straggler = Micros(0.5);
  straggling.total += straggling.straggler;
  const Price sum = straggling + Price::of_compute(Micros(4));
  EXPECT_EQ(sum.total.value(), 7.5);
  EXPECT_EQ(sum.latency.value(), 1);
  EXPECT_EQ(sum.transfer.value(), 2);
  EXPECT_EQ(sum.compute.value(), 4);
  EXPECT_EQ(sum.straggler.value(), 0.5);
}

TEST(Price, AnImpossiblePriceIsAboveAllOthersAndAbsorbsSums) {
  const Price impossible = Price::make_impossible("no row");
  EXPECT_GT(impossible.total, Price::of(Micros(1e300), Micros(0)).total);
  const Price sum = Price::of(Micros(1), Micros(1)) + impossible;
  EXPECT_FALSE(sum.is_possible());
  EXPECT_TRUE(std::isinf(sum.total.value()));
  EXPECT_EQ(sum.impossible, "no row");
}

TEST(Price, ASumKeepsTheFirstReason) {
  EXPECT_EQ((Price::make_impossible("a") + Price::make_impossible("b")).impossible, "a");
}

}  // namespace cost_model_test
}  // namespace shardlab

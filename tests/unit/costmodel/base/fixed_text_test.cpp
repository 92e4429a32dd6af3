#include "costmodel/base/fixed_text.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace {

TEST(FixedText, IsPutTogetherAtCompileTime) {
  constexpr auto kText = FixedText<32>().add("of ").add(std::int64_t{103}).add(": ").add(0.815);
  static_assert(kText.view() == "of 103: 0.815");
  EXPECT_EQ(kText.view(), "of 103: 0.815");
}

TEST(FixedText, WritesNumbersWithoutTrailingZeros) {
  const auto text = [](auto number) { return std::string(FixedText<16>().add(number).view()); };
  EXPECT_EQ(text(std::int64_t{0}), "0");
  EXPECT_EQ(text(std::int64_t{100}), "100");
  EXPECT_EQ(text(std::int64_t{9087}), "9087");
  EXPECT_EQ(text(0.0), "0");
  EXPECT_EQ(text(0.8), "0.8");
  EXPECT_EQ(text(0.05), "0.05");
  EXPECT_EQ(text(1.005), "1.005");
  EXPECT_EQ(text(1152.0), "1152");
}

TEST(FixedText, RefusesWhatItCannotWrite) {
  EXPECT_THROW(FixedText<4>().add("fives"), std::length_error);
  EXPECT_EQ(FixedText<4>().add("four").view(), "four");
  EXPECT_THROW(FixedText<16>().add(0.0005), std::domain_error);
  EXPECT_THROW(FixedText<16>().add(-0.5), std::domain_error);
  EXPECT_THROW(FixedText<16>().add(std::int64_t{-1}), std::domain_error);
}

}  // namespace
}  // namespace shardlab

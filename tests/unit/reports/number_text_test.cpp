#include "reports/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <locale>
#include <string>

#include "costmodel/base/error.h"

namespace shardlab::reports {
namespace number_text_test {

TEST(NumberText, ThousandsAreGroupedByCommas) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1204), "1,204");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
}

TEST(NumberText, FixedKeepsItsDigitsAndGroupsOnlyInFrontOfThePoint) {
  EXPECT_EQ(fixed(22.81853570377591, 2), "22.82");
  EXPECT_EQ(fixed(1234567.891, 2), "1,234,567.89");
  EXPECT_EQ(fixed(-1234.5, 1), "-1,234.5");
  EXPECT_EQ(fixed(0.123456789, 6), "0.123457");
  EXPECT_EQ(fixed(1234.0, 0), "1,234");
}

TEST(NumberText, NothingIsWrittenAsMinusZero) {
  EXPECT_EQ(fixed(-0.0, 2), "0.00");
  EXPECT_EQ(fixed(-0.004, 2), "0.00");
  EXPECT_EQ(fixed(-0.006, 2), "-0.01");
}

TEST(NumberText, HalvesRoundToEvenAsExactBinaryValues) {
  EXPECT_EQ(fixed(0.125, 2), "0.12");
  EXPECT_EQ(fixed(0.375, 2), "0.38");
}

TEST(NumberText, TheLongestDoubleFits) {
  const std::string text = fixed(std::numeric_limits<double>::max(), 2);
  EXPECT_EQ(text.substr(0, 4), "179,");
  EXPECT_EQ(text.substr(text.size() - 3), ".00");
}

TEST(NumberText, SignedWritesAPlusUnlessItShowsZero) {
  EXPECT_EQ(signed_fixed(3.2, 2), "+3.20");
  EXPECT_EQ(signed_fixed(-3.2, 2), "-3.20");
  EXPECT_EQ(signed_fixed(0.001, 2), "0.00");
}

TEST(NumberText, ExactReadsBackAsTheSameDouble) {
  for (const double value : {22.81853570377591, 1.0 / 3.0, 5e-324, 1e300, 6.6}) {
    EXPECT_EQ(std::strtod(exact(value).c_str(), nullptr), value) << exact(value);
  }
  EXPECT_EQ(exact(6.6), "6.6");
}

TEST(NumberText, InfinityAndNanAreRefused) {
  EXPECT_THROW(static_cast<void>(fixed(std::numeric_limits<double>::infinity(), 2)), ContractError);
  EXPECT_THROW(static_cast<void>(exact(std::nan(""))), ContractError);
}

TEST(NumberText, APercentageNeverShowsZeroForWhatIsNot) {
  EXPECT_EQ(percent(0.0), "0.0 %");
  EXPECT_EQ(percent(132.0 / 1204.0), "11.0 %");
  EXPECT_EQ(percent(0.0004), "<0.1 %");
  EXPECT_EQ(percent(-0.0004), ">-0.1 %");
  EXPECT_EQ(percent(1.0), "100.0 %");
}

TEST(NumberText, SizesAreDecimalWithThreeSignificantDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.00 kB");
  EXPECT_EQ(bytes_text(2.5), "2.50 B");
  EXPECT_EQ(bytes_text(1048576), "1.05 MB");
  EXPECT_EQ(bytes_text(67108864), "67.1 MB");
  EXPECT_EQ(bytes_text(134217728), "134 MB");
  EXPECT_EQ(bytes_text(999600), "1.00 MB");  // not "1000 kB"
  EXPECT_EQ(bytes_text(8589934592), "8.59 GB");
}

TEST(NumberText, CountsChooseTheNoun) {
  EXPECT_EQ(counted(0, "flip", "flips"), "no flips");
  EXPECT_EQ(counted(1, "flip", "flips"), "1 flip");
  EXPECT_EQ(counted(1204, "flip", "flips"), "1,204 flips");
}

TEST(NumberText, TheGlobalLocaleChangesNothing) {
  struct German : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new German));
  const std::string fixed_text = fixed(1234.5, 2);
  const std::string exact_text = exact(1234.5);
  std::locale::global(before);
  EXPECT_EQ(fixed_text, "1,234.50");
  EXPECT_EQ(exact_text, "1234.5");
}

TEST(NumberText, DurationsTakeTheUnitThatNeedsTheFewestDigits) {
  EXPECT_EQ(duration_text(0.0), "0.000 us");
  EXPECT_EQ(duration_text(8.53), "8.530 us");
  EXPECT_EQ(duration_text(999.96), "1,000.0 us");
  EXPECT_EQ(duration_text(81'234.0), "81.23 ms");
  EXPECT_EQ(duration_text(1'329'728.9), "1.330 s");
  EXPECT_EQ(duration_text(5e9), "5,000 s");
}

}  // namespace number_text_test
}  // namespace shardlab::reports

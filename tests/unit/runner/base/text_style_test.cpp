#include "runner/base/text_style.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "costmodel/base/text.h"

namespace shardlab {
namespace text_style_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string five(double value) { return TextStyle().figure(value); }
std::string full(double value) { return TextStyle{.digits = kAllDigits}.figure(value); }

double number(const std::string& text) {
  double value = kNan;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

TEST(Figures, HaveFiveSignificantDigits) {
  EXPECT_EQ(five(383.19130816361644), "383.19");
  EXPECT_EQ(five(7.201359284943566), "7.2014");
  EXPECT_EQ(five(0.0123456789), "0.012346");
  EXPECT_EQ(five(12345.678), "12346");
  EXPECT_EQ(five(317207.44), "317210");
  EXPECT_EQ(five(-96.28209806157355), "-96.282");
}

TEST(Figures, HaveNoZerosAtTheEndOfTheirFraction) {
  EXPECT_EQ(five(12.5), "12.5");
  EXPECT_EQ(five(15.0), "15");
  EXPECT_EQ(five(0.1 + 0.2), "0.3");
  EXPECT_EQ(five(100.0), "100");
  EXPECT_EQ(five(12.500004), "12.5");
}

TEST(Figures, KeepTheirDigitsWhenRoundingAddsOne) {
  EXPECT_EQ(five(99999.5), "100000");
  EXPECT_EQ(five(99999.4), "99999");
  EXPECT_EQ(five(9.999996), "10");
  EXPECT_EQ(five(0.99999951), "1");
  EXPECT_EQ(five(0.000099999951), "0.0001");
}

TEST(Figures, HaveAnExponentWhereTheirZerosWouldHideThem) {
  EXPECT_EQ(five(1.234567e-5), "0.000012346");
  EXPECT_EQ(five(1.234567e-6), "1.2346e-06");
  EXPECT_EQ(five(123456789012345.0), "123460000000000");
  EXPECT_EQ(five(1234567890123456.0), "1.2346e+15");
  EXPECT_EQ(five(-2e300), "-2e+300");
  EXPECT_EQ(five(std::numeric_limits<double>::denorm_min()), "4.9407e-324");
  EXPECT_EQ(five(std::numeric_limits<double>::max()), "1.7977e+308");
}

TEST(Figures, OfZeroAndOfWhatIsNoNumber) {
  EXPECT_EQ(five(0.0), "0");
  EXPECT_EQ(five(-0.0), "0");
  EXPECT_EQ(full(-0.0), "0");
  EXPECT_EQ(five(kInf), "inf");
  EXPECT_EQ(five(-kInf), "-inf");
  EXPECT_EQ(five(kNan), "nan");
  EXPECT_EQ(TextStyle().figure(std::nullopt, "none"), "none");
  EXPECT_EQ(TextStyle().figure(std::optional(2.0), "none"), "2");
}

TEST(Figures, AreWholeWithAllDigits) {
  EXPECT_EQ(full(383.19130816361644), "383.19130816361644");
  EXPECT_EQ(full(0.1), "0.1");
  EXPECT_EQ(full(1e30), "1e+30");
  EXPECT_EQ(full(kInf), "inf");
}

TEST(Figures, HaveAsManyDigitsAsAreAskedFor) {
  EXPECT_EQ(TextStyle{.digits = 1}.figure(383.19), "400");
  EXPECT_EQ(TextStyle{.digits = 2}.figure(383.19), "380");
  EXPECT_EQ(TextStyle{.digits = 9}.figure(383.19130816361644), "383.191308");
  EXPECT_EQ(TextStyle{.digits = 17}.figure(0.1), "0.10000000000000001");
}

TEST(Figures, AreWithinHalfADigitOfTheirValues) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-30.0, 30.0);
  for (int i = 0; i < 20000; ++i) {
    const double value = (i % 2 == 0 ? 1.0 : -1.0) * std::pow(10.0, exponent(random));
    for (const int digits : {1, 3, 5, 12}) {
      const std::string text = TextStyle{.digits = digits}.figure(value);
      const double most = 0.5 * std::pow(10.0, 1 - digits) * std::abs(value) * (1 + 1e-9);
      ASSERT_LE(std::abs(number(text) - value), most) << text << " of " << format_double(value);
    }
    ASSERT_EQ(number(full(value)), value);
    ASSERT_EQ(number(TextStyle{.digits = kMostDigits}.figure(value)), value);
  }
}

TEST(RoundedFigures, HaveNoMoreDigitsAfterThePointThanAreAskedFor) {
  const TextStyle style;
  EXPECT_EQ(style.rounded(43.21709, 1), "43.2");
  EXPECT_EQ(style.rounded(43.0, 1), "43.0");
  EXPECT_EQ(style.rounded(0.04, 1), "0.0");
  EXPECT_EQ(style.rounded(-0.04, 1), "0.0");
  EXPECT_EQ(style.rounded(-3.25, 1), "-3.2");
  EXPECT_EQ(style.rounded(6667.4, 0), "6667");
  EXPECT_EQ(style.rounded(std::nullopt, 1, "-"), "-");
}

TEST(RoundedFigures, HaveNoMoreSignificantDigitsThanFigures) {
  const TextStyle style;
  EXPECT_EQ(style.rounded(9999.94, 1), "9999.9");
  EXPECT_EQ(style.rounded(9999.96, 1), "10000");
  EXPECT_EQ(style.rounded(12345.67, 2), "12346");
  EXPECT_EQ(style.rounded(1234.567, 2), "1234.6");
  EXPECT_EQ(style.rounded(1234567.0, 0), "1234600");
  EXPECT_EQ((TextStyle{.digits = 3}.rounded(12.345, 2)), "12.3");
  EXPECT_EQ((TextStyle{.digits = kAllDigits}.rounded(43.21709, 1)), "43.21709");
  EXPECT_EQ(style.rounded(kInf, 1), "inf");
}

TEST(ComparedFigures, LookDifferentIfTheirValuesDiffer) {
  const TextStyle style;
  const double above = std::nextafter(14.401359284943565, 15.0);
  EXPECT_THAT(style.figures(std::vector{14.401359284943565, above, 14.401359284943565, 3.0}),
              ElementsAre("14.40135928494356", "14.40135928494357", "14.40135928494356", "3"));
  EXPECT_THAT(style.figures(std::vector{1.0, 1.000001, 1.000002, 2.0}),
              ElementsAre("1", "1.000001", "1.000002", "2"));
  EXPECT_THAT(style.figures(std::vector{7.2013, 7.2054, kInf, kNan}),
              ElementsAre("7.2013", "7.2054", "inf", "nan"));
  EXPECT_THAT(style.figures({}), IsEmpty());
}

TEST(ComparedFigures, OfDrawnValuesAreTheSameOnlyForTheSameValue) {
  std::mt19937_64 random(2);
  std::uniform_int_distribution<int> step(0, 40);
  std::vector<double> values;
  for (int i = 0; i < 400; ++i) values.push_back(1.0 + std::ldexp(step(random), -step(random)));
  const std::vector<std::string> texts = TextStyle().figures(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < values.size(); ++j) {
      ASSERT_EQ(texts[i] == texts[j], values[i] == values[j]) << texts[i] << " and " << texts[j];
    }
  }
}

TEST(ComparedFigures, MayTakeRoundingNoiseForTheSame) {
  const double above = std::nextafter(52259.94, 1e6);
  EXPECT_THAT(TextStyle().figures(std::vector{52259.94, above}, kRoundingNoise),
              ElementsAre("52260", "52260"));
  EXPECT_THAT(TextStyle().figures(std::vector{52259.94, 52259.941}, kRoundingNoise),
              ElementsAre("52259.94", "52259.941"));
}

TEST(Differences, AreZeroWhereRoundingExplainsThem) {
  EXPECT_EQ(TextStyle().difference(5.6843e-14, 397.5), "0");
  EXPECT_EQ(TextStyle().difference(-14.308926226, 397.5), "-14.309");
  EXPECT_EQ(TextStyle().difference(1e-9, 397.5), "1e-09");
  EXPECT_EQ((TextStyle{.digits = kAllDigits}.difference(5.5e-14, 397.5)), "5.5e-14");
}

TEST(Digits, AreAWholeNumberOrFull) {
  EXPECT_EQ(parse_digits("full"), kAllDigits);
  EXPECT_EQ(parse_digits("1"), 1);
  EXPECT_EQ(parse_digits("17"), 17);
  for (const char* bad : {"", "0", "18", "-1", "5.0", "5 ", "Full", "all", "99999999999"}) {
    EXPECT_EQ(parse_digits(bad), std::nullopt) << bad;
  }
}

TEST(Tones, ColourTextOnlyWhereColoursAreWanted) {
  const TextStyle colour{.has_colour = true};
  EXPECT_EQ(colour.painted(Tone::kGood, "chosen"), "\033[32mchosen\033[0m");
  EXPECT_EQ(colour.painted(Tone::kBad, "WRONG"), "\033[31mWRONG\033[0m");
  EXPECT_EQ(colour.painted(Tone::kHeading, "op"), "\033[1mop\033[0m");
  EXPECT_EQ(colour.painted(Tone::kPlain, "op"), "op");
  EXPECT_EQ(colour.painted(Tone::kGood, ""), "");
  EXPECT_EQ(TextStyle().painted(Tone::kGood, "chosen"), "chosen");
}

}  // namespace text_style_test
}  // namespace shardlab

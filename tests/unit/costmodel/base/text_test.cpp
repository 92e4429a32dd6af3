#include "costmodel/base/text.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "costmodel/base/error.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace text_test {

using testing_support::Random;
using testing_support::random_cases;

TEST(FormatDouble, WritesTheShortestTextThatReadsBack) {
  EXPECT_EQ(format_double(0.1), "0.1");
  EXPECT_EQ(format_double(1e30), "1e+30");
  EXPECT_EQ(format_double(0.0), "0");
  EXPECT_EQ(format_double(-2.5), "-2.5");
  EXPECT_EQ(format_double(12.767631128848347), "12.767631128848347");
  EXPECT_EQ(format_double(0.1 + 0.2), "0.30000000000000004");
}

TEST(FormatDouble, RoundTripsDoublesOfEveryMagnitude) {
  Random random(1);
  SHARDLAB_TRACE_SEED();
  for (int i = 0; i < random_cases(20000); ++i) {
    const auto bits =
        static_cast<std::uint64_t>(random.between(0, std::numeric_limits<int64_t>::max() - 1));
    const auto value = std::bit_cast<double>(bits);
    if (!std::isfinite(value)) continue;
    const std::string text = format_double(value);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
  }
}

TEST(FormatDouble, RoundTripsTheExtremes) {
  for (const double value : {std::numeric_limits<double>::max(), std::numeric_limits<double>::min(),
                             std::numeric_limits<double>::denorm_min(),
                             std::numeric_limits<double>::lowest(), 9007199254740993.0}) {
    EXPECT_EQ(std::strtod(format_double(value).c_str(), nullptr), value);
  }
}

TEST(FormatFixed, KeepsTheDigitsAskedForAndRoundsToTheNearest) {
  EXPECT_EQ(format_fixed(12.767631, 2), "12.77");
  EXPECT_EQ(format_fixed(1e21, 0), "1000000000000000000000");
  EXPECT_EQ(format_fixed(-0.5, 1), "-0.5");
  EXPECT_EQ(format_fixed(3.0, 3), "3.000");
  EXPECT_EQ(format_fixed(std::numeric_limits<double>::max(), 1).size(), 311U);
}

TEST(FormatBytes, UsesBinaryUnitsAndOneDigitWhereNeeded) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(100), "100 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(65536), "64 KiB");
  EXPECT_EQ(format_bytes(1.5 * 1024 * 1024), "1.5 MiB");
  EXPECT_EQ(format_bytes(std::pow(1024.0, 6)), "1024 PiB");
}

TEST(Join, PutsTheSeparatorBetweenWordsOnly) {
  const std::array<std::string_view, 3> words = {"a", "b", "c"};
  EXPECT_EQ(join(words), "a, b, c");
  EXPECT_EQ(join(words, "x"), "axbxc");
  EXPECT_EQ(join(std::span(words).first(1)), "a");
  EXPECT_EQ(join(std::span<const std::string>()), "");
}

TEST(DidYouMean, NamesTheNearestWord) {
  const std::array<std::string_view, 3> valid = {"bandwidth_gb_per_s", "latency_us", "launch_us"};
  EXPECT_EQ(did_you_mean("bandwith_gb_per_s", valid), " (did you mean \"bandwidth_gb_per_s\"?)");
  EXPECT_EQ(did_you_mean("lunch_us", valid), " (did you mean \"launch_us\"?)");
}

TEST(DidYouMean, TakesCapitalLettersAndSeparatorsForSpelling) {
  const std::array<std::string_view, 4> valid = {"a100", "h100", "h100-roce", "all_reduce"};
  EXPECT_EQ(did_you_mean("H100", valid), " (did you mean \"h100\"?)");
  EXPECT_EQ(did_you_mean("H100 RoCE", valid), " (did you mean \"h100-roce\"?)");
  EXPECT_EQ(did_you_mean("AllReduce", valid), " (did you mean \"all_reduce\"?)");
}

TEST(DidYouMean, CountsTwoSwappedLettersOnce) {
  const std::array<std::string_view, 2> valid = {"dp", "fsdp"};
  EXPECT_EQ(did_you_mean("fdsp", valid), " (did you mean \"fsdp\"?)");
}

TEST(DidYouMean, TakesAValidWordWithMoreBehindItForThatWord) {
  const std::array<std::string_view, 3> valid = {"a100", "h100", "h100-roce"};
  EXPECT_EQ(did_you_mean("H100-SXM5-80GB", valid), " (did you mean \"h100\"?)");
  EXPECT_EQ(did_you_mean("h100-rose", valid), " (did you mean \"h100-roce\"?)");
}

TEST(DidYouMean, CompletesAWordThatOnlyOneValidWordBeginsWith) {
  const std::array<std::string_view, 3> valid = {"transformer-block", "llama3-8b", "llama3-70b"};
  EXPECT_EQ(did_you_mean("trans", valid), " (did you mean \"transformer-block\"?)");
  EXPECT_EQ(did_you_mean("lla", valid), "");
  EXPECT_EQ(did_you_mean("-", valid), "");
}

TEST(DidYouMean, SaysNothingWhenNoWordIsNear) {
  const std::array<std::string_view, 2> valid = {"greedy", "graph"};
  EXPECT_EQ(did_you_mean("simplex", valid), "");
  EXPECT_EQ(did_you_mean("graph", {}), "");
}

TEST(DidYouMean, PrefersTheFirstOfTwoEquallyNearWords) {
  const std::array<std::string_view, 2> valid = {"ab1", "ab2"};
  EXPECT_EQ(did_you_mean("ab", valid), " (did you mean \"ab1\"?)");
}

TEST(DidYouMean, StandsAVeryLongWord) {
  const std::array<std::string_view, 1> valid = {"stack"};
  EXPECT_EQ(did_you_mean(std::string(100000, 's'), valid), "");
  EXPECT_EQ(did_you_mean("stack" + std::string(100000, 's'), valid), " (did you mean \"stack\"?)");
}

struct BytesCase {
  const char* name;
  const char* text;
  double bytes;
};
void PrintTo(const BytesCase& c, std::ostream* out) { *out << c.text; }
class ParseBytes : public testing::TestWithParam<BytesCase> {};

TEST_P(ParseBytes, ReadsTheUnit) { EXPECT_EQ(parse_bytes(GetParam().text), GetParam().bytes); }

INSTANTIATE_TEST_SUITE_P(
    Units, ParseBytes,
    testing::Values(BytesCase{"Bare", "4096", 4096}, BytesCase{"Byte", "7B", 7},
                    BytesCase{"Kibi", "64KiB", 65536}, BytesCase{"Mebi", "1MiB", 1048576},
                    BytesCase{"Gibi", "0.5GiB", 536870912},
                    BytesCase{"Tebi", "2TiB", 2199023255552}, BytesCase{"SmallKilo", "1kB", 1e3},
                    BytesCase{"Kilo", "1KB", 1e3}, BytesCase{"Mega", "1MB", 1e6},
                    BytesCase{"Giga", "1.5GB", 1.5e9}, BytesCase{"Tera", "3TB", 3e12},
                    BytesCase{"Blanks", "  2 MB ", 2e6}, BytesCase{"Exponent", "1e3KiB", 1024000},
                    BytesCase{"Zero", "0", 0},
                    BytesCase{"Most", "9007199254740992", 9007199254740992}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ParseBytesErrors, NameThePositionAndTheValidUnits) {
  const std::string units = "expected a unit: B, KiB, MiB, GiB, TiB, kB, KB, MB, GB or TB";
  EXPECT_THROW_MSG(parse_bytes("64kib"), TextError,
                   "size \"64kib\": at position 2: " + units + " (did you mean KiB?)");
  EXPECT_THROW_MSG(parse_bytes("80gb"), TextError,
                   "size \"80gb\": at position 2: " + units + " (did you mean GB?)");
  EXPECT_THROW_MSG(parse_bytes("1 XB"), TextError, "size \"1 XB\": at position 1: " + units);
  EXPECT_THROW_MSG(parse_bytes(""), TextError,
                   "size \"\": at position 0: expected a size such as 4096, 64KiB or 1MB");
  EXPECT_THROW_MSG(parse_bytes("MB"), TextError,
                   "size \"MB\": at position 0: expected a size such as 4096, 64KiB or 1MB");
  EXPECT_THROW_MSG(parse_bytes("1MB 2"), TextError,
                   "size \"1MB 2\": at position 4: expected the end of the size");
}

TEST(ParseBytesErrors, RefuseSizesThatAreNoExactCount) {
  EXPECT_THROW_MSG(parse_bytes("-1"), TextError,
                   "size \"-1\": at position 0: expected 0 to 2^53 bytes");
  EXPECT_THROW_MSG(parse_bytes("9000TiB"), TextError,
                   "size \"9000TiB\": at position 0: expected 0 to 2^53 bytes");
  EXPECT_THROW(static_cast<void>(parse_bytes("inf")), TextError);
  EXPECT_THROW(static_cast<void>(parse_bytes("nan")), TextError);
  EXPECT_THROW(static_cast<void>(parse_bytes("1e999")), TextError);
}

TEST(TextCursor, TakesTokensAndSkipsBlanksBetweenThem) {
  TextCursor cursor("thing", " ab ( 12 ) ");
  EXPECT_EQ(cursor.word(), "ab");
  EXPECT_FALSE(cursor.take("["));
  EXPECT_TRUE(cursor.take("("));
  EXPECT_EQ(cursor.integer("a number", 0, 99), 12);
  EXPECT_FALSE(cursor.at_end());
  EXPECT_EQ(cursor.peek(), ')');
  cursor.expect(")", "\")\"");
  EXPECT_TRUE(cursor.at_end());
  EXPECT_EQ(cursor.peek(), '\0');
}

TEST(TextCursor, AWordHasLettersDigitsAndUnderscores) {
  TextCursor cursor("thing", "dp_2=4");
  EXPECT_EQ(cursor.word(), "dp_2");
  EXPECT_EQ(cursor.word(), "");
  EXPECT_EQ(cursor.position(), 4U);
}

TEST(TextCursor, AnIntegerOutOfRangeNamesTheRange) {
  TextCursor cursor("thing", "12");
  EXPECT_THROW_MSG(cursor.integer("a dim", 0, 7), TextError,
                   "thing \"12\": at position 0: expected a dim from 0 to 7");
  TextCursor huge("thing", "99999999999999999999");
  EXPECT_THROW_MSG(huge.integer("a dim", 0, 7), TextError,
                   "thing \"99999999999999999999\": at position 0: expected a dim from 0 to 7");
}

TEST(TextCursor, NoIntegerAtAllNamesWhatWasExpected) {
  for (const char* text : {"x", "", "+1", " x"}) {
    TextCursor cursor("thing", text);
    EXPECT_THROW(static_cast<void>(cursor.integer("a dim", 0, 7)), TextError) << text;
  }
  TextCursor cursor("thing", "  x");
  EXPECT_THROW_MSG(cursor.integer("a dim", 0, 7), TextError,
                   "thing \"  x\": at position 2: expected a dim");
}

TEST(TextCursor, ExpectFailsAtTheNextToken) {
  TextCursor cursor("thing", "a  b");
  static_cast<void>(cursor.word());
  EXPECT_THROW_MSG(cursor.expect(")", "\")\""), TextError,
                   "thing \"a  b\": at position 3: expected \")\"");
}

TEST(TextCursor, ANumberIsFinite) {
  TextCursor cursor("thing", "2.5e1 x");
  EXPECT_EQ(cursor.number("a number"), 25.0);
  EXPECT_THROW_MSG(cursor.number("a number"), TextError,
                   "thing \"2.5e1 x\": at position 6: expected a number");
}

}  // namespace text_test
}  // namespace shardlab

// Checks of the values of options.
#include "runner/session/command.h"

#include <gtest/gtest.h>

#include <limits>

namespace shardlab {
namespace command_test {

std::string check(const ValueCheck& check, const std::string& text) { return check.problem(text); }

TEST(OptionChecks, OneOfNamesTheNearestWord) {
  const ValueCheck words = one_of({"text", "json"});
  EXPECT_EQ(check(words, "json"), "");
  EXPECT_EQ(check(words, "jsn"), "found \"jsn\" (did you mean \"json\"?); valid: text, json");
  EXPECT_EQ(check(words, "TEXT").substr(0, 12), "found \"TEXT\"");
}

TEST(OptionChecks, IntegersHaveBothEnds) {
  const ValueCheck jobs = integer_from(0, 1024);
  for (const char* good : {"0", "1024", "7"}) EXPECT_EQ(check(jobs, good), "") << good;
  for (const char* bad : {"-1", "1025", "1.5", "x", "", "1x", "99999999999999999999"}) {
    EXPECT_EQ(check(jobs, bad),
              "found \"" + std::string(bad) + "\"; valid: an integer from 0 to 1024");
  }
}

TEST(OptionChecks, ASeedMayBeAnyOf64Bits) {
  const ValueCheck seed = integer_from(0, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(check(seed, "18446744073709551615"), "");
  EXPECT_NE(check(seed, "18446744073709551616"), "");
  EXPECT_NE(check(seed, "-1"), "");
}

TEST(OptionChecks, NegativeIntegersMayBeValid) {
  const ValueCheck dim = integer_from(-4, 3);
  for (const char* good : {"-4", "-1", "0", "3"}) EXPECT_EQ(check(dim, good), "") << good;
  for (const char* bad : {"-5", "4"}) EXPECT_NE(check(dim, bad), "") << bad;
}

TEST(OptionChecks, NumbersHaveBothEnds) {
  const ValueCheck percent = number_from(0, 100);
  for (const char* good : {"0", "0.5", "1e2"}) EXPECT_EQ(check(percent, good), "") << good;
  for (const char* bad : {"-0.1", "100.1", "nan", "x", ""}) {
    EXPECT_EQ(check(percent, bad),
              "found \"" + std::string(bad) + "\"; valid: a number from 0 to 100");
  }
}

}  // namespace command_test
}  // namespace shardlab

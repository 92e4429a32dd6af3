// What all commands share: checks of options, the session.
#include "runner/session/cli.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/reference_messages.h"

namespace shardlab {
namespace {

std::string check(const CLI::Validator& validator, const std::string& text) {
  return validator(text);
}

TEST(OptionChecks, OneOfNamesTheNearestWord) {
  const CLI::Validator words = one_of({"text", "json"});
  EXPECT_EQ(check(words, "json"), "");
  EXPECT_EQ(check(words, "jsn"), "found \"jsn\" (did you mean \"json\"?); valid: text, json");
  EXPECT_EQ(check(words, "TEXT").substr(0, 12), "found \"TEXT\"");
}

TEST(OptionChecks, IntegersHaveBothEnds) {
  const CLI::Validator jobs = integer_from(0, 1024);
  for (const char* good : {"0", "1024", "7"}) EXPECT_EQ(check(jobs, good), "") << good;
  for (const char* bad : {"-1", "1025", "1.5", "x", "", "1x", "99999999999999999999"}) {
    EXPECT_EQ(check(jobs, bad),
              "found \"" + std::string(bad) + "\"; valid: an integer from 0 to 1024");
  }
}

TEST(OptionChecks, ASeedMayBeAnyOf64Bits) {
  const CLI::Validator seed = integer_from(0, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(check(seed, "18446744073709551615"), "");
  EXPECT_NE(check(seed, "18446744073709551616"), "");
  EXPECT_NE(check(seed, "-1"), "");
}

TEST(OptionChecks, NegativeIntegersMayBeValid) {
  const CLI::Validator dim = integer_from(-4, 3);
  for (const char* good : {"-4", "-1", "0", "3"}) EXPECT_EQ(check(dim, good), "") << good;
  for (const char* bad : {"-5", "4"}) EXPECT_NE(check(dim, bad), "") << bad;
}

TEST(OptionChecks, NumbersHaveBothEnds) {
  const CLI::Validator percent = number_from(0, 100);
  for (const char* good : {"0", "0.5", "1e2"}) EXPECT_EQ(check(percent, good), "") << good;
  for (const char* bad : {"-0.1", "100.1", "nan", "x", ""}) {
    EXPECT_EQ(check(percent, bad),
              "found \"" + std::string(bad) + "\"; valid: a number from 0 to 100");
  }
}

TEST(Session, TheDefaultsAreTextAndH100) {
  const Session session;
  EXPECT_FALSE(session.json());
  EXPECT_EQ(session.topology, "h100");
  EXPECT_EQ(session.exit_code, kDone);
  EXPECT_GE(session.threads(), 1);
}

TEST(Session, JobsAreThreads) {
  Session session;
  session.jobs = 3;
  EXPECT_EQ(session.threads(), 3);
}

TEST(Session, ItsStoreHasTheSets) {
  Session session;
  session.sets = {"devices_per_host=2", "stack.planner=graph"};
  const ConfigStore store = session.store();
  ASSERT_EQ(store.overrides().size(), 2U);
  EXPECT_EQ(store.topology("h100").devices_per_host(), 2);
}

TEST(Session, ASetOfAnExperimentIsRefusedWhereThereIsNone) {
  Session session;
  session.sets = {"experiment.seed=3"};
  EXPECT_THROW_MSG(session.store(), InputError,
                   "--set experiment.seed=3: this command reads no experiment; valid: topology, "
                   "stack");
}

TEST(ParseOption, PutsTheOptionsNameInFront) {
  EXPECT_THROW_MSG(parse_option("--mesh", [] { return DeviceMesh::parse("8y8"); }), InputError,
                   "--mesh: mesh \"8y8\": at position 1: expected \"x\" and another size, or the "
                   "end (8x8, dp=8,tp=8)");
  EXPECT_EQ(parse_option("--mesh", [] { return DeviceMesh::parse("8x8"); }).text(), "8x8");
}

}  // namespace
}  // namespace shardlab

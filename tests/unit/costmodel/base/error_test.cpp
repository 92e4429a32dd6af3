#include "costmodel/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/reference_messages.h"

namespace shardlab {
namespace error_test {

using testing::EndsWith;
using testing::HasSubstr;
using testing_support::message_of;

TEST(Error, ABrokenContractShowsTheConditionAndTheValues) {
  const int rank = 9;
  const auto check = [&] { SHARDLAB_CHECK(rank < 8, "rank ", rank, " in a group of ", 8); };
  const std::string message = message_of<ContractError>(check);
  EXPECT_THAT(message, HasSubstr("error_test.cpp:"));
  EXPECT_THAT(message, EndsWith("contract broken: rank < 8: rank 9 in a group of 8"));
}

TEST(Error, AContractWithoutValuesShowsTheConditionAlone) {
  const auto check = [] { SHARDLAB_CHECK(1 > 2); };
  EXPECT_THAT(message_of<ContractError>(check), EndsWith("contract broken: 1 > 2"));
}

TEST(Error, AKeptContractEvaluatesItsConditionOnceAndItsValuesNever) {
  int conditions = 0;
  int values = 0;
  SHARDLAB_CHECK(++conditions > 0, "value ", ++values);
  EXPECT_EQ(conditions, 1);
  EXPECT_EQ(values, 0);
}

TEST(Error, ATextErrorNamesKindTextPositionAndWhatWasExpected) {
  EXPECT_STREQ(TextError("mesh", "8y8", 1, "\"x\"").what(),
               "mesh \"8y8\": at position 1: expected \"x\"");
}

TEST(Error, AConfigErrorNamesFileAndPointer) {
  EXPECT_STREQ(ConfigError("h200.json", "/links/1", "unknown key").what(),
               "h200.json:/links/1: unknown key");
}

TEST(Error, OnlyTheContractErrorIsALogicError) {
  EXPECT_TRUE((std::is_base_of_v<std::logic_error, ContractError>));
  EXPECT_FALSE((std::is_base_of_v<std::logic_error, ConfigError>));
  EXPECT_FALSE((std::is_base_of_v<InputError, TextError>));
}

}  // namespace error_test
}  // namespace shardlab

#include "costmodel/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace params_test {

constexpr ParamSpec kSpecs[] = {
    {"latency_us", 5.0, 0.0, 1e6, "start-up time"},
    {"bandwidth_gb_per_s", std::nullopt, 1e-3, 1e5, "bandwidth; default: the topology's"},
};
const JsonPlace kPlace{"s.json", "/params"};

TEST(Params, FillDefaultsAndTakeGivenValues) {
  const Params params(kSpecs, {{"bandwidth_gb_per_s", 50}}, kPlace);
  EXPECT_EQ(params["latency_us"], 5.0);
  EXPECT_EQ(params["bandwidth_gb_per_s"], 50.0);
}

TEST(Params, WithoutADefaultAnAbsentParameterIsLeftToTheTopology) {
  const Params params(kSpecs, nlohmann::json::object(), kPlace);
  EXPECT_FALSE(params.get("bandwidth_gb_per_s").has_value());
  EXPECT_EQ(params.get("latency_us"), 5.0);
}

TEST(Params, ToJsonLeavesOutWhatTheTopologyFills) {
  EXPECT_EQ(Params(kSpecs, nlohmann::json::object(), kPlace).to_json(),
            (nlohmann::json{{"latency_us", 5.0}}));
}

TEST(Params, ToJsonReadsBackToTheSame) {
  const Params params(kSpecs, {{"bandwidth_gb_per_s", 0.1}, {"latency_us", 1.0 / 3}}, kPlace);
  EXPECT_EQ(Params(kSpecs, params.to_json(), kPlace).to_json(), params.to_json());
}

TEST(Params, TakeBothEndsOfTheRange) {
  EXPECT_EQ(Params(kSpecs, {{"latency_us", 0}}, kPlace)["latency_us"], 0.0);
  EXPECT_EQ(Params(kSpecs, {{"latency_us", 1e6}}, kPlace)["latency_us"], 1e6);
}

TEST(Params, RefuseAValueOutOfRange) {
  EXPECT_THROW_MSG(Params(kSpecs, {{"latency_us", -1}}, kPlace), ConfigError,
                   "s.json:/params/latency_us: found -1; valid: a number from 0 to 1e+06");
}

TEST(Params, RefuseAnUnknownNameAndNameTheNearest) {
  EXPECT_THROW_MSG(Params(kSpecs, {{"bandwith_gb_per_s", 1}}, kPlace), ConfigError,
                   "s.json:/params/bandwith_gb_per_s: unknown parameter (did you mean "
                   "\"bandwidth_gb_per_s\"?); valid: latency_us, bandwidth_gb_per_s");
}

TEST(Params, OfAModelWithoutParametersSayNone) {
  EXPECT_THROW_MSG(Params({}, {{"x", 1}}, kPlace), ConfigError,
                   "s.json:/params/x: unknown parameter; valid: none");
}

TEST(Params, RefuseWhatIsNoObject) {
  EXPECT_THROW_MSG(Params(kSpecs, nlohmann::json::array(), kPlace), ConfigError,
                   "s.json:/params: found an array; valid: an object");
}

TEST(Params, AskingForAParameterThatTheTableLacksIsABug) {
  const Params params(kSpecs, nlohmann::json::object(), kPlace);
  EXPECT_THAT(
      testing_support::message_of<ContractError>([&] { static_cast<void>(params.get("latency")); }),
      testing::EndsWith("no parameter latency"));
  EXPECT_THAT(testing_support::message_of<ContractError>(
                  [&] { static_cast<void>(params["bandwidth_gb_per_s"]); }),
              testing::EndsWith("parameter bandwidth_gb_per_s has no default"));
}

}  // namespace params_test
}  // namespace shardlab

#include "reports/records/strict_json.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/base/error.h"

namespace shardlab::reports {
namespace {

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(StrictObject, ReadsEveryKindOfValue) {
  const auto json = nlohmann::json::parse(
      R"({"t": "x", "f": true, "n": 1.5, "i": 3, "u": 18446744073709551615, "none": null,
          "texts": ["a", "b"], "numbers": [1, 2.5], "holes": [1, null]})");
  StrictObject object(json, "f.json", "/a");
  EXPECT_EQ(object.text("t"), "x");
  EXPECT_TRUE(object.flag("f"));
  EXPECT_EQ(object.number("n"), 1.5);
  EXPECT_EQ(object.integer("i", 0), 3);
  EXPECT_EQ(object.unsigned_integer("u"), 18446744073709551615U);
  EXPECT_EQ(object.number_or_null("none"), std::nullopt);
  EXPECT_EQ(object.text_or_null("none"), "");
  EXPECT_EQ(object.texts("texts"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(object.numbers("numbers"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(object.numbers_or_null("holes"),
            (std::vector<std::optional<double>>{1.0, std::nullopt}));
  EXPECT_NO_THROW(object.finish());
}

TEST(StrictObject, AnUnknownKeyIsNamedWithTheValidOnes) {
  const nlohmann::json json = {{"latency_us", 1}, {"bandwith", 2}};
  StrictObject object(json, "f.json", "/links/1");
  EXPECT_EQ(object.number("latency_us"), 1);
  EXPECT_FALSE(object.has("bandwidth"));
  EXPECT_EQ(error_of([&] { object.finish(); }),
            "f.json:/links/1/bandwith: unknown key; valid: latency_us, bandwidth");
}

TEST(StrictObject, AMissingKeyAndAWrongTypeNameTheirPlace) {
  const nlohmann::json json = {
      {"n", "text"}, {"i", 1.5}, {"a", {1}}, {"big", 9223372036854775808U}};
  StrictObject object(json, "f.json", "");
  EXPECT_EQ(error_of([&] { static_cast<void>(object.text("id")); }), "f.json:/id: missing key");
  EXPECT_EQ(error_of([&] { static_cast<void>(object.number("n")); }),
            "f.json:/n: expected a number, found string");
  EXPECT_EQ(error_of([&] { static_cast<void>(object.integer("i", 0)); }),
            "f.json:/i: expected a whole number, found 1.5");
  EXPECT_EQ(error_of([&] { static_cast<void>(object.integer("big", 0)); }),
            "f.json:/big: expected a whole number, found 9223372036854775808");
  EXPECT_EQ(error_of([&] { static_cast<void>(object.texts("a")); }),
            "f.json:/a: expected strings only, found number at 0");
  EXPECT_EQ(error_of([&] { static_cast<void>(object.object("a")); }),
            "f.json:/a: expected an object, found array");
}

TEST(StrictObject, ANumberBelowItsLowestIsAnError) {
  const nlohmann::json json = {{"count", 0}};
  StrictObject object(json, "f.json", "");
  EXPECT_EQ(error_of([&] { static_cast<void>(object.integer("count", 1)); }),
            "f.json:/count: expected at least 1, found 0");
}

TEST(StrictObject, WhatIsNoObjectIsRefused) {
  const nlohmann::json json = 3;
  EXPECT_EQ(error_of([&] { StrictObject(json, "f.json", "/x"); }),
            "f.json:/x: expected an object, found number");
}

TEST(StrictObject, PointersEscapeTildeAndSlash) {
  const nlohmann::json json = {{"a/b~c", 1}};
  StrictObject object(json, "f.json", "");
  EXPECT_EQ(object.pointer_to("a/b~c"), "/a~1b~0c");
}

}  // namespace
}  // namespace shardlab::reports

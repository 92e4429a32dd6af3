#include "costmodel/base/json_reader.h"

#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace json_reader_test {

using nlohmann::json;

const JsonPlace kPlace{"f.json", "/a"};

TEST(JsonPlace, EscapesSlashesAndTildesAsJsonPointersDo) {
  EXPECT_EQ(kPlace.at("x/y~z").pointer, "/a/x~1y~0z");
  EXPECT_EQ(kPlace.at(std::size_t{3}).pointer, "/a/3");
  EXPECT_EQ(kPlace.at("b").at(std::size_t{0}).at("c").pointer, "/a/b/0/c");
  EXPECT_EQ(kPlace.at("b").file, "f.json");
}

TEST(JsonPlace, FailNamesFileAndPointer) {
  EXPECT_THROW_MSG(kPlace.fail("broken"), ConfigError, "f.json:/a: broken");
}

TEST(DescribeJson, IsShort) {
  EXPECT_EQ(describe_json(json::object()), "an object");
  EXPECT_EQ(describe_json(json::array({1, 2})), "an array");
  EXPECT_EQ(describe_json("abc"), "\"abc\"");
  EXPECT_EQ(describe_json(12), "12");
  EXPECT_EQ(describe_json(nullptr), "null");
  EXPECT_EQ(describe_json(std::string(100, 'x')).size(), 60U);
}

TEST(DescribeJson, StandsTextThatIsNoUtf8) {
  EXPECT_NO_THROW(static_cast<void>(describe_json(std::string("\xff\xfe"))));
}

TEST(FiniteOrNull, WritesNullForWhatJsonLacks) {
  EXPECT_EQ(finite_or_null(1.5), json(1.5));
  EXPECT_TRUE(finite_or_null(INFINITY).is_null());
  EXPECT_TRUE(finite_or_null(std::nan("")).is_null());
}

TEST(ObjectReader, ReadsEachTypeOnce) {
  const json object = {{"t", "text"}, {"n", 1.5}, {"i", 7}, {"a", {1, 2}}, {"b", true}};
  ObjectReader reader(object, kPlace);
  EXPECT_EQ(reader.text("t"), "text");
  EXPECT_EQ(reader.number("n"), 1.5);
  EXPECT_EQ(reader.integer("i", 0, 10), 7);
  EXPECT_EQ(reader.array("a").size(), 2U);
  EXPECT_TRUE(reader.boolean_or("b", false));
  EXPECT_NO_THROW(reader.finish());
}

TEST(ObjectReader, FallsBackWhereAnOptionalKeyIsAbsent) {
  const json object = json::object();
  ObjectReader reader(object, kPlace);
  EXPECT_EQ(reader.text_or("t", "x"), "x");
  EXPECT_EQ(reader.number_or("n", 2.5), 2.5);
  EXPECT_EQ(reader.integer_or("i", 3, 0, 9), 3);
  EXPECT_FALSE(reader.boolean_or("b", false));
  EXPECT_EQ(reader.find("v"), nullptr);
  EXPECT_NO_THROW(reader.finish());
}

TEST(ObjectReader, AnIntegerIsANumberToo) {
  const json object = {{"n", 3}};
  ObjectReader reader(object, kPlace);
  EXPECT_EQ(reader.number("n"), 3.0);
}

struct ReaderError {
  const char* name;
  const char* object;
  void (*read)(ObjectReader&);
  const char* message;
};
void PrintTo(const ReaderError& c, std::ostream* out) { *out << c.object; }
class ObjectReaderErrors : public testing::TestWithParam<ReaderError> {};

TEST_P(ObjectReaderErrors, AreTheseWordForWord) {
  const json object = json::parse(GetParam().object);
  EXPECT_THROW_MSG(
      [&] {
        ObjectReader reader(object, kPlace);
        GetParam().read(reader);
      }(),
      ConfigError, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, ObjectReaderErrors,
    testing::Values(
        ReaderError{"NotAnObject", "[1]", [](ObjectReader&) {},
                    "f.json:/a: found an array; valid: an object"},
        ReaderError{"MissingKey", "{}", [](ObjectReader& r) { static_cast<void>(r.text("name")); },
                    "f.json:/a: missing key \"name\""},
        ReaderError{"TextIsANumber", R"({"k": 1})",
                    [](ObjectReader& r) { static_cast<void>(r.text("k")); },
                    "f.json:/a/k: found 1; valid: a text"},
        ReaderError{"NumberIsAText", R"({"k": "1"})",
                    [](ObjectReader& r) { static_cast<void>(r.number("k")); },
                    "f.json:/a/k: found \"1\"; valid: a number"},
        ReaderError{
            "NumberTooSmall", R"({"k": -1})",
            [](ObjectReader& r) { static_cast<void>(r.number("k", {.min = 0.5, .max = 1e9})); },
            "f.json:/a/k: found -1; valid: a number from 0.5 to 1e+09"},
        ReaderError{"NumberTooLarge", R"({"k": 2e9})",
                    [](ObjectReader& r) {
                      static_cast<void>(r.number_or("k", 1, {.min = 0.5, .max = 1e9}));
                    },
                    "f.json:/a/k: found 2000000000.0; valid: a number from 0.5 to 1e+09"},
        ReaderError{"IntegerIsAFraction", R"({"k": 1.5})",
                    [](ObjectReader& r) { static_cast<void>(r.integer("k", 0, 9)); },
                    "f.json:/a/k: found 1.5; valid: an integer from 0 to 9"},
        ReaderError{"IntegerOutOfRange", R"({"k": 10})",
                    [](ObjectReader& r) { static_cast<void>(r.integer_or("k", 1, 0, 9)); },
                    "f.json:/a/k: found 10; valid: an integer from 0 to 9"},
        ReaderError{"IntegerBelowRange", R"({"k": -3})",
                    [](ObjectReader& r) { static_cast<void>(r.integer("k", -2, 9)); },
                    "f.json:/a/k: found -3; valid: an integer from -2 to 9"},
        ReaderError{"IntegerAboveTwoToThe63", R"({"k": 18446744073709551615})",
                    [](ObjectReader& r) { static_cast<void>(r.integer("k", -1, 9)); },
                    "f.json:/a/k: found 18446744073709551615; valid: an integer from -1 to 9"},
        ReaderError{"ArrayIsNull", R"({"k": null})",
                    [](ObjectReader& r) { static_cast<void>(r.array("k")); },
                    "f.json:/a/k: found null; valid: an array"},
        ReaderError{"BooleanIsANumber", R"({"k": 1})",
                    [](ObjectReader& r) { static_cast<void>(r.boolean_or("k", true)); },
                    "f.json:/a/k: found 1; valid: true or false"},
        ReaderError{"OtherSchema", R"({"schema": "shardlab/stack/2"})",
                    [](ObjectReader& r) { r.expect_schema("shardlab/stack/1"); },
                    "f.json:/a/schema: found \"shardlab/stack/2\"; valid: \"shardlab/stack/1\""},
        ReaderError{"UnknownKeyNamesTheNearestAndAllValid", R"({"nmae": 1})",
                    [](ObjectReader& r) {
                      static_cast<void>(r.find("name"));
                      static_cast<void>(r.find("rows"));
                      r.finish();
                    },
                    "f.json:/a/nmae: unknown key (did you mean \"name\"?); valid: name, rows"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(JsonInteger, TakesTheEndsOfItsRange) {
  EXPECT_EQ(json_integer(json(9), kPlace, 0, 9), 9);
  EXPECT_EQ(json_integer(json(0), kPlace, 0, 9), 0);
  EXPECT_EQ(json_integer(json(-5), kPlace, -5, -1), -5);
}

TEST(JsonInteger, RefusesZeroWhereOnlyNegativesAreValid) {
  EXPECT_THROW_MSG(json_integer(json(0U), kPlace, -5, -1), ConfigError,
                   "f.json:/a: found 0; valid: an integer from -5 to -1");
}

TEST(ObjectReader, ListsAKeyOnceHoweverOftenItWasAskedFor) {
  const json object = {{"x", 1}};
  ObjectReader reader(object, kPlace);
  static_cast<void>(reader.find("name"));
  static_cast<void>(reader.text_or("name", ""));
  EXPECT_THROW_MSG(reader.finish(), ConfigError, "f.json:/a/x: unknown key; valid: name");
}

TEST(ObjectReader, FindsAKeyUnderEitherSpellingAndNamesTheOneThatStands) {
  const json object = {{"data_deps", 1}, {"ctrlDeps", 2}, {"name", nullptr}};
  ObjectReader reader(object, kPlace);
  EXPECT_EQ(*reader.find_spelled("dataDeps", "data_deps"), 1);
  EXPECT_EQ(*reader.find_spelled("ctrlDeps", "ctrl_deps"), 2);
  EXPECT_EQ(reader.find_spelled("name", "name"), nullptr);
  EXPECT_EQ(reader.find_spelled("docString", "doc_string"), nullptr);
  EXPECT_EQ(reader.place("dataDeps").pointer, "/a/data_deps");
  EXPECT_EQ(reader.place("ctrlDeps").pointer, "/a/ctrlDeps");
  EXPECT_NO_THROW(reader.finish());
}

TEST(ObjectReader, BothSpellingsOfOneKeyAreOneTooMany) {
  const json object = {{"data_deps", 1}, {"dataDeps", 2}};
  ObjectReader reader(object, kPlace);
  EXPECT_EQ(*reader.find_spelled("dataDeps", "data_deps"), 2);
  EXPECT_THROW_MSG(
      reader.finish(), ConfigError,
      "f.json:/a/data_deps: unknown key (did you mean \"dataDeps\"?); valid: dataDeps");
}

TEST(JsonNumber, RefusesAnInfinity) {
  EXPECT_THROW(static_cast<void>(json_number(json(INFINITY), kPlace)), ConfigError);
}

}  // namespace json_reader_test
}  // namespace shardlab

// JSON is read strictly, and each fault is named with its line and column or with its pointer.
#include "runner/config/read_json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace read_json_test {

using nlohmann::json;

struct BrokenJson {
  const char* name;
  std::string text;
  const char* message;
};
void PrintTo(const BrokenJson& c, std::ostream* out) { *out << c.name; }
class ReadJsonErrors : public testing::TestWithParam<BrokenJson> {};

TEST_P(ReadJsonErrors, AreTheseWordForWord) {
  EXPECT_THROW_MSG(parse_json(GetParam().text, "f.json"), ConfigError, GetParam().message);
  EXPECT_FALSE(try_parse_json(GetParam().text).has_value());
}

INSTANTIATE_TEST_SUITE_P(
    All, ReadJsonErrors,
    testing::Values(
        BrokenJson{"Empty", "",
                   "f.json:line 1, column 1: broken JSON: found nothing; valid: a JSON document"},
        BrokenJson{"MissingComma", "{\"a\": 1\n \"b\": 2}",
                   "f.json:line 2, column 4: broken JSON: found '\"'; valid: \",\" or \"}\""},
        BrokenJson{"TrailingComma", "{\n  \"a\": [1, 2,]\n}",
                   "f.json:line 2, column 14: broken JSON: found \"]\"; valid: another value"},
        BrokenJson{"NoColon", "{\"a\" 1}",
                   "f.json:line 1, column 6: broken JSON: found \"1\"; valid: \":\""},
        BrokenJson{"BareWord", "{\n\"a\": yes}",
                   "f.json:line 2, column 6: broken JSON: found yes; valid: true, false, null, a "
                   "number or a text in double quotes"},
        BrokenJson{"SingleQuotes", "{'a': 1}",
                   "f.json:line 1, column 2: broken JSON: found \"'\"; valid: a key in double "
                   "quotes, or \"}\""},
        BrokenJson{"Comment", "{\n// why\n}",
                   "f.json:line 2, column 1: broken JSON: found a comment; JSON has none; valid: a "
                   "key in double quotes, or \"}\""},
        BrokenJson{"EndsEarly", "{\"a\": [1",
                   "f.json:line 1, column 9: broken JSON: the text ends too early; valid: a "
                   "complete JSON document"},
        BrokenJson{"TwoDocuments", "{} {}",
                   "f.json:line 1, column 4: broken JSON: found \"{\"; valid: nothing after the "
                   "document's end"},
        BrokenJson{"NotANumber", "[1, NaN]",
                   "f.json:line 1, column 5: broken JSON: found NaN; JSON has no NaN and no "
                   "Infinity; valid: a finite number"},
        BrokenJson{"NumberOutOfRange", "[1e999]",
                   "f.json:line 1, column 6: broken JSON: found 1e999; valid: a number that a "
                   "double holds, up to 1.8e308"},
        BrokenJson{"TabInAText", "{\"a\": \"x\ty\"}",
                   "f.json:line 1, column 9: broken JSON: found a control character inside a text; "
                   "valid: an escape such as \\n"},
        BrokenJson{"SameKeyTwice", "{\"a\": {\"b\": 1, \"b\": 2}}",
                   "f.json:/a: key \"b\" occurs twice"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ReadJson, ReadsWhatIsJson) {
  EXPECT_EQ(parse_json(" [1, 2.5, \"x\", null, {\"a\": true}] ", "f.json"),
            (json{1, 2.5, "x", nullptr, {{"a", true}}}));
  EXPECT_EQ(try_parse_json("3"), json(3));
}

TEST(ReadJson, KeysOfTwoObjectsMayBeEqual) {
  EXPECT_EQ(parse_json("[{\"a\": 1}, {\"a\": 2}]", "f.json").size(), 2U);
}

TEST(ReadJson, NestingHasAnEnd) {
  const auto nested = [](int levels) {
    return std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']');
  };
  EXPECT_NO_THROW(static_cast<void>(parse_json(nested(kMaxJsonDepth), "f.json")));
  EXPECT_THROW_MSG(
      parse_json(nested(kMaxJsonDepth + 1), "f.json"), ConfigError,
      "f.json:/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0...: is nested too deep; valid: at "
      "most 64 levels");
  EXPECT_THROW(static_cast<void>(parse_json(nested(100000), "f.json")), ConfigError);
}

TEST(ReadJsonFile, NamesTheFile) {
  const auto path = std::filesystem::temp_directory_path() / "shardlab_read_json_test.json";
  std::ofstream(path) << "{\n  \"a\": 1,\n}";
  EXPECT_THROW_MSG(read_json_file(path), ConfigError,
                   path.string() +
                       ":line 3, column 1: broken JSON: found \"}\"; valid: another key in double "
                       "quotes");
  std::ofstream(path) << "{\"a\": 1}";
  EXPECT_EQ(read_json_file(path), (json{{"a", 1}}));
  std::filesystem::remove(path);
  EXPECT_THROW_MSG(read_json_file(path), ConfigError,
                   path.string() + ": can't be read: No such file or directory; valid: a file");
}

TEST(ReadJsonFile, RefusesAFolder) {
  EXPECT_THROW_MSG(read_json_file("/tmp"), ConfigError, "/tmp: is a folder; valid: a file");
}

TEST(ReadJson, ANulByteIsNotTheEndOfTheText) {
  using namespace std::string_literals;
  EXPECT_THROW_MSG(
      parse_json("{\"a\": 1}\n \0garbage"s, "f.json"), ConfigError,
      "f.json:line 2, column 2: broken JSON: found a NUL byte; valid: nothing after the "
      "document's end");
  for (const std::string& text : {"{\"a\": 1}\0"s, "\0"s, "{\"a\"\0: 1}"s, "\"a\0b\""s}) {
    EXPECT_THROW((void)parse_json(text, "f.json"), ConfigError);
    EXPECT_EQ(try_parse_json(text), std::nullopt);
  }
}

}  // namespace read_json_test
}  // namespace shardlab

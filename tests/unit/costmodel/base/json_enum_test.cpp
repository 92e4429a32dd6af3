// Enumerations in JSON files, by the names of their tables.
#include "costmodel/base/json_enum.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "tests/support/reference_messages.h"

namespace shardlab {

enum class Colour : std::uint8_t { kRed, kGreen };
template <>
struct EnumNames<Colour> {
  static constexpr std::string_view kKind = "colour";
  static constexpr std::array kNames = {Named{Colour::kRed, "red"}, Named{Colour::kGreen, "green"}};
};

namespace json_enum_test {

using testing_support::message_of;

std::optional<Colour> colour_in(const nlohmann::json& json) {
  ObjectReader reader(json, {"file.json", ""});
  const std::optional<Colour> colour = find_enum<Colour>(reader, "colour");
  reader.finish();
  return colour;
}

TEST(FindEnum, ReadsANameAndNothingWhereTheKeyIsAbsent) {
  EXPECT_EQ(colour_in({{"colour", "green"}}), Colour::kGreen);
  EXPECT_EQ(colour_in(nlohmann::json::object()), std::nullopt);
}

TEST(FindEnum, SuggestsTheNearestNameAndListsAllOfThem) {
  EXPECT_EQ(message_of<ConfigError>([] {
              static_cast<void>(colour_in({{"colour", "gren"}}));
            }),
            "file.json:/colour: found \"gren\" (did you mean \"green\"?); valid: red, green");
}

}  // namespace json_enum_test
}  // namespace shardlab

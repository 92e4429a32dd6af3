#include "costmodel/base/enum_names.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace shardlab {
namespace enum_names_test {

enum class Fruit : std::uint8_t { kApple, kPear, kPlum, kNameless };

}  // namespace enum_names_test

template <>
struct EnumNames<enum_names_test::Fruit> {
  static constexpr std::string_view kKind = "fruit";
  static constexpr std::array kNames = {
      Named{enum_names_test::Fruit::kApple, "apple"}, Named{enum_names_test::Fruit::kPear, "pear"},
      Named{enum_names_test::Fruit::kPear, "poire"}, Named{enum_names_test::Fruit::kPlum, "plum"}};
};

namespace enum_names_test {

TEST(EnumNames, AValueIsPrintedByItsFirstName) { EXPECT_EQ(name_of(Fruit::kPear), "pear"); }

TEST(EnumNames, EveryNameIsReadAndNoOtherWord) {
  EXPECT_EQ(from_name<Fruit>("pear"), Fruit::kPear);
  EXPECT_EQ(from_name<Fruit>("poire"), Fruit::kPear);
  for (const char* word : {"", "Pear", "pear ", "cherry"}) {
    EXPECT_EQ(from_name<Fruit>(word), std::nullopt) << word;
  }
}

TEST(EnumNames, ListsShowTheFirstNamesInTheOrderOfTheTable) {
  EXPECT_EQ(all_names<Fruit>(), (std::vector<std::string_view>{"apple", "pear", "plum"}));
  EXPECT_EQ(valid_names<Fruit>(), "apple, pear, plum");
  EXPECT_EQ(valid_names<Fruit>(" or "), "apple or pear or plum");
  static_assert(kSpacedNames<Fruit> == "apple pear plum");
}

TEST(EnumNames, AValueThatTheTableLacksIsAnError) {
  EXPECT_THROW(static_cast<void>(name_of(Fruit::kNameless)), std::logic_error);
}

}  // namespace enum_names_test
}  // namespace shardlab

// Names from files cannot control the terminal, forge lines, or turn the text around them.
#include "costmodel/base/printable.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace shardlab {
namespace printable_test {

TEST(Printable, ShowsWhatControlsATerminal) {
  EXPECT_EQ(printable("aten.mm \u00e9 \u6a21 \U0001f600"), "aten.mm \u00e9 \u6a21 \U0001f600");
  EXPECT_EQ(printable("a\x1b[31mb\nc\td\x7f"), "a\\x1b[31mb\\x0ac\\x09d\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xff\xc2\x9b"), "\\xff\\xc2\\x9b") << "no UTF-8, and an escape of two bytes";
}

TEST(Printable, ShowsLettersThatMoveOthers) {
  EXPECT_EQ(printable("a\u202ebc"), "a\\u{202e}bc");
  EXPECT_EQ(printable("\u2066\u2069\u200f\u061c"), "\\u{2066}\\u{2069}\\u{200f}\\u{61c}");
  EXPECT_EQ(printable("a\u2028b\ufeff"), "a\\u{2028}b\\u{feff}");
  EXPECT_EQ(printable("\U000e0041"), "\\u{e0041}");
  // An emoji of several, and a letter that must not join its neighbour, stay as they are.
  EXPECT_EQ(printable("\U0001f468\u200d\U0001f469 \u0645\u200c"),
            "\U0001f468\u200d\U0001f469 \u0645\u200c");
}

TEST(Printable, LinesMayStay) {
  EXPECT_EQ(printable_lines("a\n\tb\x1b\u202e"), "a\n\tb\\x1b\\u{202e}");
}

TEST(Printable, JsonKeepsItsMeaning) {
  const std::string name = "a\u202eb \u00e9 \u6a21 \U0001f600 \x7f \xc2\x9b \U000e0041 \x1b \n \"";
  const nlohmann::json document{{name, {{"list", {name, 1, nullptr}}}}};
  const std::string text = document.dump(2);
  const std::string shown = printable_json(text);
  EXPECT_EQ(nlohmann::json::parse(shown), document);
  EXPECT_EQ(printable_lines(shown), shown);
  EXPECT_NE(printable_lines(text), text) << "what is written without it is not printable";
  EXPECT_NE(shown.find("a\\u202eb \u00e9 \u6a21 \U0001f600 \\u007f \\u009b \\udb40\\udc41"),
            std::string::npos)
      << shown;
  EXPECT_EQ(printable_json("{\"a\": [1, 2]}\n"), "{\"a\": [1, 2]}\n");
}

TEST(ShortValues, KeepWhatIsShort) {
  for (const std::string& message :
       {std::string(), std::string("a.json:/x: found \"a b\"; valid: c, d"), std::string("\""),
        "found \"a\"b\"; valid: " + std::string(190, 'x')}) {
    EXPECT_EQ(with_short_values(message), message);
  }
}

TEST(ShortValues, CutLongOnesInTheMiddle) {
  const std::string cut = std::string(157, 'x') + "..." + std::string(40, 'x');
  const std::string value(100'000, 'x');
  EXPECT_EQ(with_short_values("found \"" + value + "\"; valid: a"),
            "found \"" + cut + "\"; valid: a");
  EXPECT_EQ(with_short_values("found " + value + ", not a"),
            "found " + cut.substr(0, 156) + "..." + std::string(40, 'x') + ", not a");
  std::string words;
  for (int i = 0; i < 1000; ++i) words += "a b ";
  EXPECT_EQ(with_short_values("\"" + words + "\"").size(), 202U);
  // The lists that messages end with are not values, however long they are.
  std::string list = "valid: ";
  for (int i = 0; i < 1000; ++i) list += "word, ";
  EXPECT_EQ(with_short_values(list), list);
  // No letter is split.
  std::string letters;
  for (int i = 0; i < 1000; ++i) letters += "\u6a21";
  const std::string short_letters = with_short_values("\"" + letters + "\"");
  EXPECT_EQ(printable(short_letters), short_letters);
}

}  // namespace printable_test
}  // namespace shardlab

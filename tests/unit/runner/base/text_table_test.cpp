#include "runner/base/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "runner/base/terminal.h"

namespace shardlab {
namespace text_table_test {

using testing::Each;
using testing::HasSubstr;
using testing::Le;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::size_t> widths_of(const std::string& text) {
  std::vector<std::size_t> widths;
  for (const std::string& line : lines_of(text)) widths.push_back(displayed_columns(line));
  return widths;
}

TEST(TextTable, AlignsFiguresAtTheirDecimalPoints) {
  TextTable table(TextStyle(), {"op", "us"});
  table.add({"mm", "1234.6"});
  table.add({"add", "12.5"});
  table.add({"view", "0"});
  table.add({"sum", "0.031257"});
  table.add({"neg", "-3e-07"});
  EXPECT_EQ(table.text(),
            "  op             us\n"
            "  mm    1234.6\n"
            "  add     12.5\n"
            "  view     0\n"
            "  sum      0.031257\n"
            "  neg     -3e-07\n");
}

TEST(TextTable, AWordMayStandAmongFigures) {
  TextTable table(TextStyle(), {"total us", "choice"});
  table.add({"7.25", "S(0)"});
  table.add({"impossible", "R"});
  table.add({"12.5*", "P(sum)"});
  EXPECT_EQ(table.text(""),
            "  total us  choice\n"
            "      7.25  S(0)\n"
            "impossible  R\n"
            "     12.5*  P(sum)\n");
}

TEST(TextTable, AlignsOtherNumbersToTheRightAndWordsToTheLeft) {
  TextTable table(TextStyle(), {"mesh", "moved", "name", ""});
  table.add({"8", "64 KiB", "x", "1"});
  table.add({"2x4", "1.5 MiB", "long", ""});
  EXPECT_EQ(table.text(),
            "  mesh    moved  name\n"
            "     8   64 KiB  x     1\n"
            "   2x4  1.5 MiB  long\n");
}

TEST(TextTable, IsNeverCutWithoutATerminal) {
  TextTable table(TextStyle(), {"name", "us"});
  const std::string name(3000, 'x');
  table.add({name + " and more", "1"});
  EXPECT_THAT(table.text(), HasSubstr(name + " and more  "));
}

TEST(TextTable, ContinuesWordsOnFurtherLinesOfANarrowTerminal) {
  TextTable table(TextStyle{.columns = 40}, {"stack", "what it is", "us"});
  table.add({"dtensor-v3", "the cost function of PyTorch 2.13.0", "12.5"});
  table.add({"nccl", "short", "1234.6"});
  EXPECT_EQ(table.text(),
            "  stack       what it is              us\n"
            "  dtensor-v3  the cost function     12.5\n"
            "              of PyTorch 2.13.0\n"
            "  nccl        short               1234.6\n");
}

TEST(TextTable, WritesTheWordsOfAHeaderOneBelowTheOther) {
  TextTable table(TextStyle{.columns = 24}, {"stack", "redistribute us"});
  table.add({"dtensor-v3", "12.5"});
  EXPECT_EQ(table.text(),
            "  stack       redistribute\n"
            "                        us\n"
            "  dtensor-v3          12.5\n");
}

TEST(TextTable, ShortensAWordInTheMiddleIfNothingElseHelps) {
  TextTable table(TextStyle{.columns = 30}, {"node", "us"});
  table.add({"model.layers.17.attention.wq.weight", "123.45"});
  const std::string text = table.text();
  EXPECT_THAT(text, HasSubstr("model.laye\u2026wq.weight  123.45\n"));
  EXPECT_THAT(widths_of(text), Each(Le(30U)));
}

TEST(TextTable, NeverCutsANumber) {
  TextTable table(TextStyle{.columns = 20}, {"tensor", "us"});
  table.add({"bf16[16384,65536,131072]", "123456.789"});
  const std::string text = table.text();
  EXPECT_THAT(text, HasSubstr("123456.789"));
  // What is left of the word has its numbers whole: 163 or 072 would be other numbers.
  EXPECT_THAT(text, HasSubstr("bf16[\u2026]"));
}

TEST(TextTable, FitsAnyWidthThatLeavesRoomForItsNumbers) {
  std::mt19937_64 random(3);
  const auto draw = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  for (std::size_t columns = 44; columns < 160; columns += 5) {
    TextTable table(TextStyle{.columns = columns}, {"op", "words", "us", "other"});
    for (int i = 0; i < 30; ++i) {
      std::string words;
      for (std::size_t w = draw(12); w > 0; --w) words += std::string(1 + draw(20), 'a') + " ";
      table.add(
          {std::string(1 + draw(40), 'o'), words, std::to_string(draw(99999)), "\u00e9t\u00e9"});
    }
    EXPECT_THAT(widths_of(table.text()), Each(Le(columns)));
  }
}

TEST(TextTable, CountsColumnsOfTheTerminalAndNotBytes) {
  TextTable table(TextStyle(), {"name", "us"});
  table.add({"\u00e9t\u00e9", "1"});
  table.add({"\u6a21\u578b", "2"});  // two Chinese letters, which take four columns
  table.add({"long", "3"});
  EXPECT_EQ(table.text(""), "name  us\n\u00e9t\u00e9    1\n\u6a21\u578b   2\nlong   3\n");
}

TEST(TextTable, PaintsItsHeadingsAndTheCellsThatHaveATone) {
  TextTable table(TextStyle{.has_colour = true}, {"", "op", "us"});
  table.add({"chosen", "mm", "1"});
  table.paint(0, Tone::kGood);
  table.add({"", "add", "23"});
  EXPECT_EQ(table.text(""),
            "        \033[1mop\033[0m   \033[1mus\033[0m\n"
            "\033[32mchosen\033[0m  mm    1\n"
            "        add  23\n");
}

TEST(TextTable, ACellFromAFileCannotColourItself) {
  TextTable table(TextStyle{.has_colour = true}, {"name"});
  table.add({"\033[31mred"});
  EXPECT_THAT(table.text(), HasSubstr("\\x1b[31mred"));
  EXPECT_THAT(table.text(), Not(HasSubstr("\033[31m")));
}

TEST(TextTable, MayHaveNoHeader) {
  TextTable table(TextStyle{.columns = 30});
  table.add({"a100", "eight devices in a host, and many hosts"});
  table.add({"gb200", "four"});
  EXPECT_EQ(table.text(""),
            "a100   eight devices in a\n"
            "       host, and many hosts\n"
            "gb200  four\n");
  TextTable changes(TextStyle(), 1);
  changes.add({"+13.99 us", "8 of them"});
  changes.add({"-6 us", "12 of them"});
  EXPECT_EQ(changes.text(""), "+13.99 us  8 of them\n    -6 us  12 of them\n");
}

TEST(DisplayedColumns, OfLettersThatTakeNoneOneOrTwo) {
  EXPECT_EQ(displayed_columns(""), 0U);
  EXPECT_EQ(displayed_columns("mm"), 2U);
  EXPECT_EQ(displayed_columns("\u00e9t\u00e9"), 3U);
  EXPECT_EQ(displayed_columns("e\u0301"), 1U);     // an accent over the letter before it
  EXPECT_EQ(displayed_columns("\u6a21"), 2U);      // a Chinese letter
  EXPECT_EQ(displayed_columns("\U0001f600"), 2U);  // an emoji
  EXPECT_EQ(displayed_columns("\u2026"), 1U);
  EXPECT_EQ(displayed_columns("\xff\xfe"), 2U);  // no UTF-8: at least not nothing
}

}  // namespace text_table_test
}  // namespace shardlab

#include "reports/writers/inline_text.h"

#include <gtest/gtest.h>

#include <string>

namespace shardlab::reports {
namespace inline_text_test {

std::string marked(std::string_view text) {
  std::string result;
  for (const InlineRun& run : inline_runs(text)) {
    result += (run.is_code ? "<" : "(") + std::string(run.text) + (run.is_code ? ">" : ")");
  }
  return result;
}

TEST(InlineText, BackticksMarkCode) {
  EXPECT_EQ(marked("Changing `a` to `b`."), "(Changing )<a>( to )<b>(.)");
  EXPECT_EQ(marked("`a`"), "<a>");
  EXPECT_EQ(marked(""), "");
}

TEST(InlineText, ABacktickWithoutPartnerIsPlain) {
  EXPECT_EQ(marked("a `b` c ` d"), "(a )<b>( c ` d)");
}

TEST(InlineText, EmptyCodeIsNothing) { EXPECT_EQ(marked("a `` b"), "(a )( b)"); }

TEST(InlineText, PlainTextLosesItsBackticks) {
  EXPECT_EQ(plain_text("flips `a` to `b`"), "flips a to b");
}

TEST(InlineText, EveryVerdictHasASymbolOfItsOwn) {
  EXPECT_EQ(verdict_symbol("better"), "\u25b2");
  EXPECT_EQ(verdict_symbol("worse"), "\u25bc");
  EXPECT_EQ(verdict_symbol("equal"), "=");
  EXPECT_EQ(verdict_symbol("undecided"), "?");
  EXPECT_EQ(verdict_symbol("wrong"), "\u2717");
  EXPECT_EQ(verdict_symbol("holds"), "\u2713");
  EXPECT_EQ(verdict_symbol("broken"), "\u2717");
  EXPECT_EQ(verdict_symbol("other"), "");
}

}  // namespace inline_text_test
}  // namespace shardlab::reports

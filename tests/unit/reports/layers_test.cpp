// Layers are found where ops repeat.
#include "reports/layers.h"

#include <gtest/gtest.h>

#include <sstream>

namespace shardlab::reports {
namespace layers_test {

// The ops, with one letter for each.
Layers layers_in(const std::string& ops) {
  std::vector<std::string> words;
  for (const char op : ops) words.emplace_back(1, op);
  return layers_of(words);
}

TEST(Layers, AreTheStretchThatRepeats) {
  const Layers layers = layers_in("xyabcdabcdabcdz");
  EXPECT_EQ(layers.first, 2U);
  EXPECT_EQ(layers.length, 4U);
  EXPECT_EQ(layers.repeats, 3U);
  EXPECT_EQ(layers.of(1), 0U) << "before";
  EXPECT_EQ(layers.of(2), 1U);
  EXPECT_EQ(layers.of(5), 1U);
  EXPECT_EQ(layers.of(13), 3U);
  EXPECT_EQ(layers.of(14), 4U) << "after";
}

TEST(Layers, AreAsShortAsTheyCanBe) {
  EXPECT_EQ(layers_in("abcdabcdabcdabcd").length, 4U) << "not two pairs";
  EXPECT_EQ(layers_in("abcdabcdabcdabcd").repeats, 4U);
}

TEST(Layers, AreNoneWhereNothingRepeats) {
  for (const char* ops : {"", "a", "abcdefgh", "abcabx", "abcdabcdefghijklm"}) {
    const Layers layers = layers_in(ops);
    EXPECT_EQ(layers.repeats, 0U) << ops;
    EXPECT_EQ(layers.of(0), 0U);
  }
}

TEST(Layers, CoverTheMost) {
  // A sequence of six ops that comes twice covers more than one of four.
  const Layers layers = layers_in("abcdabcdxuvwxyzuvwxyz");
  EXPECT_EQ(layers.length, 6U);
  EXPECT_EQ(layers.repeats, 2U);
}

}  // namespace layers_test
}  // namespace shardlab::reports

#include "runner/base/hanging_text.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace hanging_text_test {

constexpr const char* kPage =
    "plan and price one redistribution of a tensor\n"
    "  shardlab plan --mesh 2x4 --tensor \"bf16[8192,4096]\"\n"
    "\n"
    "  --set PATH    a change of the topology, such as devices_per_host=1\n"
    "  --flatten NAMES ...\n"
    "                axes of a registered flattened mesh\n";

TEST(HangingText, GoesOnBelowTheStartOfItsLastColumn) {
  EXPECT_EQ(with_hanging_lines(kPage, 44),
            "plan and price one redistribution of a\n"
            "tensor\n"
            "  shardlab plan --mesh 2x4 --tensor \"bf16[8192,4096]\"\n"
            "\n"
            "  --set PATH    a change of the topology,\n"
            "                such as devices_per_host=1\n"
            "  --flatten NAMES ...\n"
            "                axes of a registered\n"
            "                flattened mesh\n");
}

TEST(HangingText, IsAsItWasWhereItFits) {
  EXPECT_EQ(with_hanging_lines(kPage, 0), kPage);
  EXPECT_EQ(with_hanging_lines(kPage, 80), kPage);
  EXPECT_EQ(with_hanging_lines("", 80), "");
  EXPECT_EQ(with_hanging_lines("no line break", 80), "no line break");
}

TEST(HangingText, KeepsAWordThatIsLongerThanTheTerminal) {
  EXPECT_EQ(with_hanging_lines("  name  abcdefghijklmnopqrstuvwxyz and more", 20),
            "  name  abcdefghijklmnopqrstuvwxyz\n"
            "        and more");
  EXPECT_EQ(with_hanging_lines("abcdefghijklmnopqrstuvwxyz", 10), "abcdefghijklmnopqrstuvwxyz");
}

}  // namespace hanging_text_test
}  // namespace shardlab

#include "runner/evaluation/memory_options.h"

#include <gtest/gtest.h>

namespace shardlab {
namespace memory_options_test {

std::string options_beside(const char* recompute, bool reshards_weights) {
  Recomputation in_use = Recomputation::parse(recompute);
  in_use.reshards_weights = reshards_weights;
  return memory_options(in_use);
}

TEST(MemoryOptions, AreThoseThatAreNotInUse) {
  EXPECT_EQ(options_beside("none", false), "--recompute selective --reshard-after-forward");
  EXPECT_EQ(options_beside("none", true), "--recompute selective");
  EXPECT_EQ(options_beside("selective", false), "--reshard-after-forward");
  EXPECT_EQ(options_beside("full", false), "--reshard-after-forward");
}

TEST(MemoryOptions, AreMoreRecomputationAndMoreRanksOnceAllAreInUse) {
  for (const char* some : {"selective", "selective:2", "full:2", "every:2"}) {
    EXPECT_EQ(options_beside(some, true), "--recompute full, or more ranks") << some;
  }
  for (const char* all : {"full", "every:1"}) {
    EXPECT_EQ(options_beside(all, true), "more ranks") << all;
  }
}

}  // namespace memory_options_test
}  // namespace shardlab

// A loop that is asked to stop has done a prefix of its items.
#include "costmodel/base/parallel.h"

#include <gtest/gtest.h>

#include <memory>

namespace shardlab {
namespace parallel_test {

std::unique_ptr<int> nothing() { return std::make_unique<int>(0); }

TEST(ParallelFor, DoesEveryItemOnce) {
  for (const int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> done(100);
    const std::size_t count =
        parallel_for(done.size(), threads, nothing, [&](int&, std::size_t i) { ++done[i]; });
    EXPECT_EQ(count, done.size());
    for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(ParallelFor, HasDoneTheItemsBeforeTheNumberThatItReturns) {
  for (const int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> done(1000);
    std::atomic<bool> stop{false};
    const std::size_t count = parallel_for(
        done.size(), threads, nothing,
        [&](int&, std::size_t i) {
          ++done[i];
          if (i == 40) stop = true;
          while (i > 40 && !stop) std::this_thread::yield();
        },
        &stop);
    EXPECT_GT(count, 40U);
    EXPECT_LE(count, 40U + static_cast<std::size_t>(threads));
    for (std::size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i], i < count ? 1 : 0) << i;
  }
}

TEST(ParallelFor, DoesNothingIfItIsStoppedBeforehand) {
  const std::atomic<bool> stop{true};
  int done = 0;
  EXPECT_EQ(parallel_for(
                5, 1, nothing, [&](int&, std::size_t) { ++done; }, &stop),
            0U);
  EXPECT_EQ(done, 0);
}

}  // namespace parallel_test
}  // namespace shardlab

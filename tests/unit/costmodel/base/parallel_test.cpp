// A loop that is asked to stop has done a prefix of its items, and one that is refused threads has
// done all of them.
#include "costmodel/base/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>

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

TEST(RunTogether, GivesEveryItemAThreadOfItsOwn) {
  std::atomic<int> arrived{0};
  run_together(5, [&](std::size_t) {
    ++arrived;
    while (arrived < 5) std::this_thread::yield();  // each waits for all the others
  });
  EXPECT_EQ(arrived, 5);
}

TEST(RunTogether, RethrowsWhatTheFirstOfTheFailedItemsThrew) {
  try {
    run_together(4, [](std::size_t i) {
      if (i > 1) throw std::runtime_error(std::to_string(i));
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "2");
  }
}

// Sanitizers reserve more addresses than such a limit leaves.
#ifndef SHARDLAB_SANITIZED

// Leaves this process addresses for the stacks of a few threads.
void refuse_many_threads() {
  rlimit stack{};
  getrlimit(RLIMIT_STACK, &stack);
  ASSERT_NE(stack.rlim_cur, RLIM_INFINITY);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * 4096 + 5 * stack.rlim_cur;
  const rlimit addresses{.rlim_cur = most, .rlim_max = most};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &addresses), 0);
}

// How many threads work where many are refused; -1 if an item is left out.
int threads_that_work(int wanted) {
  std::vector<std::atomic<int>> done(1000);
  std::set<std::thread::id> workers;
  std::mutex mutex;
  parallel_for(done.size(), wanted, nothing, [&](int&, std::size_t i) {
    ++done[i];
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    const std::lock_guard lock(mutex);
    workers.insert(std::this_thread::get_id());
  });
  const auto is_done = [](const std::atomic<int>& times) { return times == 1; };
  return std::all_of(done.begin(), done.end(), is_done) ? static_cast<int>(workers.size()) : -1;
}

TEST(ParallelForDeathTest, DoesAllItemsWithTheThreadsThatTheSystemGrants) {
  EXPECT_EXIT(
      {
        refuse_many_threads();
        const int threads = threads_that_work(64);
        std::_Exit(threads >= 1 && threads < 64 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(RunTogetherDeathTest, BeginsNoItemIfAThreadIsRefused) {
  EXPECT_EXIT(
      {
        refuse_many_threads();
        std::atomic<int> begun{0};
        try {
          run_together(64, [&](std::size_t) { ++begun; });
        } catch (const std::system_error&) {
          std::_Exit(begun == 0 ? 0 : 1);
        }
        std::_Exit(2);
      },
      testing::ExitedWithCode(0), "");
}

#endif

}  // namespace parallel_test
}  // namespace shardlab

// The first Ctrl-C sets a flag, and later ones do what they did before.
#include "runner/base/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace shardlab {
namespace interrupt_test {

int earlier_handler_calls = 0;
void earlier_handler(int) { ++earlier_handler_calls; }

TEST(Interrupt, TheFirstSignalOnlySetsTheFlag) {
  const Interrupt interrupt;
  EXPECT_FALSE(interrupt.came());
  std::raise(SIGINT);
  EXPECT_TRUE(interrupt.came());
  EXPECT_TRUE(*interrupt.flag());
}

TEST(Interrupt, ItsEndPutsTheEarlierReactionBack) {
  std::signal(SIGINT, earlier_handler);
  { const Interrupt interrupt; }
  std::raise(SIGINT);
  std::signal(SIGINT, SIG_DFL);
  EXPECT_EQ(earlier_handler_calls, 1);
}

TEST(Interrupt, ANewOneHasSeenNothing) {
  {
    const Interrupt first;
    std::raise(SIGINT);
  }
  EXPECT_FALSE(Interrupt().came());
}

TEST(InterruptDeathTest, ASecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace interrupt_test
}  // namespace shardlab

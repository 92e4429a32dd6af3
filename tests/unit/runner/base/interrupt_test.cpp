// The first Ctrl-C sets a flag, and later ones do what they did before.
#include "runner/base/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>

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

// As within Python, whose own handler makes a KeyboardInterrupt of the signal later.
TEST(Interrupt, AnEarlierHandlerIsCalledForEachSignal) {
  earlier_handler_calls = 0;
  std::signal(SIGINT, earlier_handler);
  {
    const Interrupt interrupt;
    std::raise(SIGINT);
    std::raise(SIGINT);
    EXPECT_TRUE(interrupt.came());
  }
  std::raise(SIGINT);
  std::signal(SIGINT, SIG_DFL);
  EXPECT_EQ(earlier_handler_calls, 3);
}

TEST(Interrupt, TheEndOfTheLastOnePutsTheEarlierReactionBack) {
  earlier_handler_calls = 0;
  std::signal(SIGINT, earlier_handler);
  auto first = std::make_unique<Interrupt>();
  auto second = std::make_unique<Interrupt>();
  first.reset();  // they end in the order in which they began
  std::raise(SIGINT);
  EXPECT_TRUE(second->came());
  second.reset();
  std::raise(SIGINT);
  std::signal(SIGINT, SIG_DFL);
  EXPECT_EQ(earlier_handler_calls, 2);
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

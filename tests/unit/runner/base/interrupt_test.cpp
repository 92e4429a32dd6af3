// Ctrl-C sets flags, and does what it did before besides or afterwards.
#include "runner/base/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <thread>

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

TEST(Interrupt, ANewOneHasSeenNothingOfAnotherThread) {
  const Interrupt first;
  std::raise(SIGINT);
  std::thread([] { EXPECT_FALSE(Interrupt().came()); }).join();
  // Within the work that was stopped, the next part does not begin.
  EXPECT_TRUE(Interrupt().came());
}

TEST(Interrupt, AnIgnoredSignalStaysHarmless) {
  std::signal(SIGINT, SIG_IGN);
  {
    const Interrupt interrupt;
    std::raise(SIGINT);
    std::raise(SIGINT);
    EXPECT_TRUE(interrupt.came());
    EXPECT_FALSE(interrupt.found_a_handler());
  }
  std::raise(SIGINT);
  std::signal(SIGINT, SIG_DFL);
}

TEST(Interrupt, AHandlerThatGetsMoreThanTheNumberIsCalledToo) {
  earlier_handler_calls = 0;
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int signal, siginfo_t* info, void*) {
    earlier_handler_calls += info != nullptr && info->si_signo == signal ? 1 : 0;
  };
  sigaction(SIGINT, &action, nullptr);
  {
    const Interrupt interrupt;
    EXPECT_TRUE(interrupt.found_a_handler());
    std::raise(SIGINT);
    std::raise(SIGINT);
  }
  std::signal(SIGINT, SIG_DFL);
  EXPECT_EQ(earlier_handler_calls, 2);
}

TEST(InterruptDeathTest, ASecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_DFL);
        const Interrupt interrupt;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace interrupt_test
}  // namespace shardlab

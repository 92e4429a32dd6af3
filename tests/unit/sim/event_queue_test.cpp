#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/random_source.h"

namespace shardlab {
namespace event_queue_test {

using testing_support::Random;

TEST(EventQueue, GivesEventsByTimeThenInTheOrderOfTheirPushes) {
  EventQueue<int> queue;
  Random random(11);
  SHARDLAB_TRACE_SEED();
  std::vector<std::pair<Picoseconds, int>> expected;
  for (int i = 0; i < 1000; ++i) {
    const Picoseconds time = random.between(0, 20);
    queue.push(time, i);
    expected.emplace_back(time, i);
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [time, i] : expected) {
    ASSERT_FALSE(queue.empty());
    const auto event = queue.pop();
    EXPECT_EQ(event.time, time);
    EXPECT_EQ(event.payload, i);
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pushed(), 1000U);
}

TEST(EventQueue, PushesBetweenPopsKeepTheirTurn) {
  EventQueue<char> queue;
  queue.push(5, 'a');
  queue.push(3, 'b');
  EXPECT_EQ(queue.pop().payload, 'b');
  queue.push(5, 'c');
  queue.push(5, 'd');
  EXPECT_EQ(queue.pop().payload, 'a');
  EXPECT_EQ(queue.pop().payload, 'c');
  EXPECT_EQ(queue.pop().payload, 'd');
}

TEST(Picoseconds, AreRoundedToTheNearest) {
  EXPECT_EQ(to_picoseconds(Micros(0.0)), 0);
  EXPECT_EQ(to_picoseconds(Micros(7.2006796424717825)), 7200680);
  EXPECT_EQ(to_picoseconds(Micros(0.0000014)), 1);
  EXPECT_DOUBLE_EQ(to_micros(7200680), 7.20068);
}

TEST(Picoseconds, RefuseWhatIsNoTime) {
  for (const double us : {-1.0, 8.65e10, std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW((void)to_picoseconds(Micros(us)), LimitError) << us;
  }
}

}  // namespace event_queue_test
}  // namespace shardlab

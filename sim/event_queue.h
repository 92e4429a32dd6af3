// The clock of a simulation and the events that wait on it.
//
//   EventQueue<int> queue;
//   queue.push(to_picoseconds(Micros(3.5)), 7);
//   queue.pop()                            // the earliest; among equal times, the first pushed
//
// Time is a whole number of picoseconds. Sums of times therefore do not depend on their order, and
// a million ranks in lockstep stay in lockstep. The largest time is 2^63 - 1 ps, about 106 days.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"

namespace shardlab {

using Picoseconds = std::int64_t;

inline constexpr double kPicosecondsPerMicro = 1e6;

// The nearest whole picosecond. Simulated time is rounded here and nowhere else. Throws LimitError
// for a time that is negative, not a number, or longer than a day.
[[nodiscard]] inline Picoseconds to_picoseconds(Micros time) {
  constexpr double kDay = 24 * 3600 * 1e6;
  if (!(time.value() >= 0.0 && time.value() <= kDay)) {
    throw LimitError("a kernel of " + std::to_string(time.value()) +
                     " us can't be simulated; valid: 0 us to one day (8.64e10 us)");
  }
  return std::llround(time.value() * kPicosecondsPerMicro);
}
[[nodiscard]] inline double to_micros(Picoseconds time) {
  return static_cast<double>(time) / kPicosecondsPerMicro;
}

// A heap of events, ordered by time and, among equal times, by the number of the push.
template <class Payload>
class EventQueue {
 public:
  struct Event {
    Picoseconds time;
    std::uint64_t number;
    Payload payload;
  };

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  // The time of the earliest event. Assumes !empty().
  [[nodiscard]] Picoseconds next_time() const { return heap_.front().time; }
  // How many events have been pushed so far.
  [[nodiscard]] std::uint64_t pushed() const { return pushed_; }
  void reserve(std::size_t events) { heap_.reserve(events); }

  void push(Picoseconds time, Payload payload) {
    Event event{time, pushed_++, std::move(payload)};
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0 && is_earlier(event, heap_[(hole - 1) / kChildren])) {
      heap_[hole] = std::move(heap_[(hole - 1) / kChildren]);
      hole = (hole - 1) / kChildren;
    }
    heap_[hole] = std::move(event);
  }
  // Assumes !empty().
  Event pop() {
    Event first = std::move(heap_.front());
    Event last = std::move(heap_.back());
    heap_.pop_back();
    const std::size_t size = heap_.size();
    if (size == 0) return first;
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = kChildren * hole + 1) {
      std::size_t earliest = child;
      for (std::size_t i = child + 1; i < std::min(child + kChildren, size); ++i) {
        if (is_earlier(heap_[i], heap_[earliest])) earliest = i;
      }
      if (!is_earlier(heap_[earliest], last)) break;
      heap_[hole] = std::move(heap_[earliest]);
      hole = earliest;
    }
    heap_[hole] = std::move(last);
    return first;
  }

 private:
  // A flat heap misses the cache less often than a deep one.
  static constexpr std::size_t kChildren = 4;

  static bool is_earlier(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.number < b.number;
  }

  std::vector<Event> heap_;
  std::uint64_t pushed_ = 0;
};

}  // namespace shardlab

// Measures wall time:
//
//   const StopWatch watch;
//   ...
//   timing["read_ms"] = watch.ms();
#pragma once

#include <chrono>

namespace shardlab {

class StopWatch {
 public:
  // Milliseconds since the watch was constructed.
  [[nodiscard]] double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace shardlab

// Ends this process when its work stops: another rank left, nothing happens any more, or the time
// limit passed.
//
//   Watchdog watchdog(meeting, {.stall_s = 60, .whole = deadline}, end_process);
//   watchdog.step("all_reduce of 64 KiB");   // progress, and what comes now
//
// If one rank of a collective has gone, the others wait for ever, deep inside a library. Only
// another thread can notice that, and only ending the process helps. `trouble` is called from that
// thread, once.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runner/launch/rendezvous.h"

namespace shardlab {

struct WatchdogLimits {
  double stall_s = 60.0;  // seconds without a step that count as a hang
  Deadline whole = Deadline::max();
  double whole_s = 0.0;  // the whole time limit in seconds, as messages name it
};

// Says why on stderr and ends the process with the exit code of a failed environment.
[[noreturn]] void end_process(const std::string& reason);

class Watchdog {
 public:
  using Trouble = std::function<void(const std::string& reason)>;
  // Keeps a reference to the meeting.
  Watchdog(const Rendezvous& meeting, const WatchdogLimits& limits, Trouble trouble = end_process);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void step(std::string what);
  void stop();

 private:
  void watch();
  [[nodiscard]] std::string trouble_now() const;

  const Rendezvous& meeting_;
  WatchdogLimits limits_;
  Trouble trouble_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_stopped_ = false;
  std::string what_ = "start-up";
  Deadline last_step_;
  std::thread thread_;
};

}  // namespace shardlab

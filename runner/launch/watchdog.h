// Ends this process if its work stops: if another rank leaves, if no step is reported for too long,
// or if the time limit passes.
//
//   Watchdog watchdog(meeting, {.stall_s = 60, .whole = deadline}, end_process);
//   watchdog.step("all_reduce of 64 KiB");   // reports progress, and names the next step
//
// If one rank of a collective leaves, the others wait for ever inside a library. Only another
// thread can notice that, and only ending the process helps. `trouble` is called once, from that
// thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runner/launch/rendezvous.h"

namespace shardlab {

struct WatchdogLimits {
  double stall_s = 60.0;  // after this many seconds without a step, the process counts as hung
  Deadline whole = Deadline::max();
  double whole_s = 0.0;  // the time limit in seconds, for messages
};

// Prints the reason on stderr and ends the process with the exit code of EnvironmentError.
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

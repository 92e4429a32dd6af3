#include "runner/launch/watchdog.h"

#include <unistd.h>

#include <utility>

#include "costmodel/base/text.h"
#include "runner/session/session.h"

namespace shardlab {
namespace {

constexpr auto kWatchPeriod = std::chrono::milliseconds(100);

}  // namespace

void end_process(const std::string& reason) {
  // Ends the process without running destructors, which would wait for the very calls that hang.
  const std::string text = "shardlab: " + reason + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  _exit(kNoEnvironment);
}

Watchdog::Watchdog(const Rendezvous& meeting, const WatchdogLimits& limits, Trouble trouble)
    : meeting_(meeting),
      limits_(limits),
      trouble_(std::move(trouble)),
      last_step_(std::chrono::steady_clock::now()),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() { stop(); }

void Watchdog::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::step(std::string what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  what_ = std::move(what);
  last_step_ = std::chrono::steady_clock::now();
}

std::string Watchdog::trouble_now() const {
  const Deadline now = std::chrono::steady_clock::now();
  if (const std::string left = meeting_.who_left(); !left.empty()) {
    return left + std::string(kLeft) + ", in " + what_;
  }
  if (now >= limits_.whole) {
    return "the time limit of " + format_double(limits_.whole_s) + " s passed in " + what_;
  }
  if (std::chrono::duration<double>(now - last_step_).count() > limits_.stall_s) {
    return "a hang: rank " + std::to_string(meeting_.rank()) + " made no progress for " +
           format_double(limits_.stall_s) + " s in " + what_;
  }
  return "";
}

void Watchdog::watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopped_.wait_for(lock, kWatchPeriod, [this] { return is_stopped_; })) {
    const std::string reason = trouble_now();
    if (reason.empty()) continue;
    lock.unlock();
    trouble_(reason);
    return;
  }
}

}  // namespace shardlab

#include "runner/session/unstoppable_work.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "runner/base/interrupt.h"
#include "runner/base/terminal.h"

namespace shardlab {
namespace {

constexpr std::chrono::seconds kSilent{2};
constexpr std::chrono::milliseconds kBetweenLines{200};
// How often the flag of Ctrl-C is looked at.
constexpr std::chrono::milliseconds kBetweenLooks{20};

// Where Ctrl-C came before there was any result.
void print_no_result(const Session& session, const std::string& what) {
  const std::string text = "interrupted while " + what + ", before there was a result";
  if (session.json()) {
    session.print(nlohmann::json{{"interrupted", text}});
  } else {
    session.print(text + "\n");
  }
}

[[noreturn]] void end_with_what_is_known(Session& session, const UnstoppableWork& described) {
  if (is_terminal(OutputStream::kErrors)) std::cerr << "\r\033[K" << std::flush;
  session.interruption = described.interruption ? described.interruption() : "";
  if (session.interruption.empty() || !described.print_known) {
    session.interruption.clear();
    print_no_result(session, described.what);
  } else {
    described.print_known();
  }
  std::cout.flush();
  std::cerr.flush();
  // The thread still works with what the callers hold, so nothing is destroyed.
  std::_Exit(kInterrupted);
}

}  // namespace

void run_unstoppable(Session& session, const UnstoppableWork& described,
                     const std::function<void()>& work) {
  if (!session.takes_interrupts) {
    work();
    return;
  }
  std::optional<Interrupt> interrupt;
  const std::atomic<bool>* stop = described.stop;
  if (stop == nullptr) stop = interrupt.emplace().flag();
  std::exception_ptr failure;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::thread worker([&] {
    std::exception_ptr thrown;
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    failure = thrown;
    is_done = true;
    changed.notify_all();
  });
  {
    std::optional<RunningTime> running;
    if (described.shows_time) running.emplace(session, described.what);
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kBetweenLooks, [&] { return is_done; })) {
      if (!*stop) continue;
      lock.unlock();
      end_with_what_is_known(session, described);
    }
  }
  worker.join();
  if (failure) std::rethrow_exception(failure);
}

RunningTime::RunningTime(const Session& session, std::string what)
    : enabled_(!session.quiet && is_terminal(OutputStream::kErrors)), what_(std::move(what)) {
  if (!enabled_) return;
  try {
    thread_ = std::thread([this] { show(); });
  } catch (const std::system_error&) {
    // Where the system has no thread to spare, the work goes on without its time being shown.
  }
}

void RunningTime::show() {
  const auto start = std::chrono::steady_clock::now();
  bool is_shown = false;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, is_shown ? kBetweenLines : kSilent, [&] { return ends_; })) {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
    std::cerr << "\r\033[K" << what_ << ", " << seconds.count() << " s" << std::flush;
    is_shown = true;
  }
  if (is_shown) std::cerr << "\r\033[K" << std::flush;
}

void RunningTime::now(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void RunningTime::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace shardlab

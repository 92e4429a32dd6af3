// Work that takes a while and cannot be stopped midway. A terminal shows how long it has run, and
// Ctrl-C ends the program within moments, with what is known by then.
//
//   run_unstoppable(session,
//                   {.what = "comparing recipes",
//                    .interruption = [&] { return "interrupted after 3 of 9 recipes"; },
//                    .print_known = [&] { session.print(table); }},
//                   [&] { compare(); });
//
// The work runs on a thread of its own. After Ctrl-C this thread is left alone, and the program
// ends with kInterrupted once print_known() has returned; what that function reads must be guarded
// from the thread. Within the Python module the work runs to its end, and SIGINT is a
// KeyboardInterrupt after it.
// Tested by tests/scripts/interrupt_test.py.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runner/session/session.h"

namespace shardlab {

struct UnstoppableWork {
  std::string what;                           // on the terminal: "comparing recipes"
  std::function<std::string()> interruption;  // Session::interruption; "" if there is no result
  std::function<void()> print_known = {};
  // What Ctrl-C sets; null means that nothing listens to it yet.
  const std::atomic<bool>* stop = nullptr;
  bool shows_time = true;  // false: something else shows the progress
};

// Rethrows what `work` throws.
void run_unstoppable(Session& session, const UnstoppableWork& described,
                     const std::function<void()>& work);

// Shows on a terminal how long something has run, once it takes longer than two seconds: "searching
// for the best plan, 12 s".
class RunningTime {
 public:
  RunningTime(const Session& session, std::string what);
  ~RunningTime() { stop(); }
  RunningTime(const RunningTime&) = delete;
  RunningTime& operator=(const RunningTime&) = delete;

  void now(std::string what);  // what runs from here on
  void stop();                 // shows nothing any more

 private:
  void show();

  bool enabled_;
  std::string what_;
  bool ends_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace shardlab

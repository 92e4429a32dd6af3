// A loop that people may wait for: it shows its progress, and Ctrl-C ends it with what is done.
//
//   LongLoop loop(session, "questions", questions.size());
//   const std::size_t done = parallel_for(questions.size(), session.threads(), make,
//                                         [&](State& state, std::size_t i) {
//                                           answers[i] = state.ask(questions[i]);
//                                           loop.advance();
//                                         },
//                                         loop.stop());
//   answers.resize(done);   // the result is of these
//
// If the loop was left early, the session says so under its result, and the program ends with the
// exit code kInterrupted. A second Ctrl-C ends the program at once. Within the Python module
// nothing stops a loop; SIGINT is a KeyboardInterrupt after it.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

#include "runner/base/interrupt.h"
#include "runner/base/terminal.h"
#include "runner/session/session.h"

namespace shardlab {

class LongLoop {
 public:
  // `what` names what is counted: "questions". There may be one loop at a time.
  LongLoop(Session& session, std::string what, std::size_t total);
  // `quiet` shows no progress, whatever the session says.
  LongLoop(Session& session, std::string what, std::size_t total, bool quiet);
  ~LongLoop();
  LongLoop(const LongLoop&) = delete;
  LongLoop& operator=(const LongLoop&) = delete;

  // Counts items that are done, from any thread.
  void advance(std::size_t by = 1);
  void skip(std::size_t done);  // done by an earlier run
  // What parallel_for() stops at; null where nothing stops the loop.
  [[nodiscard]] const std::atomic<bool>* stop() const;
  // Whether Ctrl-C came before all was done.
  [[nodiscard]] bool was_left() const;
  // "interrupted after 120 of 1000 questions", of what is done now.
  [[nodiscard]] std::string interruption() const;

 private:
  Session& session_;
  std::string what_;
  std::size_t total_;
  std::atomic<std::size_t> done_{0};
  Progress progress_;
  std::optional<Interrupt> interrupt_;
};

}  // namespace shardlab

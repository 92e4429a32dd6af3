// A Python process that answers questions about its PyTorch (python/torch_worker).
//
//   TorchWorker worker({.python = "python3", .start = {{"overlay", nullptr}}});
//   worker.hello()["torch"]                                   // "2.15.0"
//   worker.ask({{"do", "rows"}, {"calls", calls}}, calls.size(),
//              [&](std::size_t i, const nlohmann::json& answer) { ... });
//
// Questions and answers are JSON, one object to a line, over two pipes. An answer has "ok" or
// "error"; the worker answers the items of a request one by one. The process ends with this object,
// whichever thread made it, and by itself when this process dies. A worker may be shared between
// threads, which take turns.
//
// Throws EnvironmentError when there is no such interpreter, when it has no PyTorch or one that is
// too old, when PyTorch's import fails, and when the process ends, hangs or writes what is no
// answer; the message closes with the last lines that the process wrote to stderr. Throws
// ConfigError when a file of the user's is missing, is no Python, or fails when it is executed; the
// message closes with the lines of the user's files that led there. Such messages have several
// lines (runner/base/lined_error.h).
#pragma once

#include <sys/types.h>

#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "runner/launch/socket.h"

namespace shardlab {

struct TorchLaunch {
  std::string python = "python3";  // an interpreter's path, or a name on PATH
  std::string script;              // the worker's worker.py
  std::string name = "torch";      // how messages call the stack: as the user typed it
  // The first request, without "do": torch, overlay, patches, cost and rules (python/torch_worker).
  nlohmann::json start = nlohmann::json::object();
  double start_s = 120.0;   // time limit of starting and importing
  double answer_s = 120.0;  // time limit of each answer
};

class TorchWorker {
 public:
  explicit TorchWorker(TorchLaunch launch);
  TorchWorker(const TorchWorker&) = delete;
  TorchWorker& operator=(const TorchWorker&) = delete;
  ~TorchWorker();

  // What the worker said of itself: python, torch, ops, fingerprints.
  [[nodiscard]] const nlohmann::json& hello() const { return hello_; }

  // Sends one request and hands over `answers` answers as they come, each with its position. What
  // `take` throws passes through, after the remaining answers have been read.
  using Take = std::function<void(std::size_t index, const nlohmann::json& answer)>;
  void ask(nlohmann::json request, std::size_t answers, const Take& take);

 private:
  struct Pipe {
    Socket read_end;
    Socket write_end;
  };
  [[nodiscard]] static Pipe make_pipe();
  [[nodiscard]] pid_t spawn(const Pipe& in, const Pipe& out, const Pipe& errors) const;
  void start_process();
  void keep_errors();
  void send(const std::string& line, Deadline deadline);
  // One line of the process, without its end.
  [[nodiscard]] std::string receive(Deadline deadline);
  [[nodiscard]] nlohmann::json receive_answer(std::uint64_t id, double limit_s);
  [[noreturn]] void fail(const std::string& what);
  void end_process();

  TorchLaunch launch_;
  nlohmann::json hello_;
  std::mutex turn_;
  std::uint64_t last_id_ = 0;
  pid_t pid_ = -1;
  Socket to_;           // the process's stdin
  Socket from_;         // its stdout
  std::string read_;    // bytes of lines that are not yet complete
  Socket errors_;       // its stderr
  std::thread reader_;  // starts the process and reads its stderr, so that it never waits
  std::mutex text_lock_;
  std::string text_;  // the end of what the process wrote to stderr
};

// The sentence that describes an "error" of the worker: its type, its message, and where in the
// user's files it happened.
[[nodiscard]] std::string describe_python_error(const nlohmann::json& error);

}  // namespace shardlab

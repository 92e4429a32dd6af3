// What the terminal is like, and progress on stderr.
#pragma once

#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "costmodel/base/printable.h"

namespace shardlab {

// How many columns of a terminal a printable text takes: letters of East Asian scripts and emoji
// take two, combining marks none.
[[nodiscard]] std::size_t displayed_columns(std::string_view text);

enum class OutputStream { kResults, kErrors };  // stdout and stderr

// Whether a terminal shows what is written there.
[[nodiscard]] bool is_terminal(OutputStream stream);
// Whether text should have colours under --color auto, always or never. "auto" means on a terminal
// that has them, unless NO_COLOR is set (https://no-color.org).
[[nodiscard]] bool wants_colour(std::string_view choice, OutputStream stream);
// The width of the terminal on stdout: COLUMNS, or what the terminal says. 0 if stdout is no
// terminal or its width is not known, so that nothing has to fit.
[[nodiscard]] std::size_t terminal_columns();

// Writes each warning as a line of its own to stderr, behind the program's name.
void print_warnings(std::span<const std::string> warnings);

// Progress as one line on stderr, which is rewritten in place once a command takes longer than a
// second. It shows how much is done, the rate, and the time left at that rate ("questions 120 of
// 1000, 60/s, 15 s left"). It appears only on terminals, and not with --quiet. Safe to call from
// several threads.
[[nodiscard]] std::string progress_text(const std::string& what, std::size_t done,
                                        std::size_t total, std::size_t skipped, double seconds);

class Progress {
 public:
  Progress(std::string what, std::size_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(std::size_t by = 1);
  void skip(std::size_t done);  // done by an earlier run, so not part of the rate

 private:
  std::string what_;
  std::size_t total_;
  std::size_t done_ = 0;
  std::size_t skipped_ = 0;
  bool shown_ = false;
  bool enabled_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace shardlab

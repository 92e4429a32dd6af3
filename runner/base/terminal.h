// Text tables for eyes, safe quoting, and progress on stderr.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

// Columns as wide as their widest cell; numbers (cells that begin with a digit, a sign or a point)
// to the right. Cells are printable().
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { add(std::move(header)); }
  void add(std::vector<std::string> row);
  [[nodiscard]] std::string text(const std::string& indent = "  ") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// The text with control characters and bytes that are not UTF-8 as \x1b: what it quotes can't steer
// a terminal.
[[nodiscard]] std::string printable(std::string_view text);

// One line on stderr, rewritten in place, once a command takes longer than a second: how much is done, the
// rate, and the time that is left at that rate. Only on terminals, not with --quiet. Safe to call from several threads.
// "questions 120 of 1000, 60/s, 15 s left"; no rate before a second has passed.
[[nodiscard]] std::string progress_text(const std::string& what, std::size_t done,
                                        std::size_t total, std::size_t skipped, double seconds);

class Progress {
 public:
  Progress(std::string what, std::size_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(std::size_t by = 1);
  void skip(std::size_t done);  // was done before: no part of the rate

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

// Text tables for people, quoting that is safe on a terminal, and progress on stderr.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

// Each column is as wide as its widest cell. Numbers (cells that begin with a digit, a sign or a
// point) are aligned to the right. Cells are made printable().
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { add(std::move(header)); }
  void add(std::vector<std::string> row);
  [[nodiscard]] std::string text(const std::string& indent = "  ") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// The text, with control characters and bytes that are not UTF-8 written as \x1b, so that text
// quoted from a file cannot control the terminal.
[[nodiscard]] std::string printable(std::string_view text);

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

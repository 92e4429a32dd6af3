#include "runner/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

namespace shardlab {
namespace {

bool is_number(const std::string& cell) {
  return !cell.empty() && (cell.find_first_of("0123456789+-.") == 0 || cell == "inf");
}

}  // namespace

std::string TextTable::text(const std::string& indent) const {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      if (c == widths.size()) {
        widths.push_back(0);
        right.push_back(rows_.size() > 1);
      }
      widths[c] = std::max(widths[c], rows_[r][c].size());
      if (r > 0 && !rows_[r][c].empty() && !is_number(rows_[r][c])) right[c] = false;
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (right[c] ? padding + row[c] : row[c] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

Progress::Progress(std::string what, std::size_t total, bool quiet)
    : what_(std::move(what)),
      total_(total),
      enabled_(!quiet && isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
}

void Progress::advance(std::size_t by) {
  const std::lock_guard lock(mutex_);
  done_ += by;
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || now - start_ < std::chrono::seconds(1) ||
      now - last_ < std::chrono::milliseconds(100)) {
    return;
  }
  last_ = now;
  shown_ = true;
  std::cerr << "\r\033[K" << what_ << " " << done_ << " of " << total_ << std::flush;
}

}  // namespace shardlab

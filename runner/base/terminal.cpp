#include "runner/base/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "costmodel/base/text.h"

namespace shardlab {
namespace {

bool is_number(const std::string& cell) {
  return !cell.empty() && (cell.find_first_of("0123456789+-.") == 0 || cell == "inf");
}

// The length in bytes of the UTF-8 letter at the start of a text; 0 if there is none. Overlong
// forms and surrogates are not letters.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  }
  if (length > 2) {
    const unsigned char second = byte(1);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return 0;
    }
  }
  // C1 control characters control terminals too.
  if (length == 2 && lead == 0xc2 && byte(1) < 0xa0) return 0;
  return length;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const std::size_t length = byte < 0x20 || byte == 0x7f ? 0 : utf8_length(text);
    if (length > 0) {
      out += text.substr(0, length);
    } else {
      out += "\\x";
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
    text = text.substr(std::max<std::size_t>(1, length));
  }
  return out;
}

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

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

std::string progress_text(const std::string& what, std::size_t done, std::size_t total,
                          std::size_t skipped, double seconds) {
  std::string text = what + " " + std::to_string(done) + " of " + std::to_string(total);
  if (seconds < 1.0 || done <= skipped) return text;
  const double rate = static_cast<double>(done - skipped) / seconds;
  const double left = static_cast<double>(total - std::min(done, total)) / rate;
  text += ", " + format_fixed(rate, rate < 10.0 ? 1 : 0) + "/s, ";
  if (left < 120.0) return text + format_fixed(left, 0) + " s left";
  if (left < 7200.0) return text + format_fixed(left / 60.0, 0) + " min left";
  return text + format_fixed(left / 3600.0, 1) + " h left";
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

void Progress::skip(std::size_t done) {
  const std::lock_guard lock(mutex_);
  done_ += done;
  skipped_ += done;
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
  const std::chrono::duration<double> seconds = now - start_;
  std::cerr << "\r\033[K" << progress_text(what_, done_, total_, skipped_, seconds.count())
            << std::flush;
}

}  // namespace shardlab

#include "runner/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <iterator>

#include "costmodel/base/text.h"
#include "runner/base/env.h"

namespace shardlab {
namespace {

struct LetterRange {
  char32_t first;
  char32_t last;
};
// The common ranges of Unicode 15 (EastAsianWidth.txt, and the categories Mn, Me and Cf).
constexpr LetterRange kNoColumn[] = {
    {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
    {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x2064},
    {0x20d0, 0x20f0}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};
constexpr LetterRange kTwoColumns[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                                       {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                                       {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
                                       {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

std::size_t columns_of(char32_t letter) {
  const auto holds = [letter](const LetterRange& range) {
    return range.first <= letter && letter <= range.last;
  };
  if (std::any_of(std::begin(kNoColumn), std::end(kNoColumn), holds)) return 0;
  return std::any_of(std::begin(kTwoColumns), std::end(kTwoColumns), holds) ? 2 : 1;
}

}  // namespace

std::size_t displayed_columns(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return text.size();
  std::size_t columns = 0;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, letter_length(text));
    columns += length == 1 ? 1 : columns_of(code_point(text.substr(0, length)));
    text.remove_prefix(length);
  }
  return columns;
}

void print_warnings(std::span<const std::string> warnings) {
  for (const std::string& warning : warnings) {
    std::cerr << "shardlab: " << printable(warning) << "\n";
  }
}

bool is_terminal(OutputStream stream) {
  return isatty(stream == OutputStream::kResults ? STDOUT_FILENO : STDERR_FILENO) != 0;
}

bool wants_colour(std::string_view choice, OutputStream stream) {
  if (choice != "auto") return choice == "always";
  const std::string terminal = read_env("TERM");
  return is_terminal(stream) && read_env("NO_COLOR").empty() && !terminal.empty() &&
         terminal != "dumb";
}

std::size_t terminal_columns() {
  if (!is_terminal(OutputStream::kResults)) return 0;
  const std::string text = read_env("COLUMNS");
  std::size_t columns = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), columns);
  if (result.ec == std::errc() && result.ptr == text.data() + text.size() && columns > 0) {
    return columns;
  }
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
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

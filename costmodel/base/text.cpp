#include "costmodel/base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"

namespace shardlab {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// How many letters to insert, delete or replace, or neighbours to swap: the optimal string
// alignment distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> above(b.size() + 1);  // the row before the last one
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(above, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], above[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

// The word as it is compared: letters are small, and what stands between words is left out, so that
// "AllReduce" is "all_reduce".
std::string folded_word(std::string_view word) {
  std::string folded;
  for (const char c : word) {
    if (c == '_' || c == '-' || c == '.' || c == ' ' || c == ':') continue;
    folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return folded;
}

// The only valid word that begins with these letters; "" if none does, or more than one.
std::string_view the_one_that_begins_with(std::string_view folded,
                                          std::span<const std::string_view> valid) {
  std::string_view found;
  for (const std::string_view candidate : valid) {
    if (folded.size() < 3 || !folded_word(candidate).starts_with(folded)) continue;
    if (!found.empty()) return {};
    found = candidate;
  }
  return found;
}

template <class Word>
std::string join_words(std::span<const Word> words, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += separator;
    out += words[i];
  }
  return out;
}

}  // namespace

std::string format_double(double value) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

std::string format_fixed(double value, int digits) {
  std::array<char, 400> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::fixed, digits);
  return {buffer.data(), result.ptr};
}

std::string format_bytes(double bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1024.0 && unit + 1 < kUnits.size()) {
    bytes /= 1024.0;
    ++unit;
  }
  std::string number = format_fixed(bytes, bytes == std::floor(bytes) ? 0 : 1);
  return number + " " + std::string(kUnits[unit]);
}

std::string join(std::span<const std::string_view> words, std::string_view separator) {
  return join_words(words, separator);
}
std::string join(std::span<const std::string> words, std::string_view separator) {
  return join_words(words, separator);
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> valid) {
  constexpr std::size_t kMostLetters = 80;
  const std::string folded = folded_word(word.substr(0, kMostLetters));
  if (folded.empty()) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, folded.size() / 3) + 1;
  std::string_view longest_part;
  for (const std::string_view candidate : valid) {
    const std::string other = folded_word(candidate);
    if (other == folded) return candidate;
    if (other.size() >= 3 && folded.starts_with(other) && candidate.size() > longest_part.size()) {
      longest_part = candidate;
    }
    const std::size_t distance = edit_distance(folded, other);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (best.empty() && longest_part.empty()) return the_one_that_begins_with(folded, valid);
  // One wrong letter is a typo. Otherwise a valid word with more behind it is meant:
  // H100-SXM5-80GB.
  return best_distance > 1 && !longest_part.empty() ? longest_part : best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> valid) {
  const std::string_view best = nearest_word(word, valid);
  return best.empty() ? "" : " (did you mean \"" + std::string(best) + "\"?)";
}

double parse_bytes(std::string_view text) {
  TextCursor cursor("size", text);
  const double number = cursor.number("a size such as 4096, 64KiB or 1MB");
  const std::size_t unit_position = cursor.position();
  const std::string_view unit = cursor.word();
  constexpr std::array<std::pair<std::string_view, double>, 11> kUnits = {{
      {"", 1.0},
      {"B", 1.0},
      {"KiB", 1024.0},
      {"MiB", 1024.0 * 1024.0},
      {"GiB", kBytesPerGiB},
      {"TiB", 1024.0 * kBytesPerGiB},
      {"kB", 1e3},
      {"KB", 1e3},
      {"MB", 1e6},
      {"GB", 1e9},
      {"TB", 1e12},
  }};
  for (const auto& [name, factor] : kUnits) {
    if (unit == name) {
      if (!cursor.at_end()) cursor.fail("the end of the size");
      const double bytes = number * factor;
      if (!(bytes >= 0) || bytes > 9007199254740992.0) cursor.fail_at(0, "0 to 2^53 bytes");
      return bytes;
    }
  }
  std::string meant;
  for (const auto& [name, factor] : kUnits) {
    const bool is_same = std::ranges::equal(unit, name, [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) ==
             std::tolower(static_cast<unsigned char>(b));
    });
    if (is_same) meant = " (did you mean " + std::string(name) + "?)";
  }
  cursor.fail_at(unit_position, "a unit: B, KiB, MiB, GiB, TiB, kB, KB, MB, GB or TB" + meant);
}

void TextCursor::skip_blanks() {
  while (position_ < text_.size() && is_blank(text_[position_])) ++position_;
}

bool TextCursor::at_end() {
  skip_blanks();
  return position_ == text_.size();
}

char TextCursor::peek() {
  skip_blanks();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool TextCursor::take(std::string_view token) {
  skip_blanks();
  if (text_.substr(position_, token.size()) != token) return false;
  position_ += token.size();
  return true;
}

void TextCursor::expect(std::string_view token, std::string_view expected) {
  if (!take(token)) fail(expected);
}

std::int64_t TextCursor::integer(std::string_view expected, std::int64_t min, std::int64_t max) {
  skip_blanks();
  const std::size_t start = position_;
  std::int64_t value = 0;
  const char* begin = text_.data() + position_;
  const auto result = std::from_chars(begin, text_.data() + text_.size(), value);
  if (result.ec == std::errc::invalid_argument) fail(expected);
  if (result.ec != std::errc() || value < min || value > max) {
    fail_at(start,
            std::string(expected) + " from " + std::to_string(min) + " to " + std::to_string(max));
  }
  position_ += static_cast<std::size_t>(result.ptr - begin);
  return value;
}

double TextCursor::number(std::string_view expected) {
  skip_blanks();
  double value = 0;
  const char* begin = text_.data() + position_;
  const auto result = std::from_chars(begin, text_.data() + text_.size(), value);
  if (result.ec != std::errc() || !std::isfinite(value)) fail(expected);
  position_ += static_cast<std::size_t>(result.ptr - begin);
  return value;
}

std::string_view TextCursor::word() {
  skip_blanks();
  const std::size_t start = position_;
  if (start < text_.size() && (is_letter(text_[start]) || text_[start] == '_')) {
    while (position_ < text_.size() &&
           (is_letter(text_[position_]) || is_digit(text_[position_]) || text_[position_] == '_')) {
      ++position_;
    }
  }
  return text_.substr(start, position_ - start);
}

void TextCursor::fail_at(std::size_t position, std::string_view expected) const {
  throw TextError(kind_, text_, position, expected);
}

}  // namespace shardlab

// Text: numbers that no locale changes, lists of words, the nearest word for a typo, and a cursor
// for parsers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

// The shortest text that reads back as the same double ("0.1", "1e+30").
[[nodiscard]] std::string format_double(double value);
// The number with a fixed number of digits after the point, for tables ("12.77").
[[nodiscard]] std::string format_fixed(double value, int digits);
// A size for people to read, in the largest power-of-1024 unit that it reaches: "64 KiB", "1.5
// MiB", "100 B".
[[nodiscard]] std::string format_bytes(double bytes);

// The words with the separator between them: "a, b, c".
[[nodiscard]] std::string join(std::span<const std::string_view> words,
                               std::string_view separator = ", ");
[[nodiscard]] std::string join(std::span<const std::string> words,
                               std::string_view separator = ", ");
// The text without the blanks at both of its ends.
[[nodiscard]] std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r");
// The valid word nearest to a typo; "" when none is near.
[[nodiscard]] std::string_view nearest_word(std::string_view word,
                                            std::span<const std::string_view> valid);
// " (did you mean \"x\"?)", or "" when no word is near.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string_view> valid);

// Reads a size in bytes: a bare number, or a number with the unit B, KiB, MiB, GiB or TiB (powers
// of 1024), kB, KB, MB, GB or TB (powers of 1000). Throws TextError.
[[nodiscard]] double parse_bytes(std::string_view text);

// Reads a text form from left to right; blanks between tokens are skipped. A function that does not
// find what it reads throws TextError, which names what was `expected`.
class TextCursor {
 public:
  TextCursor(std::string_view what_kind, std::string_view text) : kind_(what_kind), text_(text) {}

  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] bool at_end();
  [[nodiscard]] char peek();                        // '\0' at the end
  [[nodiscard]] bool take(std::string_view token);  // consumes the token when it is next
  void expect(std::string_view token, std::string_view expected);
  // A decimal integer from min to max, both included.
  [[nodiscard]] std::int64_t integer(std::string_view expected, std::int64_t min, std::int64_t max);
  [[nodiscard]] double number(std::string_view expected);
  // Letters, digits and underscores, not starting with a digit; empty when there is no such word.
  [[nodiscard]] std::string_view word();
  void move_to(std::size_t position) { position_ = position; }
  [[noreturn]] void fail(std::string_view expected) { fail_at(position_, expected); }
  [[noreturn]] void fail_at(std::size_t position, std::string_view expected) const;

 private:
  void skip_blanks();

  std::string_view kind_;
  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace shardlab

#include "costmodel/base/printable.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace shardlab {
namespace {

std::string hex(unsigned value) {
  std::array<char, 8> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return {digits.data(), end.ptr};
}

// Letters that end a line, change the direction of the text around them, or tag it: of Unicode 15's
// categories Zl, Zp and Cf, those that are not needed to spell words or emoji.
bool moves_others(char32_t letter) {
  struct LetterRange {
    char32_t first;
    char32_t last;
  };
  constexpr LetterRange kRanges[] = {{0x061c, 0x061c}, {0x200b, 0x200b},  {0x200e, 0x200f},
                                     {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                                     {0xfff9, 0xfffb}, {0xe0001, 0xe007f}};
  return std::any_of(std::begin(kRanges), std::end(kRanges), [letter](const LetterRange& range) {
    return range.first <= letter && letter <= range.last;
  });
}

std::string shown(std::string_view text, bool keeps_lines) {
  std::string out;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool is_kept = keeps_lines && (byte == '\n' || byte == '\t');
    const std::size_t length = is_kept ? 1 : byte < 0x20 || byte == 0x7f ? 0 : letter_length(text);
    if (length == 0) {
      out += byte < 0x10 ? "\\x0" : "\\x";
      out += hex(byte);
    } else if (length > 1 && moves_others(code_point(text.substr(0, length)))) {
      out += "\\u{" + hex(code_point(text.substr(0, length))) + "}";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

// The escape of a JSON string for a letter: two of them beyond 16 bits (RFC 8259, section 7).
std::string json_escape(char32_t letter) {
  const auto escape = [](unsigned unit) {
    const std::string digits = hex(unit);
    return "\\u" + std::string(4 - digits.size(), '0') + digits;
  };
  if (letter < 0x10000) return escape(letter);
  const unsigned rest = letter - 0x10000;
  return escape(0xd800 + (rest >> 10U)) + escape(0xdc00 + (rest & 0x3ffU));
}

// Cuts a text that is too long in its middle, where no letter is split.
std::string short_value(std::string_view text) {
  constexpr std::size_t kMost = 200;
  constexpr std::size_t kTail = 40;
  if (text.size() <= kMost) return std::string(text);
  const auto is_inside = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
  };
  std::size_t head = kMost - kTail - 3;
  while (head > 0 && is_inside(head)) --head;
  std::size_t tail = text.size() - kTail;
  while (tail < text.size() && is_inside(tail)) ++tail;
  return std::string(text.substr(0, head)) + "..." + std::string(text.substr(tail));
}

}  // namespace

std::size_t letter_length(std::string_view text) {
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

char32_t code_point(std::string_view letter) {
  char32_t point = static_cast<unsigned char>(letter[0]) & (0xffU >> (letter.size() + 1));
  for (const char c : letter.substr(1)) {
    point = (point << 6U) | (static_cast<unsigned char>(c) & 0x3fU);
  }
  return point;
}

std::string printable(std::string_view text) { return shown(text, false); }

std::string printable_lines(std::string_view text) { return shown(text, true); }

std::string printable_json(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const std::size_t length = letter_length(text);
    const bool is_c1 = length == 0 && byte == 0xc2 && text.size() > 1;
    if (byte == 0x7f) {
      out += json_escape(byte);
    } else if (is_c1) {
      out += json_escape(static_cast<unsigned char>(text[1]));
    } else if (length > 1 && moves_others(code_point(text.substr(0, length)))) {
      out += json_escape(code_point(text.substr(0, length)));
    } else {
      out += text.substr(0, std::max<std::size_t>(1, length));
    }
    text.remove_prefix(is_c1 ? 2 : std::max<std::size_t>(1, length));
  }
  return out;
}

std::string with_short_values(std::string_view message) {
  std::string out;
  while (!message.empty()) {
    const std::size_t close = message[0] == '"' ? message.find('"', 1) : std::string_view::npos;
    if (close != std::string_view::npos) {
      out += '"' + short_value(message.substr(1, close - 1)) + '"';
      message.remove_prefix(close + 1);
    } else {
      const std::size_t end = std::min(message.find_first_of(" ,\n\"", 1), message.size());
      out += short_value(message.substr(0, end));
      message.remove_prefix(end);
    }
  }
  return out;
}

}  // namespace shardlab

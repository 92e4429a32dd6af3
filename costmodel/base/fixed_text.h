// A text that is put together at compile time, such as a help text out of a table of constants.
//
//   constexpr auto kHelp = FixedText<64>().add("default: ").add(0.815);
//   kHelp.view()     // "default: 0.815"
//
// Throws std::length_error for a text longer than the capacity, and std::domain_error for a number
// that add() can't write. In a constant, either is an error of the compiler.
// Tested by tests/unit/costmodel/base/fixed_text_test.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace shardlab {

template <std::size_t kCapacity>
class FixedText {
 public:
  constexpr FixedText& add(std::string_view text) {
    for (const char c : text) add_char(c);
    return *this;
  }

  constexpr FixedText& add(std::int64_t number) {
    if (number < 0) throw std::domain_error("a FixedText has no negative numbers");
    std::int64_t unit = 1;
    while (number / unit >= 10) unit *= 10;
    for (; unit > 0; unit /= 10) add_char(static_cast<char>('0' + number / unit % 10));
    return *this;
  }

  // A number of at most three decimals, without trailing zeros.
  constexpr FixedText& add(double number) {
    const auto thousandths = static_cast<std::int64_t>(number * 1e3 + 0.5);
    if (static_cast<double>(thousandths) / 1e3 != number) {
      throw std::domain_error("a FixedText has numbers of three decimals at most");
    }
    add(thousandths / 1000);
    std::int64_t rest = thousandths % 1000;
    if (rest > 0) add_char('.');
    for (; rest > 0; rest = rest * 10 % 1000) add_char(static_cast<char>('0' + rest / 100));
    return *this;
  }

  [[nodiscard]] constexpr std::string_view view() const { return {text_.data(), size_}; }

 private:
  constexpr void add_char(char c) {
    if (size_ == kCapacity) throw std::length_error("a FixedText is full");
    text_[size_++] = c;
  }

  std::array<char, kCapacity> text_ = {};
  std::size_t size_ = 0;
};

}  // namespace shardlab

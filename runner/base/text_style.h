// How a command writes its text: how many digits figures have, whether words have colours, and how
// wide tables may be. A session knows the style that its options, the environment and the terminal
// ask for (runner/session/session.h).
//
//   const TextStyle style = session.style();
//   style.figure(383.19130816361644)      // "383.19": five significant digits, or --digits
//   style.rounded(43.2345, 1)             // "43.2": no more digits after the point than are known
//   style.figures(totals)                 // values that differ look different, however close
//   style.painted(Tone::kGood, "chosen")  // green where the terminal has colours, else as it is
//   TextTable table(style, {"op", "us"}); // text_table.h
//
// Only text is rounded: JSON, records, reports and every file keep all digits. Counts and bytes are
// no figures of this kind; they are printed whole. Tested by
// tests/unit/runner/base/text_style_test.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

inline constexpr int kAllDigits = 0;  // as many digits as it takes to read the same double back
inline constexpr int kDefaultDigits = 5;
inline constexpr int kMostDigits = 17;  // a double has no more

// By which part of them two long sums may differ although they ought to be equal: the order in
// which they were added rounds differently.
inline constexpr double kRoundingNoise = 1e-12;

// The number of digits that "full" or a whole number from 1 to 17 asks for; nothing for other
// texts.
[[nodiscard]] std::optional<int> parse_digits(std::string_view text);

// What a colour says beside the words, which always say it too.
enum class Tone {
  kPlain,
  kHeading,  // bold
  kGood,     // green: what was chosen, what is better or right
  kBad,      // red: what is worse or wrong
};

struct TextStyle {
  int digits = kDefaultDigits;  // significant digits of figures, or kAllDigits
  bool has_colour = false;
  std::size_t columns = 0;  // width of the terminal; 0 means that nothing has to fit

  // The value with as many significant digits, without zeros at the end of its fraction: "0.0125",
  // "383.19", "317210". Very large and very small values have an exponent: "1.2346e-07".
  [[nodiscard]] std::string figure(double value) const;
  // The value with this many digits after the point, but no more significant digits than figures
  // have: for percentages, rates and clock readings. With all digits it is figure(value).
  [[nodiscard]] std::string rounded(double value, int decimals) const;
  // The same for values that may be missing.
  [[nodiscard]] std::string figure(const std::optional<double>& value,
                                   std::string_view missing) const;
  [[nodiscard]] std::string rounded(const std::optional<double>& value, int decimals,
                                    std::string_view missing) const;
  // The figure of a difference between two sums, the larger of which is about `of`. What rounding
  // of the sums explains is "0".
  [[nodiscard]] std::string difference(double value, double of) const;
  // The figures of values that are compared with each other. Where two values differ by less than
  // the digits show, their figures have as many more digits as it takes to see that they differ.
  // Values that differ by no more than this part of them count as the same.
  [[nodiscard]] std::vector<std::string> figures(std::span<const double> values,
                                                 double same = 0.0) const;

  [[nodiscard]] std::string painted(Tone tone, std::string_view text) const;
};

}  // namespace shardlab

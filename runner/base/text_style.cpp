#include "runner/base/text_style.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

// Values from 1e-5 to below 1e15 are written without an exponent.
constexpr int kLeastPlainExponent = -5;
constexpr int kMostPlainExponent = 14;

std::string with_digits(double value, int digits) {
  if (value == 0.0) return "0";  // also for minus zero
  if (digits == kAllDigits || !std::isfinite(value)) return format_double(value);
  // "-1.2346e+03": the rounded digits, and the exponent that they have after rounding.
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific, digits - 1);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + 2, end.ptr, exponent);
  if (text[e + 1] == '-') exponent = -exponent;
  std::string mantissa;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') mantissa += c;
  }
  while (mantissa.size() > 1 && mantissa.back() == '0') mantissa.pop_back();
  std::string out = value < 0.0 ? "-" : "";
  if (exponent < kLeastPlainExponent || exponent > kMostPlainExponent) {
    out += mantissa.substr(0, 1);
    if (mantissa.size() > 1) out += "." + mantissa.substr(1);
    return out.append(text.substr(e));
  }
  if (exponent < 0) return out + "0." + std::string(to_index(-exponent - 1), '0') + mantissa;
  const std::size_t whole = to_index(exponent) + 1;
  if (mantissa.size() <= whole) return out + mantissa + std::string(whole - mantissa.size(), '0');
  return out + mantissa.substr(0, whole) + "." + mantissa.substr(whole);
}

// How many digits stand in front of the point: 0 for a value below one.
int whole_digits(std::string_view fixed) {
  if (fixed.starts_with('-')) fixed.remove_prefix(1);
  const std::size_t point = std::min(fixed.find('.'), fixed.size());
  return fixed.starts_with('0') ? 0 : static_cast<int>(point);
}

bool is_zero(std::string_view fixed) {
  return fixed.find_first_not_of("-0.") == std::string_view::npos;
}

std::string_view code_of(Tone tone) {
  switch (tone) {
    case Tone::kHeading:
      return "\033[1m";
    case Tone::kGood:
      return "\033[32m";
    case Tone::kBad:
      return "\033[31m";
    case Tone::kPlain:
      break;
  }
  return {};
}

}  // namespace

std::optional<int> parse_digits(std::string_view text) {
  if (text == "full") return kAllDigits;
  int digits = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), digits);
  const bool is_whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  if (!is_whole || digits < 1 || digits > kMostDigits) return std::nullopt;
  return digits;
}

std::string TextStyle::figure(double value) const { return with_digits(value, digits); }

std::string TextStyle::difference(double value, double of) const {
  const bool is_noise = digits != kAllDigits && std::abs(value) <= kRoundingNoise * std::abs(of);
  return figure(is_noise ? 0.0 : value);
}

std::string TextStyle::rounded(double value, int decimals) const {
  if (digits == kAllDigits || !std::isfinite(value)) return figure(value);
  // A larger number keeps fewer digits after the point.
  std::string text = format_fixed(value, decimals);
  while (decimals > 0 && whole_digits(text) + decimals > std::max(digits, decimals)) {
    text = format_fixed(value, --decimals);
  }
  if (whole_digits(text) > digits) return figure(value);
  if (text.starts_with('-') && is_zero(text)) text.erase(0, 1);
  return text;
}

std::string TextStyle::figure(const std::optional<double>& value, std::string_view missing) const {
  return value ? figure(*value) : std::string(missing);
}

std::string TextStyle::rounded(const std::optional<double>& value, int decimals,
                               std::string_view missing) const {
  return value ? rounded(*value, decimals) : std::string(missing);
}

std::vector<std::string> TextStyle::figures(std::span<const double> values, double same) const {
  std::vector<std::string> texts;
  std::map<std::string, std::set<double>> alike;  // the different values that share a figure
  for (const double value : values) {
    texts.push_back(figure(value));
    if (std::isfinite(value)) alike[texts.back()].insert(value);
  }
  std::map<std::string, int> needed;  // the digits that tell such values apart
  for (const auto& [text, sharing] : alike) {
    if (sharing.size() == 1 || digits == kAllDigits) continue;
    // Rounding keeps the order, so that only neighbours have to be compared.
    const auto look_alike = [same](int more) {
      return [same, more](double a, double b) {
        const bool differ = b - a > same * std::max(std::abs(a), std::abs(b));
        return differ && with_digits(a, more) == with_digits(b, more);
      };
    };
    int more = digits;
    while (more < kMostDigits &&
           std::adjacent_find(sharing.begin(), sharing.end(), look_alike(more)) != sharing.end()) {
      ++more;
    }
    if (more > digits) needed[text] = more;
  }
  for (std::size_t i = 0; i < values.size() && !needed.empty(); ++i) {
    const auto found = needed.find(texts[i]);
    if (found != needed.end()) texts[i] = with_digits(values[i], found->second);
  }
  return texts;
}

std::string TextStyle::painted(Tone tone, std::string_view text) const {
  const std::string_view code = code_of(tone);
  if (!has_colour || code.empty() || text.empty()) return std::string(text);
  return std::string(code).append(text) + "\033[0m";
}

}  // namespace shardlab

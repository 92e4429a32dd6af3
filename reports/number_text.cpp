#include "reports/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "costmodel/base/error.h"

namespace shardlab::reports {
namespace {

// Puts a comma between the thousands of the digits in front of the point.
std::string group_thousands(std::string_view digits) {
  const std::size_t start = digits.starts_with('-') ? 1 : 0;
  const std::size_t point = digits.find('.');
  const std::size_t end = point == std::string_view::npos ? digits.size() : point;
  std::string text(digits.substr(0, start));
  for (std::size_t i = start; i < end; ++i) {
    if (i > start && (end - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  text += digits.substr(end);
  return text;
}

std::string fixed_ungrouped(double value, int digits) {
  SHARDLAB_CHECK(std::isfinite(value), "a report prints finite numbers only, got ", value);
  std::array<char, 400> buffer{};  // the longest double has 309 digits in front of the point
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, digits);
  std::string text(buffer.data(), end.ptr);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  return is_zero && text.starts_with('-') ? text.substr(1) : text;
}

}  // namespace

std::string grouped(std::int64_t number) { return group_thousands(std::to_string(number)); }

std::string fixed(double value, int digits) {
  return group_thousands(fixed_ungrouped(value, digits));
}

std::string signed_fixed(double value, int digits) {
  std::string text = fixed(value, digits);
  const bool is_zero = text.find_first_not_of("0.") == std::string::npos;
  return is_zero || text.starts_with('-') ? text : "+" + text;
}

std::string exact(double value) {
  SHARDLAB_CHECK(std::isfinite(value), "a report prints finite numbers only, got ", value);
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end.ptr};
}

std::string percent(double fraction) {
  const double value = 100.0 * fraction;
  const std::string text = fixed(value, 1);
  if (text == "0.0" && value > 0.0) return "<0.1 %";
  if (text == "0.0" && value < 0.0) return ">-0.1 %";
  return text + " %";
}

std::string size_percent(double percent) {
  constexpr int kMostDigits = 6;
  const double size = std::abs(percent);
  if (size == 0.0) return "0 %";
  if (size < 1e-6) return "<0.000001 %";
  if (size >= 10.0) return fixed(size, 1) + " %";
  const int digits = static_cast<int>(std::ceil(-std::log10(size)));
  return fixed(size, std::clamp(digits, 2, kMostDigits)) + " %";
}

std::string change_percent(double percent) {
  if (percent == 0.0) return size_percent(percent);
  return (percent < 0.0 ? "-" : "+") + size_percent(percent);
}

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  SHARDLAB_CHECK(bytes >= 0.0, "a size is not negative, got ", bytes);
  // Whole bytes below 1 kB have no digits to round.
  if (bytes < 1000.0 && bytes == std::floor(bytes)) return fixed(bytes, 0) + " B";
  double value = bytes;
  std::size_t unit = 0;
  // 999.5 would print as 1000: it belongs to the next unit.
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  int digits = 0;
  if (value < 9.995) {
    digits = 2;
  } else if (value < 99.95) {
    digits = 1;
  }
  return fixed(value, digits) + " " + std::string(kUnits[unit]);
}

std::string duration_text(double us) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e6, " s"}, {1e3, " ms"}, {1.0, " us"}};
  for (const auto& [unit, name] : kUnits) {
    const double value = us / unit;
    if (std::abs(value) < 1.0 && unit > 1.0) continue;
    const double size = std::abs(value);
    const int digits = size >= 1000.0 ? 0 : size >= 100.0 ? 1 : size >= 10.0 ? 2 : 3;
    return fixed(value, digits) + name;
  }
  return fixed(us, 3) + " us";
}

std::string interval_text(const std::optional<double>& low_us,
                          const std::optional<double>& high_us) {
  if (!low_us || !high_us) return {};
  return duration_text(*low_us) + " to " + duration_text(*high_us) +
         " on 95 % of clusters like those measured";
}

std::string counted(std::int64_t number, std::string_view one, std::string_view many) {
  if (number == 0) return "no " + std::string(many);
  return grouped(number) + " " + std::string(number == 1 ? one : many);
}

}  // namespace shardlab::reports

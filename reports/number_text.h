// Numbers as a report prints them: fixed digits, a comma between thousands, the unit beside the
// value; the same text on every machine and under every locale. Halves round to even (as
// std::to_chars does on the exact binary value).
//
//   grouped(1204)             "1,204"          percent(0.1096)     "11.0 %"
//   fixed(22.8185, 2)         "22.82"          percent(0.0004)     "<0.1 %"
//   fixed(1234567.891, 2)     "1,234,567.89"   bytes_text(6.71e7)  "67.1 MB", where 1 MB = 1e6
//                                                                  bytes
//
// Records keep every digit instead (exact). Tested by tests/unit/reports/number_text_test.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardlab::reports {

// "1,204"; negative numbers keep their sign in front: "-1,204".
[[nodiscard]] std::string grouped(std::int64_t number);

// A number with `digits` digits behind the point, its thousands grouped, and never "-0.00". Assumes
// a finite value.
[[nodiscard]] std::string fixed(double value, int digits);

// The same, but its sign is always written: "+3.20", "-0.40", "0.00".
[[nodiscard]] std::string signed_fixed(double value, int digits);

// The shortest text that reads back as the same double.
[[nodiscard]] std::string exact(double value);

// A fraction as a percentage with one digit: 0.1096 is "11.0 %". A fraction that is not zero never
// looks like zero: "<0.1 %".
[[nodiscard]] std::string percent(double fraction);

// A change in percent with its sign and as many digits as it takes to see it: "-2.09 %", "+12.3 %",
// "-0.001 %"; two digits after the point where the change is 0.1 or more, one where it is 10 or
// more. No change is "0 %", and one below a millionth of a percent "+<0.000001 %".
[[nodiscard]] std::string change_percent(double percent);
// The same without its sign: "2.09 %".
[[nodiscard]] std::string size_percent(double percent);

// "512 B", "1.05 MB", "8.59 GB": three significant digits, decimal units.
[[nodiscard]] std::string bytes_text(double bytes);

// "12.35 us", "1.330 s": four significant digits, the unit that needs the fewest.
[[nodiscard]] std::string duration_text(double us);

// "12.35 us to 20.11 us on 95 % of clusters like those measured"; "" without bounds.
[[nodiscard]] std::string interval_text(const std::optional<double>& low_us,
                                        const std::optional<double>& high_us);

// "1 flip", "2 flips", "no flips": `one` is the noun in the singular, `many` in the plural.
[[nodiscard]] std::string counted(std::int64_t number, std::string_view one, std::string_view many);

}  // namespace shardlab::reports

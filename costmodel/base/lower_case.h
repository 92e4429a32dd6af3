// Text in lower case, whatever the locale: letters outside ASCII stay as they are.
//
//   lower_case("BF16")   // "bf16"
#pragma once

#include <string>
#include <string_view>

namespace shardlab {

[[nodiscard]] inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

}  // namespace shardlab

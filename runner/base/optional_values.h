// Values that may be missing, in JSON and in tables.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/base/text.h"

namespace shardlab {

template <class Value>
[[nodiscard]] nlohmann::json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

// The value with this many digits after the point, or `missing` if there is no value.
[[nodiscard]] inline std::string fixed_or(const std::optional<double>& value, int digits,
                                          std::string_view missing) {
  return value ? format_fixed(*value, digits) : std::string(missing);
}

}  // namespace shardlab

// Reads enumerations from JSON by the names in their tables (enum_names.h).
//
//   stack.policy = find_enum<Policy>(reader, "policy").value_or(Policy::kKeepInput);
//
// Throws ConfigError for a text that names no enumerator; the message suggests the nearest name and
// lists all names.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/json_reader.h"
#include "costmodel/base/text.h"

namespace shardlab {

// Returns nothing when the key is absent.
template <class Enum>
[[nodiscard]] std::optional<Enum> find_enum(ObjectReader& reader, std::string_view key) {
  const nlohmann::json* json = reader.find(key);
  if (json == nullptr) return std::nullopt;
  const JsonPlace place = reader.place(key);
  const std::string text = json_text(*json, place);
  const std::optional<Enum> value = from_name<Enum>(text);
  if (!value) {
    place.fail("found \"" + text + "\"" + did_you_mean(text, all_names<Enum>()) +
               "; valid: " + valid_names<Enum>());
  }
  return value;
}

}  // namespace shardlab

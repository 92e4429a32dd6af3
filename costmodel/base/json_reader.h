// Strict reading of JSON objects: every key is asked for by name, and what was not asked for is an
// error that lists the keys that are valid there.
//
//   ObjectReader reader(json, {"h200.json", ""});
//   const double bandwidth = reader.number("bandwidth_gb_per_s", {.min = 1e-3, .max = 1e5});
//   reader.finish();   // throws ConfigError on unknown keys
//
// Throws ConfigError (file, JSON pointer, what was found, what is valid) on every mismatch. A
// reader keeps a reference to the JSON value, which must outlive it.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/base/enum_names.h"

namespace shardlab {

// A place in a JSON document: the file's name and the pointer inside it.
struct JsonPlace {
  std::string file;
  std::string pointer;

  [[nodiscard]] JsonPlace at(std::string_view key) const;
  [[nodiscard]] JsonPlace at(std::size_t index) const;
  [[noreturn]] void fail(std::string_view message) const;  // throws ConfigError
};

struct NumberRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
};

class ObjectReader {
 public:
  ObjectReader(const nlohmann::json& json, JsonPlace place);

  [[nodiscard]] const JsonPlace& place() const { return place_; }
  [[nodiscard]] JsonPlace place(std::string_view key) const;

  // Required values; throw when absent or of another type.
  [[nodiscard]] const nlohmann::json& value(std::string_view key);
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] double number(std::string_view key, NumberRange range = {});
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max);
  [[nodiscard]] const nlohmann::json& array(std::string_view key);

  // Optional values; find returns null when the key is absent.
  [[nodiscard]] const nlohmann::json* find(std::string_view key);
  // For a format in which a key has two spellings and null means absent. Returns the value under
  // `key`, or else the value under `other`; place(key) then points to `other`. If an object has
  // both spellings, `other` is an unknown key. Messages list only `key` as valid.
  [[nodiscard]] const nlohmann::json* find_spelled(std::string_view key, std::string_view other);
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view fallback);
  [[nodiscard]] double number_or(std::string_view key, double fallback, NumberRange range = {});
  [[nodiscard]] std::int64_t integer_or(std::string_view key, std::int64_t fallback,
                                        std::int64_t min, std::int64_t max);
  [[nodiscard]] bool boolean_or(std::string_view key, bool fallback);

  // Throws unless the value of "schema" is exactly this.
  void expect_schema(std::string_view schema);
  // Throws when the object holds a key that nobody asked for.
  void finish() const;

 private:
  const nlohmann::json& json_;
  JsonPlace place_;
  std::vector<std::string> asked_;
  std::vector<std::pair<std::string, std::string>>
      spelled_;  // a key, and the spelling found instead
};

// Checked conversions of one value at a place. Throw ConfigError.
[[nodiscard]] std::string json_text(const nlohmann::json& json, const JsonPlace& place);
[[nodiscard]] double json_number(const nlohmann::json& json, const JsonPlace& place,
                                 NumberRange range = {});
[[nodiscard]] std::int64_t json_integer(const nlohmann::json& json, const JsonPlace& place,
                                        std::int64_t min, std::int64_t max);
[[nodiscard]] const nlohmann::json& json_array(const nlohmann::json& json, const JsonPlace& place);
// The value that the text names (enum_names.h). The error message for an unknown name lists the
// valid names with `separator` between them.
template <class Enum>
[[nodiscard]] Enum json_name(const nlohmann::json& json, const JsonPlace& place,
                             std::string_view separator = ", ") {
  const std::string text = json_text(json, place);
  const std::optional<Enum> found = from_name<Enum>(text);
  if (!found) place.fail("found \"" + text + "\"; valid: " + valid_names<Enum>(separator));
  return *found;
}
// A member of an object that another tool wrote and that may hold other keys. If the key is absent
// or its value is null, json_member returns null and json_required throws.
[[nodiscard]] const nlohmann::json* json_member(const nlohmann::json& object, const char* key);
[[nodiscard]] const nlohmann::json& json_required(const nlohmann::json& object, const char* key,
                                                  const JsonPlace& place);
// A short rendering of a JSON value for messages: `"abc"`, `12`, `an object`.
[[nodiscard]] std::string describe_json(const nlohmann::json& json);
// A JSON number for a finite double, null for infinities and NaN (which JSON lacks).
[[nodiscard]] nlohmann::json finite_or_null(double value);
// The text as JSON; null if it is empty.
[[nodiscard]] nlohmann::json text_or_null(const std::string& text);

}  // namespace shardlab

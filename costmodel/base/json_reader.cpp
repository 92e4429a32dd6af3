#include "costmodel/base/json_reader.h"

#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

namespace shardlab {

using nlohmann::json;

JsonPlace JsonPlace::at(std::string_view key) const {
  std::string escaped;
  for (const char c : key) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return {file, pointer + "/" + escaped};
}

JsonPlace JsonPlace::at(std::size_t index) const { return at(std::to_string(index)); }

void JsonPlace::fail(std::string_view message) const { throw ConfigError(file, pointer, message); }

const nlohmann::json* json_member(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

const nlohmann::json& json_required(const nlohmann::json& object, const char* key,
                                    const JsonPlace& place) {
  if (!object.is_object()) place.fail("found " + describe_json(object) + "; valid: an object");
  const nlohmann::json* found = json_member(object, key);
  if (found == nullptr) place.fail("missing key \"" + std::string(key) + "\"");
  return *found;
}

std::string describe_json(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string json_text(const json& value, const JsonPlace& place) {
  if (!value.is_string()) place.fail("found " + describe_json(value) + "; valid: a text");
  return value.get<std::string>();
}

double json_number(const json& value, const JsonPlace& place, NumberRange range) {
  if (!value.is_number()) place.fail("found " + describe_json(value) + "; valid: a number");
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < range.min || number > range.max) {
    place.fail("found " + describe_json(value) + "; valid: a number from " +
               format_double(range.min) + " to " + format_double(range.max));
  }
  return number;
}

std::int64_t json_integer(const json& value, const JsonPlace& place, std::int64_t min,
                          std::int64_t max) {
  // Unsigned values beyond the signed range would wrap around, and are out of range anyway.
  const bool in_range =
      value.is_number_integer() &&
      !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) &&
      value.get<std::int64_t>() >= min && value.get<std::int64_t>() <= max;
  if (!in_range) {
    place.fail("found " + describe_json(value) + "; valid: an integer from " + std::to_string(min) +
               " to " + std::to_string(max));
  }
  return value.get<std::int64_t>();
}

const json& json_array(const json& value, const JsonPlace& place) {
  if (!value.is_array()) place.fail("found " + describe_json(value) + "; valid: an array");
  return value;
}

json finite_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

ObjectReader::ObjectReader(const json& value, JsonPlace place)
    : json_(value), place_(std::move(place)) {
  if (!json_.is_object()) place_.fail("found " + describe_json(json_) + "; valid: an object");
}

const json* ObjectReader::find(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  const auto it = json_.find(std::string(key));
  return it == json_.end() ? nullptr : &*it;
}

const json* ObjectReader::find_spelled(std::string_view key, std::string_view other) {
  const json* found = find(key);
  if (found == nullptr) {
    const auto it = json_.find(std::string(other));
    if (it == json_.end()) return nullptr;
    spelled_.emplace_back(key, other);
    found = &*it;
  }
  return found->is_null() ? nullptr : found;
}

JsonPlace ObjectReader::place(std::string_view key) const {
  for (const auto& [asked, found] : spelled_) {
    if (asked == key) return place_.at(found);
  }
  return place_.at(key);
}

const json& ObjectReader::value(std::string_view key) {
  const json* found = find(key);
  if (found == nullptr) {
    // The object may hold the key with a typo, which is assumed to change the length by at most
    // one and to keep a letter.
    std::vector<std::string_view> present;
    for (const auto& [name, unused] : json_.items()) {
      const bool is_as_long = name.size() <= key.size() + 1 && key.size() <= name.size() + 1;
      if (is_as_long && name.find_first_of(key) != std::string::npos) present.push_back(name);
    }
    const std::string_view near = nearest_word(key, present);
    place_.fail("missing key \"" + std::string(key) + "\"" +
                (near.empty() ? "" : " (is \"" + std::string(near) + "\" a typo of it?)"));
  }
  return *found;
}

std::string ObjectReader::text(std::string_view key) { return json_text(value(key), place(key)); }

double ObjectReader::number(std::string_view key, NumberRange range) {
  return json_number(value(key), place(key), range);
}

std::int64_t ObjectReader::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  return json_integer(value(key), place(key), min, max);
}

const json& ObjectReader::array(std::string_view key) { return json_array(value(key), place(key)); }

std::string ObjectReader::text_or(std::string_view key, std::string_view fallback) {
  const json* found = find(key);
  return found == nullptr ? std::string(fallback) : json_text(*found, place(key));
}

double ObjectReader::number_or(std::string_view key, double fallback, NumberRange range) {
  const json* found = find(key);
  return found == nullptr ? fallback : json_number(*found, place(key), range);
}

std::int64_t ObjectReader::integer_or(std::string_view key, std::int64_t fallback, std::int64_t min,
                                      std::int64_t max) {
  const json* found = find(key);
  return found == nullptr ? fallback : json_integer(*found, place(key), min, max);
}

bool ObjectReader::boolean_or(std::string_view key, bool fallback) {
  const json* found = find(key);
  if (found == nullptr) return fallback;
  if (!found->is_boolean()) {
    place(key).fail("found " + describe_json(*found) + "; valid: true or false");
  }
  return found->get<bool>();
}

void ObjectReader::expect_schema(std::string_view schema) {
  const std::string found = text("schema");
  if (found != schema) {
    place("schema").fail("found \"" + found + "\"; valid: \"" + std::string(schema) + "\"");
  }
}

void ObjectReader::finish() const {
  for (const auto& [key, unused] : json_.items()) {
    const bool is_spelled =
        std::any_of(spelled_.begin(), spelled_.end(),
                    [&name = key](const auto& spelled) { return spelled.second == name; });
    if (!is_spelled && std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
      std::vector<std::string_view> valid(asked_.begin(), asked_.end());
      place_.at(key).fail("unknown key" + did_you_mean(key, valid) + "; valid: " + join(valid));
    }
  }
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

}  // namespace shardlab

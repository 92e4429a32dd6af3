#include "reports/records/strict_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "costmodel/base/error.h"

namespace shardlab::reports {
namespace {

// A JSON pointer spells "~" as "~0" and "/" as "~1" (RFC 6901).
std::string escape_pointer(std::string_view key) {
  std::string text;
  for (const char c : key) {
    if (c == '~') {
      text += "~0";
    } else if (c == '/') {
      text += "~1";
    } else {
      text += c;
    }
  }
  return text;
}

std::string found(const nlohmann::json& value) {
  return std::string("found ") + (value.is_null() ? "null" : value.type_name());
}

}  // namespace

StrictObject::StrictObject(const nlohmann::json& json, std::string_view file, std::string pointer)
    : json_(&json), file_(file), pointer_(std::move(pointer)) {
  if (!json.is_object()) {
    throw ConfigError(file_, pointer_, "expected an object, " + found(json));
  }
}

std::string StrictObject::pointer_to(std::string_view key) const {
  return pointer_ + "/" + escape_pointer(key);
}

void StrictObject::fail(std::string_view key, std::string_view message) const {
  throw ConfigError(file_, pointer_to(key), message);
}

bool StrictObject::has(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  return json_->contains(key);
}

const nlohmann::json& StrictObject::value(std::string_view key) {
  if (!has(key)) fail(key, "missing key");
  return *json_->find(key);
}

const nlohmann::json& StrictObject::array(std::string_view key) {
  const nlohmann::json& json = value(key);
  if (!json.is_array()) fail(key, "expected an array, " + found(json));
  return json;
}

const nlohmann::json& StrictObject::object(std::string_view key) {
  const nlohmann::json& json = value(key);
  if (!json.is_object()) fail(key, "expected an object, " + found(json));
  return json;
}

std::string StrictObject::text(std::string_view key) {
  const nlohmann::json& json = value(key);
  if (!json.is_string()) fail(key, "expected a string, " + found(json));
  return json.get<std::string>();
}

std::string StrictObject::text_or_null(std::string_view key) {
  const nlohmann::json& json = value(key);
  if (json.is_null()) return {};
  if (!json.is_string()) fail(key, "expected a string or null, " + found(json));
  return json.get<std::string>();
}

bool StrictObject::flag(std::string_view key) {
  const nlohmann::json& json = value(key);
  if (!json.is_boolean()) fail(key, "expected true or false, " + found(json));
  return json.get<bool>();
}

double StrictObject::number(std::string_view key) {
  const nlohmann::json& json = value(key);
  if (!json.is_number()) fail(key, "expected a number, " + found(json));
  const double number = json.get<double>();
  if (!std::isfinite(number)) fail(key, "expected a finite number");
  return number;
}

std::optional<double> StrictObject::number_or_null(std::string_view key) {
  if (value(key).is_null()) return std::nullopt;
  return number(key);
}

std::int64_t StrictObject::integer(std::string_view key, std::int64_t low) {
  const nlohmann::json& json = value(key);
  // An unsigned number beyond int64 would wrap around.
  const bool fits = json.is_number_integer() &&
                    (!json.is_number_unsigned() || json.get<std::uint64_t>() <= INT64_MAX);
  if (!fits) fail(key, "expected a whole number, found " + json.dump());
  const auto number = json.get<std::int64_t>();
  if (number < low) {
    fail(key, "expected at least " + std::to_string(low) + ", found " + std::to_string(number));
  }
  return number;
}

std::uint64_t StrictObject::unsigned_integer(std::string_view key) {
  const nlohmann::json& json = value(key);
  if (!json.is_number_unsigned()) {
    fail(key, "expected a whole number, not negative, found " + json.dump());
  }
  return json.get<std::uint64_t>();
}

std::vector<std::string> StrictObject::texts(std::string_view key) {
  std::vector<std::string> texts;
  for (const nlohmann::json& element : array(key)) {
    if (!element.is_string()) {
      fail(key, "expected strings only, " + found(element) + " at " + std::to_string(texts.size()));
    }
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

std::vector<double> StrictObject::numbers(std::string_view key) {
  std::vector<double> numbers;
  for (const std::optional<double>& number : numbers_or_null(key)) {
    if (!number)
      fail(key, "expected numbers only, found null at " + std::to_string(numbers.size()));
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<std::optional<double>> StrictObject::numbers_or_null(std::string_view key) {
  std::vector<std::optional<double>> numbers;
  for (const nlohmann::json& element : array(key)) {
    if (element.is_null()) {
      numbers.emplace_back();
      continue;
    }
    const bool is_finite = element.is_number() && std::isfinite(element.get<double>());
    if (!is_finite) {
      fail(key,
           "expected finite numbers, " + found(element) + " at " + std::to_string(numbers.size()));
    }
    numbers.emplace_back(element.get<double>());
  }
  return numbers;
}

void StrictObject::finish() const {
  for (const auto& item : json_->items()) {
    const std::string& key = item.key();
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    std::string valid;
    for (const std::string& known : known_) valid += (valid.empty() ? "" : ", ") + known;
    fail(key, "unknown key; valid: " + valid);
  }
}

}  // namespace shardlab::reports

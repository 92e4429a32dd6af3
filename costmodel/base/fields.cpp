#include <algorithm>
#include <cmath>

#include "costmodel/base/fields_json.h"
#include "costmodel/base/text.h"

namespace shardlab {

using nlohmann::json;
using nlohmann::ordered_json;

JsonPlace JsonSpot::place() const {
  if (parent_ == nullptr) return *document_;
  return key_.data() == nullptr ? parent_->place().at(index_) : parent_->place().at(key_);
}

namespace fields_detail {

KeyReader::KeyReader(const json& value, const JsonSpot& spot) : value_(value), spot_(spot) {
  expect_object(value, spot);
  asked_.reserve(16);
}

const json* KeyReader::find(std::string_view key) {
  const auto it = value_.find(key);
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
    // asked_ keeps views, so each must outlive the reader: a view of the document's own key does,
    // and so does the key of a field's description.
    asked_.push_back(it == value_.end() ? key : std::string_view(it.key()));
    if (it != value_.end()) ++found_;
  }
  return it == value_.end() ? nullptr : &*it;
}

const json& KeyReader::value(std::string_view key) {
  const json* found = find(key);
  return found != nullptr ? *found : ObjectReader(value_, spot_.place()).value(key);
}

std::vector<std::string> KeyReader::keys_ending_in(std::string_view suffix) const {
  std::vector<std::string> keys;
  for (const auto& [key, unused] : value_.items()) {
    if (key.ends_with(suffix)) keys.push_back(key);
  }
  return keys;
}

void KeyReader::finish() const {
  if (found_ == value_.size()) return;
  ObjectReader reader(value_, spot_.place());
  for (const std::string_view key : asked_) static_cast<void>(reader.find(key));
  reader.finish();
}

void expect_array(const json& value, const JsonSpot& spot) {
  if (!value.is_array()) spot.fail("found " + describe_json(value) + "; valid: an array");
}

void expect_object(const json& value, const JsonSpot& spot) {
  if (!value.is_object()) spot.fail("found " + describe_json(value) + "; valid: an object");
}

void expect_constant(const ConstantField& field, KeyReader& reader) {
  const json* value =
      field.presence == KeyPresence::kRequired ? &reader.value(field.key) : reader.find(field.key);
  if (value == nullptr || (value->is_string() && *value == field.value)) return;
  fail_name(*value, std::string(field.value), JsonSpot(reader.spot(), field.key));
}

void fail_name(const json& value, const std::string& valid, const JsonSpot& spot) {
  spot.fail("found " + describe_json(value) + "; valid: " + valid);
}

void fail_contradiction(const Contradiction& found, const JsonSpot& spot) {
  JsonPlace place = spot.place();
  place.pointer += found.pointer;
  place.fail(found.message);
}

ordered_json nullable(ordered_json schema) {
  if (schema.contains("type") && schema["type"].is_string()) {
    schema["type"] = {schema["type"], "null"};
    return schema;
  }
  if (schema.contains("type")) return schema;
  return {{"anyOf", {std::move(schema), {{"type", "null"}}}}};
}

ordered_json object_schema() {
  return {{"type", "object"},
          {"required", ordered_json::array()},
          {"properties", ordered_json::object()},
          {"additionalProperties", false}};
}

void add_property(ordered_json& object, std::string_view key, ordered_json schema,
                  std::string_view meaning, bool is_required) {
  if (is_required) object["required"].push_back(key);
  if (!meaning.empty()) schema["description"] = meaning;
  object["properties"][std::string(key)] = std::move(schema);
}

void merge_schema(ordered_json& object, std::string_view also) {
  const ordered_json more = ordered_json::parse(also);
  for (const auto& [key, value] : more.items()) object[key] = value;
}

void make_all_or_none(ordered_json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    ordered_json others = ordered_json::array();
    for (const std::string& other : keys) {
      if (other != key) others.push_back(other);
    }
    object["dependencies"][key] = std::move(others);
  }
}

}  // namespace fields_detail

bool JsonForm<bool>::read(const json& value, const JsonSpot& spot, const FieldOptions&) {
  if (!value.is_boolean()) spot.fail("found " + describe_json(value) + "; valid: true or false");
  return value.get<bool>();
}

ordered_json JsonForm<bool>::schema(const FieldOptions&, SchemaDefinitions&) {
  return {{"type", "boolean"}};
}

double JsonForm<double>::read(const json& value, const JsonSpot& spot,
                              const FieldOptions& options) {
  if (!value.is_number()) spot.fail("found " + describe_json(value) + "; valid: a number");
  const double number = value.get<double>();
  const double size = std::abs(number);
  const bool is_in_range = number == 0.0 || (size >= kLeastNumber && size <= kMostNumber);
  if (!is_in_range || (options.is_amount && number < 0.0)) {
    spot.fail("found " + describe_json(value) + "; valid: 0, or a number from " +
              format_double(kLeastNumber) + " to " + format_double(kMostNumber) +
              (options.is_amount ? "" : ", or its negative"));
  }
  return number;
}

ordered_json JsonForm<double>::schema(const FieldOptions& options, SchemaDefinitions&) {
  ordered_json schema = {{"type", "number"}};
  if (options.is_amount) schema["minimum"] = 0;
  return schema;
}

std::int64_t JsonForm<std::int64_t>::read(const json& value, const JsonSpot& spot,
                                          const FieldOptions& options) {
  // An unsigned number beyond the signed range would wrap around.
  const bool wraps =
      value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  const bool is_integer = value.is_number_integer();
  if (!is_integer || (!wraps && value.get<std::int64_t>() < options.min)) {
    spot.fail("found " + describe_json(value) + "; valid: an integer, at least " +
              std::to_string(options.min));
  }
  if (wraps || value.get<std::int64_t>() > kMostInteger) {
    spot.fail("found " + describe_json(value) + "; valid: an integer, at most " +
              std::to_string(kMostInteger));
  }
  return value.get<std::int64_t>();
}

ordered_json JsonForm<std::int64_t>::schema(const FieldOptions& options, SchemaDefinitions&) {
  return {{"type", "integer"}, {"minimum", options.min}};
}

std::uint64_t JsonForm<std::uint64_t>::read(const json& value, const JsonSpot& spot,
                                            const FieldOptions&) {
  const bool fits =
      value.is_number_integer() && (value.is_number_unsigned() || value.get<std::int64_t>() >= 0);
  if (!fits) spot.fail("found " + describe_json(value) + "; valid: an integer, at least 0");
  return value.get<std::uint64_t>();
}

ordered_json JsonForm<std::uint64_t>::schema(const FieldOptions&, SchemaDefinitions&) {
  return {{"type", "integer"}, {"minimum", 0}};
}

std::string JsonForm<std::string>::read(const json& value, const JsonSpot& spot,
                                        const FieldOptions&) {
  if (!value.is_string()) spot.fail("found " + describe_json(value) + "; valid: a text");
  return value.get<std::string>();
}

ordered_json JsonForm<std::string>::schema(const FieldOptions&, SchemaDefinitions&) {
  return {{"type", "string"}};
}

json JsonForm<json>::read(const json& value, const JsonSpot& spot, const FieldOptions& options) {
  // A field with a schema of its own may be anything.
  if (options.schema.empty()) fields_detail::expect_object(value, spot);
  return value;
}

ordered_json JsonForm<json>::schema(const FieldOptions&, SchemaDefinitions&) {
  return {{"type", "object"}};
}

}  // namespace shardlab

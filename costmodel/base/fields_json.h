// JSON of the structs that costmodel/base/fields.h describes: written, read strictly, and described
// by a schema.
//
//   nlohmann::ordered_json json = json_of(step);
//   Step again = read_as<Step>(json, {"run.json", "/steps/0"});
//   SchemaDefinitions definitions = nlohmann::ordered_json::object();
//   nlohmann::ordered_json schema = schema_of<Step>(definitions);
//
// read_as throws ConfigError for a missing or an unknown key, a value of the wrong type or out of
// its range, and for a broken rule across fields, with messages as in costmodel/base/json_reader.h:
// file, JSON pointer, what was found, what is valid. Writing the result gives the same JSON again.
//
// Beside described structs, members may be bool, double, std::int64_t, std::uint64_t, std::string,
// enumerations with EnumNames, nlohmann::json (an object that is kept as it is), and std::optional,
// std::vector and std::map<std::string, ...> of all these. Any other type needs a JsonForm of its
// own.
//
// This header is for source files, and for headers that only source files include. Tested by
// tests/unit/costmodel/base/fields_test.cpp.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/fields.h"
#include "costmodel/base/json_reader.h"

namespace shardlab {

// A place in a document as a chain of keys and indices, which is turned into text only for a
// message: a record has hundreds of thousands of values, and nearly all of them are right.
class JsonSpot {
 public:
  explicit JsonSpot(const JsonPlace& document) : document_(&document) {}
  JsonSpot(const JsonSpot& parent, std::string_view key) : parent_(&parent), key_(key) {}
  JsonSpot(const JsonSpot& parent, std::size_t index) : parent_(&parent), index_(index) {}

  [[nodiscard]] JsonPlace place() const;
  [[noreturn]] void fail(std::string_view message) const { place().fail(message); }

 private:
  const JsonPlace* document_ = nullptr;
  const JsonSpot* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = 0;
};

// Schemas of the named structs, by name; they refer to each other.
using SchemaDefinitions = nlohmann::ordered_json;

// How a type is written, read and described: JsonForm<T>::write, ::read and ::schema.
template <class T>
struct JsonForm;

template <class T>
concept Described = requires {
  Fields<T>::kList;
};
template <class T>
concept NamedEnum = std::is_enum_v<T> && requires {
  EnumNames<T>::kNames;
};

namespace fields_detail {

// Reads the keys of one object, and knows at the end which keys nobody asked for.
class KeyReader {
 public:
  KeyReader(const nlohmann::json& value, const JsonSpot& spot);

  [[nodiscard]] const JsonSpot& spot() const { return spot_; }
  [[nodiscard]] const nlohmann::json* find(std::string_view key);
  [[nodiscard]] const nlohmann::json& value(std::string_view key);
  // The keys that end in `suffix`.
  [[nodiscard]] std::vector<std::string> keys_ending_in(std::string_view suffix) const;
  void finish() const;

 private:
  const nlohmann::json& value_;
  const JsonSpot& spot_;
  std::vector<std::string_view> asked_;
  std::size_t found_ = 0;
};

void expect_constant(const ConstantField& field, KeyReader& reader);
void expect_array(const nlohmann::json& value, const JsonSpot& spot);
void expect_object(const nlohmann::json& value, const JsonSpot& spot);
[[noreturn]] void fail_name(const nlohmann::json& value, const std::string& valid,
                            const JsonSpot& spot);
[[noreturn]] void fail_contradiction(const Contradiction& found, const JsonSpot& spot);
[[nodiscard]] nlohmann::ordered_json nullable(nlohmann::ordered_json schema);
[[nodiscard]] nlohmann::ordered_json object_schema();
// Puts one key into the schema of an object.
void add_property(nlohmann::ordered_json& object, std::string_view key,
                  nlohmann::ordered_json schema, std::string_view meaning, bool is_required);
void merge_schema(nlohmann::ordered_json& object, std::string_view also);
// Makes each of the keys require all of them.
void make_all_or_none(nlohmann::ordered_json& object, const std::vector<std::string>& keys);

template <class T>
struct OptionalValue {
  using type = T;
};
template <class T>
struct OptionalValue<std::optional<T>> {
  using type = T;
};
template <class T>
inline constexpr bool kIsOptional = !std::is_same_v<typename OptionalValue<T>::type, T>;

template <class T>
[[nodiscard]] bool is_empty(const T& value) {
  if constexpr (kIsOptional<T>) {
    return !value.has_value();
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else if constexpr (requires { value == T{}; }) {
    return value == T{};
  } else {
    return false;
  }
}

}  // namespace fields_detail

template <>
struct JsonForm<bool> {
  static nlohmann::ordered_json write(bool value) { return value; }
  static bool read(const nlohmann::json& value, const JsonSpot& spot, const FieldOptions& options);
  static nlohmann::ordered_json schema(const FieldOptions& options, SchemaDefinitions& definitions);
};
template <>
struct JsonForm<double> {
  static nlohmann::ordered_json write(double value) { return value; }
  static double read(const nlohmann::json& value, const JsonSpot& spot,
                     const FieldOptions& options);
  static nlohmann::ordered_json schema(const FieldOptions& options, SchemaDefinitions& definitions);
};
template <>
struct JsonForm<std::int64_t> {
  static nlohmann::ordered_json write(std::int64_t value) { return value; }
  static std::int64_t read(const nlohmann::json& value, const JsonSpot& spot,
                           const FieldOptions& options);
  static nlohmann::ordered_json schema(const FieldOptions& options, SchemaDefinitions& definitions);
};
template <>
struct JsonForm<std::uint64_t> {
  static nlohmann::ordered_json write(std::uint64_t value) { return value; }
  static std::uint64_t read(const nlohmann::json& value, const JsonSpot& spot,
                            const FieldOptions& options);
  static nlohmann::ordered_json schema(const FieldOptions& options, SchemaDefinitions& definitions);
};
template <>
struct JsonForm<std::string> {
  static nlohmann::ordered_json write(const std::string& value) { return value; }
  static std::string read(const nlohmann::json& value, const JsonSpot& spot,
                          const FieldOptions& options);
  static nlohmann::ordered_json schema(const FieldOptions& options, SchemaDefinitions& definitions);
};
template <>
struct JsonForm<nlohmann::json> {
  static nlohmann::ordered_json write(const nlohmann::json& value) {
    return nlohmann::ordered_json(value);
  }
  static nlohmann::json read(const nlohmann::json& value, const JsonSpot& spot,
                             const FieldOptions& options);
  static nlohmann::ordered_json schema(const FieldOptions& options, SchemaDefinitions& definitions);
};

template <NamedEnum T>
struct JsonForm<T> {
  static nlohmann::ordered_json write(T value) { return name_of(value); }
  static T read(const nlohmann::json& value, const JsonSpot& spot, const FieldOptions&) {
    if (value.is_string()) {
      if (const auto found = from_name<T>(value.get_ref<const std::string&>())) return *found;
    }
    fields_detail::fail_name(value, valid_names<T>(), spot);
  }
  static nlohmann::ordered_json schema(const FieldOptions&, SchemaDefinitions&) {
    return {{"enum", all_names<T>()}};
  }
};

template <class T>
struct JsonForm<std::optional<T>> {
  static nlohmann::ordered_json write(const std::optional<T>& value) {
    return value ? JsonForm<T>::write(*value) : nlohmann::ordered_json(nullptr);
  }
  static std::optional<T> read(const nlohmann::json& value, const JsonSpot& spot,
                               const FieldOptions& options) {
    if (value.is_null()) return std::nullopt;
    return JsonForm<T>::read(value, spot, options);
  }
  static nlohmann::ordered_json schema(const FieldOptions& options,
                                       SchemaDefinitions& definitions) {
    return fields_detail::nullable(JsonForm<T>::schema(options, definitions));
  }
};

template <class T>
struct JsonForm<std::vector<T>> {
  static nlohmann::ordered_json write(const std::vector<T>& values) {
    nlohmann::ordered_json array = nlohmann::ordered_json::array();
    for (const T& value : values) array.push_back(JsonForm<T>::write(value));
    return array;
  }
  static std::vector<T> read(const nlohmann::json& value, const JsonSpot& spot,
                             const FieldOptions& options) {
    fields_detail::expect_array(value, spot);
    std::vector<T> values;
    values.reserve(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      values.push_back(JsonForm<T>::read(value[i], JsonSpot(spot, i), options));
    }
    return values;
  }
  static nlohmann::ordered_json schema(const FieldOptions& options,
                                       SchemaDefinitions& definitions) {
    return {{"type", "array"}, {"items", JsonForm<T>::schema(options, definitions)}};
  }
};

template <class T>
struct JsonForm<std::map<std::string, T>> {
  static nlohmann::ordered_json write(const std::map<std::string, T>& values) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& [key, value] : values) object[key] = JsonForm<T>::write(value);
    return object;
  }
  static std::map<std::string, T> read(const nlohmann::json& value, const JsonSpot& spot,
                                       const FieldOptions& options) {
    fields_detail::expect_object(value, spot);
    std::map<std::string, T> values;
    for (const auto& [key, each] : value.items()) {
      values.emplace(key, JsonForm<T>::read(each, JsonSpot(spot, key), options));
    }
    return values;
  }
  static nlohmann::ordered_json schema(const FieldOptions& options,
                                       SchemaDefinitions& definitions) {
    return {{"type", "object"},
            {"additionalProperties", JsonForm<T>::schema(options, definitions)}};
  }
};

namespace fields_detail {

// ---- How a field of each kind is written, ...

template <class Owner, class Record, class Value, class Visit>
void write_field(const Owner& owner, const Field<Record, Value>& field, Visit& visit) {
  const Value& value = owner.*field.member;
  const bool is_null = field.null_if_empty && is_empty(value);
  if (field.presence != KeyPresence::kRequired) {
    if (is_empty(value)) return;
    if constexpr (kIsOptional<Value>) {
      visit(field.key, *value);
      return;
    }
  }
  if (is_null) {
    visit(field.key, std::optional<Value>());
  } else {
    visit(field.key, value);
  }
}

template <class Owner, class Visit>
void write_field(const Owner&, const ConstantField& field, Visit& visit) {
  visit(field.key, std::string(field.value));
}

template <class Owner, class Value, class Visit>
void write_field(const Owner&, const UnreadField<Value>&, Visit&) {}

template <class Owner, class Record, class Part, class Visit>
void write_field(const Owner& owner, const PartField<Record, Part>& field, Visit& visit) {
  const std::optional<Part>& part = owner.*field.member;
  if (!part) return;
  for_each_field<Part>([&](const auto& each) { write_field(*part, each, visit); });
}

template <class Owner, class Record, class Map, class Visit>
void write_field(const Owner& owner, const RestField<Record, Map>& field, Visit& visit) {
  for (const auto& [key, value] : owner.*field.member) visit(key, value);
}

// ... read, ...

template <class Owner, class Record, class Value>
void read_field(KeyReader& reader, const Field<Record, Value>& field, Owner& owner) {
  const nlohmann::json* value =
      field.presence == KeyPresence::kRequired ? &reader.value(field.key) : reader.find(field.key);
  if (value == nullptr) return;
  const JsonSpot spot(reader.spot(), field.key);
  if (field.null_if_empty && value->is_null()) return;
  if constexpr (kIsOptional<Value>) {
    if (field.presence != KeyPresence::kRequired) {
      using Inner = typename OptionalValue<Value>::type;
      owner.*field.member = JsonForm<Inner>::read(*value, spot, field.options);
      return;
    }
  }
  owner.*field.member = JsonForm<Value>::read(*value, spot, field.options);
}

template <class Owner>
void read_field(KeyReader& reader, const ConstantField& field, Owner&) {
  expect_constant(field, reader);
}

template <class Owner, class Value>
void read_field(KeyReader& reader, const UnreadField<Value>& field, Owner&) {
  static_cast<void>(reader.value(field.key));
}

template <class Record, class Part>
[[nodiscard]] bool has_a_key_of(KeyReader& reader) {
  bool has = false;
  for_each_field<Part>([&](const auto& each) {
    const bool is_there = reader.find(each.key) != nullptr;
    has = has || is_there;
  });
  return has;
}

template <class Owner, class Record, class Part>
void read_field(KeyReader& reader, const PartField<Record, Part>& field, Owner& owner) {
  if (!has_a_key_of<Record, Part>(reader)) return;
  Part part{};
  for_each_field<Part>([&](const auto& each) { read_field(reader, each, part); });
  owner.*field.member = std::move(part);
}

template <class Owner, class Record, class Map>
void read_field(KeyReader& reader, const RestField<Record, Map>& field, Owner& owner) {
  for (const std::string& key : reader.keys_ending_in(field.suffix)) {
    (owner.*field.member)[key] = JsonForm<typename Map::mapped_type>::read(
        reader.value(key), JsonSpot(reader.spot(), key), {});
  }
}

// ... and described in the schema.

template <class Record, class Value>
void describe_field(const Field<Record, Value>& field, nlohmann::ordered_json& object,
                    SchemaDefinitions& definitions) {
  using Inner = typename OptionalValue<Value>::type;
  const bool is_required = field.presence == KeyPresence::kRequired;
  nlohmann::ordered_json schema;
  if (!field.options.schema.empty()) {
    schema = nlohmann::ordered_json::parse(field.options.schema);
  } else if (is_required) {
    schema = JsonForm<Value>::schema(field.options, definitions);
  } else {
    schema = JsonForm<Inner>::schema(field.options, definitions);
  }
  if (field.null_if_empty) schema = nullable(std::move(schema));
  add_property(object, field.key, std::move(schema), field.meaning, is_required);
}

inline void describe_field(const ConstantField& field, nlohmann::ordered_json& object,
                           SchemaDefinitions&) {
  add_property(object, field.key, {{"const", field.value}}, "",
               field.presence == KeyPresence::kRequired);
}

template <class Value>
void describe_field(const UnreadField<Value>& field, nlohmann::ordered_json& object,
                    SchemaDefinitions& definitions) {
  add_property(object, field.key, JsonForm<Value>::schema({}, definitions), field.meaning, true);
}

template <class Record, class Part>
void describe_field(const PartField<Record, Part>&, nlohmann::ordered_json& object,
                    SchemaDefinitions& definitions) {
  nlohmann::ordered_json part = object_schema();
  for_each_field<Part>([&](const auto& each) { describe_field(each, part, definitions); });
  std::vector<std::string> keys;
  for (const auto& [key, schema] : part["properties"].items()) {
    add_property(object, key, schema, "", false);
    keys.push_back(key);
  }
  make_all_or_none(object, keys);
}

template <class Record, class Map>
void describe_field(const RestField<Record, Map>& field, nlohmann::ordered_json& object,
                    SchemaDefinitions& definitions) {
  object["patternProperties"][std::string(field.suffix) + "$"] =
      JsonForm<typename Map::mapped_type>::schema({}, definitions);
}

}  // namespace fields_detail

// Calls `visit(key, value)` for each key that is written, in the order of the list.
template <Described T, class Visit>
void for_each_written(const T& record, Visit&& visit) {
  for_each_field<T>([&](const auto& field) { fields_detail::write_field(record, field, visit); });
}

template <Described T>
struct JsonForm<T> {
  static nlohmann::ordered_json write(const T& record) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for_each_written(record, [&](std::string_view key, const auto& value) {
      object[std::string(key)] = JsonForm<std::remove_cvref_t<decltype(value)>>::write(value);
    });
    return object;
  }

  static T read(const nlohmann::json& value, const JsonSpot& spot, const FieldOptions&) {
    fields_detail::KeyReader reader(value, spot);
    T record{};
    for_each_field<T>([&](const auto& field) { fields_detail::read_field(reader, field, record); });
    reader.finish();
    if constexpr (requires { Fields<T>::contradiction(record); }) {
      if (const std::optional<Contradiction> found = Fields<T>::contradiction(record)) {
        fields_detail::fail_contradiction(*found, spot);
      }
    }
    return record;
  }

  static nlohmann::ordered_json schema(const FieldOptions&, SchemaDefinitions& definitions) {
    if constexpr (requires { Fields<T>::kName; }) {
      const std::string name(Fields<T>::kName);
      if (!definitions.contains(name)) {
        definitions[name] = nullptr;  // reserves its place before the definitions that it refers to
        definitions[name] = describe(definitions);
      }
      return {{"$ref", "#/definitions/" + name}};
    } else {
      return describe(definitions);
    }
  }

 private:
  static nlohmann::ordered_json describe(SchemaDefinitions& definitions) {
    nlohmann::ordered_json object = fields_detail::object_schema();
    if constexpr (requires { Fields<T>::kMeaning; }) object["description"] = Fields<T>::kMeaning;
    for_each_field<T>(
        [&](const auto& field) { fields_detail::describe_field(field, object, definitions); });
    if constexpr (requires { Fields<T>::kAlso; }) {
      fields_detail::merge_schema(object, Fields<T>::kAlso);
    }
    return object;
  }
};

template <class T>
[[nodiscard]] nlohmann::ordered_json json_of(const T& value) {
  return JsonForm<T>::write(value);
}

template <class T>
[[nodiscard]] T read_as(const nlohmann::json& value, const JsonPlace& place) {
  return JsonForm<T>::read(value, JsonSpot(place), {});
}

template <class T>
[[nodiscard]] nlohmann::ordered_json schema_of(SchemaDefinitions& definitions) {
  return JsonForm<T>::schema({}, definitions);
}

}  // namespace shardlab

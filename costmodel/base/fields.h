// One description per record: a struct lists its fields once, and the JSON that is written, the
// strict reader and the JSON schema all follow from that list.
//
//   struct Step { std::string collective; std::optional<double> us; std::string refused; };
//   template <>
//   struct Fields<Step> {
//     static constexpr std::string_view kName = "step";   // its definition in the schema
//     static constexpr auto kList = std::tuple(
//         field("collective", &Step::collective, "which collective ran"),
//         field("us", &Step::us, "its price in microseconds; null: impossible"),
//         optional_field("refused", &Step::refused, "why it cannot run"));
//   };
//
// costmodel/base/fields_json.h does the rest. The order of the list is the order in which keys are
// written. To add a figure to a record, add a member and a line in its list.
//
// A key is required unless its field says otherwise, and an empty std::optional is written as null.
// Two more members of Fields can say what a list cannot: `contradiction` (a rule across fields,
// checked after reading) and `kAlso` (the same rule as a part of the schema, in JSON). `kMeaning`
// describes the struct as a whole in the schema.
//
//   static std::optional<Contradiction> contradiction(const Step& step);
//   static constexpr std::string_view kAlso = R"({"if": ..., "then": ...})";
//
// This header does not include the JSON library, so that headers with records stay cheap to
// include.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace shardlab {

template <class Record>
struct Fields;  // specialised beside the record

// A contradiction in a record: the JSON pointer to the place, relative to the record, and what is
// wrong there.
struct Contradiction {
  std::string pointer;
  std::string message;
};

struct FieldOptions {
  std::int64_t min = 0;          // the smallest value of an integer
  bool is_amount = false;        // whether a number must not be negative
  std::string_view schema = {};  // JSON that replaces the schema of the field's type
};

// A size or another number that is not negative: field("bytes", &Step::bytes, "", kAmount).
inline constexpr FieldOptions kAmount = {.is_amount = true};

// Numbers that are read are 0, or between these sizes, whatever their sign. No time or size comes
// near them, and what is computed from a few such numbers is finite.
inline constexpr double kLeastNumber = 1e-60;
inline constexpr double kMostNumber = 1e60;
// Integers are at most this large, so that sums of some hundred of them still fit into 64 bits.
inline constexpr std::int64_t kMostInteger = std::int64_t{1} << 56;

enum class KeyPresence {
  kRequired,
  kOptional,        // absent when the value is empty; null is refused
  kOptionalOrNull,  // absent when the value is empty; null is read as empty, too
};

template <class Record, class Value>
struct Field {
  std::string_view key;
  Value Record::*member;
  std::string_view meaning;
  FieldOptions options = {};
  KeyPresence presence = KeyPresence::kRequired;
  bool null_if_empty = false;  // an empty text is written as null
};

template <class Record, class Value>
[[nodiscard]] constexpr Field<Record, Value> field(std::string_view key, Value Record::*member,
                                                   std::string_view meaning,
                                                   FieldOptions options = {}) {
  return {key, member, meaning, options};
}

// A text that is written as null when it is empty.
template <class Record>
[[nodiscard]] constexpr Field<Record, std::string> nullable_text(std::string_view key,
                                                                 std::string Record::*member,
                                                                 std::string_view meaning) {
  return {key, member, meaning, {}, KeyPresence::kRequired, true};
}

// The key is absent when the value is empty: an optional without a value, an empty text or list.
template <class Record, class Value>
[[nodiscard]] constexpr Field<Record, Value> optional_field(std::string_view key,
                                                            Value Record::*member,
                                                            std::string_view meaning,
                                                            FieldOptions options = {}) {
  return {key, member, meaning, options, KeyPresence::kOptional};
}

// Like optional_field, but null is read as empty, too.
template <class Record, class Value>
[[nodiscard]] constexpr Field<Record, Value> optional_or_null(std::string_view key,
                                                              Value Record::*member,
                                                              std::string_view meaning) {
  return {key, member, meaning, {}, KeyPresence::kOptionalOrNull, true};
}

// A key that always has the same text: the name of a schema or the kind of a record.
struct ConstantField {
  std::string_view key;
  std::string_view value;
  // Whether a reader requires the key. A writer always writes it.
  KeyPresence presence = KeyPresence::kRequired;
};

// A required key whose value, of type `Value` in the schema, is not read.
template <class Value>
struct UnreadField {
  std::string_view key;
  std::string_view meaning;
};

// The fields of a struct, written among the fields of its owner: all of them, or none.
template <class Record, class Part>
struct PartField {
  std::optional<Part> Record::*member;
};
template <class Record, class Part>
[[nodiscard]] constexpr PartField<Record, Part> all_or_none(std::optional<Part> Record::*member) {
  return {member};
}

// All keys that end in `suffix`, as a map.
template <class Record, class Map>
struct RestField {
  std::string_view suffix;
  Map Record::*member;
};
template <class Record, class Map>
[[nodiscard]] constexpr RestField<Record, Map> keys_ending_in(std::string_view suffix,
                                                              Map Record::*member) {
  return {suffix, member};
}

// Calls `visit` with each field of the record's list.
template <class Record, class Visit>
constexpr void for_each_field(Visit&& visit) {
  std::apply([&](const auto&... each) { (visit(each), ...); }, Fields<Record>::kList);
}

}  // namespace shardlab

// The names of an enumeration, in one table from which parsing, printing, help texts, lists of
// valid values and JSON schemas all come:
//
//   template <>
//   struct EnumNames<Collective> {
//     static constexpr std::string_view kKind = "collective";  // what a message calls such a value
//     static constexpr std::array kNames = {Named{Collective::kAllGather, "all_gather"},
//                                           Named{Collective::kAllReduce, "all_reduce"}};
//   };
//
//   name_of(Collective::kAllReduce)             // "all_reduce"
//   from_name<Collective>("all_reduce")         // kAllReduce; std::nullopt for an unknown word
//   valid_names<Collective>()                   // "all_gather, all_reduce"
//   all_names<Collective>()                     // the names alone, in the order of the table
//   kSpacedNames<Collective>                    // "all_gather all_reduce", a constant
//
// A table may list a value twice: the first name is the one that is printed. The others are read
// too, but no list of valid names shows them.
#pragma once

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/text.h"

namespace shardlab {

template <class Enum>
struct Named {
  Enum value;
  std::string_view name;
};
template <class Enum, std::size_t N>
Named(Enum, const char (&)[N]) -> Named<Enum>;

template <class Enum>
struct EnumNames;  // specialised beside the enumeration

// Throws std::logic_error, and thereby fails to compile in a constant expression, for a value that
// the table lacks.
template <class Enum>
[[nodiscard]] constexpr std::string_view name_of(Enum value) {
  for (const Named<Enum>& each : EnumNames<Enum>::kNames) {
    if (each.value == value) return each.name;
  }
  throw std::logic_error("a value of an enumeration has no name");
}

// Returns nothing for a word that does not name an enumerator. Upper and lower case differ.
template <class Enum>
[[nodiscard]] constexpr std::optional<Enum> from_name(std::string_view name) {
  for (const Named<Enum>& each : EnumNames<Enum>::kNames) {
    if (each.name == name) return each.value;
  }
  return std::nullopt;
}

namespace internal {
template <class Enum>
[[nodiscard]] constexpr bool is_first_name(const Named<Enum>& each) {
  return name_of(each.value) == each.name;
}
}  // namespace internal

template <class Enum>
[[nodiscard]] std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names;
  for (const Named<Enum>& each : EnumNames<Enum>::kNames) {
    if (internal::is_first_name(each)) names.push_back(each.name);
  }
  return names;
}

template <class Enum>
[[nodiscard]] std::string valid_names(std::string_view separator = ", ") {
  return join(all_names<Enum>(), separator);
}

namespace internal {
template <class Enum>
[[nodiscard]] constexpr std::size_t size_of_spaced_names() {
  std::size_t size = 0;
  for (const Named<Enum>& each : EnumNames<Enum>::kNames) {
    if (is_first_name(each)) size += each.name.size() + 1;  // with the blank after it
  }
  return size;
}

template <class Enum>
[[nodiscard]] constexpr auto spaced_names() {
  std::array<char, size_of_spaced_names<Enum>()> text{};
  std::size_t size = 0;
  for (const Named<Enum>& each : EnumNames<Enum>::kNames) {
    if (!is_first_name(each)) continue;
    for (const char c : each.name) text[size++] = c;
    text[size++] = ' ';
  }
  return text;
}

template <class Enum>
inline constexpr auto kSpacedText = spaced_names<Enum>();
}  // namespace internal

// The valid names with blanks between them.
template <class Enum>
inline constexpr std::string_view kSpacedNames{internal::kSpacedText<Enum>.data(),
                                               internal::kSpacedText<Enum>.size() - 1};

}  // namespace shardlab

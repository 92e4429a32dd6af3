#include "costmodel/measurements/chakra_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "costmodel/base/text.h"

namespace shardlab {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";  // RFC 4648, section 4

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t b = 0; b < 3; ++b) {
      bits = bits << 8U | (b < group.size() ? static_cast<unsigned char>(group[b]) : 0U);
    }
    for (std::size_t c = 0; c < 4; ++c) {
      text += c <= group.size() ? kBase64[bits >> (18U - 6U * c) & 63U] : '=';
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    const std::size_t digit = kBase64.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xFFU);
  }
  if (held >= 6) return std::nullopt;
  return bytes;
}

// Turns "data_deps" into "dataDeps".
std::string camel_case(std::string_view name) {
  std::string text;
  bool is_upper = false;
  for (const char c : name) {
    if (c == '_') {
      is_upper = true;
      continue;
    }
    text += is_upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    is_upper = false;
  }
  return text;
}

std::string value_key(ChakraType type, bool is_list) {
  return std::string(name_of(type)) + (is_list ? "List" : "Val");
}

// -- Reading ------------------------------------------------------------------------------------

// Finds a field of a message under its JSON name or under the schema's name.
const json* find_field(ObjectReader& reader, std::string_view field) {
  return reader.find_spelled(camel_case(field), field);
}
JsonPlace place_of(const ObjectReader& reader, std::string_view field) {
  return reader.place(camel_case(field));
}

std::string text_field(ObjectReader& reader, std::string_view field) {
  const json* value = find_field(reader, field);
  return value == nullptr ? std::string() : json_text(*value, place_of(reader, field));
}

// Calls read(element, its place) for each element of a repeated field.
template <class Read>
void for_each_element(ObjectReader& reader, std::string_view field, const Read& read) {
  const json* found = find_field(reader, field);
  if (found == nullptr) return;
  const JsonPlace place = place_of(reader, field);
  const json& elements = json_array(*found, place);
  for (std::size_t i = 0; i < elements.size(); ++i) read(elements[i], place.at(i));
}

std::string range_text(ChakraType type) {
  if (!is_signed(type)) return is_narrow(type) ? "0 to 4294967295" : "0 to 18446744073709551615";
  return is_narrow(type) ? "-2147483648 to 2147483647"
                         : "-9223372036854775808 to 9223372036854775807";
}

// A whole number may be written as a number or as a text.
std::uint64_t read_integer(const json& value, ChakraType type, const JsonPlace& place) {
  const bool is_known = value.is_number_integer() || value.is_string();
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  const char* const end = text.data() + text.size();
  const auto fail = [&]() {
    place.fail("found " + describe_json(value) + "; valid: a whole number from " +
               range_text(type) + ", or that number as a text");
  };
  if (!is_known) fail();
  if (is_signed(type)) {
    std::int64_t number = 0;
    const auto [last, error] = std::from_chars(text.data(), end, number);
    const bool fits = !is_narrow(type) || (number >= std::numeric_limits<std::int32_t>::min() &&
                                           number <= std::numeric_limits<std::int32_t>::max());
    if (error != std::errc() || last != end || !fits) fail();
    return static_cast<std::uint64_t>(number);
  }
  std::uint64_t number = 0;
  const auto [last, error] = std::from_chars(text.data(), end, number);
  const bool fits = !is_narrow(type) || number <= std::numeric_limits<std::uint32_t>::max();
  if (error != std::errc() || last != end || !fits) fail();
  return number;
}

double read_real(const json& value, ChakraType type, const JsonPlace& place) {
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (type == ChakraType::kDouble) return number;
    if (std::abs(number) > static_cast<double>(std::numeric_limits<float>::max())) {
      place.fail("found " + describe_json(value) +
                 "; valid: a number that a float holds, up to 3.4e38");
    }
    return static_cast<double>(static_cast<float>(number));
  }
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  place.fail("found " + describe_json(value) +
             "; valid: a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
}

void read_value(const json& value, ChakraAttribute& out, const JsonPlace& place) {
  if (is_real(*out.type)) {
    out.reals.push_back(read_real(value, *out.type, place));
  } else if (out.type == ChakraType::kBool) {
    if (!value.is_boolean()) {
      place.fail("found " + describe_json(value) + "; valid: true or false");
    }
    out.integers.push_back(value.get<bool>() ? 1 : 0);
  } else if (out.type == ChakraType::kString) {
    out.texts.push_back(json_text(value, place));
  } else if (out.type == ChakraType::kBytes) {
    const std::string text = json_text(value, place);
    std::optional<std::string> bytes = from_base64(text);
    if (!bytes) place.fail("found " + describe_json(value) + "; valid: base64");
    out.texts.push_back(*std::move(bytes));
  } else {
    out.integers.push_back(read_integer(value, *out.type, place));
  }
}

ChakraAttribute read_attribute(const json& value, const JsonPlace& place) {
  ObjectReader reader(value, place);
  ChakraAttribute out;
  out.name = text_field(reader, "name");
  out.doc = text_field(reader, "doc_string");
  for (const auto& [type, name] : EnumNames<ChakraType>::kNames) {
    for (const bool is_list : {false, true}) {
      const std::string field = std::string(name) + (is_list ? "_list" : "_val");
      const json* found = find_field(reader, field);
      if (found == nullptr) continue;
      const JsonPlace value_place = place_of(reader, field);
      if (out.type) {
        value_place.fail("found a second value beside " + value_key(*out.type, out.is_list) +
                         "; valid: one value");
      }
      out.type = type;
      out.is_list = is_list;
      if (!is_list) {
        read_value(*found, out, value_place);
        continue;
      }
      ObjectReader list(*found, value_place);
      for_each_element(list, "values", [&](const json& element, const JsonPlace& element_place) {
        read_value(element, out, element_place);
      });
      list.finish();
    }
  }
  reader.finish();
  return out;
}

std::vector<ChakraAttribute> read_attributes(ObjectReader& reader) {
  std::vector<ChakraAttribute> attributes;
  for_each_element(reader, "attr", [&](const json& element, const JsonPlace& place) {
    attributes.push_back(read_attribute(element, place));
  });
  return attributes;
}

std::uint64_t read_number(ObjectReader& reader, std::string_view field) {
  const json* found = find_field(reader, field);
  if (found == nullptr) return 0;
  return read_integer(*found, ChakraType::kUint64, place_of(reader, field));
}

std::vector<std::uint64_t> read_numbers(ObjectReader& reader, std::string_view field) {
  std::vector<std::uint64_t> numbers;
  for_each_element(reader, field, [&](const json& element, const JsonPlace& place) {
    numbers.push_back(read_integer(element, ChakraType::kUint64, place));
  });
  return numbers;
}

std::optional<ChakraIo> read_io(ObjectReader& reader, std::string_view field) {
  const json* found = find_field(reader, field);
  if (found == nullptr) return std::nullopt;
  ObjectReader own(*found, place_of(reader, field));
  ChakraIo io{.values = text_field(own, "values"),
              .shapes = text_field(own, "shapes"),
              .types = text_field(own, "types")};
  own.finish();
  return io;
}

std::uint64_t read_type(ObjectReader& reader) {
  const json* found = find_field(reader, "type");
  if (found == nullptr) return 0;
  if (found->is_string()) {
    const auto name = std::find(kChakraNodeTypes.begin(), kChakraNodeTypes.end(), *found);
    if (name == kChakraNodeTypes.end()) {
      place_of(reader, "type")
          .fail("found " + describe_json(*found) + "; valid: " + join(kChakraNodeTypes));
    }
    return static_cast<std::uint64_t>(name - kChakraNodeTypes.begin());
  }
  return read_integer(*found, ChakraType::kUint32, place_of(reader, "type"));
}

ChakraMessage read_node(const json& value, const JsonPlace& place) {
  ObjectReader reader(value, place);
  ChakraMessage node;
  node.place = place.pointer;
  node.id = read_number(reader, "id");
  node.name = text_field(reader, "name");
  node.type = read_type(reader);
  node.control_deps = read_numbers(reader, "ctrl_deps");
  node.data_deps = read_numbers(reader, "data_deps");
  node.start_us = read_number(reader, "start_time_micros");
  node.duration_us = read_number(reader, "duration_micros");
  node.inputs = read_io(reader, "inputs");
  node.outputs = read_io(reader, "outputs");
  node.attributes = read_attributes(reader);
  static_cast<void>(find_field(reader, "storage"));
  reader.finish();
  return node;
}

// -- Writing ------------------------------------------------------------------------------------

// The double with the fewest digits that rounds to this float.
double shortest_float(double value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, static_cast<float>(value));
  double number = value;
  std::from_chars(text, written.ptr, number);
  return number;
}

ordered_json value_json(const ChakraAttribute& attribute, std::size_t i) {
  const ChakraType type = *attribute.type;
  if (type == ChakraType::kString) return attribute.texts[i];
  if (type == ChakraType::kBytes) return to_base64(attribute.texts[i]);
  if (is_real(type)) {
    const double real = attribute.reals[i];
    if (std::isfinite(real)) return type == ChakraType::kFloat ? shortest_float(real) : real;
    return std::isnan(real) ? "NaN" : real > 0.0 ? "Infinity" : "-Infinity";
  }
  const std::uint64_t number = attribute.integers[i];
  if (type == ChakraType::kBool) return number != 0;
  if (is_narrow(type)) {
    return is_signed(type) ? ordered_json(static_cast<std::int64_t>(number)) : ordered_json(number);
  }
  return is_signed(type) ? std::to_string(static_cast<std::int64_t>(number))
                         : std::to_string(number);
}

ordered_json attributes_json(const std::vector<ChakraAttribute>& attributes) {
  ordered_json all = ordered_json::array();
  for (const ChakraAttribute& attribute : attributes) {
    ordered_json& out = all.emplace_back(ordered_json::object());
    if (!attribute.name.empty()) out["name"] = attribute.name;
    if (!attribute.doc.empty()) out["docString"] = attribute.doc;
    if (!attribute.type) continue;
    ordered_json& value = out[value_key(*attribute.type, attribute.is_list)];
    if (!attribute.is_list) {
      value = value_json(attribute, 0);
      continue;
    }
    value = ordered_json::object();
    const std::size_t size =
        attribute.integers.size() + attribute.reals.size() + attribute.texts.size();
    for (std::size_t i = 0; i < size; ++i) value["values"].push_back(value_json(attribute, i));
  }
  return all;
}

ordered_json numbers_json(const std::vector<std::uint64_t>& numbers) {
  ordered_json texts = ordered_json::array();
  for (const std::uint64_t number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

ordered_json io_json(const ChakraIo& io) {
  ordered_json out = ordered_json::object();
  if (!io.values.empty()) out["values"] = io.values;
  if (!io.shapes.empty()) out["shapes"] = io.shapes;
  if (!io.types.empty()) out["types"] = io.types;
  return out;
}

ordered_json node_json(const ChakraMessage& node) {
  ordered_json out = ordered_json::object();
  if (node.id != 0) out["id"] = std::to_string(node.id);
  if (!node.name.empty()) out["name"] = node.name;
  if (node.type >= kChakraNodeTypes.size()) {
    out["type"] = node.type;
  } else if (node.type != 0) {
    out["type"] = kChakraNodeTypes[node.type];
  }
  if (!node.control_deps.empty()) out["ctrlDeps"] = numbers_json(node.control_deps);
  if (!node.data_deps.empty()) out["dataDeps"] = numbers_json(node.data_deps);
  if (node.start_us != 0) out["startTimeMicros"] = std::to_string(node.start_us);
  if (node.duration_us != 0) out["durationMicros"] = std::to_string(node.duration_us);
  if (node.inputs) out["inputs"] = io_json(*node.inputs);
  if (node.outputs) out["outputs"] = io_json(*node.outputs);
  if (!node.attributes.empty()) out["attr"] = attributes_json(node.attributes);
  return out;
}

std::string line_of(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// The end of the object that the text begins with; npos if the text does not begin with an object.
std::size_t object_end(std::string_view text) {
  std::size_t depth = 0;
  bool is_in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_text) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        is_in_text = false;
      }
    } else if (c == '"') {
      is_in_text = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return i + 1;
    }
  }
  return std::string_view::npos;
}

bool is_metadata(const json& value) {
  return value.is_object() && value.contains("version") &&
         std::all_of(value.items().begin(), value.items().end(), [](const auto& item) {
           return item.key() == "version" || item.key() == "attr";
         });
}

}  // namespace

bool is_chakra_json(const json& document) {
  return document.is_array() && !document.empty() && is_metadata(document[0]);
}

std::optional<std::string> chakra_array_text(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string array;
  bool is_first = true;
  for (std::size_t begin = text.find_first_not_of(kSpace); begin != std::string_view::npos;
       begin = text.find_first_not_of(kSpace)) {
    // The blanks between objects are kept, so that errors of the JSON parser name the right line.
    array += text.substr(0, begin);
    text.remove_prefix(begin);
    if (text[0] != '{') return std::nullopt;
    const std::size_t end = object_end(text);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view object = text.substr(0, end);
    const bool is_last = text.find_first_not_of(kSpace, end) == std::string_view::npos;
    if (is_first && (is_last || !is_metadata(json::parse(object, nullptr, false)))) {
      return std::nullopt;
    }
    (array += is_first ? '[' : ',') += object;
    is_first = false;
    text.remove_prefix(end);
  }
  if (is_first) return std::nullopt;
  return array + "]";
}

ChakraMessages read_chakra_json(const json& document, const JsonPlace& place) {
  ChakraMessages trace;
  if (json_array(document, place).empty()) place.fail("found no GlobalMetadata");
  ObjectReader metadata(document[0], place.at(std::size_t{0}));
  trace.metadata.place = place.at(std::size_t{0}).pointer;
  trace.metadata.version = text_field(metadata, "version");
  trace.metadata.attributes = read_attributes(metadata);
  metadata.finish();
  for (std::size_t i = 1; i < document.size(); ++i) {
    trace.nodes.push_back(read_node(document[i], place.at(i)));
  }
  return trace;
}

std::string chakra_json_text(const ChakraMessages& trace) {
  ordered_json metadata = ordered_json::object();
  metadata["version"] = trace.metadata.version;
  if (!trace.metadata.attributes.empty()) {
    metadata["attr"] = attributes_json(trace.metadata.attributes);
  }
  std::string text = "[" + line_of(metadata);
  for (const ChakraMessage& node : trace.nodes) text += ",\n" + line_of(node_json(node));
  return text + "]\n";
}

}  // namespace shardlab

// Chakra's messages in the wire format of protocol buffers.
#include "costmodel/measurements/chakra_messages.h"

#include <algorithm>
#include <bit>

#include "costmodel/base/error.h"
#include "costmodel/measurements/chakra_wire.h"

namespace shardlab {
namespace {

constexpr std::uint64_t kFirstValue = 3;  // AttributeProto.double_val
constexpr std::uint64_t kLastValue = 32;  // AttributeProto.bytes_list

// -- Reading ------------------------------------------------------------------------------------

std::uint64_t unzigzag(std::uint64_t value) { return (value >> 1U) ^ (~(value & 1U) + 1U); }
std::uint64_t zigzag(std::uint64_t value) { return (value << 1U) ^ (~(value >> 63U) + 1U); }

// The value of a varint. A 32-bit number may be written with more bits, of which only the lowest 32
// count.
std::uint64_t narrowed(ChakraType type, std::uint64_t value) {
  if (!is_narrow(type)) return value;
  const auto low = static_cast<std::uint32_t>(value);
  if (!is_signed(type)) return low;
  return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(low)});
}

WireType wire_type(ChakraType type) {
  switch (type) {
    case ChakraType::kDouble:
    case ChakraType::kFixed64:
    case ChakraType::kSfixed64:
      return WireType::kFixed64;
    case ChakraType::kFloat:
    case ChakraType::kFixed32:
    case ChakraType::kSfixed32:
      return WireType::kFixed32;
    case ChakraType::kString:
    case ChakraType::kBytes:
      return WireType::kBytes;
    default:
      return WireType::kVarint;
  }
}

void read_value(WireReader& reader, WireField field, ChakraAttribute& out) {
  const std::string_view name = name_of(*out.type);
  switch (wire_type(*out.type)) {
    case WireType::kBytes:
      out.texts.emplace_back(reader.text(field, name));
      return;
    case WireType::kFixed64: {
      const std::uint64_t bits = reader.fixed64(field, name);
      if (is_real(*out.type)) {
        out.reals.push_back(std::bit_cast<double>(bits));
      } else {
        out.integers.push_back(bits);
      }
      return;
    }
    case WireType::kFixed32: {
      const std::uint32_t bits = reader.fixed32(field, name);
      if (is_real(*out.type)) {
        out.reals.push_back(static_cast<double>(std::bit_cast<float>(bits)));
      } else {
        out.integers.push_back(narrowed(*out.type, bits));
      }
      return;
    }
    case WireType::kVarint: {
      const std::uint64_t value = reader.varint(field, name);
      const bool is_zigzag = out.type == ChakraType::kSint32 || out.type == ChakraType::kSint64;
      const std::uint64_t number = is_zigzag ? unzigzag(value) : narrowed(*out.type, value);
      out.integers.push_back(out.type == ChakraType::kBool ? std::uint64_t{value != 0} : number);
      return;
    }
  }
}

// Reads numbers that either follow a tag each, or are packed after a single tag.
void read_list(WireReader list, ChakraAttribute& out) {
  const WireType one = wire_type(*out.type);
  while (!list.at_end()) {
    const WireField field = list.field();
    if (field.number != 1) {
      list.skip(field);
    } else if (field.type == WireType::kBytes && one != WireType::kBytes) {
      WireReader packed = list.message(field, "values");
      while (!packed.at_end()) read_value(packed, {1, one}, out);
    } else {
      read_value(list, field, out);
    }
  }
}

ChakraAttribute read_attribute(WireReader reader) {
  ChakraAttribute out;
  while (!reader.at_end()) {
    const WireField field = reader.field();
    if (field.number == 1) {
      out.name = reader.text(field, "AttributeProto.name");
    } else if (field.number == 2) {
      out.doc = reader.text(field, "AttributeProto.doc_string");
    } else if (field.number < kFirstValue || field.number > kLastValue) {
      reader.skip(field);
    } else {
      // If an attribute has several values, the last one counts.
      out.type = static_cast<ChakraType>((field.number - kFirstValue) / 2);
      out.is_list = (field.number - kFirstValue) % 2 == 1;
      out.integers.clear();
      out.reals.clear();
      out.texts.clear();
      if (out.is_list) {
        read_list(reader.message(field, "a list"), out);
      } else {
        read_value(reader, field, out);
      }
    }
  }
  return out;
}

ChakraIo read_io(WireReader reader) {
  ChakraIo io;
  while (!reader.at_end()) {
    const WireField field = reader.field();
    if (field.number == 1) {
      io.values = reader.text(field, "IOInfo.values");
    } else if (field.number == 2) {
      io.shapes = reader.text(field, "IOInfo.shapes");
    } else if (field.number == 3) {
      io.types = reader.text(field, "IOInfo.types");
    } else {
      reader.skip(field);
    }
  }
  return io;
}

void read_deps(WireReader& reader, WireField field, std::vector<std::uint64_t>& deps,
               std::string_view what) {
  if (field.type != WireType::kBytes) {
    deps.push_back(reader.varint(field, what));
    return;
  }
  WireReader packed = reader.message(field, what);
  while (!packed.at_end()) deps.push_back(packed.varint());
}

ChakraMessage read_node(WireReader reader) {
  ChakraMessage node;
  node.place = reader.place();
  while (!reader.at_end()) {
    const WireField field = reader.field();
    switch (field.number) {
      case 1:
        node.id = reader.varint(field, "Node.id");
        break;
      case 2:
        node.name = reader.text(field, "Node.name");
        break;
      case 3:
        node.type = static_cast<std::uint32_t>(reader.varint(field, "Node.type"));
        break;
      case 4:
        read_deps(reader, field, node.control_deps, "Node.ctrl_deps");
        break;
      case 5:
        read_deps(reader, field, node.data_deps, "Node.data_deps");
        break;
      case 6:
        node.start_us = reader.varint(field, "Node.start_time_micros");
        break;
      case 7:
        node.duration_us = reader.varint(field, "Node.duration_micros");
        break;
      case 8:
        node.inputs = read_io(reader.message(field, "Node.inputs"));
        break;
      case 9:
        node.outputs = read_io(reader.message(field, "Node.outputs"));
        break;
      case 10:
        node.attributes.push_back(read_attribute(reader.message(field, "Node.attr")));
        break;
      default:
        reader.skip(field);
    }
  }
  return node;
}

// -- Writing ------------------------------------------------------------------------------------

void write_value(WireWriter& out, const ChakraAttribute& attribute, std::size_t i) {
  const ChakraType type = *attribute.type;
  switch (wire_type(type)) {
    case WireType::kBytes:
      out.varint(attribute.texts[i].size());
      out.raw(attribute.texts[i]);
      return;
    case WireType::kFixed64:
      out.fixed(
          is_real(type) ? std::bit_cast<std::uint64_t>(attribute.reals[i]) : attribute.integers[i],
          8);
      return;
    case WireType::kFixed32:
      out.fixed(is_real(type) ? std::bit_cast<std::uint32_t>(static_cast<float>(attribute.reals[i]))
                              : attribute.integers[i],
                4);
      return;
    case WireType::kVarint: {
      const bool is_zigzag = type == ChakraType::kSint32 || type == ChakraType::kSint64;
      out.varint(is_zigzag ? zigzag(attribute.integers[i]) : attribute.integers[i]);
      return;
    }
  }
}

WireWriter attribute_message(const ChakraAttribute& attribute) {
  WireWriter out;
  if (!attribute.name.empty()) out.text(1, attribute.name);
  if (!attribute.doc.empty()) out.text(2, attribute.doc);
  if (!attribute.type) return out;
  const ChakraType type = *attribute.type;
  const std::uint64_t field =
      kFirstValue + 2 * static_cast<std::uint64_t>(type) + (attribute.is_list ? 1 : 0);
  if (!attribute.is_list) {
    out.tag(field, wire_type(type));
    write_value(out, attribute, 0);
    return out;
  }
  WireWriter values;
  if (is_text(type)) {
    for (const std::string& text : attribute.texts) values.text(1, text);
  } else {
    WireWriter packed;
    const std::size_t size = is_real(type) ? attribute.reals.size() : attribute.integers.size();
    for (std::size_t i = 0; i < size; ++i) write_value(packed, attribute, i);
    if (size > 0) values.message(1, packed);
  }
  out.message(field, values);
  return out;
}

WireWriter io_message(const ChakraIo& io) {
  WireWriter out;
  if (!io.values.empty()) out.text(1, io.values);
  if (!io.shapes.empty()) out.text(2, io.shapes);
  if (!io.types.empty()) out.text(3, io.types);
  return out;
}

void write_number(WireWriter& out, std::uint64_t field, std::uint64_t value) {
  if (value != 0) out.number(field, value);
}

void write_deps(WireWriter& out, std::uint64_t field, const std::vector<std::uint64_t>& deps) {
  if (deps.empty()) return;
  WireWriter packed;
  for (const std::uint64_t id : deps) packed.varint(id);
  out.message(field, packed);
}

}  // namespace

bool is_real(ChakraType type) { return type == ChakraType::kDouble || type == ChakraType::kFloat; }
bool is_text(ChakraType type) { return type == ChakraType::kString || type == ChakraType::kBytes; }
bool is_signed(ChakraType type) {
  constexpr std::array<ChakraType, 6> kSigned = {ChakraType::kInt32,    ChakraType::kInt64,
                                                 ChakraType::kSint32,   ChakraType::kSint64,
                                                 ChakraType::kSfixed32, ChakraType::kSfixed64};
  return std::find(kSigned.begin(), kSigned.end(), type) != kSigned.end();
}
bool is_narrow(ChakraType type) {
  constexpr std::array<ChakraType, 5> kNarrow = {ChakraType::kInt32, ChakraType::kUint32,
                                                 ChakraType::kSint32, ChakraType::kFixed32,
                                                 ChakraType::kSfixed32};
  return std::find(kNarrow.begin(), kNarrow.end(), type) != kNarrow.end();
}

std::optional<std::uint64_t> ChakraAttribute::integer() const {
  if (is_list || integers.size() != 1) return std::nullopt;
  return integers[0];
}
std::optional<double> ChakraAttribute::real() const {
  if (is_list || reals.size() != 1) return std::nullopt;
  return reals[0];
}
std::string_view ChakraAttribute::text() const {
  if (is_list || texts.size() != 1 || type != ChakraType::kString) return {};
  return texts[0];
}

const ChakraAttribute* ChakraMessage::find(std::string_view attribute) const {
  const auto it = std::find_if(attributes.begin(), attributes.end(),
                               [&](const ChakraAttribute& each) { return each.name == attribute; });
  return it == attributes.end() ? nullptr : &*it;
}

ChakraMessages read_chakra_wire(std::string_view text, std::string_view file) {
  ChakraMessages trace;
  WireReader messages(text, file);
  if (messages.at_end()) messages.fail("found no GlobalMetadata");
  WireReader metadata = messages.message();
  trace.metadata.place = metadata.place();
  while (!metadata.at_end()) {
    const WireField field = metadata.field();
    if (field.number == 1) {
      trace.metadata.version = metadata.text(field, "GlobalMetadata.version");
    } else if (field.number == 2) {
      trace.metadata.attributes.push_back(
          read_attribute(metadata.message(field, "GlobalMetadata.attr")));
    } else {
      metadata.skip(field);
    }
  }
  while (!messages.at_end()) trace.nodes.push_back(read_node(messages.message()));
  return trace;
}

std::string chakra_wire_text(const ChakraMetadata& metadata) {
  WireWriter out;
  if (!metadata.version.empty()) out.text(1, metadata.version);
  for (const ChakraAttribute& each : metadata.attributes) out.message(2, attribute_message(each));
  return out.delimited();
}

std::string chakra_wire_text(const ChakraMessage& node) {
  WireWriter out;
  write_number(out, 1, node.id);
  if (!node.name.empty()) out.text(2, node.name);
  write_number(out, 3, node.type);
  write_deps(out, 4, node.control_deps);
  write_deps(out, 5, node.data_deps);
  write_number(out, 6, node.start_us);
  write_number(out, 7, node.duration_us);
  if (node.inputs) out.message(8, io_message(*node.inputs));
  if (node.outputs) out.message(9, io_message(*node.outputs));
  for (const ChakraAttribute& each : node.attributes) out.message(10, attribute_message(each));
  return out.delimited();
}

std::string chakra_wire_text(const ChakraMessages& trace) {
  std::string text = chakra_wire_text(trace.metadata);
  for (const ChakraMessage& node : trace.nodes) text += chakra_wire_text(node);
  return text;
}

}  // namespace shardlab

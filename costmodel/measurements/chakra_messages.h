// The messages of a Chakra execution trace (MLCommons) as values. They are written as protocol
// buffers, each after its length (.et), or as JSON (chakra_json.h).
//
//   const ChakraMessages trace = read_chakra_wire(text, "run.3.et");
//   trace.nodes[0].find("comm_size")->integer();
//   file << chakra_wire_text(trace.metadata) << chakra_wire_text(trace.nodes[0]);
//
// All fields of GlobalMetadata and Node are kept, except a node's `storage`, which is skipped. A
// field that a message lacks is read as zero or empty, and a field that is zero or empty is not
// written: proto3 does not distinguish the two, except for the value of an attribute.
//
// Source: mlcommons/chakra, schema/protobuf/et_def.proto (field numbers, types). Throws ConfigError
// with the byte, what was found there and what is valid.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"

namespace shardlab {

// The types of AttributeProto's `value`, in the order of its fields: field 3 holds one double, 4 a
// list of doubles, 5 one float, and so on.
enum class ChakraType : std::uint8_t {
  kDouble,
  kFloat,
  kInt32,
  kInt64,
  kUint32,
  kUint64,
  kSint32,
  kSint64,
  kFixed32,
  kFixed64,
  kSfixed32,
  kSfixed64,
  kBool,
  kString,
  kBytes
};
template <>
struct EnumNames<ChakraType> {
  static constexpr std::string_view kKind = "type";
  static constexpr std::array kNames = {
      Named{ChakraType::kDouble, "double"},     Named{ChakraType::kFloat, "float"},
      Named{ChakraType::kInt32, "int32"},       Named{ChakraType::kInt64, "int64"},
      Named{ChakraType::kUint32, "uint32"},     Named{ChakraType::kUint64, "uint64"},
      Named{ChakraType::kSint32, "sint32"},     Named{ChakraType::kSint64, "sint64"},
      Named{ChakraType::kFixed32, "fixed32"},   Named{ChakraType::kFixed64, "fixed64"},
      Named{ChakraType::kSfixed32, "sfixed32"}, Named{ChakraType::kSfixed64, "sfixed64"},
      Named{ChakraType::kBool, "bool"},         Named{ChakraType::kString, "string"},
      Named{ChakraType::kBytes, "bytes"}};
};

// Properties of the values of a type.
[[nodiscard]] bool is_real(ChakraType type);
[[nodiscard]] bool is_text(ChakraType type);  // true for strings and bytes
[[nodiscard]] bool is_signed(ChakraType type);
[[nodiscard]] bool is_narrow(ChakraType type);  // true for values of 32 bits

struct ChakraAttribute {
  std::string name = {};
  std::string doc = {};
  std::optional<ChakraType> type = {};  // absent if the attribute has no value
  bool is_list = false;
  // The values are in one of these lists, depending on the type. An attribute that is not a list
  // has exactly one value. Whole numbers and bools are held in 64 bits, negative numbers as their
  // two's complement.
  std::vector<std::uint64_t> integers = {};
  std::vector<double> reals = {};
  std::vector<std::string> texts = {};

  // The single value; nothing for a list or for a value of another kind.
  [[nodiscard]] std::optional<std::uint64_t> integer() const;
  [[nodiscard]] std::optional<double> real() const;
  [[nodiscard]] std::string_view text() const;  // returns "" instead of nothing

  friend bool operator==(const ChakraAttribute&, const ChakraAttribute&) = default;
};

struct ChakraMetadata {
  std::string version = {};
  std::vector<ChakraAttribute> attributes = {};
  std::string place = {};  // the same as ChakraMessage::place
};

struct ChakraIo {
  std::string values = {};
  std::string shapes = {};
  std::string types = {};  // "['Tensor(float)', 'Int']"
  friend bool operator==(const ChakraIo&, const ChakraIo&) = default;
};

inline constexpr std::array<std::string_view, 11> kChakraNodeTypes = {
    "INVALID_NODE", "METADATA_NODE",  "MEM_LOAD_NODE",  "MEM_STORE_NODE",
    "COMP_NODE",    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE",
    "STORAGE_NODE", "BATCH_NODE",     "CHECKPOINT_NODE"};

struct ChakraMessage {
  std::uint64_t id = 0;
  std::string name = {};
  std::uint64_t type = 0;  // an index into kChakraNodeTypes; newer schemas may have larger ones
  std::vector<std::uint64_t> control_deps = {};
  std::vector<std::uint64_t> data_deps = {};
  std::uint64_t start_us = 0;
  std::uint64_t duration_us = 0;
  std::optional<ChakraIo> inputs = {};
  std::optional<ChakraIo> outputs = {};
  std::vector<ChakraAttribute> attributes = {};
  std::string place = {};  // the position of the message in its file: "byte 212", or "/3"

  // The first attribute of this name; null if there is none.
  [[nodiscard]] const ChakraAttribute* find(std::string_view attribute) const;
};

struct ChakraMessages {
  ChakraMetadata metadata;
  std::vector<ChakraMessage> nodes;
};

[[nodiscard]] ChakraMessages read_chakra_wire(std::string_view text, std::string_view file);
[[nodiscard]] std::string chakra_wire_text(const ChakraMetadata& metadata);
[[nodiscard]] std::string chakra_wire_text(const ChakraMessage& node);
[[nodiscard]] std::string chakra_wire_text(const ChakraMessages& trace);

}  // namespace shardlab

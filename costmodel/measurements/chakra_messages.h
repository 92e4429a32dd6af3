// The messages of a Chakra execution trace (MLCommons) as values, whichever way they are written: as
// protocol buffers, each behind its length (.et), or as JSON (chakra_json.h).
//
//   const ChakraMessages trace = read_chakra_wire(text, "run.3.et");
//   trace.nodes[0].find("comm_size")->integer();
//   file << chakra_wire_text(trace.metadata) << chakra_wire_text(trace.nodes[0]);
//
// All of GlobalMetadata and Node but the node's `storage`, which is skipped. What a message does not
// say is zero or empty, and what is zero or empty is not written: proto3 knows no difference, except
// for an attribute's value.
//
// Source: mlcommons/chakra, schema/protobuf/et_def.proto (field numbers, types). Throws ConfigError:
// the byte, what was found, what is valid.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

// The types of AttributeProto's `value`, in the order of its fields: 3 for one double, 4 for a list
// of them, 5 for one float, ...
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
inline constexpr std::array<std::string_view, 15> kChakraTypeNames = {
    "double",  "float",   "int32",    "int64",    "uint32", "uint64", "sint32", "sint64",
    "fixed32", "fixed64", "sfixed32", "sfixed64", "bool",   "string", "bytes"};
[[nodiscard]] bool is_real(ChakraType type);
[[nodiscard]] bool is_text(ChakraType type);  // a string, or bytes
[[nodiscard]] bool is_signed(ChakraType type);
[[nodiscard]] bool is_narrow(ChakraType type);  // of 32 bits

struct ChakraAttribute {
  std::string name = {};
  std::string doc = {};
  std::optional<ChakraType> type = {};  // nothing: no value
  bool is_list = false;
  // The values, of which one that is no list has exactly one, in what its type asks for: whole
  // numbers and bools as 64 bits, negative ones as their two's complement.
  std::vector<std::uint64_t> integers = {};
  std::vector<double> reals = {};
  std::vector<std::string> texts = {};

  // Of one value, of any such type.
  [[nodiscard]] std::optional<std::uint64_t> integer() const;
  [[nodiscard]] std::optional<double> real() const;
  [[nodiscard]] std::string_view text() const;  // "" where it has none

  friend bool operator==(const ChakraAttribute&, const ChakraAttribute&) = default;
};

struct ChakraMetadata {
  std::string version = {};
  std::vector<ChakraAttribute> attributes = {};
  std::string place = {};
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
  std::uint64_t type = 0;  // an index into kChakraNodeTypes, or one that is newer
  std::vector<std::uint64_t> control_deps = {};
  std::vector<std::uint64_t> data_deps = {};
  std::uint64_t start_us = 0;
  std::uint64_t duration_us = 0;
  std::optional<ChakraIo> inputs = {};
  std::optional<ChakraIo> outputs = {};
  std::vector<ChakraAttribute> attributes = {};
  std::string place = {};  // where it is in its file: "byte 212", or "/3"

  // The first of this name.
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

// Chakra execution traces as JSON: protocol buffers' own JSON form of GlobalMetadata and the Nodes, as
// Chakra's jsonizer writes it.
//
//   [{"version": "0.0.4"},
//    {"id": "3", "name": "all_gather", "type": "COMM_COLL_NODE", "dataDeps": ["1", "2"],
//     "startTimeMicros": "12", "durationMicros": "20", "inputs": {"types": "['Tensor(float)']"},
//     "attr": [{"name": "comm_size", "int64Val": "4096"}, {"name": "is_cpu_op", "boolVal": false}]}]
//
//   if (is_chakra_json(json)) messages = read_chakra_json(json, {"run.3.json", ""});
//   file << chakra_json_text(messages);
//
// Numbers of 64 bits are texts, since a JSON number may be a double; what is zero or empty is left
// out; bytes are base64. Read as well: plain numbers, the names of the fields as the schema spells
// them (data_deps), node types by number. Older jsonizers write the objects one after the other
// without an array: chakra_array_text puts them into one. Strict as the parser of protocol buffers
// is: a key that the schema lacks is an error.
//
// Source: mlcommons/chakra, src/jsonizer (both forms), schema/protobuf/et_def.proto; protobuf.dev,
// "ProtoJSON Format". Throws ConfigError: file, pointer, what was found, what is valid.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/base/json_reader.h"
#include "costmodel/measurements/chakra_messages.h"

namespace shardlab {

// True for an array that begins with a GlobalMetadata.
[[nodiscard]] bool is_chakra_json(const nlohmann::json& json);
// The text of an array of the same objects, each on its line; nothing for any other text than several
// objects one after the other, the first of them a GlobalMetadata.
[[nodiscard]] std::optional<std::string> chakra_array_text(std::string_view text);

[[nodiscard]] ChakraMessages read_chakra_json(const nlohmann::json& json, const JsonPlace& place);

// A message a line. Text that is not UTF-8 gets replacement characters.
[[nodiscard]] std::string chakra_json_text(const ChakraMessages& trace);

}  // namespace shardlab

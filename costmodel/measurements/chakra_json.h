// Chakra execution traces as JSON: the JSON form that protocol buffers define for GlobalMetadata
// and the Nodes, as Chakra's jsonizer writes it.
//
//   [{"version": "0.0.4"},
//    {"id": "3", "name": "all_gather", "type": "COMM_COLL_NODE", "dataDeps": ["1", "2"],
//     "startTimeMicros": "12", "durationMicros": "20", "inputs": {"types": "['Tensor(float)']"},
//     "attr": [{"name": "comm_size", "int64Val": "4096"},
//              {"name": "is_cpu_op", "boolVal": false}]}]
//
//   if (is_chakra_json(json)) messages = read_chakra_json(json, {"run.3.json", ""});
//   file << chakra_json_text(messages);
//
// Numbers of 64 bits are texts, since a JSON number may be a double; fields that are zero or empty
// are left out; bytes are base64. The reader also takes plain numbers, field names as the schema
// spells them (data_deps) and node types by number. Older jsonizers write the objects one after
// another without an array around them: chakra_array_text adds the array. The reader is as strict
// as the parser of protocol buffers: a key that the schema lacks is an error.
//
// Source: mlcommons/chakra, src/jsonizer (both forms), schema/protobuf/et_def.proto; protobuf.dev,
// "ProtoJSON Format". Throws ConfigError with the file, the pointer, what was found and what is
// valid.
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
// For a text of several objects one after another, the first of them a GlobalMetadata: the text of
// an array of these objects, one per line. Returns nothing for any other text.
[[nodiscard]] std::optional<std::string> chakra_array_text(std::string_view text);

[[nodiscard]] ChakraMessages read_chakra_json(const nlohmann::json& json, const JsonPlace& place);

// One message per line. Text that is not UTF-8 gets replacement characters.
[[nodiscard]] std::string chakra_json_text(const ChakraMessages& trace);

}  // namespace shardlab

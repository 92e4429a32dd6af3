// Chakra execution traces (MLCommons): one file a rank, of a GlobalMetadata and Nodes: name.<rank>.et
// of protocol buffers, each behind its length (chakra_messages.h), or name.<rank>.et.json
// (chakra_json.h).
//
//   if (is_chakra_trace(text)) CollectiveTrace trace = read_chakra_trace(text, "run.3.et");
//   file << chakra_metadata(run) << chakra_text({.id = 0, .name = "all_gather", ...});
//
// Reading: collectives, sends and receives that ran on the device (is_cpu_op is false, or absent) and
// took time (duration_micros; those of a trace that was written for a simulator took none). Of their
// attributes: comm_type; comm_size, the bytes of one rank's input; ranks or group_size, else pg_name,
// of which nothing more is known than that it is all ranks of the run when it is "", "0" or
// "default_pg". A group that is only named otherwise is left out. The element type is that of inputs.types,
// else u8: bytes. `full_bytes` and `duration_us` are ours: exact, where Chakra's are whole.
//
// Sources: mlcommons/chakra, schema/protobuf/et_def.proto (field numbers, types), and
// src/converter/pytorch_converter.py (attributes); astra-sim/astra-sim, Ring.cc (comm_size is the
// input of an all-gather, which grows by the ranks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/measurements/chakra_messages.h"
#include "costmodel/measurements/collective_trace.h"

namespace shardlab {

// True for a text that begins with a GlobalMetadata behind its length.
[[nodiscard]] bool is_chakra_trace(std::string_view text);
// Throws ConfigError: the byte (of JSON the pointer), what was found, what is valid.
[[nodiscard]] CollectiveTrace read_chakra_trace(std::string_view text, std::string_view file);
[[nodiscard]] CollectiveTrace read_chakra_trace(const ChakraMessages& messages,
                                                std::string_view file);

// Of a trace that is written. A kernel that is no collective has none.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name = {};
  std::vector<std::uint64_t> after = {};  // nodes, by id
  double start_us = 0.0;
  double duration_us = 0.0;
  Collective collective = Collective::kLocal;
  Bytes full_bytes = 0.0;
  std::string dtype = {};
  TracedGroup group = {};
};
// What was simulated, as attributes of GlobalMetadata.
struct ChakraRun {
  std::string topology;
  std::int64_t devices_per_host = 1;
  std::int64_t world_size = 1;
};
[[nodiscard]] ChakraMetadata chakra_message(const ChakraRun& run);
[[nodiscard]] ChakraMessage chakra_message(const ChakraNode& node);
// The same as protocol buffers.
[[nodiscard]] std::string chakra_metadata(const ChakraRun& run);
[[nodiscard]] std::string chakra_text(const ChakraNode& node);

}  // namespace shardlab

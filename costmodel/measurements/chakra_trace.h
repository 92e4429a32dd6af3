// Chakra execution traces (MLCommons). Each rank has one file with a GlobalMetadata and Nodes:
// name.<rank>.et holds protocol buffers, each after its length (chakra_messages.h);
// name.<rank>.et.json holds the same messages as JSON (chakra_json.h).
//
//   if (is_chakra_trace(text)) CollectiveTrace trace = read_chakra_trace(text, "run.3.et");
//   file << chakra_metadata(run) << chakra_text({.id = 0, .name = "all_gather", ...});
//
// The reader takes collectives, sends and receives that ran on the device (is_cpu_op is false, or
// absent) and whose duration_micros is above 0 (traces that were written for a simulator have 0).
// It reads these attributes:
//   comm_type            the collective
//   comm_size            the bytes of one rank's input
//   comm_src, comm_dst   the two ranks of a send or a receive
//   ranks, group_size    the group of another call; without both, pg_name must be "", "0" or
//                        "default_pg", which name all ranks of the run, and calls of other groups
//                        are left out
// The element type is that of inputs.types, or else u8. `full_bytes` and `duration_us` are
// attributes that shardlab adds, since Chakra's own figures are rounded to whole numbers; so are
// `first_rank` and `rank_stride`, for groups that are too large to list.
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

// True for a text that begins with a GlobalMetadata, after its length.
[[nodiscard]] bool is_chakra_trace(std::string_view text);
// Throws ConfigError with the byte (for JSON, the pointer), what was found and what is valid.
[[nodiscard]] CollectiveTrace read_chakra_trace(std::string_view text, std::string_view file);
[[nodiscard]] CollectiveTrace read_chakra_trace(const ChakraMessages& messages,
                                                std::string_view file);

// A node of a trace to be written.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name = {};
  std::vector<std::uint64_t> after = {};  // ids of the nodes that this one waits for
  double start_us = 0.0;
  double duration_us = 0.0;
  Collective collective = Collective::kLocal;  // kLocal for a kernel that is not a collective
  Bytes full_bytes = 0.0;
  std::string dtype = {};
  TracedGroup group = {};
};
// What was simulated; it is written as attributes of GlobalMetadata.
struct ChakraRun {
  std::string topology;
  std::int64_t devices_per_host = 1;
  std::int64_t world_size = 1;
};
[[nodiscard]] ChakraMetadata chakra_message(const ChakraRun& run);
[[nodiscard]] ChakraMessage chakra_message(const ChakraNode& node);
// The same messages as protocol buffers.
[[nodiscard]] std::string chakra_metadata(const ChakraRun& run);
[[nodiscard]] std::string chakra_text(const ChakraNode& node);

}  // namespace shardlab

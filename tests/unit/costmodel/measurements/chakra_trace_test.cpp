// Chakra execution traces: what is written reads back, and errors name the byte where a trace is
// broken.
#include "costmodel/measurements/chakra_trace.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "costmodel/measurements/chakra_wire.h"

namespace shardlab {
namespace chakra_trace_test {

const std::string kMetadata = chakra_metadata({"h100", 4, 8});

ChakraNode gather() {
  return {.id = 3,
          .name = "all_gather",
          .after = {1, 2},
          .start_us = 12.25,
          .duration_us = 20.125,
          .collective = Collective::kAllGather,
          .full_bytes = 4096,
          .dtype = "bf16",
          .group = {.size = 4, .ranks = {0, 2, 4, 6}, .name = "1"}};
}

// A node as Chakra's converter for PyTorch's traces writes it.
std::string foreign_node(std::uint64_t comm_type, std::uint64_t bytes, const std::string& group,
                         bool on_host = false) {
  const auto attribute = [](const char* name) {
    WireWriter out;
    out.text(1, name);
    return out;
  };
  WireWriter node;
  node.number(1, std::uint64_t{7});
  node.text(2, "nccl:all_reduce");
  node.number(3, std::uint64_t{7});
  node.number(6, std::uint64_t{100});
  node.number(7, std::uint64_t{55});
  WireWriter host = attribute("is_cpu_op");
  host.number(27, std::uint64_t{on_host ? 1U : 0U});
  node.message(10, host);
  WireWriter type = attribute("comm_type");
  type.number(9, comm_type);
  node.message(10, type);
  WireWriter size = attribute("comm_size");
  size.number(9, bytes);
  node.message(10, size);
  WireWriter name = attribute("pg_name");
  name.text(29, group);
  node.message(10, name);
  return node.delimited();
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(read_chakra_trace(text, "t.0.et"));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ChakraTrace, WhatIsWrittenReadsBack) {
  const std::string text = kMetadata + chakra_text({.id = 1, .name = "mm"}) + chakra_text(gather());
  EXPECT_TRUE(is_chakra_trace(text));
  const CollectiveTrace trace = read_chakra_trace(text, "runs/t.2.et");
  EXPECT_EQ(trace.rank, 2);
  EXPECT_EQ(trace.world_size, 8);
  EXPECT_EQ(trace.devices_per_host, 4);
  EXPECT_EQ(trace.gpu, "h100");
  ASSERT_EQ(trace.calls.size(), 1U);
  const TracedCall& call = trace.calls[0];
  EXPECT_EQ(call.collective, Collective::kAllGather);
  EXPECT_EQ(call.dtype, "bf16");
  EXPECT_EQ(call.bytes, 4096.0);
  EXPECT_EQ(call.duration_us, 20.125);
  EXPECT_EQ(call.group, gather().group);
}

TEST(ChakraTrace, EvenGroupsNeedNoList) {
  ChakraNode node = gather();
  node.group = {.size = 8192, .first = 3, .stride = 4, .name = "2"};
  const CollectiveTrace trace = read_chakra_trace(kMetadata + chakra_text(node), "t.3.et");
  EXPECT_EQ(trace.calls[0].group, node.group);
}

// In traces of other tools, comm_size is the input of one rank.
TEST(ChakraTrace, ReadsTheNodesOfOthers) {
  WireWriter version;
  version.text(1, "0.0.4");
  const std::string text = version.delimited() + foreign_node(0, 1000, "0", true) +
                           foreign_node(2, 1000, "0") + foreign_node(7, 4000, "") +
                           foreign_node(9, 0, "0") + foreign_node(0, 1000, "17");
  std::vector<CollectiveTrace> run;
  for (const char* file : {"t.0.et", "t.1.et", "t.2.et", "t.3.et"}) {
    run.push_back(read_chakra_trace(text, file));
  }
  EXPECT_EQ(run[0].calls.size(), 2U);
  const std::vector<MeasurementSet> sets = sets_of_traces(run, {.gpus_per_host = 4});
  ASSERT_EQ(sets.size(), 1U);
  EXPECT_EQ(sets[0].ranks, 4);
  ASSERT_EQ(sets[0].rows.size(), 2U);
  EXPECT_EQ(sets[0].rows[0].collective, Collective::kAllGather);
  EXPECT_EQ(sets[0].rows[0].bytes, 4000.0);
  EXPECT_EQ(sets[0].rows[0].time_us, 55.0);
  EXPECT_EQ(sets[0].rows[1].collective, Collective::kReduceScatter);
  EXPECT_EQ(sets[0].rows[1].bytes, 4000.0);
  EXPECT_EQ(sets[0].warnings,
            (std::vector<std::string>{
                "4 calls are left out: no cost model prices BARRIER",
                "4 calls are left out: the trace does not say which ranks the group \"17\" has"}));
}

// A trace that was cut anywhere is refused, unless it was cut between two messages.
TEST(ChakraTrace, NoPrefixIsReadAsAWhole) {
  const std::string text = kMetadata + chakra_text(gather());
  for (std::size_t size = 0; size < text.size(); ++size) {
    const std::string error = error_of(text.substr(0, size));
    EXPECT_EQ(error.empty(), size == kMetadata.size()) << size;
    EXPECT_TRUE(error.empty() || error.starts_with("t.0.et:byte ")) << error;
  }
}

TEST(ChakraTrace, ErrorsNameTheByte) {
  const std::string at = "t.0.et:byte " + std::to_string(kMetadata.size());
  EXPECT_EQ(error_of(""), "t.0.et:byte 0: found no GlobalMetadata");
  // A message that claims a length of 2^63 bytes.
  EXPECT_EQ(error_of(kMetadata + std::string(9, '\x80') + '\x01'),
            "t.0.et:byte " + std::to_string(kMetadata.size() + 10) +
                ": the text ends after 0 of 9223372036854775808 bytes");
  EXPECT_EQ(error_of(kMetadata + std::string(11, '\x80')),
            "t.0.et:byte " + std::to_string(kMetadata.size() + 10) +
                ": found a number of more than 10 bytes");
  WireWriter node;
  node.text(3, "x");
  EXPECT_EQ(error_of(kMetadata + node.delimited()), "t.0.et:byte " +
                                                        std::to_string(kMetadata.size() + 2) +
                                                        ": Node.type: found wire type 2; valid: 0");
  EXPECT_EQ(error_of(kMetadata + "\x01\x0b"), "t.0.et:byte " +
                                                  std::to_string(kMetadata.size() + 2) +
                                                  ": found wire type 3; valid: 0, 1, 2, 5");
  EXPECT_EQ(error_of(kMetadata + foreign_node(12, 8, "0")),
            "t.0.et:byte " + std::to_string(kMetadata.size() + 1) +
                ": comm_type: found 12; valid: 0 to 9");
  EXPECT_EQ(error_of(kMetadata + foreign_node(0, 8, "\xff")),
            "t.0.et:byte " + std::to_string(kMetadata.size() + 1) +
                ": pg_name: found a byte that is not printable ASCII");
}

TEST(ChakraTrace, TextIsNone) {
  for (const char* text : {"", "# nodes: 2\n", "\n\n# x", "{\"a\": 1}", "[1,0]<stdout>"}) {
    EXPECT_FALSE(is_chakra_trace(text)) << text;
  }
}

}  // namespace chakra_trace_test
}  // namespace shardlab

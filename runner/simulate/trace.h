// Writes a timeline as a Chrome trace, for ui.perfetto.dev and chrome://tracing.
//
// The trace has one process per host, and one thread per rank and stream. A kernel is a slice; if a
// collective's member waits for the others, its slice contains a slice "wait". Flow arrows connect
// the members of a collective in the order of their ranks. A counter per host shows the bytes in
// flight: the buffers of the shown ranks' running collectives. Format: "Trace Event Format"
// (Google, 2016), JSON object form; ts and dur are in microseconds. A collective's args are those
// of PyTorch's profiler, so that the trace can be read like one of its own
// (costmodel/measurements/kineto_trace.h).
//
// chakra_traces makes Chakra execution traces of the same run, one for each shown rank
// (costmodel/measurements/chakra_trace.h).
#pragma once

#include <iosfwd>
#include <map>
#include <string>

#include "costmodel/measurements/chakra_messages.h"
#include "costmodel/topology.h"
#include "sim/simulator.h"

namespace shardlab {

// `title` says what was simulated.
void write_trace(std::ostream& out, const std::string& title, const DeviceMesh& mesh,
                 const Topology& topology, const Schedule& schedule, const Timeline& timeline);

// The Chakra traces of the shown ranks, by rank.
[[nodiscard]] std::map<std::int64_t, ChakraMessages> chakra_traces(const DeviceMesh& mesh,
                                                                   const Topology& topology,
                                                                   const Schedule& schedule,
                                                                   const Timeline& timeline);

// The number of ranks that a trace of this schedule can show: at most `wanted`, and at most
// kMaxTraceSlices slices in all.
inline constexpr std::int64_t kMaxTraceSlices = 200000;
[[nodiscard]] std::int64_t traced_ranks(const Schedule& schedule, std::int64_t wanted);

}  // namespace shardlab

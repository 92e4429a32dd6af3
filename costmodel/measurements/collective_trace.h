// What traces say about collectives: the calls of each rank, joined over ranks into measurement sets.
//
//   CollectiveTrace trace = read_kineto_trace(json, {"rank0.json", ""});      // kineto_trace.h
//   std::vector<MeasurementSet> sets = sets_of_traces(traces, {.gpus_per_host = 8});
//
// The traces are those of one run, one a rank (or one with all ranks). A call on several ranks is
// the same where its group is, its collective, and its number: the trace's own, else the order on
// each rank. Its time is the least of the ranks' durations, since the others include waiting for
// the last to arrive; what they are longer is the wait. A row is all calls alike, its time the
// median, since a run's first calls set up connections. A set is all groups of as many ranks on as
// many hosts; where there are several, its name ends in hosts x GPUs a host.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/measurements/measurement_set.h"
#include "costmodel/measurements/nccl_tests_reader.h"

namespace shardlab {

// Ranks of a process group: listed, or (where a trace shortens the list) evenly apart.
struct TracedGroup {
  std::int64_t size = 0;  // 0: all ranks of the run
  std::vector<std::int64_t> ranks = {};
  std::int64_t first = 0;   // where `ranks` is empty
  std::int64_t stride = 1;  // as well
  std::string name = {};

  friend auto operator<=>(const TracedGroup&, const TracedGroup&) = default;
};

struct TracedCall {
  Collective collective = Collective::kLocal;
  std::string dtype;  // ours
  // collective.h's full_bytes; of one rank's input where `is_input` says so and the group's size is
  // known only with all traces.
  Bytes bytes = 0.0;
  bool is_input = false;
  double duration_us = 0.0;
  TracedGroup group;
  std::optional<std::int64_t> sequence = {};
  std::optional<std::int64_t> rank = {};  // where the trace has several
};

struct CollectiveTrace {
  std::string file;
  std::string kind;                       // "Kineto", "Chakra": traces of two kinds are two runs
  std::string source;                     // for the sets, where the command line names none
  std::optional<std::int64_t> rank = {};  // whose trace it is
  std::int64_t world_size = 0;            // 0: not stated
  std::int64_t devices_per_host = 0;
  std::string host;
  std::string gpu;
  std::string nccl_version;
  std::vector<TracedCall> calls;        // in the order of their start
  std::map<std::string, int> left_out;  // reason, how many calls
};

// Whether the trace is of another rank of the run that `run` holds.
[[nodiscard]] bool is_of_run(std::span<const CollectiveTrace> run, const CollectiveTrace& trace);

// Assumes at least one trace. Throws ConfigError: no collective that can be priced.
[[nodiscard]] std::vector<MeasurementSet> sets_of_traces(std::span<const CollectiveTrace> traces,
                                                         const SourceHints& hints);

// Element types as PyTorch's traces name them: Float, c10::BFloat16, long int, ...; "" for others.
[[nodiscard]] std::string_view dtype_of_torch(std::string_view name);
// The name that PyTorch's profiler gives to a type of ours ("BFloat16"); "Byte" for one it lacks.
[[nodiscard]] std::string_view torch_name_of(std::string_view dtype);

}  // namespace shardlab

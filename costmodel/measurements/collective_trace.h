// What traces say about collectives: the calls of each rank, joined over the ranks into measurement
// sets.
//
//   CollectiveTrace trace = read_kineto_trace(json, {"rank0.json", ""});      // kineto_trace.h
//   std::vector<MeasurementSet> sets = sets_of_traces(traces, {.gpus_per_host = 8});
//
// The traces are those of one run: one per rank, or one with all ranks. Calls on several ranks are
// one collective if they have the same group, kind and number; the number is the trace's own, or
// else the position of the call among the calls of its rank. The time of a collective is the
// shortest of the ranks' durations, since the others include waiting for the last rank to arrive;
// the excess of each is its wait.
//
// One row holds all collectives of one kind, dtype and size. Its time is the median, since the
// first calls of a run set up connections. One set holds all groups with the same number of ranks
// on the same number of hosts; if a run has several sets, their names end in hosts x GPUs per host.
// The kernels of all ranks are joined in one set, as of one rank; if the run has other sets, too,
// its name ends in _kernels.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/measurements/kineto_kernels.h"
#include "costmodel/measurements/measurement_set.h"
#include "costmodel/measurements/nccl_tests_reader.h"

namespace shardlab {

// The ranks of a process group. They are listed in `ranks`; if a trace shortens the list, they are
// first, first + stride, first + 2 * stride and so on.
struct TracedGroup {
  std::int64_t size = 0;  // 0 for all ranks of the run
  std::vector<std::int64_t> ranks = {};
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::string name = {};

  friend auto operator<=>(const TracedGroup&, const TracedGroup&) = default;
};

struct TracedCall {
  Collective collective = Collective::kLocal;
  std::string dtype;  // our name of the dtype (dtype.h)
  // The full_bytes of collective.h. If `is_input` is set, these are the bytes of one rank's input,
  // which are multiplied by the size of the group once all traces are known.
  Bytes bytes = 0.0;
  bool is_input = false;
  double duration_us = 0.0;
  TracedGroup group;
  std::optional<std::int64_t> sequence = {};
  // The rank that made the call; set only if the trace holds several ranks.
  std::optional<std::int64_t> rank = {};
};

struct CollectiveTrace {
  std::string file;
  std::string kind;                       // "Kineto" or "Chakra"; one run has traces of one kind
  std::string source;                     // source of the sets, if the command line names none
  std::optional<std::int64_t> rank = {};  // the rank that was traced
  std::int64_t world_size = 0;            // 0 if the trace does not state it
  std::int64_t devices_per_host = 0;
  std::string host;
  std::string gpu;
  std::string nccl_version;
  std::vector<TracedCall> calls;        // in the order in which they started
  TracedKernels kernels = {};           // only traces of PyTorch's profiler have kernels
  std::map<std::string, int> left_out;  // number of calls left out, by reason
};

// Whether the trace can be that of another rank of the run that the traces in `run` are from.
[[nodiscard]] bool is_of_run(std::span<const CollectiveTrace> run, const CollectiveTrace& trace);

// Assumes at least one trace. Throws ConfigError if the traces hold neither a collective nor a
// kernel that can be priced.
[[nodiscard]] std::vector<MeasurementSet> sets_of_traces(std::span<const CollectiveTrace> traces,
                                                         const SourceHints& hints);

// Our name of an element type as PyTorch's traces spell it (Float, c10::BFloat16, long int, ...);
// "" for other types.
[[nodiscard]] std::string_view dtype_of_torch(std::string_view name);
// The name that PyTorch's profiler has for our type ("BFloat16" for bf16); "Byte" if it has none.
[[nodiscard]] std::string_view torch_name_of(std::string_view dtype);

}  // namespace shardlab

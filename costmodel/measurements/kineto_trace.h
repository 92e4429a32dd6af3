// Reads the collectives out of a trace of PyTorch's profiler (Kineto), or of `shardlab simulate
// --trace`, which writes the same keys.
//
//   if (is_kineto_trace(json)) CollectiveTrace trace = read_kineto_trace(json, {"rank0.json", ""});
//
// NCCL: complete events (ph X) of the category `kernel` whose args name a collective:
//   "Collective name": "_allgather_base", "In msg nelems": 65536, "Out msg nelems": 524288,
//   "dtype": "BFloat16", "Group size": 8, "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
//   "Process Group Name": "0", "Seq": 17
// The larger of the two counts is full_bytes. A list of ranks that is shortened ("[0, 2, ..., 126]")
// is taken from distributedInfo.pg_config, else its ranks must be evenly apart.
// gloo: events of the category `user_annotation` named gloo:<collective>, whose "Input Dims" are the
// rank's input (recorded with record_shapes=True); the group is distributedInfo.pg_config's, if there
// is only one. PyTorch makes gloo's reduce_scatter of an all_reduce, and the trace says so.
// Calls that shardlab has no price for (barrier, gather, reduce) are counted in `left_out`.
//
// Source: "Trace Event Format" (Google, 2016); PyTorch 2.13, torch/csrc/profiler/util.h (names of the
// args) and torch.profiler's traces; pytorch/kineto, libkineto/src/output_json.cpp.
#pragma once

#include <nlohmann/json.hpp>

#include "costmodel/base/json_reader.h"
#include "costmodel/measurements/collective_trace.h"

namespace shardlab {

// True for an object with traceEvents.
[[nodiscard]] bool is_kineto_trace(const nlohmann::json& json);
// Throws ConfigError: the event, what was found, what is valid.
[[nodiscard]] CollectiveTrace read_kineto_trace(const nlohmann::json& json, const JsonPlace& place);

// The name that PyTorch gives to a collective ("_allgather_base").
[[nodiscard]] std::string_view kineto_name_of(Collective collective);
// "[0, 1, 2]"; from the 31st rank on shortened, as PyTorch does: "[0, 1, ..., 63]". Of a group that is
// neither listed nor evenly apart only the first is known: "[0, ...]".
[[nodiscard]] std::string ranks_text(const TracedGroup& group);

// Most ranks, and the largest rank, of a group in a trace.
inline constexpr std::int64_t kMaxTracedRanks = std::int64_t{1} << 30;

}  // namespace shardlab

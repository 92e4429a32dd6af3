// Reads the collectives of a trace that PyTorch's profiler (Kineto) wrote, or `shardlab simulate
// --trace`, which writes the same keys.
//
//   if (is_kineto_trace(json)) CollectiveTrace trace = read_kineto_trace(json, {"rank0.json", ""});
//
// NCCL's collectives are complete events (ph X) of the category `kernel` whose args name a
// collective:
//   "Collective name": "_allgather_base", "In msg nelems": 65536, "Out msg nelems": 524288,
//   "dtype": "BFloat16", "Group size": 8, "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
//   "Process Group Name": "0", "Seq": 17
// The larger of the two counts gives full_bytes. If the list of ranks is shortened ("[0, 2, ...,
// 126]"), the ranks are taken from distributedInfo.pg_config; a group that pg_config lacks must
// have evenly spaced ranks.
//
// gloo's collectives are events of the category `user_annotation` with the name gloo:<collective>.
// Their "Input Dims" are the rank's input, which the profiler records with record_shapes=True; the
// group is that of distributedInfo.pg_config, if there is only one. PyTorch runs gloo's
// reduce_scatter as an all_reduce, and the trace shows an all_reduce.
//
// Calls that shardlab has no price for (barrier, gather, reduce) are counted in `left_out`.
//
// Source: "Trace Event Format" (Google, 2016); PyTorch 2.13, torch/csrc/profiler/util.h (names of
// the args) and torch.profiler's traces; pytorch/kineto, libkineto/src/output_json.cpp.
#pragma once

#include <nlohmann/json.hpp>

#include "costmodel/base/json_reader.h"
#include "costmodel/measurements/collective_trace.h"

namespace shardlab {

// True for an object that has traceEvents.
[[nodiscard]] bool is_kineto_trace(const nlohmann::json& json);
// Throws ConfigError with the event, what was found and what is valid.
[[nodiscard]] CollectiveTrace read_kineto_trace(const nlohmann::json& json, const JsonPlace& place);

// The name that PyTorch gives to a collective ("_allgather_base").
[[nodiscard]] std::string_view kineto_name_of(Collective collective);
// The list of a group's ranks: "[0, 1, 2]". A list of more than 30 ranks is shortened, as PyTorch
// does: "[0, 1, ..., 63]". If a group is neither listed nor evenly spaced, only its first rank is
// known: "[0, ...]".
[[nodiscard]] std::string ranks_text(const TracedGroup& group);

// The largest number of ranks of a group in a trace, and the largest rank.
inline constexpr std::int64_t kMaxTracedRanks = std::int64_t{1} << 30;

}  // namespace shardlab

// Reads what nccl-tests prints and writes (-J): tables of times, by size, of one or more
// collectives.
//
//   MeasurementSet set = read_nccl_tests_text(text, {.hosts = 2}, "all_reduce_2x8.txt");
//   MeasurementSet set = read_nccl_tests_json(json, {}, {"run.json", ""});
//
// Text of every version is read: with and without the columns redop and root, with the old column
// `error` and the new `#wrong`, per-iteration columns (-I), timestamps (-S), lines with an MPI or
// srun tag glued on, several tables in one file, logs that end in the midst of a row. Lines
// `# key: value` (gpu, nodes, gpus_per_node, ranks, collective, interconnect_intra,
// interconnect_inter, nccl_version, health, source, date, settings, notes) say what the tool does
// not print; otherwise ranks and hosts come from its device list, else from the hints.
//
// Source of the formats: NVIDIA/nccl-tests, src/util.cu and src/common.cu (versions 2.0 to 2.18),
// doc/PERFORMANCE.md (bus bandwidth factors, 1 GB = 1e9 bytes).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/base/json_reader.h"
#include "costmodel/measurements/measurement_set.h"

namespace shardlab {

// What is known about a file from elsewhere (the command line). It fills what the file does not
// say; where the two differ the file counts, with a warning.
struct SourceHints {
  std::optional<std::int64_t> hosts = {};
  std::optional<std::int64_t> gpus_per_host = {};
  std::optional<std::int64_t> ranks = {};
  std::optional<Collective> collective = {};
  std::string source = {};
};

// Throws ConfigError: the file, the line, what was found and what is valid; a line of a row's shape
// whose size or count cannot be read is one of them, other text is passed over. Rows with wrong
// results, or whose columns contradict each other, are listed in `refused`; what was left out or
// assumed, in `warnings`. Bus bandwidths that contradict the collective or the ranks that the file
// names are an error (nccl_tests_busbw.h).
[[nodiscard]] MeasurementSet read_nccl_tests_text(std::string_view text, const SourceHints& hints,
                                                  std::string_view file_name);

// The document of -J (versions 1 and 2). Its `env` is not looked at: it can hold secrets. Throws
// ConfigError.
[[nodiscard]] MeasurementSet read_nccl_tests_json(const nlohmann::json& json,
                                                  const SourceHints& hints, const JsonPlace& place);
// True for an object with the keys of -J.
[[nodiscard]] bool is_nccl_tests_json(const nlohmann::json& json);

// all_reduce, alltoall, sendrecv, all_gather_perf, AllReduce, ...: nccl-tests' names and ours.
[[nodiscard]] std::optional<Collective> nccl_collective_from_name(std::string_view name);

}  // namespace shardlab

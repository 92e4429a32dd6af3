// Reads what nccl-tests prints, and the JSON that it writes with -J: tables of times by size, for
// one or more collectives.
//
//   MeasurementSet set = read_nccl_tests_text(text, {.hosts = 2}, "all_reduce_2x8.txt");
//   MeasurementSet set = read_nccl_tests_json(json, {}, {"run.json", ""});
//
// The text of every version is read: with and without the columns redop and root, with the old
// column `error` or the new `#wrong`, with columns per iteration (-I) and timestamps (-S), with
// MPI's or srun's tags in front of lines, with NCCL's log between and within rows, with several
// tables in one file, and cut off within a row. Lines of the form `# key: value` state what the
// tool does not print; the keys are gpu, nodes, gpus_per_node, gpus_per_process, ranks, collective,
// interconnect_intra, interconnect_inter, nccl_version, health, source, date, settings, command and
// notes. Without them, ranks and hosts come from the tool's list of devices, or else from the
// hints; the GPUs of a process from the tool's line "nThread 1 nGpus 8", a command line, or the
// processes in that list.
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

// What the command line says about a file. It fills in what the file does not say, and goes before
// what was only counted in the file's list of devices, if the ranks fit it. If the two differ, the
// set gets a warning.
struct SourceHints {
  std::optional<std::int64_t> hosts = {};
  std::optional<std::int64_t> gpus_per_host = {};
  std::optional<std::int64_t> ranks = {};
  std::optional<Collective> collective = {};
  std::string source = {};
};

// Throws ConfigError with the file, the line, what was found and what is valid. A line that has the
// shape of a row but a size or count that cannot be read is an error; other text, such as the
// tables of ib_write_bw, is skipped. Bus bandwidths that contradict the collective or the ranks
// that the file names are an error too (nccl_tests_busbw.h). Rows with wrong results, rows whose
// columns contradict each other, and rows that a line of NCCL's log cuts are listed in `refused`;
// what was left out or assumed is listed in `warnings`.
[[nodiscard]] MeasurementSet read_nccl_tests_text(std::string_view text, const SourceHints& hints,
                                                  std::string_view file_name);

// Reads the document of -J (versions 1 and 2). Of its `env`, which can hold secrets, the settings
// of NCCL that the health depends on are read alone. Throws ConfigError.
[[nodiscard]] MeasurementSet read_nccl_tests_json(const nlohmann::json& json,
                                                  const SourceHints& hints, const JsonPlace& place);
// True for an object that has the keys of -J.
[[nodiscard]] bool is_nccl_tests_json(const nlohmann::json& json);

// Reads the names of collectives in nccl-tests, NCCL and shardlab: all_reduce, alltoall, sendrecv,
// all_gather_perf, AllReduce, ...
[[nodiscard]] std::optional<Collective> nccl_collective_from_name(std::string_view name);

}  // namespace shardlab

// Reads measurement sets from files of any format, or by a shipped name.
//
//   const std::vector<std::string> files = {"run.txt", "h100_1x8_all_reduce_dgxc"};
//   for (const MeasurementSet& set : read_measurements(store, files, {})) ...
//
// The format is recognised by the content: shardlab/measurements/1, the JSON of nccl-tests (-J), a
// trace of PyTorch's profiler (kineto_trace.h), a trace of Chakra (chakra_trace.h) as JSON or as
// protocol buffers, and anything else as the text of nccl-tests. A file whose name ends in .et is
// read as protocol buffers. If a file does not say whether its run was healthy, that is judged
// (costmodel/measurements/health.h).
//
// Consecutive traces belong to one run as long as they are of one kind and world size, and no rank
// occurs twice. One run may have several sets (collective_trace.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/measurements/measurement_set.h"
#include "costmodel/measurements/nccl_tests_reader.h"
#include "runner/config/configs.h"

namespace shardlab {

// Throws ConfigError for bad content, and InputError for an unknown name, a missing file or a file
// that is named twice.
[[nodiscard]] MeasurementSet read_measurement(const ConfigStore& store, const std::string& file,
                                              const SourceHints& hints);
[[nodiscard]] std::vector<MeasurementSet> read_measurements(const ConfigStore& store,
                                                            std::span<const std::string> files,
                                                            const SourceHints& hints);
// The sets in the text of a file. Throws ConfigError.
[[nodiscard]] std::vector<MeasurementSet> parse_measurements(std::string_view text,
                                                             const SourceHints& hints,
                                                             const std::string& file);
// The only set of a file. Throws ConfigError also if the file has several.
[[nodiscard]] MeasurementSet parse_measurement(std::string_view text, const SourceHints& hints,
                                               const std::string& file);
// All shipped sets that count as healthy.
[[nodiscard]] std::vector<MeasurementSet> healthy_measurements(const ConfigStore& store);

// What the reader left out or assumed, one line each, with the set's name. If the set is unhealthy,
// the first line says so.
[[nodiscard]] std::vector<std::string> left_out_of(const MeasurementSet& set);
[[nodiscard]] std::vector<std::string> remarks_on(const MeasurementSet& set);
// The same lines without the rows that the reader refused, for callers that list those rows
// themselves.
[[nodiscard]] std::vector<std::string> warnings_on(const MeasurementSet& set);
// The place of a refused row: "run:14" by its line, or "run:/results/1" in a JSON file.
[[nodiscard]] std::string place_of(const MeasurementSet& set, const RefusedRow& row);

// The set as the text of a shardlab/measurements/1 file, with one row per line.
[[nodiscard]] std::string measurement_text(const MeasurementSet& set);

}  // namespace shardlab

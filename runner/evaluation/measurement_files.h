// Measurement sets from files of any format, or by a shipped name.
//
//   for (const MeasurementSet& set : read_measurements(store, {"run.txt", "h100_1x8_..."}, {})) ...
//
// The content decides: shardlab/measurements/1, the JSON of nccl-tests (-J), a trace of PyTorch's
// profiler (kineto_trace.h) or of Chakra (chakra_trace.h: as protocol buffers, also where the name
// ends in .et, or as JSON), else the text of nccl-tests. What a file does not say about its health
// is judged (costmodel/measurements/health.h).
//
// Traces that stand one after the other are one run as long as they are of one kind and world size,
// and each names a rank of its own; a run may have several sets (collective_trace.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/measurements/measurement_set.h"
#include "costmodel/measurements/nccl_tests_reader.h"
#include "runner/config/configs.h"

namespace shardlab {

// Throws ConfigError (bad content) and InputError (no such file or name; the same file twice).
[[nodiscard]] MeasurementSet read_measurement(const ConfigStore& store, const std::string& file,
                                              const SourceHints& hints);
[[nodiscard]] std::vector<MeasurementSet> read_measurements(const ConfigStore& store,
                                                            std::span<const std::string> files,
                                                            const SourceHints& hints);
// The sets of the text of a file. Throws ConfigError.
[[nodiscard]] std::vector<MeasurementSet> parse_measurements(std::string_view text,
                                                             const SourceHints& hints,
                                                             const std::string& file);
// The only set of a file. Throws ConfigError also where the file has several.
[[nodiscard]] MeasurementSet parse_measurement(std::string_view text, const SourceHints& hints,
                                               const std::string& file);
// All shipped sets that count as healthy.
[[nodiscard]] std::vector<MeasurementSet> healthy_measurements(const ConfigStore& store);

// What the reader left out or assumed, one line each, with the set's name. The first line says so
// if the set is unhealthy.
[[nodiscard]] std::vector<std::string> left_out_of(const MeasurementSet& set);
[[nodiscard]] std::vector<std::string> remarks_on(const MeasurementSet& set);
// The same without the rows that the reader refused, for callers that list those themselves.
[[nodiscard]] std::vector<std::string> warnings_on(const MeasurementSet& set);
// A refused row as it is listed: "run:14" by its line, "run:/results/1" in a file of JSON.
[[nodiscard]] std::string place_of(const MeasurementSet& set, const RefusedRow& row);

// The text of the set as a file of shardlab/measurements/1, with one row per line.
[[nodiscard]] std::string measurement_text(const MeasurementSet& set);

}  // namespace shardlab

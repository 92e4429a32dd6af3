// The record of predictions beside measurements: what `validate --rows` prints, checked, and where
// each measured figure is from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/run_header.h"

namespace shardlab::reports {

inline constexpr std::string_view kValidateKind = "validate";

struct MeasuredSet {
  std::string name;
  std::string gpu;
  std::string scale;  // "2x8": hosts times ranks of a host
  std::string date;   // "" where it is not known
  std::string nccl_version;
  std::string health;
  std::string source;
};

struct PredictedRow {
  std::size_t set = 0;  // index into ValidationRecord::sets
  std::string collective;
  double bytes = 0.0;
  double measured_us = 0.0;
  std::optional<double> predicted_us;
  std::optional<double> error_percent;  // signed: (predicted - measured) / measured
  std::string impossible;               // why there is no prediction
};

struct ValidationRecord : ResultRecord {
  std::string stack;
  std::vector<MeasuredSet> sets;
  std::vector<PredictedRow> rows;
  std::vector<std::string> warnings;
};

// Throws ConfigError, naming `file` and the JSON pointer, which begins with /result.
[[nodiscard]] ValidationRecord read_validation_record(ResultRecord record, std::string_view file);

}  // namespace shardlab::reports

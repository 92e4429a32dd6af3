// The record of predictions beside measurements: the JSON that `validate --rows` prints, checked,
// and the source of each measured figure. Its summaries of errors are ignored; reports/errors.h
// computes them again from the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/run_header.h"

namespace shardlab {
namespace reports {

inline constexpr std::string_view kValidateKind = "validate";

struct MeasuredSet {
  std::string name;
  std::string gpu;
  std::string scale;
  std::string date;
  std::string nccl_version;
  std::string health;
  std::string source;
};

struct PredictedRow {
  std::size_t set = 0;  // index into ValidationRecord::sets
  std::string file;
  std::string collective;
  double bytes = 0.0;
  double measured_us = 0.0;
  std::optional<double> predicted_us;
  std::optional<double> error_percent;
  std::string impossible;
};

// Parts of the summary. They have a schema, but nothing reads them.
struct ErrorSummary {
  std::int64_t points = 0;
  std::int64_t unpriced = 0;
  std::optional<double> median_ape_percent;
  std::optional<double> p90_ape_percent;
  std::optional<double> mean_ape_percent;
  std::optional<double> bias_percent;
};
struct ErrorGroups {
  std::map<std::string, ErrorSummary> collective;
  std::map<std::string, ErrorSummary> file;
  std::map<std::string, ErrorSummary> size_band;
  std::map<std::string, ErrorSummary> gpu;
  std::map<std::string, ErrorSummary> scale;
};
struct ErrorRow {
  std::string file;
  std::string collective;
  double bytes = 0.0;
  double measured_us = 0.0;
  double predicted_us = 0.0;
  double error_percent = 0.0;
};

struct ValidationRecord : ResultRecord {
  std::string stack;
  std::vector<MeasuredSet> sets;
  std::vector<PredictedRow> rows;
  std::vector<std::string> warnings;
};

// Throws ConfigError, which names `file` and a JSON pointer that begins with /result.
[[nodiscard]] ValidationRecord read_validation_record(ResultRecord record, std::string_view file);

}  // namespace reports

template <>
struct Fields<reports::MeasuredSet> {
  using Self = reports::MeasuredSet;
  static constexpr auto kList =
      std::tuple(field("name", &Self::name, ""), field("gpu", &Self::gpu, ""),
                 field("scale", &Self::scale, "2x8: hosts times ranks per host"),
                 nullable_text("date", &Self::date, ""),
                 nullable_text("nccl_version", &Self::nccl_version, ""),
                 nullable_text("health", &Self::health, ""), field("source", &Self::source, ""));
};

template <>
struct Fields<reports::PredictedRow> {
  using Self = reports::PredictedRow;
  static constexpr auto kList = std::tuple(
      field("set", &Self::set, "index into measurement_sets"),
      field("file", &Self::file, "the name of its set"), field("collective", &Self::collective, ""),
      field("bytes", &Self::bytes, "", kAmount), field("measured_us", &Self::measured_us, ""),
      field("predicted_us", &Self::predicted_us, ""),
      optional_field("error_percent", &Self::error_percent,
                     "signed: (predicted - measured) / measured"),
      optional_field("impossible", &Self::impossible, "why there is no prediction"));
  static constexpr std::string_view kAlso = R"({
    "if": {"properties": {"predicted_us": {"type": "null"}}},
    "then": {"not": {"required": ["error_percent"]}},
    "else": {"required": ["error_percent"]}})";
  static std::optional<Contradiction> contradiction(const Self& row);
};

template <>
struct Fields<reports::ErrorSummary> {
  using Self = reports::ErrorSummary;
  static constexpr auto kList =
      std::tuple(field("points", &Self::points, ""), field("unpriced", &Self::unpriced, ""),
                 field("median_ape_percent", &Self::median_ape_percent, ""),
                 field("p90_ape_percent", &Self::p90_ape_percent, ""),
                 field("mean_ape_percent", &Self::mean_ape_percent, ""),
                 field("bias_percent", &Self::bias_percent, ""));
};

template <>
struct Fields<reports::ErrorGroups> {
  using Self = reports::ErrorGroups;
  static constexpr auto kList =
      std::tuple(field("collective", &Self::collective, ""), field("file", &Self::file, ""),
                 field("size_band", &Self::size_band, ""), field("gpu", &Self::gpu, ""),
                 field("scale", &Self::scale, ""));
};

template <>
struct Fields<reports::ErrorRow> {
  using Self = reports::ErrorRow;
  static constexpr auto kList = std::tuple(
      field("file", &Self::file, ""), field("collective", &Self::collective, ""),
      field("bytes", &Self::bytes, "", kAmount), field("measured_us", &Self::measured_us, ""),
      field("predicted_us", &Self::predicted_us, ""),
      field("error_percent", &Self::error_percent, ""));
};

// The part of the record that is under "result".
template <>
struct Fields<reports::ValidationRecord> {
  using Self = reports::ValidationRecord;
  static constexpr std::string_view kName = "validation";
  static constexpr std::string_view kMeaning =
      "what `validate --rows` prints, and the source of each measured figure";
  static constexpr auto kList =
      std::tuple(field("stack", &Self::stack, ""), field("measurement_sets", &Self::sets, ""),
                 field("rows", &Self::rows, ""), field("warnings", &Self::warnings, ""),
                 UnreadField<std::int64_t>{"points", ""}, UnreadField<std::int64_t>{"unpriced", ""},
                 UnreadField<std::optional<double>>{"median_ape_percent", ""},
                 UnreadField<std::optional<double>>{"p90_ape_percent", ""},
                 UnreadField<std::optional<double>>{"mean_ape_percent", ""},
                 UnreadField<std::optional<double>>{"bias_percent", ""},
                 UnreadField<std::int64_t>{"sets", ""}, UnreadField<reports::ErrorGroups>{"by", ""},
                 UnreadField<std::vector<reports::ErrorRow>>{"worst", ""});
  static std::optional<Contradiction> contradiction(const Self& record);
};

}  // namespace shardlab

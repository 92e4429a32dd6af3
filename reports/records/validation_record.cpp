#include "reports/records/validation_record.h"

#include <utility>

namespace shardlab::reports {
namespace {

using nlohmann::json;

MeasuredSet read_set(const json& value, std::string_view file, std::string pointer) {
  StrictObject object(value, file, std::move(pointer));
  MeasuredSet set;
  set.name = object.text("name");
  set.gpu = object.text("gpu");
  set.scale = object.text("scale");
  set.date = object.text_or_null("date");
  set.nccl_version = object.text_or_null("nccl_version");
  set.health = object.text_or_null("health");
  set.source = object.text("source");
  object.finish();
  return set;
}

}  // namespace

ValidationRecord read_validation_record(ResultRecord record, std::string_view file) {
  ValidationRecord validation;
  static_cast<ResultRecord&>(validation) = std::move(record);
  StrictObject object(validation.result, file, "/result");
  validation.stack = object.text("stack");
  const json& sets = object.array("measurement_sets");
  for (std::size_t i = 0; i < sets.size(); ++i) {
    validation.sets.push_back(
        read_set(sets[i], file, "/result/measurement_sets/" + std::to_string(i)));
  }
  const json& rows = object.array("rows");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    StrictObject row(rows[i], file, "/result/rows/" + std::to_string(i));
    PredictedRow predicted;
    const std::int64_t set = row.integer("set", 0);
    if (set >= static_cast<std::int64_t>(validation.sets.size())) {
      row.fail("set", "found " + std::to_string(set) + "; there are " +
                          std::to_string(validation.sets.size()) + " measurement_sets");
    }
    predicted.set = static_cast<std::size_t>(set);
    if (row.text("file") != validation.sets[predicted.set].name) {
      row.fail("file",
               "expected \"" + validation.sets[predicted.set].name + "\", the name of its set");
    }
    predicted.collective = row.text("collective");
    predicted.bytes = row.number("bytes");
    predicted.measured_us = row.number("measured_us");
    predicted.predicted_us = row.number_or_null("predicted_us");
    if (row.has("error_percent")) predicted.error_percent = row.number("error_percent");
    if (row.has("impossible")) predicted.impossible = row.text("impossible");
    if (predicted.predicted_us.has_value() != predicted.error_percent.has_value()) {
      row.fail("predicted_us", "expected with error_percent, or neither");
    }
    row.finish();
    validation.rows.push_back(std::move(predicted));
  }
  validation.warnings = object.texts("warnings");
  // What report.json repeats and this report works out from the rows.
  for (const char* repeated : {"points", "unpriced", "median_ape_percent", "p90_ape_percent",
                               "mean_ape_percent", "bias_percent", "sets", "by", "worst"}) {
    static_cast<void>(object.value(repeated));
  }
  object.finish();
  return validation;
}

}  // namespace shardlab::reports

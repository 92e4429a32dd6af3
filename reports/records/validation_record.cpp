#include "reports/records/validation_record.h"

#include "reports/records/result_reader.h"

namespace shardlab {

std::optional<Contradiction> Fields<reports::PredictedRow>::contradiction(const Self& row) {
  if (row.predicted_us.has_value() == row.error_percent.has_value()) return std::nullopt;
  return Contradiction{"/predicted_us", "expected both predicted_us and error_percent, or neither"};
}

std::optional<Contradiction> Fields<reports::ValidationRecord>::contradiction(const Self& record) {
  for (std::size_t i = 0; i < record.rows.size(); ++i) {
    const reports::PredictedRow& row = record.rows[i];
    const std::string pointer = "/rows/" + std::to_string(i);
    if (row.set >= record.sets.size()) {
      return Contradiction{pointer + "/set", "found " + std::to_string(row.set) + "; there are " +
                                                 std::to_string(record.sets.size()) +
                                                 " measurement_sets"};
    }
    if (row.file != record.sets[row.set].name) {
      return Contradiction{pointer + "/file",
                           "expected \"" + record.sets[row.set].name + "\", the name of its set"};
    }
  }
  return std::nullopt;
}

namespace reports {

ValidationRecord read_validation_record(ResultRecord record, std::string_view file) {
  return read_result<ValidationRecord>(std::move(record), file);
}

}  // namespace reports
}  // namespace shardlab

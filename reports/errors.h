// Errors of predictions as a report states them: signed, and in percent of the measured time.
//
//   const ErrorFigures figures = error_figures(record, [](const PredictedRow& row) {
//                                  return row.collective == "all_reduce"; });
//
// reports/statistics.h defines medians and percentiles. Tested by
// tests/unit/reports/run_record_test.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "reports/records/validation_record.h"

namespace shardlab::reports {

struct ErrorFigures {
  std::int64_t points = 0;                            // rows with a prediction
  std::int64_t unpriced = 0;                          // rows without a prediction
  std::optional<double> median_percent, p90_percent;  // quantiles of the absolute errors
  std::optional<double> median_signed_percent;
  std::optional<double> worst_percent;  // the signed error with the largest absolute value
};

[[nodiscard]] ErrorFigures error_figures(const ValidationRecord& record,
                                         const std::function<bool(const PredictedRow&)>& counts);

}  // namespace shardlab::reports

#include "reports/errors.h"

#include <cmath>

#include "reports/statistics.h"

namespace shardlab::reports {

ErrorFigures error_figures(const ValidationRecord& record,
                           const std::function<bool(const PredictedRow&)>& counts) {
  ErrorFigures figures;
  std::vector<double> errors;
  std::vector<double> sizes;
  for (const PredictedRow& row : record.rows) {
    if (!counts(row)) continue;
    if (!row.error_percent) {
      ++figures.unpriced;
      continue;
    }
    errors.push_back(*row.error_percent);
    sizes.push_back(std::abs(*row.error_percent));
    if (!figures.worst_percent || sizes.back() > std::abs(*figures.worst_percent)) {
      figures.worst_percent = row.error_percent;
    }
  }
  figures.points = static_cast<std::int64_t>(errors.size());
  figures.median_percent = median(sizes);
  figures.p90_percent = percentile(sizes, 0.9);
  figures.median_signed_percent = median(errors);
  return figures;
}

}  // namespace shardlab::reports

#include "costmodel/calibrate/fit_errors.h"

#include <cmath>
#include <string>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/percentile.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr double kLargestMedianPercent = 100;

}  // namespace

void add_fit_errors(Calibration& fit, std::span<const Observation> rows, const Topology& topology) {
  const auto model = make_collective_model(fit.choice(), topology);
  std::vector<double> errors;
  for (const Observation& row : rows) {
    const double predicted = model->price(row.query).total.value();
    errors.push_back(100 * std::abs(predicted / row.time_us - 1));
  }
  fit.rows_used = rows.size();
  fit.median_ape_percent = percentile(errors, 0.5);
  fit.p90_ape_percent = percentile(errors, 0.9);
  if (fit.median_ape_percent > kLargestMedianPercent) {
    throw InputError("calibrate: " + std::string(fit.model->name) +
                     " misses half of the rows that it was fitted to by more than " +
                     format_double(std::round(fit.median_ape_percent)) +
                     " %; valid: rows whose times grow with size as a collective's do");
  }
}

}  // namespace shardlab

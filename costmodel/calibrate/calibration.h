// Calibration: measured times in, a fitted model with 95 % intervals out.
//
//   Calibration fit = calibrate(*find_cost_model("piecewise"), observations, topology);
//   fit.choice()       // the model as a stack names it
//   fit.parameters     // what was fitted, with intervals
//
// Errors are relative (predicted over measured time), and outliers count little (huber.h). The
// intervals of constants are those of Huber's M-estimator with Student's t (student_t.h).
//
// A parameter that the rows do not determine stays at a prior (the model's default, the topology's
// figure or what other curves say) and is listed. Rows that contradict each other are refused and
// listed. If the fitted model cannot even predict the rows that it was fitted to, calibrate()
// throws InputError.
//
// The headers constants_calibration.h, curve_calibration.h, kernel_calibration.h and
// population_calibration.h say how each family of models is fitted.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/registry.h"

namespace shardlab {

struct Observation {
  CollectiveQuery query;
  double time_us = 0.0;  // time of the out-of-place collective, positive
  // Which measurement set the row is from. Rows of one set are from one system, so they must not
  // contradict each other.
  int set = 0;
  // The time of the same collective in place, if it was measured.
  std::optional<double> in_place_us = {};
};

struct FittedParameter {
  std::string name;
  double value;
  double low_95;  // bounds of the 95 % interval, in the unit of the value
  double high_95;
  std::optional<Bytes> bytes = {};  // the size whose time or rate it is; nothing for constants
};

struct KeptParameter {
  std::string name;
  double prior;
  std::string reason;
};

struct RefusedObservation {
  std::size_t row;  // index into the observations
  std::string reason;
};

// A size to measure next, and how much of the predictions' mean variance would be left after
// measuring it.
struct NextSize {
  CollectiveQuery query;
  double variance_left_percent;
};

struct Calibration {
  const ModelEntry* model = nullptr;
  nlohmann::json params = nlohmann::json::object();
  nlohmann::json rows = nlohmann::json::array();
  std::vector<FittedParameter> parameters;
  std::vector<KeptParameter> not_identified;
  std::vector<RefusedObservation> refused;
  std::size_t rows_used = 0;
  double median_ape_percent = 0.0;  // median absolute error of the prices at the rows used
  double p90_ape_percent = 0.0;     // 90th percentile of the same errors
  double noise_percent = 0.0;       // standard deviation of one row about the model
  // How many more rows are needed. Constants need rows until the widest interval is within 5 %
  // either way. Curves need one row for each size of sizes_of_curves whose prediction is not yet
  // within 5 % either way.
  std::int64_t more_rows = 0;
  // Sizes from 1 KiB to 1 GiB, of all curves together; 0 for constants.
  std::int64_t sizes_of_curves = 0;
  std::vector<NextSize> next_sizes;  // the three whose rows would help most

  [[nodiscard]] ModelChoice choice() const;
};

// Fits one model of collectives: piecewise, or one whose entry names free constants. Throws
// InputError for other models, for rows that the model cannot be fitted to, and for too few rows.
[[nodiscard]] Calibration calibrate(const ModelEntry& model, std::span<const Observation> rows,
                                    const Topology& topology);

}  // namespace shardlab

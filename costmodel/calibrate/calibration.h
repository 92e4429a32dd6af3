// Calibration: measured times in, a fitted model with 95 % intervals out.
//
//   Calibration fit = calibrate(*find_cost_model("piecewise"), observations, topology);
//   fit.choice()       // the model as a stack names it
//   fit.parameters     // what was fitted, with intervals
//
// Errors are relative: a row counts by its predicted over its measured time, and bad rows count
// little (huber.h). Intervals are those of Huber's M-estimator with Student's t (student_t.h).
//
// What the rows cannot say is not invented: a parameter that they leave open stays at a prior (the
// model's default or the topology's figure) and is listed. Rows that contradict each other are
// refused, and listed. A model that cannot even predict the rows that it was fitted to throws
// InputError.
//
// The headers constants_calibration.h, curve_calibration.h and kernel_calibration.h say how each
// family of models is fitted.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/registry.h"

namespace shardlab {

struct Observation {
  CollectiveQuery query;
  double time_us = 0.0;  // time of the out-of-place collective, positive
  int set =
      0;  // rows with the same number are of one system, so they must not contradict each other
};

struct FittedParameter {
  std::string name;
  double value;
  double low_95;  // bounds of the 95 % interval, in the unit of the value
  double high_95;
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

// A size to measure next, and the share of the predictions' mean variance that its row would leave.
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
  double median_ape_percent = 0.0;  // absolute error of the prices at the rows used
  double p90_ape_percent = 0.0;     // its 90th percentile
  double noise_percent = 0.0;       // standard deviation of one row about the model
  // How many rows are still wanted. Constants want rows until the widest interval is within 5 %
  // either way. Curves want one at each of the sizes below whose prediction is not within 5 %
  // either way.
  std::int64_t more_rows = 0;
  std::int64_t sizes_of_curves = 0;  // sizes from 1 KiB to 1 GiB, over all curves; constants: 0
  std::vector<NextSize> next_sizes;  // the three that help most

  [[nodiscard]] ModelChoice choice() const;
};

// Fits one model of collectives: piecewise, or one whose entry names free constants. Throws
// InputError for other models, for rows that no such model can follow, and for too few rows.
[[nodiscard]] Calibration calibrate(const ModelEntry& model, std::span<const Observation> rows,
                                    const Topology& topology);

}  // namespace shardlab

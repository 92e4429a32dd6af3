// Calibration: measured times in, a fitted model with 95 % intervals out.
//
//   Calibration fit = calibrate(*find_cost_model("piecewise"), observations, topology);
//   fit.choice()       // the model as a stack names it
//   fit.parameters     // what was fitted, with intervals
//
// Errors are relative: a row counts by predicted over measured time. Rows are weighed by Huber's
// function (Huber 1964, "Robust estimation of a location parameter", k = 1.345), so that a few bad
// rows do not bend a fit; intervals are those of Huber's M-estimator with Student's t.
//
// What the rows cannot say is not invented: a parameter that they leave open stays at a prior (the
// model's default or the topology's figure) and is listed. Rows that contradict each other are
// refused, and listed. Rows that cannot even predict themselves throw InputError.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "costmodel/curve.h"
#include "costmodel/registry.h"

namespace shardlab {

struct Observation {
  CollectiveQuery query;
  double time_us = 0.0;  // out of place, positive
  int set = 0;           // rows of one set are of one system: they must not contradict each other
};

struct FittedParameter {
  std::string name;
  double value;
  double low_95;
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

// A size to measure next, and what it would do to the mean variance of the predictions.
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
  double median_ape_percent = 0.0;  // of the rows used
  double p90_ape_percent = 0.0;
  double noise_percent = 0.0;  // standard deviation of one row about the model
  // Until the widest interval is within 5 % either way; of curves one at each of the sizes below
  // whose prediction is not.
  std::int64_t more_rows = 0;
  std::int64_t sizes_of_curves = 0;  // from 1 KiB to 1 GiB, over all curves; 0 of constants
  std::vector<NextSize> next_sizes;  // the three that help most

  [[nodiscard]] ModelChoice choice() const;
};

// Models that can be fitted: piecewise, and those whose entry names free constants. Throws
// InputError: too few rows, or rows that the model cannot follow.
[[nodiscard]] Calibration calibrate(const ModelEntry& model, std::span<const Observation> rows,
                                    const Topology& topology);

// One curve of a collective and group, with intervals for what it predicts: kriging (Matheron 1963)
// of ln t about the smooth curve of curve.h, whose parameters have vague normal priors; departures
// from it are correlated over sizes as exp(-|ln S - ln S'| / 4), their size and the noise are the
// most likely of a grid.
struct CurveFit {
  Curve curve;
  double noise = 0.0;         // standard deviation of ln t of one row
  bool tells_latency = true;  // else the asymptote is the prior's
  bool tells_bandwidth = true;

  struct Interval {
    double us;
    double low_95;
    double high_95;
  };
  [[nodiscard]] Interval at(Bytes bytes) const;

  // What `at` needs: the curve before its departures with the prior errors of its ln a, ln b, ln p;
  // sizes of the rows, the inverse covariance, the residuals weighed by it.
  Collective kind = Collective::kLocal;
  Curve smooth = {};
  std::array<double, 3> log_errors = {};
  std::vector<double> log_sizes;
  std::vector<double> inverse;  // row-major
  std::vector<double> weights;
  double departure = 0.0;
};
struct SizedTime {
  Bytes bytes;
  double time_us;
};
// What a curve is like before any row is seen: its asymptotes, and the standard deviations of their
// logarithms.
struct CurvePrior {
  double latency_us;
  double bytes_per_us;
  double log_latency_error = 10.0 / 3;
  double log_bandwidth_error = 10.0 / 3;
};
// Assumes at least one row, all times positive.
[[nodiscard]] CurveFit fit_curve(Collective kind, std::span<const SizedTime> rows,
                                 const CurvePrior& prior);

}  // namespace shardlab

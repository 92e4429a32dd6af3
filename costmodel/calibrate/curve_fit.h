// The curve of one collective and group, fitted to measured times, with intervals for its
// predictions.
//
//   const std::vector<SizedTime> rows = {{1024, 12.1}, {1 << 20, 30.0}};
//   const CurveFit fit = fit_curve(Collective::kAllReduce, rows, prior);
//   fit.curve                      // a smooth curve with kinks (curve.h)
//   fit.at(1 << 16).low_95         // us
//
// The method is kriging (Matheron 1963, "Principles of geostatistics"): the smooth curve of curve.h
// is the trend of ln t, its parameters have vague normal priors, and departures from it are
// correlated over sizes as exp(-|ln S - ln S'| / 4). The standard deviations of departures and of
// noise are the most likely ones of a grid.
//
// Rows of the same size enter as their mean with less noise, which gives the same curve as the rows
// one by one. Of more than kMostSizes distinct sizes, neighbours are taken together in the same
// way; sizes are then so close that a curve hardly changes between them. Cost: linear in the rows
// and cubic in the distinct sizes, up to kMostSizes of them: a second for 100,000 rows.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "costmodel/curve.h"

namespace shardlab {

struct SizedTime {
  Bytes bytes;
  double time_us;
};

// What is assumed of a curve before any row is seen: its asymptotes, and the standard deviations of
// their logarithms.
struct CurvePrior {
  double latency_us;
  double bytes_per_us;
  double log_latency_error = kVagueLogError;
  double log_bandwidth_error = kVagueLogError;

  static constexpr double kVagueLogError = 10.0 / 3;  // rows outweigh such a prior
};

// The prior value of a curve's sharpness, which it keeps if its rows do not determine it: the
// median over those sets in configs/measurements that are healthy (health.h). Status: fitted.
inline constexpr double kUsualSharpness = 0.7;

inline constexpr std::size_t kMostSizes = 256;

struct CurveFit {
  Curve curve;
  double noise = 0.0;           // standard deviation of ln t of one row
  bool tells_latency = true;    // false: the latency floor comes from the prior
  bool tells_bandwidth = true;  // false: the bandwidth comes from the prior

  struct Interval {
    double us;
    double low_95;
    double high_95;
  };
  [[nodiscard]] Interval at(Bytes bytes) const;
  // The covariance of the errors of ln t between each two of the sizes: an n x n matrix, row by
  // row.
  [[nodiscard]] std::vector<double> log_covariance(std::span<const Bytes> sizes) const;

  // The two functions above need the fields below. `smooth` is the curve without its departures;
  // `log_errors` are the prior standard deviations of its ln a, ln b and ln p.
  Collective kind = Collective::kLocal;
  Curve smooth = {};
  std::array<double, 3> log_errors = {};
  std::size_t rows = 0;
  std::vector<double> log_sizes;  // the n distinct ln S of the rows, ascending
  std::vector<double> inverse;    // inverse of their covariance, n * n figures (symmetric)
  double departure = 0.0;         // standard deviation of ln t from the smooth curve
};

// Assumes at least one row, all times positive.
[[nodiscard]] CurveFit fit_curve(Collective kind, std::span<const SizedTime> rows,
                                 const CurvePrior& prior);

}  // namespace shardlab

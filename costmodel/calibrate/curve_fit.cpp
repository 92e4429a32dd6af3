#include "costmodel/calibrate/curve_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/base/index.h"
#include "costmodel/calibrate/identifiability.h"
#include "costmodel/calibrate/robust_fit.h"
#include "costmodel/calibrate/student_t.h"

namespace shardlab {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// The letters are those of curve.h: S bytes, t us, and the parameters x = (ln a, ln b, ln p).
//
// These figures were chosen among a few by the error at held-out sizes of the healthy sets of
// configs/measurements (status: fitted, weakly).
constexpr double kSharpnessWeight = 0.3;  // weight of a residual of ln p beside one of ln t
constexpr double kTrendError =
    0.1;  // prior error of those of ln a, ln b and ln p that the rows determine
constexpr double kBendError = 0.1;  // in ln t; a row that misses by more bends the curve less
constexpr double kTold =
    1.5;  // how far beyond the bend a row must lie to determine that side, in ln S
constexpr double kCorrelation = 4.0;  // the length over which departures are correlated, in ln S
// Usual standard deviations of ln t, and the standard deviations of their logarithms.
constexpr double kUsualDeparture = 0.3;
constexpr double kUsualDepartureError = 0.9;
constexpr double kUsualNoise = 0.02;
constexpr double kUsualNoiseError = 0.5;
// The grid of standard deviations from which a fit chooses.
constexpr double kDepartures[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.5};
constexpr double kNoises[] = {0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2};

// The bounds keep the search inside what double can hold.
Curve curve_of(const VectorXd& x) {
  return {std::exp(std::clamp(x[0], -10.0, 25.0)),
          std::exp(std::clamp(x[1], -7.0, 20.0)),
          std::clamp(std::exp(x[2]), 0.1, 10.0),
          {}};
}

VectorXd smooth_logs(Collective kind, const VectorXd& x, const VectorXd& log_sizes) {
  const Curve curve = curve_of(x);
  VectorXd out(log_sizes.size());
  for (Eigen::Index i = 0; i < out.size(); ++i) out[i] = smooth_log_us(kind, curve, log_sizes[i]);
  return out;
}

double correlation(double a, double b) { return std::exp(-std::abs(a - b) / kCorrelation); }

MatrixXd correlations_of(const VectorXd& log_sizes) {
  MatrixXd k(log_sizes.size(), log_sizes.size());
  for (Eigen::Index i = 0; i < k.rows(); ++i) {
    for (Eigen::Index j = 0; j < k.cols(); ++j) k(i, j) = correlation(log_sizes[i], log_sizes[j]);
  }
  return k;
}

VectorXd variances(const std::array<double, 3>& errors) {
  return Eigen::Map<const VectorXd>(errors.data(), 3).array().square();
}

// ln S and ln t of the rows, by rising size.
struct LogRows {
  VectorXd sizes;
  VectorXd times;
};

LogRows log_rows(std::span<const SizedTime> sorted) {
  const auto n = static_cast<Eigen::Index>(sorted.size());
  LogRows rows{VectorXd(n), VectorXd(n)};
  for (Eigen::Index i = 0; i < n; ++i) {
    const SizedTime& row = sorted[to_index(i)];
    rows.sizes[i] = std::log(std::max(row.bytes, 1.0));
    rows.times[i] = std::log(row.time_us);
  }
  return rows;
}

// Rows of one size, or of neighbouring ones, by rising size.
struct SizeGroup {
  Eigen::Index begin = 0;  // its first row
  Eigen::Index rows = 0;
};

// The rows of each distinct size. Of too many sizes, those whose ln S lies in the same of
// kMostSizes equal intervals make one group.
std::vector<SizeGroup> size_groups(const VectorXd& sizes) {
  const double first = sizes[0];
  const double range = sizes[sizes.size() - 1] - first;
  const auto grouped = [&](const auto& key_of) {
    std::vector<SizeGroup> groups;
    for (Eigen::Index i = 0; i < sizes.size(); ++i) {
      if (i == 0 || key_of(sizes[i]) != key_of(sizes[i - 1])) groups.push_back({i, 0});
      ++groups.back().rows;
    }
    return groups;
  };
  std::vector<SizeGroup> groups = grouped([](double size) { return size; });
  if (groups.size() <= kMostSizes) return groups;
  const auto intervals = static_cast<double>(kMostSizes);
  return grouped([&](double size) {
    return std::min(std::floor((size - first) / range * intervals), intervals - 1);
  });
}

// The mean of each group's rows, column by column.
MatrixXd means_of(const std::vector<SizeGroup>& groups, const MatrixXd& rows) {
  MatrixXd means(static_cast<Eigen::Index>(groups.size()), rows.cols());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    means.row(static_cast<Eigen::Index>(g)) =
        rows.middleRows(groups[g].begin, groups[g].rows).colwise().mean();
  }
  return means;
}

// What choose_deviations needs of the rows' residuals.
struct GroupedMisses {
  VectorXd means;
  VectorXd counts;              // rows of each group
  double squares_within = 0.0;  // sum over the rows' distances from the means of their groups
  double repeats = 0.0;         // rows beyond the first of each group
};

GroupedMisses grouped_misses(const std::vector<SizeGroup>& groups, const VectorXd& misses) {
  GroupedMisses grouped;
  grouped.means = means_of(groups, misses);
  grouped.counts.resize(grouped.means.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto at = static_cast<Eigen::Index>(g);
    const auto own = misses.segment(groups[g].begin, groups[g].rows);
    grouped.counts[at] = static_cast<double>(groups[g].rows);
    grouped.squares_within += (own.array() - grouped.means[at]).square().sum();
    grouped.repeats += grouped.counts[at] - 1;
  }
  return grouped;
}

// Fits the parameters of the smooth curve. Rows far from it weigh little.
RobustFit fit_smooth(Collective kind, const LogRows& rows, const CurvePrior& prior) {
  const Eigen::Index n = rows.sizes.size();
  const Residuals residuals = [&](const VectorXd& x) {
    VectorXd r(n + 3);
    r.head(n) = smooth_logs(kind, x, rows.sizes) - rows.times;
    r[n] = kSharpnessWeight * (x[2] - std::log(kUsualSharpness));
    r[n + 1] = kBendError / prior.log_latency_error * (x[0] - std::log(prior.latency_us));
    r[n + 2] = kBendError / prior.log_bandwidth_error * (x[1] - std::log(prior.bytes_per_us));
    return r;
  };
  VectorXd start(3);
  start << rows.times[0], rows.sizes[n - 1] - rows.times[n - 1], std::log(kUsualSharpness);
  return fit_robustly(residuals, start, 3, kBendError);
}

// Chooses the standard deviations of departures and of noise: the most likely ones of the grid,
// given the residuals of the smooth curve and the usual values. The rows of a group differ from
// each other by noise alone, so that their likelihood is that of their mean, whose variance is the
// noise's divided by their number, and that of their distances from the mean.
void choose_deviations(CurveFit& fit, const GroupedMisses& misses, const MatrixXd& trend,
                       const MatrixXd& correlations) {
  double best = -std::numeric_limits<double>::infinity();
  for (const double departure : kDepartures) {
    for (const double noise : kNoises) {
      MatrixXd k = trend + departure * departure * correlations;
      k.diagonal().array() += noise * noise / misses.counts.array();
      const Eigen::LLT<MatrixXd> factor(k);
      const double likelihood =
          -0.5 * misses.means.dot(factor.solve(misses.means)) -
          factor.matrixL().toDenseMatrix().diagonal().array().log().sum() -
          0.5 * misses.squares_within / (noise * noise) - misses.repeats * std::log(noise) -
          0.5 * std::pow(std::log(departure / kUsualDeparture) / kUsualDepartureError, 2) -
          0.5 * std::pow(std::log(noise / kUsualNoise) / kUsualNoiseError, 2);
      if (likelihood > best) {
        best = likelihood;
        fit.departure = departure;
        fit.noise = noise;
      }
    }
  }
}

// Covariances of ln t before the rows are seen, between any two sizes.
class PriorCovariance {
 public:
  explicit PriorCovariance(const CurveFit& fit) : fit_(fit) {}

  [[nodiscard]] double between(double log_a, double log_b) const {
    const VectorXd slope = variances(fit_.log_errors).asDiagonal() * slope_at(log_b);
    return slope_at(log_a).dot(slope) + fit_.departure * fit_.departure * correlation(log_a, log_b);
  }
  [[nodiscard]] VectorXd with_rows(double log_size) const {
    VectorXd k(static_cast<Eigen::Index>(fit_.log_sizes.size()));
    for (Eigen::Index i = 0; i < k.size(); ++i) {
      k[i] = between(log_size, fit_.log_sizes[to_index(i)]);
    }
    return k;
  }

 private:
  // The derivatives of the smooth curve's ln t by ln a, ln b and ln p.
  [[nodiscard]] VectorXd slope_at(double log_size) const {
    const Curve& curve = fit_.smooth;
    const VectorXd x = (VectorXd(3) << std::log(curve.latency_us), std::log(curve.bytes_per_us),
                        std::log(curve.sharpness))
                           .finished();
    const VectorXd at = VectorXd::Constant(1, log_size);
    const Residuals logs = [&](const VectorXd& moved) { return smooth_logs(fit_.kind, moved, at); };
    return numeric_jacobian(logs, x, logs(x)).row(0).transpose();
  }

  const CurveFit& fit_;
};

}  // namespace

CurveFit fit_curve(Collective kind, std::span<const SizedTime> rows, const CurvePrior& prior) {
  std::vector<SizedTime> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const SizedTime& a, const SizedTime& b) { return a.bytes < b.bytes; });
  const LogRows log = log_rows(sorted);
  const VectorXd& sizes = log.sizes;
  const Eigen::Index n = sizes.size();
  const RobustFit smooth = fit_smooth(kind, log, prior);
  VectorXd x = smooth.x;

  CurveFit fit;
  fit.kind = kind;
  fit.smooth = curve_of(x);
  const VectorXd errors = smooth.covariance.diagonal().cwiseMax(0.0).cwiseSqrt();
  const double bend = x[0] + x[1];  // ln S where floor and plateau meet
  fit.tells_latency = errors[0] < kOpenLogError && sizes[0] < bend - kTold;
  fit.tells_bandwidth = errors[1] < kOpenLogError && sizes[n - 1] > bend + kTold;
  fit.log_errors = {fit.tells_latency ? kTrendError : prior.log_latency_error,
                    fit.tells_bandwidth ? kTrendError : prior.log_bandwidth_error, kTrendError};

  const std::vector<SizeGroup> groups = size_groups(sizes);
  const VectorXd group_sizes = means_of(groups, sizes);
  const Eigen::Index m = group_sizes.size();
  const GroupedMisses misses = grouped_misses(groups, log.times - smooth_logs(kind, x, sizes));
  const Residuals logs = [&](const VectorXd& moved) { return smooth_logs(kind, moved, sizes); };
  const MatrixXd j = means_of(groups, numeric_jacobian(logs, x, logs(x)));
  const MatrixXd trend = j * variances(fit.log_errors).asDiagonal() * j.transpose();
  const MatrixXd correlations = correlations_of(group_sizes);
  choose_deviations(fit, misses, trend, correlations);

  // The residuals of the smooth curve are split between its parameters, departures (kinks) and
  // noise.
  MatrixXd k = trend + fit.departure * fit.departure * correlations;
  k.diagonal().array() += fit.noise * fit.noise / misses.counts.array();
  const MatrixXd inverse = k.llt().solve(MatrixXd::Identity(m, m));
  const VectorXd weights = inverse * misses.means;
  x += variances(fit.log_errors).asDiagonal() * j.transpose() * weights;
  fit.curve = curve_of(x);
  const VectorXd kinks = fit.departure * fit.departure * correlations * weights;
  for (Eigen::Index g = 0; g < m; ++g) {
    const SizeGroup& group = groups[to_index(g)];
    const Bytes first = sorted[to_index(group.begin)].bytes;
    const Bytes last = sorted[to_index(group.begin + group.rows - 1)].bytes;
    fit.curve.kinks.push_back(
        {first == last ? first : std::exp(group_sizes[g]), std::exp(kinks[g])});
  }
  fit.rows = sorted.size();
  fit.log_sizes.assign(group_sizes.begin(), group_sizes.end());
  fit.inverse.assign(inverse.data(), inverse.data() + inverse.size());
  return fit;
}

std::vector<double> CurveFit::log_covariance(std::span<const Bytes> sizes) const {
  const auto n = static_cast<Eigen::Index>(log_sizes.size());
  const Eigen::Map<const MatrixXd> inverse_covariance(inverse.data(), n, n);
  const PriorCovariance prior(*this);
  std::vector<double> logs;
  std::vector<VectorXd> with_rows;
  for (const Bytes bytes : sizes) {
    logs.push_back(std::log(std::max(bytes, 1.0)));
    with_rows.push_back(prior.with_rows(logs.back()));
  }
  std::vector<double> covariance;
  for (std::size_t a = 0; a < logs.size(); ++a) {
    const VectorXd weighed = inverse_covariance * with_rows[a];
    for (std::size_t b = 0; b < logs.size(); ++b) {
      covariance.push_back(prior.between(logs[a], logs[b]) - with_rows[b].dot(weighed));
    }
  }
  return covariance;
}

CurveFit::Interval CurveFit::at(Bytes bytes) const {
  const double variance = log_covariance({&bytes, 1}).front();
  const double us = TabulatedCurve(kind, curve).us(bytes);
  const double half_width =
      student_t_95(static_cast<double>(rows) - 3) * std::sqrt(std::max(variance, 0.0));
  return {us, us * std::exp(-half_width), us * std::exp(half_width)};
}

}  // namespace shardlab

#include "costmodel/calibrate/robust_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "costmodel/base/percentile.h"
#include "costmodel/calibrate/huber.h"

namespace shardlab {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kMostRounds = 200;
constexpr double kLongestStep = 2.0;      // the most by which one parameter moves in one round
constexpr double kConvergedStep = 1e-10;  // the search ends when no parameter moves by more
constexpr double kConvergedScale = 1e-6;  // and the relative change of the scale is below this
// Damping is Marquardt's lambda, as a share of the diagonal.
constexpr double kFirstDamping = 1e-3;
constexpr double kLeastDamping = 1e-12;
constexpr double kMostDamping = 1e12;  // beyond it no step helps: the search has ended
constexpr double kDampingFactor = 5;

// The standard deviation of normal errors is their median size over 0.6745.
double estimated_scale(const VectorXd& residuals) {
  std::vector<double> sizes;
  for (const double residual : residuals) sizes.push_back(std::abs(residual));
  return std::max(percentile(sizes, 0.5) / 0.6745, 1e-9);
}

VectorXd huber_weights(const VectorXd& residuals, double scale) {
  VectorXd weights(residuals.size());
  for (Eigen::Index i = 0; i < residuals.size(); ++i) {
    const double size = std::abs(residuals[i]) / scale;
    weights[i] = size <= kHuberBound ? 1.0 : kHuberBound / size;
  }
  return weights;
}

double huber_sum(const VectorXd& residuals, double scale) {
  double sum = 0.0;
  for (const double residual : residuals) sum += huber(residual, scale);
  return sum;
}

// The variance of one residual about an M-estimate with `parameters`, corrected for few rows.
// Source: Huber 1981, "Robust Statistics", 7.6.
double huber_variance(const VectorXd& residuals, double scale, double parameters) {
  const auto rows = static_cast<double>(residuals.size());
  const double freedom = std::max(rows - parameters, 1.0);
  double squares = 0.0;
  double inside = 0.0;
  for (const double residual : residuals) {
    const double bounded = std::clamp(residual / scale, -kHuberBound, kHuberBound);
    squares += bounded * bounded;
    inside += std::abs(residual) <= kHuberBound * scale ? 1.0 : 0.0;
  }
  const double share = std::max(inside / rows, 0.1);
  const double correction = 1 + parameters / rows * (1 - share) / share;
  return correction * correction * scale * scale * (squares / freedom) / (share * share);
}

}  // namespace

MatrixXd numeric_jacobian(const Residuals& function, const VectorXd& x, const VectorXd& value) {
  MatrixXd jacobian(value.size(), x.size());
  for (Eigen::Index k = 0; k < x.size(); ++k) {
    VectorXd moved = x;
    const double step = 1e-6 * std::max(1.0, std::abs(x[k]));
    moved[k] += step;
    jacobian.col(k) = (function(moved) - value) / step;
  }
  return jacobian;
}

RobustFit fit_robustly(const Residuals& residuals, VectorXd start, Eigen::Index priors,
                       std::optional<double> fixed_scale, double converged_loss) {
  VectorXd x = std::move(start);
  VectorXd r = residuals(x);
  const Eigen::Index rows = r.size() - priors;
  double damping = kFirstDamping;
  double scale = fixed_scale.value_or(estimated_scale(r.head(rows)));
  const auto loss = [&](const VectorXd& v) {
    return huber_sum(v.head(rows), scale) + v.tail(priors).squaredNorm() / (2 * scale * scale);
  };
  for (int round = 0; round < kMostRounds; ++round) {
    const MatrixXd j = numeric_jacobian(residuals, x, r);
    VectorXd weights = VectorXd::Ones(r.size());
    weights.head(rows) = huber_weights(r.head(rows), scale);
    const MatrixXd normal = j.transpose() * weights.asDiagonal() * j;
    const VectorXd gradient = j.transpose() * weights.asDiagonal() * r;
    MatrixXd damped = normal;
    damped.diagonal() += damping * normal.diagonal().cwiseMax(1e-12);
    const VectorXd step = damped.ldlt().solve(-gradient);
    const VectorXd next = x + step.cwiseMax(-kLongestStep).cwiseMin(kLongestStep);
    const VectorXd next_r = residuals(next);
    if (next_r.allFinite() && loss(next_r) <= loss(r)) {
      const double before = loss(r);
      const bool done = step.lpNorm<Eigen::Infinity>() < kConvergedStep ||
                        before - loss(next_r) < converged_loss * before;
      x = next;
      r = next_r;
      damping = std::max(damping / kDampingFactor, kLeastDamping);
      const double now = fixed_scale.value_or(estimated_scale(r.head(rows)));
      const bool settled = std::abs(now - scale) <= kConvergedScale * scale;
      scale = now;
      if (done && settled) break;
    } else {
      damping *= kDampingFactor;
      if (damping > kMostDamping) break;
    }
  }
  RobustFit fit;
  fit.x = x;
  const double variance = huber_variance(r.head(rows), scale, static_cast<double>(x.size()));
  fit.scale = std::sqrt(variance);
  const MatrixXd j = numeric_jacobian(residuals, x, r);
  MatrixXd information = j.topRows(rows).transpose() * j.topRows(rows) / std::max(variance, 1e-18);
  if (priors > 0) {
    const MatrixXd tail = j.bottomRows(priors);
    const double own = fixed_scale ? *fixed_scale * *fixed_scale : variance;
    information += tail.transpose() * tail / std::max(own, 1e-18);
  }
  // A direction that no row determines gets a variance that is large, but not so large beside the
  // others that their variances drown in its rounding errors.
  information.diagonal().array() += std::max(1e-12, 1e-14 * information.diagonal().maxCoeff());
  fit.covariance = information.ldlt().solve(MatrixXd::Identity(x.size(), x.size()));
  fit.loss = huber_sum(r.head(rows), scale) * scale * scale;
  return fit;
}

}  // namespace shardlab

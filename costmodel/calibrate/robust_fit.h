// Nonlinear least squares whose result a few bad rows hardly change, with its covariance.
//
//   const Residuals residuals = [&](const Eigen::VectorXd& x) -> Eigen::VectorXd {
//     return predicted(x) - measured;
//   };
//   const RobustFit fit = fit_robustly(residuals, start, 0);
//   fit.x, fit.covariance
//
// The method of Levenberg (1944) and Marquardt (1963), in which each round weighs rows by Huber's
// function (huber.h). Parameters and residuals have the units that the caller gives them; here they
// are logarithms and relative errors.
#pragma once

#include <Eigen/Dense>
#include <functional>
#include <optional>

namespace shardlab {

struct RobustFit {
  Eigen::VectorXd x;
  Eigen::MatrixXd covariance;  // covariance of x
  double scale = 0.0;          // standard deviation of one residual
  double loss = 0.0;           // sum of Huber's function over the rows, in squared residuals
};

using Residuals = std::function<Eigen::VectorXd(const Eigen::VectorXd&)>;

// Derivatives of `function` at x by forward differences, one column per parameter; `value` is
// function(x).
[[nodiscard]] Eigen::MatrixXd numeric_jacobian(const Residuals& function, const Eigen::VectorXd& x,
                                               const Eigen::VectorXd& value);

// The x that minimises the loss, searched for from `start`. The last `priors` residuals stand for
// prior knowledge: they keep their full weight and do not count as rows. The scale of the residuals
// is estimated from their median unless it is given. The search ends when no parameter moves by
// more than 1e-10, or when a round lowers the loss by a share of less than `converged_loss`.
[[nodiscard]] RobustFit fit_robustly(const Residuals& residuals, Eigen::VectorXd start,
                                     Eigen::Index priors,
                                     std::optional<double> fixed_scale = std::nullopt,
                                     double converged_loss = 0.0);

}  // namespace shardlab

// Huber's function: a least-squares loss in which a few bad rows weigh little.
//
//   sum += huber(predicted - measured, scale);
//
// Small residuals count by their square; those beyond kHuberBound standard deviations count only
// linearly, so that an outlier cannot bend a fit. Source: Huber 1964, "Robust estimation of a
// location parameter".
#pragma once

#include <cmath>

namespace shardlab {

// The bound, in standard deviations of a residual. With this bound the estimate is 95 % efficient
// if errors are normal.
inline constexpr double kHuberBound = 1.345;

// `residual` and `scale`, its standard deviation, have the same unit; the loss has none.
[[nodiscard]] inline double huber(double residual, double scale) {
  const double size = std::abs(residual) / scale;
  return size <= kHuberBound ? size * size / 2 : kHuberBound * (size - kHuberBound / 2);
}

}  // namespace shardlab

#include "costmodel/cluster_departure.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/physical_curve.h"

namespace shardlab {
namespace {

// Standard deviations of ln t, except where a comment says otherwise.
constexpr double kClusterFloor = 0.152;
constexpr double kClusterPlateau = 0.0532;
constexpr double kWalkVariance = 0.0388;    // a variance
constexpr double kWalkSpeed = 2.74;         // multiplies the clock
constexpr double kCurveSharpness = 0.0582;  // standard deviation of ln p (physical_curve.h)

constexpr double squared(double x) { return x * x; }

// The clock of the walk: its speed, a standard deviation of ln t for each unit of the bend, is
// linear between these points.
struct Speed {
  double bend;
  double speed;
};
constexpr std::array<Speed, 10> kSpeeds = {{{-40, .035},
                                            {-7, .035},
                                            {-5.5, .07},
                                            {-4, .15},
                                            {1, .15},
                                            {2, .08},
                                            {3, .045},
                                            {4.5, .025},
                                            {6, .015},
                                            {40, .015}}};

}  // namespace

double walk_speed(double bend) {
  if (bend <= kSpeeds.front().bend) return kSpeeds.front().speed;
  for (std::size_t i = 1; i < kSpeeds.size(); ++i) {
    if (bend > kSpeeds[i].bend) continue;
    const Speed& left = kSpeeds[i - 1];
    const Speed& right = kSpeeds[i];
    return left.speed + (bend - left.bend) / (right.bend - left.bend) * (right.speed - left.speed);
  }
  return kSpeeds.back().speed;
}

namespace {

// The clock at a bend: the integral of the squared speed from the first point on.
double clock_at(double bend) {
  double clock = 0.0;
  for (std::size_t i = 1; i < kSpeeds.size(); ++i) {
    const double from = kSpeeds[i - 1].bend;
    const double to = std::min(bend, kSpeeds[i].bend);
    if (to <= from) break;
    // Simpson's rule is exact, because the squared speed is a parabola.
    const double a = walk_speed(from);
    const double m = walk_speed(0.5 * (from + to));
    const double b = walk_speed(to);
    clock += (to - from) / 6 * (a * a + 4 * m * m + b * b);
  }
  return clock;
}

}  // namespace

ClusterPoint cluster_point(double bend) {
  const double share = PhysicalCurve::plateau_share(bend);
  return {.plateau_share = share,
          .clock = clock_at(bend),
          .sharpness = bend * share - PhysicalCurve::log_rise(bend)};
}

double covariance_of_cluster(const ClusterPoint& a, const ClusterPoint& b) {
  return squared(kClusterFloor) * (1.0 - a.plateau_share) * (1.0 - b.plateau_share) +
         squared(kClusterPlateau) * a.plateau_share * b.plateau_share;
}

double walked_variance(const ClusterPoint& a, const ClusterPoint& b) {
  return kWalkSpeed * std::abs(a.clock - b.clock);
}

double covariance_of_curve(const ClusterPoint& a, const ClusterPoint& b) {
  return kWalkVariance * std::exp(-walked_variance(a, b) / (2 * kWalkVariance)) +
         squared(kCurveSharpness) * a.sharpness * b.sharpness;
}

}  // namespace shardlab

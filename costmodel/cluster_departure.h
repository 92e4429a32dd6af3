// How the times of one cluster depart from those of clusters like it, and how alike these
// departures are over sizes and collectives.
//
//   const ClusterPoint a = cluster_point(bend_a);       // of the physical curve (physical_curve.h)
//   covariance_of_cluster(a, b) + covariance_of_curve(a, b)     // of ln t
//
// A cluster is faster or slower than others on the floor and on the plateau of all collectives
// alike. Beside that each curve, a collective and group, departs on its own: by a random walk in a
// clock that runs by the bend. It runs fast where NCCL changes protocols, and slowly on the floor
// and on the plateau. The walk reverts to zero over its variance.
//
// These are two of the terms of calibrate/population_kernel.h, whose source holds here too (status:
// fitted).
#pragma once

namespace shardlab {

struct ClusterPoint {
  double plateau_share = 0.0;  // PhysicalCurve::plateau_share
  double clock = 0.0;
  double sharpness = 0.0;  // the derivative of ln(t0 / a) by ln p
};

[[nodiscard]] ClusterPoint cluster_point(double bend);

// The covariance of any two collectives that stay inside the domains of one cluster, or that both
// cross them.
[[nodiscard]] double covariance_of_cluster(const ClusterPoint& a, const ClusterPoint& b);
// The covariance of two sizes of one curve, beside what the cluster's curves share.
[[nodiscard]] double covariance_of_curve(const ClusterPoint& a, const ClusterPoint& b);

// The speed of the walk, a standard deviation of ln t for each unit of the bend.
[[nodiscard]] double walk_speed(double bend);
// The variance of the difference that the walk alone makes between two sizes of one curve, where it
// does not revert.
[[nodiscard]] double walked_variance(const ClusterPoint& a, const ClusterPoint& b);

}  // namespace shardlab

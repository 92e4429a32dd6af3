// How alike the times of collectives are, over sizes, collectives, groups, GPUs and clusters: the
// covariance of ln(t / t0), where t0 is the physical curve (physical_curve.h).
//
//   const PopulationPlace a = place_of(group, generation, bytes);
//   population_covariance(a, b)
//
// It is a sum of independent departures from the physical curve, each shared by fewer logs than
// the one before: all logs; groups of like shapes; networks with the same delay; processes that
// drive several GPUs; a generation and a model of GPU; a cluster; one curve (a collective and group
// in one log). A departure moves the floor (weight w = share of the floor in the time), the plateau
// (1 - w), or the shape in between. Groups inside and across domains share nothing. The departures
// of a cluster and of a curve are those of cluster_departure.h.
//
// Source: a Gaussian process (Rasmussen and Williams 2006, "Gaussian processes for machine
// learning", chapter 2). Its figures minimise the error and the miscoverage at 0, 3 and 6 known
// rows of a log when all logs of the same source are left out, over the healthy logs of A100, H100,
// GH200, H200, B200, B300, GB200 and GB300 in configs/measurements; the clock's speed is the median
// of the neighbouring rows' departures (status: fitted). There are many figures and few sources, so
// each is the geometric mean of five fits, to all sources or some of them: a single fit to half of
// the sources lowers their error and raises that of the other half. The logs of AMD's GPUs, to
// which no figure was fitted, are predicted with the same ones.
#pragma once

#include <Eigen/Dense>
#include <span>

#include "costmodel/physical_curve.h"

namespace shardlab {

// What the covariance depends on, for one size of one collective and group of one cluster.
struct PopulationPlace {
  int kind = 0;  // row of the table of distances between collectives
  bool across_domains = false;
  double log_ranks = 0.0;
  double log_domains = 0.0;
  double log_per_domain = 0.0;
  double log_delay = 0.0;  // ln of the network's delay (physical_curve.h)
  double launch = 0.0;     // launch_of (population_curve.h)
  int generation = 0;      // number of the GPU generation; neighbouring ones differ by 1
  int device = 0;          // equal for equal models of GPU
  int cluster = 0;         // equal for rows of one cluster
  int log = 0;             // equal for rows of one log, and for the cluster's own rows
  double log_bytes = 0.0;
  double bend = 0.0;
  double plateau_share = 0.0;  // 1 - w
};

// The standard deviation of ln t of one row about its curve, in logs as they usually are.
inline constexpr double kPopulationNoise = 0.011;
// A curve whose median departure from what the other sources predict is larger than this counts
// less: the square of what is above, times kUnusualCurves, is added to the variance of its level
// (population_fit.h).
inline constexpr double kUsualDepartureOfCurves = 0.051;
inline constexpr double kUnusualCurves = 1.18;

// The place without its launch, and without its device, cluster and log, which the caller numbers.
[[nodiscard]] PopulationPlace place_of(const PhysicalGroup& group, int generation, Bytes bytes);

[[nodiscard]] double population_covariance(const PopulationPlace& a, const PopulationPlace& b);
// The covariances of all pairs.
[[nodiscard]] Eigen::MatrixXd population_covariances(std::span<const PopulationPlace> a,
                                                     std::span<const PopulationPlace> b);

}  // namespace shardlab

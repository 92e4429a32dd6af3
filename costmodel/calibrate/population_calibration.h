// Fits the model `population`: to the logs of all clusters alone, or also to a cluster's own rows.
//
//   const PopulationFit fit(logs);
//   Calibration general = calibrate_for_any_cluster(fit, {"h100", topology});
//   Calibration own = calibrate_population(fit, {"h100", topology}, observations);
//
// The result has a row for each of the six collectives of the shipped logs and each of many groups,
// and for every collective and group of the cluster's own rows. With own rows, the parameters
// `network_bandwidth_gb_per_s`, `network_latency_us` and `network_reduces` are those of the
// topology, so that the prices stay what was measured on whatever topology they are asked for.
//
// Between the sizes of at least kRowsOfOwnCurve own rows of one collective and group, the times are
// the weighted geometric mean of what the population and a curve of these rows alone (curve_fit.h)
// say. Their errors are alike only in part, so that the mean is off by less: over left out sources
// with six rows, 7.3 % from 1 to 64 MB instead of 7.6 % by the population alone.
//
// Rows of a process that drives several GPUs, as with `-g 8` of nccl-tests, tell about a process
// for each GPU, which is what the result prices unless it is asked for the former
// (population_curve.h).
//
// The intervals are those of the normal distribution, since the covariance is known
// (population_kernel.h); those of the parameters are what the fitted model states for its prices.
// The advice on sizes is greedy: the second size is the best one after a row for the first.
#pragma once

#include <span>

#include "costmodel/calibrate/calibration.h"
#include "costmodel/calibrate/population_fit.h"
#include "costmodel/population_curve.h"

namespace shardlab {

// Throws InputError if there are no rows, or if they contradict each other too much to keep any.
// Without errors, all stated deviations are 0, and there is no advice on sizes.
[[nodiscard]] Calibration calibrate_population(const PopulationFit& fit,
                                               const PopulationSystem& system,
                                               std::span<const Observation> rows,
                                               bool errors = true);

// Which part of a table for all clusters is made, because the whole takes seconds.
struct PopulationTable {
  std::span<const Collective> kinds = {};  // none: all
  bool other_networks = true;              // also rows for the other networks that logs tell apart
  bool errors = true;                      // otherwise all stated deviations are 0
};
// What the logs say of a GPU, whatever the cluster.
[[nodiscard]] Calibration calibrate_for_any_cluster(const PopulationFit& fit,
                                                    const PopulationSystem& system,
                                                    const PopulationTable& table = {});

inline constexpr std::size_t kRowsOfOwnCurve = 6;

// The points of a row.
struct PopulationPoints {
  int bend_step = 1;   // between two points
  bool errors = true;  // otherwise all stated deviations are 0
};
// The row of the model for one collective and group, whose bytes are ignored. `own` are the rows of
// the posterior that belong to it.
[[nodiscard]] PopulationCurve population_curve(const PopulationPosterior& posterior,
                                               CollectiveQuery curve,
                                               std::span<const Observation> own,
                                               PopulationPoints points = {});

// Which of `candidates` to measure next, one after the other, so that the mean variance of what is
// predicted for all of them falls fastest; at most `count` of them.
[[nodiscard]] std::vector<NextSize> choose_next_sizes(const PopulationPosterior& posterior,
                                                      std::span<const CollectiveQuery> candidates,
                                                      std::size_t count);

}  // namespace shardlab

// Which message size to measure next: the one whose row would leave the least variance in what a
// calibration predicts from 1 KiB to 1 GiB.
#pragma once

#include <Eigen/Dense>
#include <span>
#include <vector>

#include "costmodel/calibrate/calibration.h"

namespace shardlab {

// The collectives and groups of the rows, each listed once, in the order of their first rows, as
// queries of 0 bytes.
[[nodiscard]] std::vector<CollectiveQuery> groups_of(std::span<const Observation> rows);

// The sizes that advice is about, for one collective and group: 1 KiB, 4 KiB, ..., 1 GiB.
inline constexpr int kAdvisedSizes = 11;
[[nodiscard]] std::vector<CollectiveQuery> advised_sizes(CollectiveQuery group);

// Appends one NextSize per query: how much of the mean variance of all predictions would be left
// after one more row for that query. `covariance` is that of ln t between the queries, `noise` the
// standard deviation of ln t of one row.
void add_next_sizes(std::vector<NextSize>& sizes, std::span<const CollectiveQuery> queries,
                    const Eigen::MatrixXd& covariance, double noise);

// Keeps the three sizes that help most, the best first.
void keep_best_sizes(std::vector<NextSize>& sizes);

}  // namespace shardlab

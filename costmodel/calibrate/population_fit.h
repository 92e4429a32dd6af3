// What the logs of many clusters say about the times of collectives on another cluster, with or
// without rows of its own.
//
//   const PopulationFit fit(logs);
//   const PopulationPosterior cluster(fit, {"h100", topology}, rows);   // rows may be empty
//   const auto [log_us, covariance] = cluster.at(queries);             // ln t, and its errors
//
// The method is kriging: the departures of ln t from the physical curve (physical_curve.h) are
// jointly normal with the covariance of population_kernel.h, and what is known is conditioned on.
// A curve that departs from what the other sources predict for it by more than
// kUsualDepartureOfCurves in the median counts less (population_kernel.h). The rows of a cluster's
// own are weighed as if they had kPopulationNoise. If they have more, the covariance holds what it
// adds to the prediction. Noisy rows are not weighed less: where noise was estimated by likelihood,
// that missed the held-out rows of the shipped logs by more (after six rows, from 64 MB on, 10.4 %
// instead of 8.2 % in the 90th percentile). Units: ln of microseconds. Cost: cubic in the rows of
// the logs, of which each curve gives at most kRowsOfLogs; about a second for the shipped ones.
// Assumes times above 0 and at least two ranks.
#pragma once

#include <Eigen/Dense>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/calibrate/calibration.h"
#include "costmodel/calibrate/population_kernel.h"
#include "costmodel/topology.h"

namespace shardlab {

// A cluster, or rather what is known of it.
struct PopulationSystem {
  std::string device;  // the GPU's model: "h100"
  Topology topology;
};

// Rows of one system. Logs of one source and device are taken for one cluster.
struct PopulationLog {
  std::string source;
  PopulationSystem system;
  std::vector<Observation> rows;
};

// How many rows of one curve of a log are used, evenly spaced over its sizes.
inline constexpr std::size_t kRowsOfLogs = 10;

class PopulationFit {
 public:
  // Assumes at least one row.
  explicit PopulationFit(std::span<const PopulationLog> logs);
  // The same without the logs of some sources; no log is weighed again. Assumes that others are
  // left, and that this fit was made from logs.
  [[nodiscard]] PopulationFit without(std::span<const std::string> sources) const;

  [[nodiscard]] std::size_t rows() const { return places_.size(); }
  // What was asked of this model of GPU, row by row, as for processes that drive one GPU each.
  [[nodiscard]] std::vector<CollectiveQuery> asked_of_device(std::string_view device) const;
  // The number that the model of GPU has in places; a new number for an unknown one.
  [[nodiscard]] int device_number(std::string_view device) const;

 private:
  friend class PopulationPosterior;
  PopulationFit() = default;
  void weigh_curves();
  void factorize(const Eigen::MatrixXd& covariance);

  struct Row {
    std::string source;
    std::string device;
    CollectiveQuery query;
  };
  std::vector<Row> rows_;
  std::vector<PopulationPlace> places_;
  Eigen::VectorXd departures_;  // how far ln t lies from the physical curve
  Eigen::MatrixXd covariance_;  // includes the noise of the rows
  Eigen::LLT<Eigen::MatrixXd> factor_;
  Eigen::VectorXd whitened_;  // the departures, divided by the factor
  // The rows' weights in a prediction for a cluster without rows of its own.
  Eigen::VectorXd weights_;
  std::vector<std::string> devices_;
};

class PopulationPosterior {
 public:
  // Keeps a reference to `fit`, and estimates the noise of the rows. At most kRowsOfCluster rows of
  // each curve are used, evenly spaced, and fewer if all curves together would give more than
  // kMostRowsOfCluster.
  PopulationPosterior(const PopulationFit& fit, PopulationSystem system,
                      std::span<const Observation> rows);

  struct Figures {
    Eigen::VectorXd log_us;
    Eigen::MatrixXd covariance;  // that of the curves; a measured row has noise() on top
  };
  [[nodiscard]] Figures at(std::span<const CollectiveQuery> queries) const;
  // Figures::log_us alone, which is far quicker.
  [[nodiscard]] Eigen::VectorXd log_us_at(std::span<const CollectiveQuery> queries) const;
  [[nodiscard]] const PopulationSystem& system() const { return system_; }
  // The standard deviation of ln t of one of the rows about its curve: kPopulationNoise, or more if
  // what was measured twice differs by more.
  [[nodiscard]] double noise() const { return noise_; }

  // The rows that are used.
  [[nodiscard]] std::size_t rows() const { return known_.size(); }

  static constexpr std::size_t kRowsOfCluster = 64;
  static constexpr std::size_t kMostRowsOfCluster = 1024;

 private:
  [[nodiscard]] PopulationPlace place(const CollectiveQuery& query) const;
  [[nodiscard]] double log_physical(const CollectiveQuery& query) const;

  const PopulationFit& fit_;
  PopulationSystem system_;
  int device_ = 0;
  double noise_ = kPopulationNoise;
  std::vector<PopulationPlace> known_;  // the cluster's own rows
  Eigen::MatrixXd known_whitened_;      // their covariances with the logs, divided by the factor
  Eigen::LLT<Eigen::MatrixXd> known_factor_;
  Eigen::VectorXd known_weights_;  // the own rows' weights in a prediction
  Eigen::VectorXd log_weights_;    // the weights of the logs' rows in a prediction
};

}  // namespace shardlab

#include "costmodel/calibrate/population_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string_view>
#include <tuple>
#include <utility>

#include "costmodel/base/index.h"
#include "costmodel/base/percentile.h"
#include "costmodel/population_curve.h"

namespace shardlab {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kOwn = -1;  // no cluster and no log of the population has this number

Index size_of(const auto& container) { return static_cast<Index>(container.size()); }

// NVIDIA's generations are 0 Volta, 1 Ampere, 2 Hopper and 3 Blackwell. AMD's are 30 for MI300X and
// MI325X and 31 for MI350X and MI355X: the gap is so wide that logs of both vendors share only what
// all logs share. A file of an AMD GPU need not state a compute capability, so the names decide.
int generation_of(const PopulationSystem& system) {
  constexpr int kMi300 = 30;
  const std::string_view device = system.device;
  if (device.starts_with("mi35")) return kMi300 + 1;
  if (device.starts_with("mi3")) return kMi300;
  const auto capability =
      system.topology.device().compute_capability.value_or(kDefaultComputeCapability);
  return static_cast<int>(capability / 10) - 7;
}

// The launch of a row of a log. On one host, one process often drives all GPUs, so that a log which
// does not say counts half.
double launch_of_log(const CollectiveQuery& query) {
  constexpr double kWeightOfUnknown = 0.5;
  if (query.gpus_per_process > 0 || query.group.hosts > 1) return launch_of(query);
  return kWeightOfUnknown * std::log(static_cast<double>(query.group.ranks_per_host));
}

PhysicalGroup group_of(const CollectiveQuery& query, const Topology& topology) {
  return physical_group(query.kind, query.group, topology);
}

double log_physical_us(const CollectiveQuery& query, const Topology& topology) {
  const PhysicalCurve curve = physical_curve(group_of(query, topology));
  return std::log(curve.us_at_bend(curve.bend(query.full_bytes)));
}

// The rows of each collective and group, by rising size, at most `most` of each, evenly spaced.
std::vector<Observation> thinned(std::span<const Observation> rows, std::size_t most) {
  using Key = std::tuple<int, int, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, std::vector<Observation>> curves;
  for (const Observation& row : rows) {
    const GroupSpan& group = row.query.group;
    curves[{row.set, static_cast<int>(row.query.kind), group.ranks, group.hosts, group.domains}]
        .push_back(row);
  }
  std::vector<Observation> out;
  for (auto& [key, curve] : curves) {
    std::stable_sort(curve.begin(), curve.end(), [](const Observation& a, const Observation& b) {
      return a.query.full_bytes < b.query.full_bytes;
    });
    const std::size_t kept = std::min(most, curve.size());
    for (std::size_t i = 0; i < kept; ++i) {
      const double at = kept == curve.size()
                            ? static_cast<double>(i)
                            : static_cast<double>((curve.size() - 1) * i) /
                                  static_cast<double>(std::max<std::size_t>(kept - 1, 1));
      out.push_back(curve[static_cast<std::size_t>(std::nearbyint(at))]);
    }
  }
  return out;
}

// The same for a cluster's own rows, of which all curves together give at most kMostRowsOfCluster.
std::vector<Observation> thinned_own(std::span<const Observation> rows) {
  std::size_t most = PopulationPosterior::kRowsOfCluster;
  std::vector<Observation> out = thinned(rows, most);
  while (out.size() > PopulationPosterior::kMostRowsOfCluster && most > 1) {
    most /= 2;
    out = thinned(rows, most);
  }
  constexpr std::size_t kMost = PopulationPosterior::kMostRowsOfCluster;
  if (out.size() <= kMost) return out;
  std::vector<Observation> some;  // one row of each of some curves
  for (std::size_t i = 0; i < kMost; ++i) some.push_back(out[i * out.size() / kMost]);
  return some;
}

// How far values are from their median, as the standard deviation of a normal distribution. Single
// values far away count little. 0 for too few values.
double scale_of(const std::vector<double>& values) {
  constexpr std::size_t kEnough = 6;
  constexpr double kMedianOfNormal = 0.6745;  // median of |x|, for x of standard deviation 1
  if (values.size() < kEnough) return 0.0;
  const double median = percentile(values, 0.5);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - median));
  return percentile(distances, 0.5) / kMedianOfNormal;
}

// The standard deviation of the rows' noise, from what was measured twice: in place and out of
// place (whose median ratio is no noise), and sizes that several rows measured. How rough a curve
// is says nothing about it, since switches of NCCL's protocols make kinks of several percent. The
// least is kPopulationNoise. Source: the scale of Hampel 1974, "The influence curve and its role in
// robust estimation". Of the shipped logs, half have 0.8 % by this, one in ten has more than 2.0 %,
// and none more than 3.7 %.
double estimated_noise(std::span<const Observation> rows) {
  using Key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, double>;
  std::vector<double> in_place;
  std::vector<double> repeated;
  std::map<Key, double> seen;  // ln of the last time
  for (const Observation& row : rows) {
    const double log_us = std::log(row.time_us);
    if (row.in_place_us && *row.in_place_us > 0.0) {
      in_place.push_back(std::log(*row.in_place_us) - log_us);
    }
    const CollectiveQuery& query = row.query;
    const Key key{static_cast<int>(query.kind), query.group.ranks, query.group.hosts,
                  query.gpus_per_process, query.full_bytes};
    if (const auto known = seen.find(key); known != seen.end()) {
      // Differences of both signs, so that two runs that differ by a factor do not look steady.
      repeated.push_back(log_us - known->second);
      repeated.push_back(known->second - log_us);
    }
    seen[key] = log_us;
  }
  const double of_difference = std::max(scale_of(in_place), scale_of(repeated));
  return std::max(kPopulationNoise, of_difference / std::numbers::sqrt2);
}

// Numbers of things by their keys, in the order of their first mention.
template <class Key>
class Numbers {
 public:
  int of(const Key& key) {
    return numbers_.emplace(key, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<Key, int> numbers_;
};

}  // namespace

PopulationFit::PopulationFit(std::span<const PopulationLog> logs) {
  Numbers<std::pair<std::string, std::string>> clusters;
  Numbers<std::pair<std::size_t, int>> sets;
  std::vector<double> departures;
  for (std::size_t l = 0; l < logs.size(); ++l) {
    const PopulationLog& log = logs[l];
    const auto& [device, topology] = log.system;
    if (std::find(devices_.begin(), devices_.end(), device) == devices_.end()) {
      devices_.push_back(device);
    }
    for (const Observation& row : thinned(log.rows, kRowsOfLogs)) {
      const PhysicalGroup group = group_of(row.query, topology);
      PopulationPlace place = place_of(group, generation_of(log.system), row.query.full_bytes);
      place.launch = launch_of_log(row.query);
      place.device = device_number(device);
      place.cluster = clusters.of({log.source, device});
      place.log = sets.of({l, row.set});
      places_.push_back(place);
      departures.push_back(std::log(row.time_us) - log_physical_us(row.query, topology));
      rows_.push_back({log.source, device, row.query});
    }
  }
  departures_ = Eigen::Map<const VectorXd>(departures.data(), size_of(departures));
  covariance_ = population_covariances(places_, places_);
  covariance_.diagonal().array() += kPopulationNoise * kPopulationNoise;
  weigh_curves();
  factorize(covariance_);
}

// Adds the variances of curves that the other sources do not predict. A source is left out through
// the inverse of the covariance: if P are the rows of the inverse that belong to it, and P_own the
// square among them, then P_own^-1 P y are the errors of its predictions from all other rows.
void PopulationFit::weigh_curves() {
  const Index n = size_of(places_);
  const MatrixXd inverse = covariance_.llt().solve(MatrixXd::Identity(n, n));
  const VectorXd weighed = inverse * departures_;
  std::map<std::string, std::vector<Index>> sources;
  for (Index i = 0; i < n; ++i) sources[rows_[to_index(i)].source].push_back(i);
  if (sources.size() < 2) return;
  const auto curve_of = [&](Index i) {
    const PopulationPlace& place = places_[to_index(i)];
    return std::tuple(place.log, place.kind, place.log_ranks, place.log_domains);
  };
  std::map<decltype(curve_of(0)), std::vector<double>> misses;
  for (const auto& [source, own] : sources) {
    const VectorXd errors = inverse(own, own).llt().solve(weighed(own));
    for (std::size_t i = 0; i < own.size(); ++i) {
      misses[curve_of(own[i])].push_back(std::abs(errors[static_cast<Index>(i)]));
    }
  }
  VectorXd variances(n);
  for (Index i = 0; i < n; ++i) {
    const double excess = percentile(misses[curve_of(i)], 0.5) - kUsualDepartureOfCurves;
    variances[i] = excess > 0.0 ? kUnusualCurves * excess * excess : 0.0;
  }
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      if (curve_of(i) == curve_of(j)) covariance_(i, j) += variances[i];
    }
  }
}

void PopulationFit::factorize(const MatrixXd& covariance) {
  factor_.compute(covariance);
  whitened_ = factor_.matrixL().solve(departures_);
  weights_ = factor_.matrixL().transpose().solve(whitened_);
}

PopulationFit PopulationFit::without(std::span<const std::string> sources) const {
  PopulationFit fit;
  fit.devices_ = devices_;
  std::vector<Index> kept;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (std::find(sources.begin(), sources.end(), rows_[i].source) != sources.end()) continue;
    kept.push_back(static_cast<Index>(i));
    fit.rows_.push_back(rows_[i]);
    fit.places_.push_back(places_[i]);
  }
  fit.departures_ = departures_(kept);
  fit.factorize(covariance_(kept, kept));
  return fit;
}

int PopulationFit::device_number(std::string_view device) const {
  const auto it = std::find(devices_.begin(), devices_.end(), device);
  return static_cast<int>(it - devices_.begin());
}

std::vector<CollectiveQuery> PopulationFit::asked_of_device(std::string_view device) const {
  std::vector<CollectiveQuery> asked;
  for (const Row& row : rows_) {
    if (row.device != device) continue;
    asked.push_back(row.query);
    asked.back().gpus_per_process = 1;
  }
  return asked;
}

PopulationPosterior::PopulationPosterior(const PopulationFit& fit, PopulationSystem system,
                                         std::span<const Observation> rows)
    : fit_(fit), system_(std::move(system)), device_(fit.device_number(system_.device)) {
  const std::vector<Observation> used = thinned_own(rows);
  VectorXd misses(size_of(used));
  for (std::size_t i = 0; i < used.size(); ++i) {
    known_.push_back(place(used[i].query));
    misses[static_cast<Index>(i)] = std::log(used[i].time_us) - log_physical(used[i].query);
  }
  log_weights_ = fit_.weights_;
  if (known_.empty()) return;
  known_whitened_ = fit_.factor_.matrixL().solve(population_covariances(fit_.places_, known_));
  MatrixXd covariance =
      population_covariances(known_, known_) - known_whitened_.transpose() * known_whitened_;
  misses -= known_whitened_.transpose() * fit_.whitened_;
  noise_ = estimated_noise(rows);
  covariance.diagonal().array() += kPopulationNoise * kPopulationNoise;
  known_factor_.compute(covariance);
  known_weights_ = known_factor_.solve(misses);
  // The logs say something of the own rows, too. What the own rows' weights bring is taken from the
  // logs' weights as far as the logs said it before, so that nothing counts twice.
  log_weights_ -= fit_.factor_.matrixL().transpose().solve(known_whitened_ * known_weights_);
}

PopulationPlace PopulationPosterior::place(const CollectiveQuery& query) const {
  const PhysicalGroup group = group_of(query, system_.topology);
  PopulationPlace place = place_of(group, generation_of(system_), query.full_bytes);
  place.launch = launch_of(query);
  place.device = device_;
  place.cluster = kOwn;
  place.log = kOwn;
  return place;
}

double PopulationPosterior::log_physical(const CollectiveQuery& query) const {
  return log_physical_us(query, system_.topology);
}

VectorXd PopulationPosterior::log_us_at(std::span<const CollectiveQuery> queries) const {
  std::vector<PopulationPlace> places;
  VectorXd log_us(size_of(queries));
  for (std::size_t i = 0; i < queries.size(); ++i) {
    places.push_back(place(queries[i]));
    log_us[static_cast<Index>(i)] = log_physical(queries[i]);
  }
  log_us += population_covariances(fit_.places_, places).transpose() * log_weights_;
  if (!known_.empty()) {
    log_us += population_covariances(known_, places).transpose() * known_weights_;
  }
  return log_us;
}

PopulationPosterior::Figures PopulationPosterior::at(
    std::span<const CollectiveQuery> queries) const {
  std::vector<PopulationPlace> places;
  VectorXd log_us(size_of(queries));
  for (std::size_t i = 0; i < queries.size(); ++i) {
    places.push_back(place(queries[i]));
    log_us[static_cast<Index>(i)] = log_physical(queries[i]);
  }
  const MatrixXd whitened =
      fit_.factor_.matrixL().solve(population_covariances(fit_.places_, places));
  log_us += whitened.transpose() * fit_.whitened_;
  MatrixXd covariance = population_covariances(places, places) - whitened.transpose() * whitened;
  if (!known_.empty()) {
    const MatrixXd with_known =
        population_covariances(known_, places) - known_whitened_.transpose() * whitened;
    log_us += with_known.transpose() * known_weights_;
    const MatrixXd shares = known_factor_.solve(with_known);  // the weights of the own rows' misses
    covariance -= with_known.transpose() * shares;
    const double more_noise = noise_ * noise_ - kPopulationNoise * kPopulationNoise;
    covariance += more_noise * shares.transpose() * shares;
  }
  return {std::move(log_us), std::move(covariance)};
}

}  // namespace shardlab

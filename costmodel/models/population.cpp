// What the links allow, times factors that many clusters measured, one curve for each collective
// and group.
//
//   t(S) = t0(S) f(u)
//   t0 the physical curve of costmodel/physical_curve.h on the topology, u the bend of S on it; f
//   the factor of the row of costmodel/population_curve.h
//   a collective and group with a row   that row's factor
//   other groups                        the mean of ln f over the rows of the collective on the
//                                       same side of the boundary of domains, weighed by 1 over
//                                       the fourth power of the distance in (ln ranks, ln domains,
//                                       4 ln delay), so that the nearest rows decide; the delay is
//                                       that of the network, and counts where rows say theirs
//   collectives without rows there      f = 1; scatter without rows of its own uses those of
//                                       broadcast
// Where one process drives several GPUs, as `-g 8` of nccl-tests does, the floor is that of
// PopulationCurve::log_launched.
// Prices never fall with the size: where the product would, the lower price of the larger size is
// used for the smaller one too. Factors depend on the bend, so other links of a topology move the
// prices as they move the physical curve.
// Source: fitted by `calibrate` to the shipped logs of all clusters and to the user's own. Valid:
// for sizes and groups near those measured. Status: fitted.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "costmodel/cluster_departure.h"
#include "costmodel/physical_curve.h"
#include "costmodel/population_curve.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

constexpr double kFirstBend = -24.0;
constexpr double kLastBend = 24.0;
constexpr int kStepsPerBend = 8;
// Weight of ln delay relative to ln ranks in a distance. Status: assumed.
constexpr double kDelayWeight = 4.0;
constexpr double kSameDelay = 0.01;  // delays whose logarithms differ by less are equal
constexpr int kSteps = static_cast<int>(kLastBend - kFirstBend) * kStepsPerBend;

// ln(t / a) of one row by bend, where a is the floor of the physical curve; rising.
class RiseTable {
 public:
  explicit RiseTable(const PopulationCurve* curve) {
    for (int i = 0; i <= kSteps; ++i) {
      const double bend = kFirstBend + static_cast<double>(i) / kStepsPerBend;
      rises_.push_back(PhysicalCurve::log_rise(bend) +
                       (curve != nullptr ? curve->log_factor(bend) : 0.0));
    }
    for (std::size_t i = rises_.size() - 1; i-- > 0;) {
      rises_[i] = std::min(rises_[i], rises_[i + 1]);
    }
  }

  [[nodiscard]] double at(double bend) const {
    const double x = (bend - kFirstBend) * kStepsPerBend;
    if (x <= 0.0) return rises_.front();
    if (x >= kSteps) return rises_.back() + (bend - kLastBend);
    const auto i = static_cast<std::size_t>(x);
    if (i + 1 >= rises_.size()) return rises_.back();
    const double part = x - static_cast<double>(i);
    return rises_[i] + part * (rises_[i + 1] - rises_[i]);
  }

 private:
  std::vector<double> rises_;
};

constexpr ParamSpec kParams[] = {
    {"network_bandwidth_gb_per_s", std::nullopt, 1e-6, 1e9,
     "bandwidth of one device between hosts (1 GB = 1e9 B) on the system that the rows were fitted "
     "to; default: the topology's"},
    {"network_latency_us", std::nullopt, 0.0, 1e6,
     "latency of one network step on that system; default: the topology's"},
    switch_spec("network_reduces", std::nullopt,
                "1: the switches of that system's network add up (SHARP); default: the topology's"),
};

struct Row {
  PopulationCurve curve;
  RiseTable rise;
  double log_ranks;
  double log_domains;
};

double log_of(std::int64_t count) { return std::log(static_cast<double>(count)); }

class Population final : public CostModel {
 public:
  explicit Population(const ModelInput& input) : topology_(input.topology), unfitted_(nullptr) {
    if (const auto bandwidth = input.params.get("network_bandwidth_gb_per_s")) {
      network_.bandwidth = GBps(*bandwidth);
    }
    if (const auto latency = input.params.get("network_latency_us")) {
      network_.latency = Micros(*latency);
    }
    if (const auto reduces = input.params.get("network_reduces")) {
      network_.reduces = *reduces >= 0.5;
    }
    for (std::size_t i = 0; i < input.rows.size(); ++i) {
      PopulationCurve curve = PopulationCurve::from_json(input.rows[i], input.rows_place.at(i));
      for (const Row& other : rows_) {
        if (other.curve.kind == curve.kind && other.curve.ranks == curve.ranks &&
            other.curve.domains == curve.domains &&
            other.curve.network_delay == curve.network_delay) {
          input.rows_place.at(i).fail(
              "found a second row of the same collective, ranks, domains and network_delay; "
              "valid: at most one");
        }
      }
      has_scatter_ = has_scatter_ || curve.kind == Collective::kScatter;
      const RiseTable rise(&curve);
      rows_.push_back({curve, rise, log_of(curve.ranks), log_of(curve.domains)});
    }
  }

  [[nodiscard]] Price price(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal || query.group.ranks <= 1) return {};
    const PhysicalGroup group = physical_group(query.kind, query.group, topology_, network_);
    const PhysicalCurve curve = physical_curve(group);
    const auto [rise, rise_at_floor] = rises(group, launch_of(query), curve.bend(query.full_bytes));
    const double us = curve.floor_us * std::exp(rise);
    const double floor = curve.floor_us * std::exp(rise_at_floor);
    const double latency = std::min(us, floor);
    Price price = Price::of(Micros(latency), Micros(us - latency));
    price.total = Micros(us);
    return price;
  }

  // The error of a group without a row is the root of the mean of the rows' squared errors, weighed
  // as their factors are.
  [[nodiscard]] std::optional<double> log_error(const CollectiveQuery& query) const override {
    if (query.kind == Collective::kLocal || query.group.ranks <= 1) return std::nullopt;
    const PhysicalGroup group = physical_group(query.kind, query.group, topology_, network_);
    const double bend = physical_curve(group).bend(query.full_bytes);
    const Neighbours near = neighbours(group);
    if (near.weights == 0.0) return std::nullopt;
    double squares = 0.0;
    for (const auto& [row, weight] : near.rows) {
      const double error = row->curve.log_error(bend);
      squares += weight * error * error;
    }
    return std::sqrt(squares / near.weights);
  }

  // On one cluster, the errors of two sizes of one curve (a collective and a group) are correlated;
  // the correlation falls with the variance of the walk between them. The errors of two curves
  // share only the cluster's part, and nothing once rows of the cluster itself were fitted.
  [[nodiscard]] double error_correlation(const CollectiveQuery& a,
                                         const CollectiveQuery& b) const override {
    if (a == b) return 1.0;
    const std::optional<double> error_a = log_error(a);
    const std::optional<double> error_b = log_error(b);
    if (!error_a || !error_b || !(*error_a * *error_b > 0.0)) return 0.0;
    const PhysicalGroup group_a = physical_group(a.kind, a.group, topology_, network_);
    const PhysicalGroup group_b = physical_group(b.kind, b.group, topology_, network_);
    if ((group_a.domains > 1) != (group_b.domains > 1)) return 0.0;
    const ClusterPoint point_a = cluster_point(physical_curve(group_a).bend(a.full_bytes));
    const ClusterPoint point_b = cluster_point(physical_curve(group_b).bend(b.full_bytes));
    if (a.kind == b.kind && a.group.ranks == b.group.ranks && group_a.domains == group_b.domains) {
      return std::exp(-walked_variance(point_a, point_b) / (2.0 * *error_a * *error_b));
    }
    if (network_.bandwidth) return 0.0;  // `calibrate` names the network with rows of the cluster
    const auto variance = [](const ClusterPoint& point) {
      return covariance_of_cluster(point, point) + covariance_of_curve(point, point);
    };
    return covariance_of_cluster(point_a, point_b) /
           std::sqrt(variance(point_a) * variance(point_b));
  }

  [[nodiscard]] std::vector<MeasuredRange> measured() const override {
    std::vector<MeasuredRange> ranges;
    for (const Row& row : rows_) {
      if (row.curve.measured) ranges.push_back(*row.curve.measured);
    }
    return ranges;
  }

 private:
  // The rows from which a group's factor comes, and how much each of them counts.
  struct Neighbours {
    std::vector<std::pair<const Row*, double>> rows;
    double weights = 0.0;
  };
  [[nodiscard]] Neighbours neighbours(const PhysicalGroup& group) const {
    const bool borrows = group.kind == Collective::kScatter && !has_scatter_;
    const Collective kind = borrows ? Collective::kBroadcast : group.kind;
    const double log_ranks = log_of(group.ranks);
    const double log_domains = log_of(group.domains);
    const double log_delay = std::log(std::max(group.network_delay, 1e-3));
    Neighbours near;
    for (const Row& row : rows_) {
      if (row.curve.kind != kind || (row.curve.domains > 1) != (group.domains > 1)) continue;
      const double delay =
          row.curve.network_delay ? log_delay - std::log(*row.curve.network_delay) : 0.0;
      if (row.curve.ranks == group.ranks && row.curve.domains == group.domains &&
          std::abs(delay) < kSameDelay) {
        near.rows.assign(1, {&row, 1.0});
        near.weights = 1.0;
        return near;
      }
      const double ranks = row.log_ranks - log_ranks;
      const double domains = row.log_domains - log_domains;
      const double delays = kDelayWeight * delay;
      const double squared_distance = ranks * ranks + domains * domains + delays * delays;
      const double weight = 1.0 / (squared_distance * squared_distance);
      near.rows.emplace_back(&row, weight);
      near.weights += weight;
    }
    return near;
  }

  // ln(t / a) at a bend, and that of an empty message.
  [[nodiscard]] std::pair<double, double> rises(const PhysicalGroup& group, double launch,
                                                double bend) const {
    const Neighbours near = neighbours(group);
    if (near.weights == 0.0) return {unfitted_.at(bend), unfitted_.at(kFirstBend)};
    double sum = 0.0;
    double sum_at_floor = 0.0;
    for (const auto& [row, weight] : near.rows) {
      sum += weight * (row->rise.at(bend) + row->curve.log_launched(launch, bend));
      sum_at_floor +=
          weight * (row->rise.at(kFirstBend) + row->curve.log_launched(launch, kFirstBend));
    }
    return {sum / near.weights, sum_at_floor / near.weights};
  }

  Topology topology_;
  NetworkFigures network_;
  std::vector<Row> rows_;
  bool has_scatter_ = false;
  RiseTable unfitted_;
};

constexpr ContractExemption kExemptions[] = {
    {"all_reduce_within_reduce_scatter_and_all_gather", "measured curves need not follow the rule"},
    {"reduce_scatter_within_all_reduce", "measured curves need not follow the rule"},
};

}  // namespace

COST_MODEL(population){
    .name = "population",
    .summary = "what the links allow, times factors that many clusters measured",
    .formula = "a (1 + (S / (a b))^p)^(1/p) * factor, by collective, group and bend",
    .source = "fitted by `calibrate` to configs/measurements and to the user's own rows",
    .valid_range = "GPUs, groups and sizes near those measured; the topology moves the rest",
    .params = kParams,
    .exemptions = kExemptions,
    .reads_rows = true,
    .fits_population = true,
    .make_collective = [](const ModelInput& input) -> std::unique_ptr<CostModel> {
      return std::make_unique<Population>(input);
    },
};

}  // namespace shardlab

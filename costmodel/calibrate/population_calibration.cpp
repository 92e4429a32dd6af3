#include "costmodel/calibrate/population_calibration.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/calibrate/contradictions.h"
#include "costmodel/calibrate/curve_fit.h"
#include "costmodel/calibrate/fit_errors.h"
#include "costmodel/calibrate/identifiability.h"
#include "costmodel/calibrate/next_sizes.h"
#include "costmodel/calibrate/student_t.h"
#include "costmodel/measurements/stated_network.h"

namespace shardlab {
namespace {

constexpr Collective kTabled[] = {Collective::kAllGather, Collective::kReduceScatter,
                                  Collective::kAllReduce, Collective::kAllToAll,
                                  Collective::kBroadcast, Collective::kSendRecv};
// A curve has a point at every whole bend from kFirstPoint to kLastPoint, and at the bends of the
// measured sizes.
constexpr int kFirstPoint = -12;
constexpr int kLastPoint = 8;
// The step between the bends of curves for other networks. It is coarser than 1, to keep the
// stacks' files small.
constexpr int kBendStepOfNetworks = 2;
constexpr double kLeastGap = 0.01;  // the least distance between two points
constexpr double kNearBend = 0.3;   // no point is added within this distance of a measured size
constexpr std::size_t kAdvised = 3;
// Between own rows, times near the floor have heavier tails than a normal distribution: few logs
// have a kink there, which no other log shows. Their deviation grows by a share of it, and by more
// in squares, both times the share of the floor. Status: fitted, to a coverage of 95 %.
constexpr double kFloorTailShare = 0.2;
constexpr double kFloorTail = 0.07;  // standard deviation of ln t
// Clusters that are unlike all others are more frequent than a normal distribution has them.
// Status: fitted, as above.
constexpr double kUnknownTail = 1.1;  // multiplies the deviation where few rows are known
// The weight of the curve of the own rows alone. Status: fitted.
constexpr double kOwnCurveWeight = 0.4;

// A collective and group as the model tells them apart.
bool same_curve(const CollectiveQuery& a, const CollectiveQuery& b, const Topology& topology) {
  if (a.kind != b.kind || a.group.ranks != b.group.ranks) return false;
  return physical_group(a.kind, a.group, topology).domains ==
         physical_group(b.kind, b.group, topology).domains;
}

GroupSpan span_of(std::int64_t ranks, std::int64_t domains, const Topology& topology) {
  const std::int64_t per_domain = ranks_of_part(ranks, domains);
  const std::int64_t hosts_of_domain =
      topology.has_wide_domains()
          ? (per_domain + topology.devices_per_host() - 1) / topology.devices_per_host()
          : 1;
  return {.ranks = ranks,
          .hosts = domains * hosts_of_domain,
          .domains = domains,
          .extent = ranks,
          .walk = ranks};
}

// Groups inside a domain, and equal parts of several domains: of each domain one device, a host or
// all.
std::vector<GroupSpan> usual_groups(const Topology& topology) {
  const std::int64_t host = topology.devices_per_host();
  const std::int64_t domain = std::max(host, topology.domain_devices());
  std::vector<GroupSpan> spans;
  for (const std::int64_t ranks : {2, 4, 8, 16, 36, 72}) {
    if (ranks <= domain) spans.push_back(span_of(ranks, 1, topology));
  }
  for (const std::int64_t domains : {2, 4, 8, 32, 128}) {
    spans.push_back(span_of(domains, domains, topology));
    if (host > 1) spans.push_back(span_of(domains * host, domains, topology));
    if (domain > host) spans.push_back(span_of(domains * domain, domains, topology));
  }
  return spans;
}

// The groups that a stack for all clusters has besides. A group in between takes its prices from
// the nearest ones (models/population.cpp), so these also have hosts of which two or four devices
// take part, as on hosts of four.
std::vector<GroupSpan> groups_in_between(const Topology& topology) {
  const std::int64_t host = topology.devices_per_host();
  const std::int64_t domain = std::max(host, topology.domain_devices());
  std::vector<GroupSpan> spans;
  for (const std::int64_t ranks : {3, 6}) {
    if (ranks <= domain) spans.push_back(span_of(ranks, 1, topology));
  }
  std::set<std::int64_t> parts = {1, host, domain};
  for (const std::int64_t part : {2, 4, 16}) {
    if (part < domain) parts.insert(part);
  }
  for (const std::int64_t domains : {2, 3, 4, 8, 16, 32, 128, 512}) {
    for (const std::int64_t part : parts) {
      spans.push_back(span_of(domains * part, domains, topology));
    }
  }
  return spans;
}

// The groups that such a stack has for each other network.
std::vector<GroupSpan> groups_of_networks(const Topology& topology) {
  const std::int64_t host = topology.devices_per_host();
  std::set<std::int64_t> parts = {1, host, std::max(host, topology.domain_devices())};
  if (host > 4) parts.insert(4);
  std::vector<GroupSpan> spans;
  for (const std::int64_t domains : {2, 8, 64}) {
    for (const std::int64_t part : parts) {
      spans.push_back(span_of(domains * part, domains, topology));
    }
  }
  return spans;
}

// The collectives and groups that get a row.
std::vector<CollectiveQuery> tabled_curves(std::span<const CollectiveQuery> measured,
                                           std::span<const GroupSpan> groups,
                                           std::span<const Collective> kinds,
                                           const Topology& topology) {
  std::vector<CollectiveQuery> curves;
  const auto add = [&](CollectiveQuery query) {
    query.full_bytes = 0.0;
    query.gpus_per_process = 1;
    const bool known = std::any_of(curves.begin(), curves.end(), [&](const CollectiveQuery& c) {
      return same_curve(c, query, topology);
    });
    if (!known) curves.push_back(query);
  };
  // Measured groups come first, since their spans say how the ranks lie.
  for (const CollectiveQuery& query : measured) add(query);
  for (const GroupSpan& span : groups) {
    for (const Collective kind : kinds) add({kind, 0.0, span});
  }
  return curves;
}

// The topology with a network of another delay (physical_curve.h).
Topology with_delay(const Topology& topology, double delay) {
  nlohmann::json json = topology.to_json();
  for (nlohmann::json& link : json["links"]) {
    if (link["joins"] == name_of(LinkScope::kAll)) {
      link["latency_us"] = delay * kInfinibandLatency.value();
    }
  }
  return Topology::from_json(json, {topology.name(), ""});
}

// The deviation that is stated for one of variance `variance` at a bend between own rows.
double with_tails(double variance, double bend) {
  const double floor_share = 1.0 - PhysicalCurve::plateau_share(bend);
  return std::hypot(std::sqrt(variance) * (1.0 + kFloorTailShare * floor_share),
                    kFloorTail * floor_share);
}

// The rows that belong to one curve.
std::vector<Observation> rows_of(const CollectiveQuery& curve, std::span<const Observation> rows,
                                 const Topology& topology) {
  std::vector<Observation> own;
  for (const Observation& row : rows) {
    if (same_curve(curve, row.query, topology)) own.push_back(row);
  }
  return own;
}

// The sizes and hosts of the queries of one curve; nothing if there are none.
std::optional<MeasuredRange> range_of(const CollectiveQuery& curve,
                                      std::span<const CollectiveQuery> measured,
                                      const Topology& topology) {
  std::optional<MeasuredRange> range;
  for (const CollectiveQuery& query : measured) {
    if (!same_curve(curve, query, topology)) continue;
    if (!range) {
      range = {query.kind, query.group.ranks, query.group.hosts, query.full_bytes,
               query.full_bytes};
    }
    range->smallest = std::min(range->smallest, query.full_bytes);
    range->largest = std::max(range->largest, query.full_bytes);
  }
  return range;
}

// Sorts the bends and leaves out those that are too close to the one before.
void keep_distinct(std::vector<double>& bends) {
  std::sort(bends.begin(), bends.end());
  bends.erase(
      std::unique(bends.begin(), bends.end(), [](double a, double b) { return b - a < kLeastGap; }),
      bends.end());
}

// The bends at which a row has points. Of many own rows, as many points are kept as the fit uses
// rows, evenly spaced: each point costs as much as a row of the fit.
std::vector<double> bends_of(const PhysicalCurve& physical, std::span<const Observation> own,
                             int step) {
  std::vector<double> own_bends;
  for (const Observation& row : own) own_bends.push_back(physical.bend(row.query.full_bytes));
  keep_distinct(own_bends);
  std::vector<double> bends;
  const std::size_t kept = std::min(own_bends.size(), PopulationPosterior::kRowsOfCluster);
  for (std::size_t i = 0; i < kept; ++i) {
    bends.push_back(kept == own_bends.size() ? own_bends[i]
                                             : own_bends[i * (own_bends.size() - 1) / (kept - 1)]);
  }
  for (int bend = kFirstPoint; bend <= kLastPoint; bend += step) {
    const bool near = std::any_of(bends.begin(), bends.end(),
                                  [&](double other) { return std::abs(other - bend) < kNearBend; });
    if (!near && bend > physical.bend(0.0)) bends.push_back(bend);
  }
  keep_distinct(bends);
  return bends;
}

// How fast ln of the floor of a curve rises with the launch of its calls. The covariance is a
// product of both launches, so that the rise is the same everywhere.
double floor_by_launch(const PopulationPosterior& posterior, const PhysicalCurve& physical,
                       CollectiveQuery curve) {
  curve.full_bytes = std::exp(kFirstPoint - physical.bend(0.0));
  CollectiveQuery shared = curve;
  curve.gpus_per_process = 1;
  shared.gpus_per_process = 8;
  const CollectiveQuery queries[] = {curve, shared};
  const Eigen::VectorXd log_us = posterior.log_us_at(queries);
  const double floor_share = 1.0 - PhysicalCurve::plateau_share(physical.bend(curve.full_bytes));
  return (log_us[1] - log_us[0]) / (launch_of(shared) * floor_share);
}

// Replaces times between the sizes of the own rows by their mean with those of a curve of these
// rows alone. What the two differ by adds to the variance, as for a mixture of both.
void blend_own_curve(PopulationPosterior::Figures& figures,
                     std::span<const CollectiveQuery> queries, std::span<const Observation> own,
                     const PhysicalCurve& physical, const PopulationCurve& row) {
  if (own.size() < kRowsOfOwnCurve) return;
  std::vector<SizedTime> times;
  for (const Observation& known : own) {
    const CollectiveQuery& query = known.query;
    const double launched = row.log_launched(launch_of(query), physical.bend(query.full_bytes));
    times.push_back({query.full_bytes, known.time_us * std::exp(-launched)});
  }
  const auto [first, last] =
      std::minmax_element(times.begin(), times.end(),
                          [](const SizedTime& a, const SizedTime& b) { return a.bytes < b.bytes; });
  const CurvePrior prior{.latency_us = physical.floor_us, .bytes_per_us = physical.bytes_per_us};
  const Collective kind = own.front().query.kind;
  const TabulatedCurve curve(kind, fit_curve(kind, times, prior).curve);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const Bytes bytes = queries[i].full_bytes;
    if (bytes <= first->bytes || bytes >= last->bytes) continue;
    const auto at = static_cast<Eigen::Index>(i);
    const double difference = std::log(curve.us(bytes)) - figures.log_us[at];
    figures.log_us[at] += kOwnCurveWeight * difference;
    if (figures.covariance.size() == 0) continue;
    figures.covariance(at, at) +=
        kOwnCurveWeight * (1.0 - kOwnCurveWeight) * difference * difference;
  }
}

// The time of the smallest measured size and the bandwidth of the largest, with the intervals that
// the fitted model states.
void add_parameters(Calibration& calibration, const CostModel& model,
                    std::span<const Observation> own) {
  const auto [smallest, largest] =
      std::minmax_element(own.begin(), own.end(), [](const Observation& a, const Observation& b) {
        return a.query.full_bytes < b.query.full_bytes;
      });
  const auto us = [&](const CollectiveQuery& query, double deviations) {
    const double error = model.log_error(query).value_or(0.0);
    return model.price(query).total.value() * std::exp(deviations * error);
  };
  const CollectiveQuery& first = smallest->query;
  const CollectiveQuery& last = largest->query;
  const std::string name = std::string(to_string(first.kind)) + "." +
                           std::to_string(first.group.ranks) + "x" +
                           std::to_string(first.group.hosts);
  calibration.parameters.push_back({name + ".smallest_us", us(first, 0.0), us(first, -kNormal95),
                                    us(first, kNormal95), first.full_bytes});
  const double kilobytes = last.full_bytes / 1e3;
  calibration.parameters.push_back({name + ".largest_gb_per_s", kilobytes / us(last, 0.0),
                                    kilobytes / us(last, kNormal95),
                                    kilobytes / us(last, -kNormal95), last.full_bytes});
}

// What to measure next on the groups of the cluster's own rows, and how much is missing.
void add_advice(Calibration& calibration, const PopulationPosterior& posterior,
                std::span<const Observation> rows) {
  std::vector<CollectiveQuery> candidates;
  for (const CollectiveQuery& group : groups_of(rows)) {
    const std::vector<CollectiveQuery> sizes = advised_sizes(group);
    candidates.insert(candidates.end(), sizes.begin(), sizes.end());
  }
  const PopulationPosterior::Figures figures = posterior.at(candidates);
  for (const double variance : figures.covariance.diagonal()) {
    if (kNormal95 * std::sqrt(std::max(variance, 0.0)) > kWantedWidth) ++calibration.more_rows;
  }
  calibration.sizes_of_curves = static_cast<std::int64_t>(candidates.size());
  calibration.next_sizes = choose_next_sizes(posterior, candidates, kAdvised);
}

}  // namespace

PopulationCurve population_curve(const PopulationPosterior& posterior, CollectiveQuery curve,
                                 std::span<const Observation> own, PopulationPoints points) {
  const PhysicalGroup group = physical_group(curve.kind, curve.group, posterior.system().topology);
  const PhysicalCurve physical = physical_curve(group);
  const std::vector<double> bends = bends_of(physical, own, points.bend_step);
  std::vector<CollectiveQuery> queries;
  for (const double bend : bends) {
    curve.full_bytes = std::exp(bend - physical.bend(0.0));
    queries.push_back(curve);
  }
  PopulationPosterior::Figures figures;
  if (points.errors) {
    figures = posterior.at(queries);
  } else {
    figures.log_us = posterior.log_us_at(queries);
  }
  PopulationCurve row;
  row.launch = launch_of(curve);
  row.floor_by_launch = floor_by_launch(posterior, physical, curve);
  blend_own_curve(figures, queries, own, physical, row);
  row.kind = curve.kind;
  row.ranks = group.ranks;
  row.domains = group.domains;
  for (std::size_t i = 0; i < bends.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    row.points.push_back(
        {bends[i], std::exp(figures.log_us[at]) / physical.us_at_bend(bends[i]), 0.0});
    if (!points.errors) continue;
    const double variance =
        std::max(0.0, figures.covariance(at, at)) + posterior.noise() * posterior.noise();
    const double deviation = own.empty() ? std::sqrt(variance) : with_tails(variance, bends[i]);
    row.points.back().log_error =
        own.size() < kRowsOfOwnCurve ? kUnknownTail * deviation : deviation;
  }
  return row;
}

std::vector<NextSize> choose_next_sizes(const PopulationPosterior& posterior,
                                        std::span<const CollectiveQuery> candidates,
                                        std::size_t count) {
  std::vector<NextSize> chosen;
  if (candidates.empty()) return chosen;
  Eigen::MatrixXd covariance = posterior.at(candidates).covariance;
  const double noise = posterior.noise() * posterior.noise();
  const double before = std::max(covariance.trace(), 1e-300);
  while (chosen.size() < std::min(count, candidates.size())) {
    Eigen::Index best = 0;
    double best_gain = -1.0;
    for (Eigen::Index c = 0; c < covariance.rows(); ++c) {
      // The variances that a row for c takes away: conditioning of a normal distribution.
      const double gain = covariance.col(c).squaredNorm() / (covariance(c, c) + noise);
      if (gain <= best_gain) continue;
      best_gain = gain;
      best = c;
    }
    const Eigen::VectorXd column = covariance.col(best);
    covariance -= column * column.transpose() / (column[best] + noise);
    chosen.push_back({candidates[static_cast<std::size_t>(best)],
                      100 * std::max(0.0, covariance.trace()) / before});
  }
  return chosen;
}

Calibration calibrate_for_any_cluster(const PopulationFit& fit, const PopulationSystem& system,
                                      const PopulationTable& table) {
  std::span<const Collective> kinds = kTabled;
  if (!table.kinds.empty()) kinds = table.kinds;
  Calibration calibration;
  calibration.model = find_cost_model("population");
  calibration.noise_percent = 100 * kPopulationNoise;
  std::vector<CollectiveQuery> measured = fit.asked_of_device(system.device);
  std::erase_if(measured, [&](const CollectiveQuery& query) {
    return std::find(kinds.begin(), kinds.end(), query.kind) == kinds.end();
  });
  std::vector<GroupSpan> groups = usual_groups(system.topology);
  const std::vector<GroupSpan> others = groups_in_between(system.topology);
  groups.insert(groups.end(), others.begin(), others.end());
  const LinkLevel& network = system.topology.links().back();
  const bool has_network = network.joins == LinkScope::kAll;
  constexpr double kLeastDelay = 1e-3;  // for topologies that state no latency
  const double own_delay =
      std::max(network.latency.value() / kInfinibandLatency.value(), kLeastDelay);

  const PopulationPosterior posterior(fit, system, {});
  for (const CollectiveQuery& curve : tabled_curves(measured, groups, kinds, system.topology)) {
    PopulationCurve row = population_curve(posterior, curve, {}, {.errors = table.errors});
    row.measured = range_of(curve, measured, system.topology);
    if (has_network && row.domains > 1) row.network_delay = own_delay;
    calibration.rows.push_back(row.to_json());
  }
  if (!has_network || !table.other_networks) return calibration;
  for (const double delay : stated_delays()) {
    if (std::abs(delay / own_delay - 1.0) < 0.01) continue;
    const Topology topology = with_delay(system.topology, delay);
    const PopulationPosterior other(fit, {system.device, topology}, {});
    const std::vector<GroupSpan> spans = groups_of_networks(topology);
    for (const CollectiveQuery& curve : tabled_curves({}, spans, kinds, topology)) {
      PopulationCurve row = population_curve(
          other, curve, {}, {.bend_step = kBendStepOfNetworks, .errors = table.errors});
      row.network_delay = delay;
      calibration.rows.push_back(row.to_json());
    }
  }
  return calibration;
}

Calibration calibrate_population(const PopulationFit& fit, const PopulationSystem& system,
                                 std::span<const Observation> rows, bool errors) {
  if (rows.empty()) throw InputError("calibrate: found no rows; valid: at least one row");
  Calibration calibration;
  calibration.model = find_cost_model("population");
  calibration.refused = contradictions(rows);
  const std::vector<Observation> kept = rows_kept(rows, calibration.refused);
  const Topology& topology = system.topology;
  const PopulationPosterior posterior(fit, system, kept);
  std::vector<CollectiveQuery> measured;
  for (const Observation& row : kept) measured.push_back(row.query);
  const std::vector<GroupSpan> groups = usual_groups(topology);
  std::vector<std::vector<Observation>> measured_curves;
  for (const CollectiveQuery& curve : tabled_curves(measured, groups, kTabled, topology)) {
    const std::vector<Observation> own = rows_of(curve, kept, topology);
    PopulationCurve row = population_curve(posterior, curve, own, {.errors = errors});
    row.measured = range_of(curve, measured, topology);
    calibration.rows.push_back(row.to_json());
    if (!own.empty()) measured_curves.push_back(own);
  }
  calibration.noise_percent = 100 * posterior.noise();
  const LinkLevel& network = topology.links().back();
  if (network.joins == LinkScope::kAll) {
    calibration.params = {{"network_bandwidth_gb_per_s", network.bandwidth.value()},
                          {"network_latency_us", network.latency.value()},
                          {"network_reduces", network.reduces ? 1.0 : 0.0}};
  }
  if (errors) {
    const auto model = make_collective_model(calibration.choice(), topology);
    for (const std::vector<Observation>& own : measured_curves) {
      add_parameters(calibration, *model, own);
    }
    add_advice(calibration, posterior, kept);
  }
  add_fit_errors(calibration, kept, topology);
  return calibration;
}

}  // namespace shardlab

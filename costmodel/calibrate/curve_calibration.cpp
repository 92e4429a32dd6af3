#include "costmodel/calibrate/curve_calibration.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/calibrate/curve_fit.h"
#include "costmodel/calibrate/fit_errors.h"
#include "costmodel/calibrate/identifiability.h"
#include "costmodel/calibrate/next_sizes.h"
#include "costmodel/calibrate/student_t.h"
#include "costmodel/curve_relation.h"

namespace shardlab {
namespace {

constexpr std::size_t kLeastRows = 3;  // three rows determine the floor, the plateau and one kink
// Standard deviation of ln a or ln b (curve.h) when the value is taken from related curves: larger
// than the 0.1 of a curve's own rows, smaller than that of the vague prior. Status: assumed.
constexpr double kRelatedError = 0.3;

// A curve with the rows that it is fitted to.
struct MeasuredCurve {
  CollectiveQuery query;  // the collective and group; its size does not matter
  std::vector<Observation> rows;
  CurvePrior prior;
  CurveFit fit;
  // Whether the curve's own rows determine its latency and its bandwidth. The flags of `fit` may
  // turn true later, when the prior comes from other curves.
  bool tells_latency = true;
  bool tells_bandwidth = true;

  [[nodiscard]] CurveGroup group() const {
    return {query.kind, query.group.ranks, query.group.hosts};
  }
  // The curve's name, "all_reduce.8x1": the collective, the ranks and the hosts.
  [[nodiscard]] std::string name() const {
    return std::string(to_string(query.kind)) + "." + std::to_string(query.group.ranks) + "x" +
           std::to_string(query.group.hosts);
  }
  void refit() {
    std::vector<SizedTime> times;
    for (const Observation& row : rows) times.push_back({row.query.full_bytes, row.time_us});
    fit = fit_curve(query.kind, times, prior);
  }
};

// The asymptotes that alpha_beta has on the topology.
CurvePrior prior_of_topology(CollectiveQuery group, const Topology& topology) {
  const ModelChoice choice{.entry = find_cost_model("alpha_beta"), .place = {}};
  const auto model = make_collective_model(choice, topology);
  group.full_bytes = 1e12;  // large enough that every price has a transfer time
  const Price price = model->price(group);
  return {price.latency.value(), group.full_bytes / price.transfer.value()};
}

// The prior of a curve whose own rows do not determine its asymptotes, taken from the curves whose
// rows do.
CurvePrior prior_of_related(const MeasuredCurve& curve, std::span<const MeasuredCurve> curves) {
  CurvePrior prior = curve.prior;
  const CurveGroup group = curve.group();
  // Replaces `value` and `error` by the weighted mean over the related curves, if there are any.
  const auto mean = [&](bool MeasuredCurve::*tells, const auto& log_of, double& value,
                        double& error) {
    double sum = 0.0;
    double weights = 0.0;
    for (const MeasuredCurve& other : curves) {
      const double weight = other.*tells ? relation_weight(other.group(), group) : 0.0;
      if (weight == 0.0) continue;
      sum += weight * log_of(other);
      weights += weight;
    }
    if (weights == 0.0) return;
    value = std::exp(sum / weights);
    error = kRelatedError;
  };
  if (!curve.tells_latency) {
    mean(
        &MeasuredCurve::tells_latency,
        [&](const MeasuredCurve& other) {
          return std::log(other.fit.curve.latency_us * latency_factor(group) /
                          latency_factor(other.group()));
        },
        prior.latency_us, prior.log_latency_error);
  }
  if (!curve.tells_bandwidth) {
    mean(
        &MeasuredCurve::tells_bandwidth,
        [&](const MeasuredCurve& other) {
          return std::log(other.fit.curve.bytes_per_us * volume_factor(other.group()) /
                          volume_factor(group));
        },
        prior.bytes_per_us, prior.log_bandwidth_error);
  }
  return prior;
}

nlohmann::json curve_json(const MeasuredCurve& measured) {
  const Curve& curve = measured.fit.curve;
  nlohmann::json kinks = nlohmann::json::array();
  for (const Kink& kink : curve.kinks) kinks.push_back({kink.bytes, kink.factor});
  return {{"collective", to_string(measured.query.kind)},
          {"ranks", measured.query.group.ranks},
          {"hosts", measured.query.group.hosts},
          {"latency_us", curve.latency_us},
          {"bandwidth_gb_per_s", curve.bytes_per_us / 1e3},
          {"sharpness", curve.sharpness},
          {"kinks", kinks}};
}

// Adds the sizes to measure next for this curve, and how many more rows it needs.
void add_advice(Calibration& calibration, const MeasuredCurve& measured) {
  const std::vector<CollectiveQuery> queries = advised_sizes(measured.query);
  std::vector<Bytes> sizes;
  for (const CollectiveQuery& query : queries) sizes.push_back(query.full_bytes);
  const std::vector<double> figures = measured.fit.log_covariance(sizes);
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd covariance =
      Eigen::Map<const RowMajor>(figures.data(), kAdvisedSizes, kAdvisedSizes);
  add_next_sizes(calibration.next_sizes, queries, covariance, measured.fit.noise);
  calibration.sizes_of_curves += kAdvisedSizes;
  // One more row is needed at every size whose interval is too wide.
  for (const double variance : covariance.diagonal()) {
    if (kNormal95 * std::sqrt(std::max(variance, 0.0)) > kWantedWidth) ++calibration.more_rows;
  }
}

// Lists the parameters that the rows of the curve do not determine.
void add_not_identified(Calibration& calibration, const MeasuredCurve& measured) {
  const std::string name = measured.name();
  const auto keep = [&](const char* constant, double prior, double error, const char* size,
                        const char* asymptote) {
    const bool related = error < CurvePrior::kVagueLogError;
    calibration.not_identified.push_back(
        {name + constant, prior,
         std::string("no row is ") + size + " enough to determine the " + asymptote +
             "; the prior comes from " + (related ? "the other curves" : "the topology")});
  };
  if (!measured.tells_latency) {
    keep(".latency_us", measured.prior.latency_us, measured.prior.log_latency_error, "small",
         "latency floor");
  }
  if (!measured.tells_bandwidth) {
    keep(".bandwidth_gb_per_s", measured.prior.bytes_per_us / 1e3,
         measured.prior.log_bandwidth_error, "large", "bandwidth");
  }
  if (measured.rows.size() <= kLeastRows) {
    calibration.not_identified.push_back(
        {name + ".sharpness", kUsualSharpness,
         "three rows determine only the floor, the plateau and one kink"});
  }
}

// The time of the smallest measured size and the bandwidth of the largest, with their intervals.
void add_parameters(Calibration& calibration, const MeasuredCurve& measured) {
  const std::string name = measured.name();
  const CurveFit& curve = measured.fit;
  const Bytes smallest = std::round(std::exp(curve.log_sizes.front()));
  const Bytes largest = std::round(std::exp(curve.log_sizes.back()));
  const CurveFit::Interval floor = curve.at(smallest);
  const CurveFit::Interval plateau = curve.at(largest);
  calibration.parameters.push_back(
      {name + ".smallest_us", floor.us, floor.low_95, floor.high_95, smallest});
  calibration.parameters.push_back({name + ".largest_gb_per_s", largest / plateau.us / 1e3,
                                    largest / plateau.high_95 / 1e3, largest / plateau.low_95 / 1e3,
                                    largest});
}

CurveGroup group_of(const CollectiveQuery& query) {
  return {query.kind, query.group.ranks, query.group.hosts};
}

// How many rows the group has that has the most of them.
std::size_t most_rows(std::span<const Observation> rows) {
  std::ptrdiff_t most = 0;
  for (const Observation& row : rows) {
    const auto is_of_group = [&](const Observation& other) {
      return group_of(other.query) == group_of(row.query);
    };
    most = std::max(most, std::count_if(rows.begin(), rows.end(), is_of_group));
  }
  return static_cast<std::size_t>(most);
}

// The curves of all groups with enough rows, each fitted to its own rows; the other groups are
// listed as not identified.
std::vector<MeasuredCurve> fit_curves(Calibration& calibration, std::span<const Observation> rows,
                                      const Topology& topology) {
  std::vector<MeasuredCurve> curves;
  for (const CollectiveQuery& query : groups_of(rows)) {
    MeasuredCurve curve{.query = query, .rows = {}, .prior = {}, .fit = {}};
    for (const Observation& row : rows) {
      if (group_of(row.query) == curve.group()) curve.rows.push_back(row);
    }
    if (curve.rows.size() < kLeastRows) {
      calibration.not_identified.push_back(
          {curve.name(), 0.0,
           "a curve needs at least 3 rows, found " + std::to_string(curve.rows.size())});
      continue;
    }
    curve.prior = prior_of_topology(query, topology);
    curve.refit();
    curve.tells_latency = curve.fit.tells_latency;
    curve.tells_bandwidth = curve.fit.tells_bandwidth;
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace

Calibration calibrate_curves(const ModelEntry& model, std::span<const Observation> rows,
                             const Topology& topology) {
  Calibration calibration;
  calibration.model = &model;
  std::vector<MeasuredCurve> curves = fit_curves(calibration, rows, topology);
  if (curves.empty()) {
    throw InputError(
        "calibrate: piecewise needs at least 3 rows of one collective and group; found at most " +
        std::to_string(most_rows(rows)) + " of any");
  }
  std::vector<Observation> used;
  double noise = 0.0;
  for (MeasuredCurve& curve : curves) {
    if (!curve.tells_latency || !curve.tells_bandwidth) {
      curve.prior = prior_of_related(curve, curves);
      curve.refit();
    }
    used.insert(used.end(), curve.rows.begin(), curve.rows.end());
    noise = std::max(noise, curve.fit.noise);
    calibration.rows.push_back(curve_json(curve));
    add_not_identified(calibration, curve);
    add_parameters(calibration, curve);
    add_advice(calibration, curve);
  }
  calibration.noise_percent = 100 * noise;
  keep_best_sizes(calibration.next_sizes);
  add_fit_errors(calibration, used, topology);
  return calibration;
}

}  // namespace shardlab

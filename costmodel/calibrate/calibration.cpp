#include "costmodel/calibrate/calibration.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "costmodel/curve_relation.h"

namespace shardlab {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kHuber = 1.345;        // 95 % efficient on normal errors
constexpr double kContradiction = 1.5;  // two rows of one question differ by more: one is wrong
constexpr double kOpenLogError = 1.0;   // a factor e either way: the rows leave it open
constexpr double kNoModelPercent =
    100;  // a model that misses its own rows by more explains nothing
constexpr double kWantedWidth = 0.05;

// The 97.5 % quantile of Student's t. Source: Abramowitz and Stegun 26.7.5 (Cornish and Fisher).
double t_quantile(double freedom) {
  constexpr double z = 1.959963984540054;
  constexpr double z2 = z * z;
  const double g1 = z * (z2 + 1) / 4;
  const double g2 = z * (5 * z2 * z2 + 16 * z2 + 3) / 96;
  const double g3 = z * (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / 384;
  const double v = std::max(freedom, 1.0);
  return z + g1 / v + g2 / (v * v) + g3 / (v * v * v);
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const double x = share * static_cast<double>(values.size() - 1);
  const auto i = static_cast<std::size_t>(x);
  if (i + 1 >= values.size()) return values.back();
  return values[i] + (x - static_cast<double>(i)) * (values[i + 1] - values[i]);
}

std::string row_text(const Observation& row) {
  return std::string(to_string(row.query.kind)) + " of " + format_double(row.query.full_bytes) +
         " B among " + std::to_string(row.query.group.ranks) + " ranks on " +
         std::to_string(row.query.group.hosts) + " hosts: " + format_double(row.time_us) + " us";
}

// -- Rows that cannot all be right -----------------------------------------------------------

using Question = std::tuple<int, Collective, std::int64_t, std::int64_t, double>;
Question question_of(const Observation& row) {
  return {row.set, row.query.kind, row.query.group.ranks, row.query.group.hosts,
          row.query.full_bytes};
}

// Of two rows that contradict each other neither is taken; of more, those near the median stay.
std::vector<RefusedObservation> contradictions(std::span<const Observation> rows) {
  std::map<Question, std::vector<std::size_t>> repeated;
  for (std::size_t i = 0; i < rows.size(); ++i) repeated[question_of(rows[i])].push_back(i);
  std::vector<RefusedObservation> refused;
  for (const auto& [question, members] : repeated) {
    if (members.size() < 2) continue;
    std::vector<double> times;
    for (const std::size_t i : members) times.push_back(rows[i].time_us);
    const double middle = percentile(times, 0.5);
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    if (*most <= *least * kContradiction) continue;
    for (const std::size_t i : members) {
      const double off = std::abs(std::log(rows[i].time_us / middle));
      if (members.size() > 2 && off <= std::log(kContradiction)) continue;
      refused.push_back({i, row_text(rows[i]) + ", while other rows of the same question say " +
                                format_double(*least) + " to " + format_double(*most) + " us"});
    }
  }
  return refused;
}

// -- Robust least squares --------------------------------------------------------------------

struct Robust {
  VectorXd x;
  MatrixXd covariance;  // of x
  double scale = 0.0;   // standard deviation of one residual
  double loss = 0.0;    // sum of Huber's function over scale^2
};

using Residuals = std::function<VectorXd(const VectorXd&)>;

MatrixXd jacobian(const Residuals& residuals, const VectorXd& x, const VectorXd& at_x) {
  MatrixXd j(at_x.size(), x.size());
  for (Eigen::Index k = 0; k < x.size(); ++k) {
    VectorXd moved = x;
    const double step = 1e-6 * std::max(1.0, std::abs(x[k]));
    moved[k] += step;
    j.col(k) = (residuals(moved) - at_x) / step;
  }
  return j;
}

double spread(const VectorXd& r) {
  std::vector<double> sizes;
  for (const double v : r) sizes.push_back(std::abs(v));
  return std::max(percentile(sizes, 0.5) / 0.6745, 1e-9);
}

VectorXd huber_weights(const VectorXd& r, double scale) {
  VectorXd w(r.size());
  for (Eigen::Index i = 0; i < r.size(); ++i) {
    const double u = std::abs(r[i]) / scale;
    w[i] = u <= kHuber ? 1.0 : kHuber / u;
  }
  return w;
}

double huber_loss(const VectorXd& r, double scale) {
  double sum = 0.0;
  for (const double v : r) {
    const double u = std::abs(v) / scale;
    sum += u <= kHuber ? u * u / 2 : kHuber * (u - kHuber / 2);
  }
  return sum;
}

// Levenberg (1944) and Marquardt (1963), reweighted. The last `priors` residuals are prior
// knowledge: they keep their weight and do not count as rows. The scale of the residuals is their
// median's unless given.
Robust minimize(const Residuals& residuals, VectorXd x, Eigen::Index priors,
                std::optional<double> fixed_scale = std::nullopt) {
  double damping = 1e-3;
  VectorXd r = residuals(x);
  const Eigen::Index rows = r.size() - priors;
  double scale = fixed_scale.value_or(spread(r.head(rows)));
  for (int round = 0; round < 200; ++round) {
    const MatrixXd j = jacobian(residuals, x, r);
    VectorXd w = VectorXd::Ones(r.size());
    w.head(rows) = huber_weights(r.head(rows), scale);
    const MatrixXd normal = j.transpose() * w.asDiagonal() * j;
    const VectorXd gradient = j.transpose() * w.asDiagonal() * r;
    MatrixXd damped = normal;
    damped.diagonal() += damping * normal.diagonal().cwiseMax(1e-12);
    const VectorXd step = damped.ldlt().solve(-gradient);
    const VectorXd next = x + step.cwiseMax(-2.0).cwiseMin(2.0);
    const VectorXd next_r = residuals(next);
    const auto loss = [&](const VectorXd& v) {
      return huber_loss(v.head(rows), scale) + v.tail(priors).squaredNorm() / (2 * scale * scale);
    };
    if (next_r.allFinite() && loss(next_r) <= loss(r)) {
      const bool done = step.lpNorm<Eigen::Infinity>() < 1e-10;
      x = next;
      r = next_r;
      damping = std::max(damping / 5, 1e-12);
      const double now = fixed_scale.value_or(spread(r.head(rows)));
      const bool settled = std::abs(now - scale) <= 1e-6 * scale;
      scale = now;
      if (done && settled) break;
    } else {
      damping *= 5;
      if (damping > 1e12) break;
    }
  }
  Robust fit;
  fit.x = x;
  const MatrixXd j = jacobian(residuals, x, r);
  const auto n = static_cast<double>(rows);
  const auto p = static_cast<double>(x.size());
  const double freedom = std::max(n - p, 1.0);
  // Huber 1981, "Robust Statistics", 7.6: the variance of an M-estimate, with its correction.
  double squares = 0.0;
  double inside = 0.0;
  for (const double v : r.head(rows)) {
    const double u = std::clamp(v / scale, -kHuber, kHuber);
    squares += u * u;
    inside += std::abs(v) <= kHuber * scale ? 1.0 : 0.0;
  }
  const double share = std::max(inside / n, 0.1);
  const double correction = 1 + p / n * (1 - share) / share;
  const double variance =
      correction * correction * scale * scale * (squares / freedom) / (share * share);
  fit.scale = std::sqrt(variance);
  MatrixXd information = j.topRows(rows).transpose() * j.topRows(rows) / std::max(variance, 1e-18);
  if (priors > 0) {
    const MatrixXd tail = j.bottomRows(priors);
    const double own = fixed_scale ? *fixed_scale * *fixed_scale : variance;
    information += tail.transpose() * tail / std::max(own, 1e-18);
  }
  information.diagonal().array() += 1e-12;
  fit.covariance = information.ldlt().solve(MatrixXd::Identity(x.size(), x.size()));
  fit.loss = huber_loss(r.head(rows), scale) * scale * scale;
  return fit;
}

// -- Models of a few constants ---------------------------------------------------------------

double prior_of(const ModelEntry& model, const ParamSpec& spec, const Topology& topology,
                std::span<const Observation> rows) {
  if (spec.default_value) return *spec.default_value;
  return model.prior(spec.name, topology, rows.front().query.group);
}

// Constants of a model, as logarithms; those not free stay at their priors.
class Constants {
 public:
  Constants(const ModelEntry& model, std::span<const Observation> rows, const Topology& topology)
      : model_(model), rows_(rows), topology_(topology) {
    for (const std::string_view name : model.fitted) {
      const auto spec = std::find_if(model.params.begin(), model.params.end(),
                                     [&](const ParamSpec& s) { return s.name == name; });
      SHARDLAB_CHECK(spec != model.params.end(), "no parameter ", name);
      specs_.push_back(&*spec);
      priors_.push_back(prior_of(model, *spec, topology, rows));
    }
  }

  [[nodiscard]] std::size_t size() const { return specs_.size(); }
  [[nodiscard]] std::string_view name(std::size_t k) const { return specs_[k]->name; }
  [[nodiscard]] double prior(std::size_t k) const { return priors_[k]; }
  [[nodiscard]] double clamped(std::size_t k, double value) const {
    return std::clamp(value, std::max(specs_[k]->min, 1e-9), specs_[k]->max);
  }

  [[nodiscard]] ModelChoice choice(std::span<const std::size_t> free, const VectorXd& x) const {
    ModelChoice choice{.entry = &model_, .place = {}};
    for (std::size_t k = 0; k < size(); ++k) choice.params[std::string(name(k))] = priors_[k];
    for (std::size_t i = 0; i < free.size(); ++i) {
      choice.params[std::string(name(free[i]))] =
          clamped(free[i], std::exp(x[static_cast<Eigen::Index>(i)]));
    }
    return choice;
  }

  [[nodiscard]] Robust fit(std::span<const std::size_t> free) const {
    const Residuals residuals = [&](const VectorXd& x) {
      const auto model = make_collective_model(choice(free, x), topology_);
      VectorXd r(static_cast<Eigen::Index>(rows_.size()));
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        const double predicted = model->price(rows_[i].query).total.value();
        r[static_cast<Eigen::Index>(i)] = predicted / rows_[i].time_us - 1.0;
      }
      return r;
    };
    VectorXd x(static_cast<Eigen::Index>(free.size()));
    for (std::size_t i = 0; i < free.size(); ++i) {
      x[static_cast<Eigen::Index>(i)] = std::log(clamped(free[i], priors_[free[i]]));
    }
    return minimize(residuals, x, 0);
  }

 private:
  const ModelEntry& model_;
  std::span<const Observation> rows_;
  const Topology& topology_;
  std::vector<const ParamSpec*> specs_;
  std::vector<double> priors_;
};

std::vector<std::size_t> without(const std::vector<std::size_t>& all, std::size_t k) {
  std::vector<std::size_t> rest;
  for (const std::size_t i : all) {
    if (i != k) rest.push_back(i);
  }
  return rest;
}

void note_errors(Calibration& fit, std::span<const Observation> rows, const Topology& topology) {
  const auto model = make_collective_model(fit.choice(), topology);
  std::vector<double> errors;
  for (const Observation& row : rows) {
    const double predicted = model->price(row.query).total.value();
    errors.push_back(100 * std::abs(predicted / row.time_us - 1));
  }
  fit.rows_used = rows.size();
  fit.median_ape_percent = percentile(errors, 0.5);
  fit.p90_ape_percent = percentile(errors, 0.9);
  if (fit.median_ape_percent > kNoModelPercent) {
    throw InputError("calibrate: " + std::string(fit.model->name) +
                     " misses half of the rows that it was fitted to by more than " +
                     format_double(std::round(fit.median_ape_percent)) +
                     " %; valid: rows that grow with size as a collective's do");
  }
}

std::vector<CollectiveQuery> groups_of(std::span<const Observation> rows) {
  std::vector<CollectiveQuery> groups;
  for (const Observation& row : rows) {
    const bool known = std::any_of(groups.begin(), groups.end(), [&](const CollectiveQuery& g) {
      return g.kind == row.query.kind && g.group == row.query.group;
    });
    if (!known) groups.push_back({row.query.kind, 0.0, row.query.group});
  }
  return groups;
}

// Sizes that advice is about: 1 KiB, 4 KiB, ..., 1 GiB.
constexpr int kGridSizes = 11;
double grid_bytes(int step) { return std::exp2(10 + 2 * step); }

// What one more row of each size would leave of the mean variance of the predictions.
void advise(std::vector<NextSize>& sizes, std::span<const CollectiveQuery> grid,
            const MatrixXd& covariance, double noise) {
  const double now = std::max(covariance.trace(), 1e-300);
  for (Eigen::Index c = 0; c < covariance.rows(); ++c) {
    const double gain = covariance.col(c).squaredNorm() / (covariance(c, c) + noise * noise);
    sizes.push_back({grid[to_index(c)], 100 * (1 - gain / now)});
  }
}

void keep_best(std::vector<NextSize>& sizes) {
  std::stable_sort(sizes.begin(), sizes.end(), [](const NextSize& a, const NextSize& b) {
    return a.variance_left_percent < b.variance_left_percent;
  });
  if (sizes.size() > 3) sizes.resize(3);
}

void advise_constants(Calibration& fit, const Constants& constants,
                      std::span<const std::size_t> free, const Robust& robust,
                      std::span<const Observation> rows, const Topology& topology) {
  std::vector<CollectiveQuery> grid;
  for (CollectiveQuery query : groups_of(rows)) {
    for (int step = 0; step < kGridSizes; ++step) {
      query.full_bytes = grid_bytes(step);
      grid.push_back(query);
    }
  }
  const Residuals log_prices = [&](const VectorXd& x) {
    const auto model = make_collective_model(constants.choice(free, x), topology);
    VectorXd r(static_cast<Eigen::Index>(grid.size()));
    for (std::size_t i = 0; i < grid.size(); ++i) {
      r[static_cast<Eigen::Index>(i)] = std::log(model->price(grid[i]).total.value());
    }
    return r;
  };
  const MatrixXd j = jacobian(log_prices, robust.x, log_prices(robust.x));
  const MatrixXd covariance = j * robust.covariance * j.transpose();
  advise(fit.next_sizes, grid, covariance, robust.scale);
  keep_best(fit.next_sizes);
}

Calibration calibrate_constants(const ModelEntry& model, std::span<const Observation> rows,
                                const Topology& topology) {
  Calibration fit;
  fit.model = &model;
  const Constants constants(model, rows, topology);
  std::vector<std::size_t> free(constants.size());
  for (std::size_t k = 0; k < free.size(); ++k) free[k] = k;
  Robust robust;
  while (!free.empty()) {
    if (rows.size() >= free.size() + 1) {
      robust = constants.fit(free);
      const Eigen::SelfAdjointEigenSolver<MatrixXd> directions(robust.covariance);
      const Eigen::Index last = robust.covariance.rows() - 1;
      if (directions.eigenvalues()[last] < kOpenLogError * kOpenLogError) break;
      // Whatever takes part in the open direction is tried at its prior; the best fit decides.
      const VectorXd open = directions.eigenvectors().col(last).cwiseAbs();
      std::optional<std::size_t> best;
      double least = 0.0;
      for (std::size_t i = 0; i < free.size(); ++i) {
        if (open[static_cast<Eigen::Index>(i)] < 0.3 * open.maxCoeff()) continue;
        const std::vector<std::size_t> rest = without(free, free[i]);
        const double loss = rest.empty() ? 0.0 : constants.fit(rest).loss;
        if (!best || loss < least * (1 - 1e-9)) {
          best = free[i];
          least = loss;
        }
      }
      fit.not_identified.push_back({std::string(constants.name(*best)), constants.prior(*best),
                                    "the rows leave it open: other values of it, with others of "
                                    "the rest, say the same"});
      free = without(free, *best);
    } else {
      fit.not_identified.push_back({std::string(constants.name(free.front())),
                                    constants.prior(free.front()),
                                    "more rows are needed than parameters"});
      free.erase(free.begin());
    }
  }
  if (free.empty()) throw InputError("calibrate: no parameter can be told from these rows");
  const ModelChoice choice = constants.choice(free, robust.x);
  fit.params = choice.params;
  const double t = t_quantile(static_cast<double>(rows.size() - free.size()));
  double widest = 0.0;
  for (std::size_t i = 0; i < free.size(); ++i) {
    const auto k = static_cast<Eigen::Index>(i);
    const double error = std::sqrt(std::max(robust.covariance(k, k), 0.0));
    fit.parameters.push_back({std::string(constants.name(free[i])),
                              choice.params[std::string(constants.name(free[i]))].get<double>(),
                              std::exp(robust.x[k] - t * error),
                              std::exp(robust.x[k] + t * error)});
    widest = std::max(widest, t * error);
  }
  fit.noise_percent = 100 * robust.scale;
  const double more =
      static_cast<double>(rows.size()) * (widest * widest / (kWantedWidth * kWantedWidth) - 1);
  fit.more_rows = more > 0 ? static_cast<std::int64_t>(std::ceil(std::min(more, 1e9))) : 0;
  advise_constants(fit, constants, free, robust, rows, topology);
  note_errors(fit, rows, topology);
  return fit;
}

// -- Curves ----------------------------------------------------------------------------------

// Priors of a curve: the sharpness is the median of the healthy sets; the others were chosen among
// a few by the error on held-out sizes of those sets (status: fitted, weakly). The errors of ln a,
// ln b and ln p are those left after the smooth fit.
constexpr double kSharpness = 0.7;
constexpr double kSharpnessWeight = 0.3;  // residuals of ln p beside residuals of ln t
constexpr double kPriorError = 0.1;       // of ln a, ln b, ln p where rows tell them
constexpr double kBendError = 0.1;        // of ln t, beyond which a row bends less
constexpr double kTold = 1.5;             // in ln S, how far past the bend a row must be
constexpr double kRelatedError = 0.3;     // of ln a, ln b told by other curves
constexpr double kCorrelation = 4.0;      // in ln S
// Standard deviations of ln t, with the errors of their logarithms.
constexpr double kDeparture = 0.3;
constexpr double kDepartureError = 0.9;
constexpr double kNoise = 0.02;
constexpr double kNoiseError = 0.5;
constexpr double kDepartures[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.5};
constexpr double kNoises[] = {0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2};

Curve curve_of(const VectorXd& x) {
  return {std::exp(std::clamp(x[0], -10.0, 25.0)),
          std::exp(std::clamp(x[1], -7.0, 20.0)),
          std::clamp(std::exp(x[2]), 0.1, 10.0),
          {}};
}

VectorXd smooth_logs(Collective kind, const VectorXd& x, const VectorXd& log_sizes) {
  const Curve curve = curve_of(x);
  VectorXd out(log_sizes.size());
  for (Eigen::Index i = 0; i < out.size(); ++i) out[i] = smooth_log_us(kind, curve, log_sizes[i]);
  return out;
}

double correlation(double a, double b) { return std::exp(-std::abs(a - b) / kCorrelation); }

MatrixXd departures(const VectorXd& log_sizes) {
  MatrixXd k(log_sizes.size(), log_sizes.size());
  for (Eigen::Index i = 0; i < k.rows(); ++i) {
    for (Eigen::Index j = 0; j < k.cols(); ++j) k(i, j) = correlation(log_sizes[i], log_sizes[j]);
  }
  return k;
}

VectorXd slope_at(Collective kind, const Curve& curve, double log_size) {
  const VectorXd x = (VectorXd(3) << std::log(curve.latency_us), std::log(curve.bytes_per_us),
                      std::log(curve.sharpness))
                         .finished();
  const VectorXd at = VectorXd::Constant(1, log_size);
  const Residuals logs = [&](const VectorXd& moved) { return smooth_logs(kind, moved, at); };
  return jacobian(logs, x, logs(x)).row(0).transpose();
}

VectorXd variances(const std::array<double, 3>& errors) {
  return Eigen::Map<const VectorXd>(errors.data(), 3).array().square();
}

}  // namespace

CurveFit fit_curve(Collective kind, std::span<const SizedTime> rows, const CurvePrior& prior) {
  std::vector<SizedTime> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const SizedTime& a, const SizedTime& b) { return a.bytes < b.bytes; });
  const auto n = static_cast<Eigen::Index>(sorted.size());
  VectorXd sizes(n);
  VectorXd times(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const SizedTime& row = sorted[to_index(i)];
    sizes[i] = std::log(std::max(row.bytes, 1.0));
    times[i] = std::log(row.time_us);
  }
  // The smooth curve, bad rows weighed down.
  const Residuals residuals = [&](const VectorXd& x) {
    VectorXd r(n + 3);
    r.head(n) = smooth_logs(kind, x, sizes) - times;
    r[n] = kSharpnessWeight * (x[2] - std::log(kSharpness));
    r[n + 1] = kBendError / prior.log_latency_error * (x[0] - std::log(prior.latency_us));
    r[n + 2] = kBendError / prior.log_bandwidth_error * (x[1] - std::log(prior.bytes_per_us));
    return r;
  };
  VectorXd start(3);
  start << times[0], sizes[n - 1] - times[n - 1], std::log(kSharpness);
  const Robust smooth = minimize(residuals, start, 3, kBendError);
  VectorXd x = smooth.x;

  CurveFit fit;
  fit.kind = kind;
  fit.smooth = curve_of(x);
  const VectorXd errors = smooth.covariance.diagonal().cwiseMax(0.0).cwiseSqrt();
  const double bend = x[0] + x[1];  // ln S where floor and plateau meet
  fit.tells_latency = errors[0] < kOpenLogError && sizes[0] < bend - kTold;
  fit.tells_bandwidth = errors[1] < kOpenLogError && sizes[n - 1] > bend + kTold;
  fit.log_errors = {fit.tells_latency ? kPriorError : prior.log_latency_error,
                    fit.tells_bandwidth ? kPriorError : prior.log_bandwidth_error, kPriorError};

  // Departures from it and noise: the most likely of the grid, given what is usual.
  const VectorXd misses = times - smooth_logs(kind, x, sizes);
  const Residuals logs = [&](const VectorXd& moved) { return smooth_logs(kind, moved, sizes); };
  const MatrixXd j = jacobian(logs, x, logs(x));
  const MatrixXd trend = j * variances(fit.log_errors).asDiagonal() * j.transpose();
  const MatrixXd correlations = departures(sizes);
  double best = -std::numeric_limits<double>::infinity();
  for (const double departure : kDepartures) {
    for (const double noise : kNoises) {
      MatrixXd k = trend + departure * departure * correlations;
      k.diagonal().array() += noise * noise;
      const Eigen::LLT<MatrixXd> factor(k);
      const double likelihood =
          -0.5 * misses.dot(factor.solve(misses)) -
          factor.matrixL().toDenseMatrix().diagonal().array().log().sum() -
          0.5 * std::pow(std::log(departure / kDeparture) / kDepartureError, 2) -
          0.5 * std::pow(std::log(noise / kNoise) / kNoiseError, 2);
      if (likelihood > best) {
        best = likelihood;
        fit.departure = departure;
        fit.noise = noise;
      }
    }
  }
  MatrixXd k = trend + fit.departure * fit.departure * correlations;
  k.diagonal().array() += fit.noise * fit.noise;
  const MatrixXd inverse = k.llt().solve(MatrixXd::Identity(n, n));
  const VectorXd weights = inverse * misses;
  x += variances(fit.log_errors).asDiagonal() * j.transpose() * weights;
  fit.curve = curve_of(x);
  const VectorXd kinks = fit.departure * fit.departure * correlations * weights;
  for (Eigen::Index i = 0; i < n; ++i) {
    const double bytes = sorted[to_index(i)].bytes;
    if (!fit.curve.kinks.empty() && fit.curve.kinks.back().bytes == bytes) continue;
    fit.curve.kinks.push_back({bytes, std::exp(kinks[i])});
  }
  fit.log_sizes.assign(sizes.begin(), sizes.end());
  fit.weights.assign(weights.begin(), weights.end());
  fit.inverse.assign(inverse.data(), inverse.data() + inverse.size());
  return fit;
}

namespace {

// Covariances of ln t at `log_size` with the rows, or with another size.
struct Kriging {
  const CurveFit& fit;
  VectorXd sizes = Eigen::Map<const VectorXd>(fit.log_sizes.data(),
                                              static_cast<Eigen::Index>(fit.log_sizes.size()));
  Eigen::Map<const MatrixXd> inverse{fit.inverse.data(), sizes.size(), sizes.size()};

  [[nodiscard]] double between(double a, double b) const {
    const VectorXd slope =
        variances(fit.log_errors).asDiagonal() * slope_at(fit.kind, fit.smooth, b);
    return slope_at(fit.kind, fit.smooth, a).dot(slope) +
           fit.departure * fit.departure * correlation(a, b);
  }
  [[nodiscard]] VectorXd with_rows(double a) const {
    VectorXd k(sizes.size());
    for (Eigen::Index i = 0; i < k.size(); ++i) k[i] = between(a, sizes[i]);
    return k;
  }
};

}  // namespace

CurveFit::Interval CurveFit::at(Bytes bytes) const {
  const double size = std::log(std::max(bytes, 1.0));
  const Kriging kriging{*this};
  const VectorXd k = kriging.with_rows(size);
  const double variance = kriging.between(size, size) - k.dot(kriging.inverse * k);
  const double us = TabulatedCurve(kind, curve).us(bytes);
  const double width =
      t_quantile(static_cast<double>(log_sizes.size()) - 3) * std::sqrt(std::max(variance, 0.0));
  return {us, us * std::exp(-width), us * std::exp(width)};
}

namespace {

std::string curve_name(const CollectiveQuery& group) {
  return std::string(to_string(group.kind)) + "." + std::to_string(group.group.ranks) + "x" +
         std::to_string(group.group.hosts);
}

// alpha_beta on the topology.
CurvePrior prior_of_curve(CollectiveQuery group, const Topology& topology) {
  const ModelChoice choice{.entry = find_cost_model("alpha_beta"), .place = {}};
  const auto model = make_collective_model(choice, topology);
  group.full_bytes = 1e12;
  const Price price = model->price(group);
  return {price.latency.value(), group.full_bytes / price.transfer.value()};
}

void advise_curve(Calibration& fit, const CurveFit& curve, CollectiveQuery group) {
  const Kriging kriging{curve};
  std::vector<CollectiveQuery> grid;
  std::vector<double> logs;
  std::vector<VectorXd> with_rows;
  for (int i = 0; i < kGridSizes; ++i) {
    group.full_bytes = grid_bytes(i);
    grid.push_back(group);
    logs.push_back(std::log(group.full_bytes));
    with_rows.push_back(kriging.with_rows(logs.back()));
  }
  MatrixXd covariance(kGridSizes, kGridSizes);
  for (std::size_t a = 0; a < grid.size(); ++a) {
    const VectorXd weighed = kriging.inverse * with_rows[a];
    for (std::size_t b = 0; b < grid.size(); ++b) {
      covariance(static_cast<Eigen::Index>(a), static_cast<Eigen::Index>(b)) =
          kriging.between(logs[a], logs[b]) - with_rows[b].dot(weighed);
    }
  }
  advise(fit.next_sizes, grid, covariance, curve.noise);
  fit.sizes_of_curves += kGridSizes;
  // One row more about every size that is wider than wanted.
  for (const double variance : covariance.diagonal()) {
    if (t_quantile(1e9) * std::sqrt(std::max(variance, 0.0)) > kWantedWidth) ++fit.more_rows;
  }
}

// A curve with the rows that it is fitted to.
struct MeasuredCurve {
  CollectiveQuery query;  // of any size
  std::vector<SizedTime> rows;
  CurvePrior prior;
  CurveFit fit;
  bool tells_latency = true;  // its own rows do
  bool tells_bandwidth = true;

  [[nodiscard]] CurveGroup group() const {
    return {query.kind, query.group.ranks, query.group.hosts};
  }
  [[nodiscard]] std::string name() const { return curve_name(query); }
};

// The asymptotes that `curve` cannot tell, from the curves that can.
CurvePrior prior_of_related(const MeasuredCurve& curve, std::span<const MeasuredCurve> curves) {
  CurvePrior prior = curve.prior;
  const CurveGroup group = curve.group();
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

void report_curve(Calibration& fit, const MeasuredCurve& measured) {
  const CurveFit& curve = measured.fit;
  const std::string name = measured.name();
  const auto keep = [&](const char* constant, double prior, double error, const char* size,
                        const char* asymptote) {
    const bool related = error < CurvePrior{}.log_latency_error;
    fit.not_identified.push_back({name + constant, prior,
                                  std::string("no row is ") + size + " enough to tell the " +
                                      asymptote + "; the prior is " +
                                      (related ? "the other curves'" : "the topology's")});
  };
  if (!measured.tells_latency) {
    keep(".latency_us", measured.prior.latency_us, measured.prior.log_latency_error, "small",
         "latency floor");
  }
  if (!measured.tells_bandwidth) {
    keep(".bandwidth_gb_per_s", measured.prior.bytes_per_us / 1e3,
         measured.prior.log_bandwidth_error, "large", "bandwidth");
  }
  const double smallest = std::exp(curve.log_sizes.front());
  const double largest = std::exp(curve.log_sizes.back());
  const CurveFit::Interval floor = curve.at(smallest);
  const CurveFit::Interval plateau = curve.at(largest);
  fit.parameters.push_back({name + ".smallest_us", floor.us, floor.low_95, floor.high_95});
  fit.parameters.push_back({name + ".largest_gb_per_s", largest / plateau.us / 1e3,
                            largest / plateau.high_95 / 1e3, largest / plateau.low_95 / 1e3});
  if (measured.rows.size() < 4) {
    fit.not_identified.push_back(
        {name + ".sharpness", kSharpness, "three rows tell the floor, the plateau and one kink"});
  }
  advise_curve(fit, curve, measured.query);
}

Calibration calibrate_curves(const ModelEntry& model, std::span<const Observation> rows,
                             const Topology& topology) {
  constexpr std::size_t kLeastRows = 3;
  Calibration fit;
  fit.model = &model;
  std::vector<Observation> used;
  std::vector<MeasuredCurve> curves;
  for (const CollectiveQuery& query : groups_of(rows)) {
    MeasuredCurve curve{.query = query, .rows = {}, .prior = {}, .fit = {}};
    std::vector<Observation> members;
    for (const Observation& row : rows) {
      const CurveGroup group{row.query.kind, row.query.group.ranks, row.query.group.hosts};
      if (group != curve.group()) continue;
      curve.rows.push_back({row.query.full_bytes, row.time_us});
      members.push_back(row);
    }
    if (curve.rows.size() < kLeastRows) {
      fit.not_identified.push_back(
          {curve.name(), 0.0,
           "a curve takes at least 3 rows, found " + std::to_string(curve.rows.size())});
      continue;
    }
    curve.prior = prior_of_curve(query, topology);
    curve.fit = fit_curve(query.kind, curve.rows, curve.prior);
    curve.tells_latency = curve.fit.tells_latency;
    curve.tells_bandwidth = curve.fit.tells_bandwidth;
    used.insert(used.end(), members.begin(), members.end());
    curves.push_back(std::move(curve));
  }
  if (curves.empty()) {
    throw InputError(
        "calibrate: piecewise takes at least 3 rows of one collective and group, found " +
        std::to_string(rows.size()) + " rows of " + std::to_string(groups_of(rows).size()) +
        " groups");
  }
  double noise = 0.0;
  for (MeasuredCurve& curve : curves) {
    if (!curve.tells_latency || !curve.tells_bandwidth) {
      curve.prior = prior_of_related(curve, curves);
      curve.fit = fit_curve(curve.query.kind, curve.rows, curve.prior);
    }
    noise = std::max(noise, curve.fit.noise);
    fit.rows.push_back(curve_json(curve));
    report_curve(fit, curve);
  }
  fit.noise_percent = 100 * noise;
  keep_best(fit.next_sizes);
  note_errors(fit, used, topology);
  return fit;
}

}  // namespace

ModelChoice Calibration::choice() const {
  return {.entry = model, .params = params, .rows = rows, .place = {}};
}

Calibration calibrate(const ModelEntry& model, std::span<const Observation> rows,
                      const Topology& topology) {
  for (const Observation& row : rows) {
    if (row.time_us > 0.0 && row.query.full_bytes >= 0.0 && row.query.group.ranks > 1) continue;
    throw InputError("calibrate: found " + row_text(row) +
                     "; valid: at least 2 ranks, a time above 0");
  }
  if (model.fits_kernels) {
    throw InputError("calibrate: " + std::string(model.name) + " is fitted to kernels alone");
  }
  if (!model.fits_curves && model.fitted.empty()) {
    throw InputError("calibrate: " + std::string(model.name) +
                     " has no free constants; valid: " + join(fitted_model_names()));
  }
  std::vector<RefusedObservation> refused = contradictions(rows);
  std::vector<Observation> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool bad = std::any_of(refused.begin(), refused.end(),
                                 [&](const RefusedObservation& r) { return r.row == i; });
    if (!bad) kept.push_back(rows[i]);
  }
  if (kept.empty()) throw InputError("calibrate: no row is left that no other contradicts");
  Calibration fit = model.fits_curves ? calibrate_curves(model, kept, topology)
                                      : calibrate_constants(model, kept, topology);
  fit.refused = std::move(refused);
  return fit;
}

}  // namespace shardlab

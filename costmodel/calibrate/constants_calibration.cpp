#include "costmodel/calibrate/constants_calibration.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/calibrate/fit_errors.h"
#include "costmodel/calibrate/identifiability.h"
#include "costmodel/calibrate/next_sizes.h"
#include "costmodel/calibrate/robust_fit.h"
#include "costmodel/calibrate/student_t.h"

namespace shardlab {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// A constant belongs to an undetermined direction if its component there is at least this fraction
// of the largest component.
constexpr double kTakesPart = 0.3;

double prior_of(const ModelEntry& model, const ParamSpec& spec, const Topology& topology,
                std::span<const Observation> rows) {
  if (spec.default_value) return *spec.default_value;
  return model.prior(spec.name, topology, rows.front().query.group);
}

// If the rows ask more questions than this, the model prices only some of them, so that a fit of
// 100,000 rows takes seconds: one price takes a microsecond, and a fit needs every price up to a
// thousand times.
constexpr std::size_t kMostQuestions = 8192;
// How many sizes of one collective and group are priced at least.
constexpr std::size_t kLeastSizes = 32;

// What the rows ask, each question once: repeated rows are priced once in each step of a fit. If
// there are too many questions, each collective and group keeps evenly spaced sizes, the smallest
// and the largest among them, and a row between two kept sizes gets the price on the straight line
// between their prices. Models' prices are straight lines in the bytes wherever the algorithm stays
// the same.
class Questions {
 public:
  explicit Questions(std::span<const Observation> rows) {
    std::map<Group, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < rows.size(); ++i) groups[group_of(rows[i].query)].push_back(i);
    std::size_t questions = 0;
    for (auto& [group, members] : groups) {
      std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
        return rows[a].query.full_bytes < rows[b].query.full_bytes;
      });
      questions += distinct(rows, members).size();
    }
    const std::size_t most = questions <= kMostQuestions
                                 ? questions
                                 : std::max(kLeastSizes, kMostQuestions / groups.size());
    of_row_.resize(rows.size());
    for (const auto& [group, members] : groups) add(rows, members, most);
  }

  // A price for each row, from one for each question.
  [[nodiscard]] VectorXd row_prices(const CostModel& model) const {
    std::vector<double> prices;
    for (const CollectiveQuery& query : queries_) {
      prices.push_back(model.price(query).total.value());
    }
    VectorXd of_rows(static_cast<Eigen::Index>(of_row_.size()));
    for (std::size_t i = 0; i < of_row_.size(); ++i) {
      const Between& row = of_row_[i];
      const double below = prices[row.question];
      // Where the share is 0, there may be no next question.
      of_rows[static_cast<Eigen::Index>(i)] =
          row.share == 0.0 ? below : below + row.share * (prices[row.question + 1] - below);
    }
    return of_rows;
  }

 private:
  using Group = std::tuple<Collective, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                           std::int64_t, std::int64_t>;
  struct Between {
    std::size_t question = 0;  // the one of the row's size, or the next smaller one
    double share = 0.0;        // how much of the way to the next one the row lies
  };

  static Group group_of(const CollectiveQuery& query) {
    const GroupSpan& group = query.group;
    return {query.kind,           group.ranks,  group.hosts, group.domains,
            group.ranks_per_host, group.extent, group.walk};
  }
  // The first row of each size.
  static std::vector<std::size_t> distinct(std::span<const Observation> rows,
                                           std::span<const std::size_t> sorted) {
    std::vector<std::size_t> firsts;
    for (const std::size_t i : sorted) {
      if (firsts.empty() || rows[firsts.back()].query.full_bytes != rows[i].query.full_bytes) {
        firsts.push_back(i);
      }
    }
    return firsts;
  }
  // Adds the questions of one collective and group, whose rows are sorted by size.
  void add(std::span<const Observation> rows, std::span<const std::size_t> sorted,
           std::size_t most) {
    const std::vector<std::size_t> firsts = distinct(rows, sorted);
    const std::size_t kept = std::min(firsts.size(), most);
    std::size_t at = queries_.size();
    for (std::size_t q = 0; q < kept; ++q) {
      const std::size_t first = kept == firsts.size() ? q : q * (firsts.size() - 1) / (kept - 1);
      queries_.push_back(rows[firsts[first]].query);
    }
    for (const std::size_t i : sorted) {
      const Bytes bytes = rows[i].query.full_bytes;
      while (at + 1 < queries_.size() && queries_[at + 1].full_bytes <= bytes) ++at;
      const Bytes below = queries_[at].full_bytes;
      of_row_[i] = {at,
                    bytes == below ? 0.0 : (bytes - below) / (queries_[at + 1].full_bytes - below)};
    }
  }

  std::vector<CollectiveQuery> queries_;
  std::vector<Between> of_row_;
};

// The constants of a model. The fit sees the logarithms of the free ones; the others stay at their
// priors.
class Constants {
 public:
  Constants(const ModelEntry& model, std::span<const Observation> rows, const Topology& topology)
      : model_(model), rows_(rows), questions_(rows), topology_(topology) {
    for (const std::string_view name : model.fitted) {
      const auto spec = std::find_if(model.params.begin(), model.params.end(),
                                     [&](const ParamSpec& s) { return s.name == name; });
      SHARDLAB_CHECK(spec != model.params.end(), "no parameter ", name);
      specs_.push_back(&*spec);
      priors_.push_back(prior_of(model, *spec, topology, rows));
    }
  }

  [[nodiscard]] std::size_t size() const { return specs_.size(); }
  [[nodiscard]] std::string name(std::size_t k) const { return std::string(specs_[k]->name); }
  [[nodiscard]] double prior(std::size_t k) const { return priors_[k]; }

  [[nodiscard]] ModelChoice choice(std::span<const std::size_t> free, const VectorXd& x) const {
    ModelChoice choice{.entry = &model_, .place = {}};
    for (std::size_t k = 0; k < size(); ++k) choice.params[name(k)] = priors_[k];
    for (std::size_t i = 0; i < free.size(); ++i) {
      choice.params[name(free[i])] = clamped(free[i], std::exp(x[static_cast<Eigen::Index>(i)]));
    }
    return choice;
  }

  [[nodiscard]] RobustFit fit(std::span<const std::size_t> free) const {
    const Residuals residuals = [&](const VectorXd& x) {
      const auto model = make_collective_model(choice(free, x), topology_);
      VectorXd r = questions_.row_prices(*model);
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        double& residual = r[static_cast<Eigen::Index>(i)];
        residual = residual / rows_[i].time_us - 1.0;
      }
      return r;
    };
    VectorXd start(static_cast<Eigen::Index>(free.size()));
    for (std::size_t i = 0; i < free.size(); ++i) {
      start[static_cast<Eigen::Index>(i)] = std::log(clamped(free[i], priors_[free[i]]));
    }
    return fit_robustly(residuals, start, 0);
  }

 private:
  // The fit uses the logarithms of the constants, so each constant must stay above zero.
  [[nodiscard]] double clamped(std::size_t k, double value) const {
    return std::clamp(value, std::max(specs_[k]->min, 1e-9), specs_[k]->max);
  }

  const ModelEntry& model_;
  std::span<const Observation> rows_;
  Questions questions_;
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

// If the rows leave some direction in the space of the constants undetermined, one constant must be
// kept at its prior. Returns the one that, among those that belong to the direction, increases the
// loss least when it is kept. Returns nothing if the rows determine every constant.
std::optional<std::size_t> least_told(const Constants& constants,
                                      const std::vector<std::size_t>& free, const RobustFit& fit) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> directions(fit.covariance);
  const Eigen::Index last = fit.covariance.rows() - 1;
  if (directions.eigenvalues()[last] < kOpenLogError * kOpenLogError) return std::nullopt;
  const VectorXd open = directions.eigenvectors().col(last).cwiseAbs();
  std::optional<std::size_t> best;
  double least = 0.0;
  for (std::size_t i = 0; i < free.size(); ++i) {
    if (open[static_cast<Eigen::Index>(i)] < kTakesPart * open.maxCoeff()) continue;
    const std::vector<std::size_t> rest = without(free, free[i]);
    const double loss = rest.empty() ? 0.0 : constants.fit(rest).loss;
    if (!best || loss < least * (1 - 1e-9)) {
      best = free[i];
      least = loss;
    }
  }
  return best;
}

struct IdentifiedFit {
  std::vector<std::size_t> free;  // the constants that the rows determine
  RobustFit fit;                  // fit of these constants
};

// Fits all constants that the rows determine, and lists the others as not identified.
IdentifiedFit fit_identified(Calibration& calibration, const Constants& constants,
                             std::size_t rows) {
  IdentifiedFit identified;
  std::vector<std::size_t>& free = identified.free;
  free.resize(constants.size());
  std::iota(free.begin(), free.end(), std::size_t{0});
  const auto keep = [&](std::size_t k, const char* reason) {
    calibration.not_identified.push_back({constants.name(k), constants.prior(k), reason});
    free = without(free, k);
  };
  while (!free.empty()) {
    if (rows < free.size() + 1) {
      keep(free.front(), "a fit needs more rows than parameters");
      continue;
    }
    identified.fit = constants.fit(free);
    const std::optional<std::size_t> open = least_told(constants, free, identified.fit);
    if (!open) break;
    keep(*open,
         "the rows do not determine it: other values of it, together with other values of the "
         "remaining parameters, fit the rows equally well");
  }
  if (free.empty()) {
    throw InputError("calibrate: the " + std::to_string(rows) +
                     " rows determine none of the model's parameters; add rows of other sizes");
  }
  return identified;
}

void add_advice(Calibration& calibration, const Constants& constants,
                const IdentifiedFit& identified, std::span<const Observation> rows,
                const Topology& topology) {
  std::vector<CollectiveQuery> queries;
  for (const CollectiveQuery& group : groups_of(rows)) {
    const std::vector<CollectiveQuery> sizes = advised_sizes(group);
    queries.insert(queries.end(), sizes.begin(), sizes.end());
  }
  const Residuals log_prices = [&](const VectorXd& x) {
    const auto model = make_collective_model(constants.choice(identified.free, x), topology);
    VectorXd logs(static_cast<Eigen::Index>(queries.size()));
    for (std::size_t i = 0; i < queries.size(); ++i) {
      logs[static_cast<Eigen::Index>(i)] = std::log(model->price(queries[i]).total.value());
    }
    return logs;
  };
  const RobustFit& fit = identified.fit;
  const MatrixXd j = numeric_jacobian(log_prices, fit.x, log_prices(fit.x));
  const MatrixXd covariance = j * fit.covariance * j.transpose();
  add_next_sizes(calibration.next_sizes, queries, covariance, fit.scale);
  keep_best_sizes(calibration.next_sizes);
}

}  // namespace

Calibration calibrate_constants(const ModelEntry& model, std::span<const Observation> rows,
                                const Topology& topology) {
  Calibration calibration;
  calibration.model = &model;
  const Constants constants(model, rows, topology);
  const IdentifiedFit identified = fit_identified(calibration, constants, rows.size());
  const auto& [free, fit] = identified;
  calibration.params = constants.choice(free, fit.x).params;
  const double t = student_t_95(static_cast<double>(rows.size() - free.size()));
  double widest = 0.0;  // half the width of the widest interval, as a logarithm
  for (std::size_t i = 0; i < free.size(); ++i) {
    const auto k = static_cast<Eigen::Index>(i);
    const std::string name = constants.name(free[i]);
    const double half_width = t * std::sqrt(std::max(fit.covariance(k, k), 0.0));
    calibration.parameters.push_back({name, calibration.params[name].get<double>(),
                                      std::exp(fit.x[k] - half_width),
                                      std::exp(fit.x[k] + half_width)});
    widest = std::max(widest, half_width);
  }
  calibration.noise_percent = 100 * fit.scale;
  // Intervals shrink with the square root of the number of rows.
  const double more =
      static_cast<double>(rows.size()) * (widest * widest / (kWantedWidth * kWantedWidth) - 1);
  calibration.more_rows = more > 0 ? static_cast<std::int64_t>(std::ceil(std::min(more, 1e9))) : 0;
  add_advice(calibration, constants, identified, rows, topology);
  add_fit_errors(calibration, rows, topology);
  return calibration;
}

}  // namespace shardlab

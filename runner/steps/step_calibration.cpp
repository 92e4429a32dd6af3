#include "runner/steps/step_calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "costmodel/base/parallel.h"
#include "costmodel/calibrate/robust_fit.h"

namespace shardlab {
namespace {

// How exactly a published figure repeats, as a standard deviation of its logarithm: the same
// configuration in two releases or tables of one source differs by 2 to 3 % in the median.
constexpr double kRepeat = 0.03;

// A search ends when a round lowers the loss by less than this share.
constexpr double kConvergedLoss = 5e-4;

// A term is not written if it has moved by less than this share of its prior's spread and the rows
// have narrowed it to no less than the other share.
constexpr double kUnmoved = 0.1;
constexpr double kUndetermined = 0.9;

// A term, and which rows it is for.
struct TermCandidate {
  StepTerm term;
  double expected = 0.0;  // logarithm
  double spread = 0.1;
};

std::vector<TermCandidate> candidates_of(const ExpressedSteps& steps) {
  std::vector<TermCandidate> candidates;
  for (const TermKind& kind : term_kinds()) {
    std::map<RunTraits, int> groups;
    for (const ExpressedStep& step : steps.steps) {
      const RunTraits& traits = step.published.traits;
      const StepTerm only{.name = "", .when = kind.only};
      if (!only.holds(traits)) continue;
      RunTraits when = kind.only;
      for (const std::string_view trait : kind.traits) {
        when[std::string(trait)] = traits.at(std::string(trait));
      }
      ++groups[when];
    }
    for (const auto& [when, rows] : groups) {
      candidates.push_back(
          {{.name = std::string(kind.factor), .when = when}, std::log(kind.expected), kind.spread});
    }
  }
  return candidates;
}

// Predictions of one row under the factors that it was last asked for: most derivatives leave most
// rows as they are.
class RowCache {
 public:
  double log_tokens(const ExpressedStep& step, const StepFactors& factors) {
    std::vector<double> key;
    for (const FactorRow& row : all_step_factors()) key.push_back(factors.*row.member);
    for (const auto& [known, value] : values_) {
      if (known == key) return value;
    }
    const double value = std::log(
        predict_step(*step.work, {*step.collectives, *step.kernels, *step.topology, factors})
            .tokens_per_s_per_gpu);
    if (values_.size() >= 4) values_.erase(values_.begin() + 1);
    values_.emplace_back(std::move(key), value);
    return value;
  }
  void keep_latest() {
    if (values_.size() > 1) values_.erase(values_.begin(), values_.end() - 1);
  }

 private:
  std::vector<std::pair<std::vector<double>, double>> values_;
};

}  // namespace

StepCalibration calibrate_steps(const ExpressedSteps& steps, int threads) {
  const std::vector<TermCandidate> candidates = candidates_of(steps);
  const auto rows = static_cast<Eigen::Index>(steps.steps.size());
  const auto count = static_cast<Eigen::Index>(candidates.size());
  std::vector<RowCache> caches(steps.steps.size());
  // Which candidates hold for a row does not depend on their values.
  std::vector<std::vector<std::size_t>> holding(steps.steps.size());
  for (std::size_t r = 0; r < steps.steps.size(); ++r) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].term.holds(steps.steps[r].published.traits)) holding[r].push_back(i);
    }
  }
  const auto factors_of = [&](std::size_t r, const Eigen::VectorXd& x) {
    StepFactors factors;
    for (const std::size_t i : holding[r]) {
      for (const FactorRow& row : all_step_factors()) {
        if (row.name == candidates[i].term.name) {
          factors.*row.member *= std::exp(x[static_cast<Eigen::Index>(i)]);
        }
      }
    }
    for (const FactorRow& row : all_step_factors()) {
      factors.*row.member = std::clamp(factors.*row.member, row.min, row.max);
    }
    return factors;
  };
  const Residuals residuals = [&](const Eigen::VectorXd& x) {
    Eigen::VectorXd out(rows + count);
    const auto nothing = [] { return std::make_unique<int>(0); };
    parallel_for(steps.steps.size(), threads, nothing, [&](int /*state*/, std::size_t r) {
      const ExpressedStep& step = steps.steps[r];
      out[static_cast<Eigen::Index>(r)] =
          caches[r].log_tokens(step, factors_of(r, x)) - std::log(*step.row.tokens_per_s_per_gpu);
    });
    for (Eigen::Index i = 0; i < count; ++i) {
      const TermCandidate& each = candidates[static_cast<std::size_t>(i)];
      out[rows + i] = kRepeat * (x[i] - each.expected) / each.spread;
    }
    return out;
  };
  Eigen::VectorXd start(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    start[i] = candidates[static_cast<std::size_t>(i)].expected;
  }
  const RobustFit fit = fit_robustly(residuals, start, count, kRepeat, kConvergedLoss);
  StepCalibration result;
  result.rows = steps.steps.size();
  result.scale = fit.scale;
  for (Eigen::Index i = 0; i < count; ++i) {
    const TermCandidate& candidate = candidates[static_cast<std::size_t>(i)];
    const double error = std::sqrt(std::max(0.0, fit.covariance(i, i)));
    // Rows that do not determine a term leave it at its prior, which is written only if it says
    // anything.
    const bool moved = std::abs(fit.x[i] - candidate.expected) > kUnmoved * candidate.spread;
    if (candidate.expected == 0.0 && !moved && error > kUndetermined * candidate.spread) continue;
    StepTerm term = candidate.term;
    term.value = std::exp(fit.x[i]);
    term.low = std::exp(fit.x[i] - 1.96 * error);
    term.high = std::exp(fit.x[i] + 1.96 * error);
    result.terms.terms.push_back(std::move(term));
  }
  return result;
}

std::span<const TermKind> term_kinds() {
  static const std::vector<TermKind> kinds = {
      {"gemm", {}, 0.8, 0.07, {}},
      {"gemm", {"gpu"}, 1.0, 0.1, {}},
      {"gemm", {"gpu", "source"}, 1.0, 0.05, {}},
      {"low_gemm", {}, 0.8, 0.2, {}},
      {"low_gemm", {"precision"}, 1.0, 0.2, {}},
      {"low_gemm", {"gpu", "precision"}, 1.0, 0.1, {}},
      {"grouped", {}, 0.7, 0.3, {}},
      {"attention", {"attention"}, 0.9, 0.15, {}},
      {"attention", {"attention", "source"}, 1.0, 0.2, {}},
      {"attention", {"gpu", "attention"}, 1.0, 0.1, {}},
      {"attention", {"context", "source"}, 1.0, 0.3, {{"context", "ring"}}},
      {"memory", {"execution"}, 0.9, 0.2, {}},
      {"memory", {"execution", "source"}, 1.0, 0.2, {}},
      {"memory", {"gpu"}, 1.0, 0.15, {}},
      {"network", {}, 0.8, 0.15, {}},
      {"network", {"gpu", "source"}, 1.0, 0.15, {}},
      {"host_us", {"graphs"}, 6.0, 0.5, {{"model", "experts"}}},
      {"host_us", {"gpu"}, 1.0, 0.3, {{"model", "experts"}}},
      {"rate", {"software", "model"}, 1.0, 0.05, {{"model", "experts"}}},
      {"rate", {"software", "model", "gpu"}, 1.0, 0.1, {{"model", "experts"}}},
      {"collective_share", {}, 2.0, 0.3, {}},
      {"memory_passes", {}, 1.0, 0.3, {}},
      {"fixed_us", {"source"}, 1.0, 0.5, {}},
      {"waiting", {}, 1.0, 0.5, {}},
  };
  return kinds;
}

}  // namespace shardlab

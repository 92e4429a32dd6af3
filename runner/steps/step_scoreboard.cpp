#include "runner/steps/step_scoreboard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "costmodel/base/percentile.h"
#include "costmodel/calibrate/robust_fit.h"
#include "runner/base/optional_values.h"
#include "runner/base/terminal.h"

namespace shardlab {
namespace {

double model_flops(const ExpressedStep& step) {
  return model_flops_per_token(step.published.run.shape, step.published.run.seq);
}

double tokens_of(const ExpressedStep& step) {
  const TrainingRun& run = step.published.run;
  return run.tokens_per_step() / static_cast<double>(run.spread.ranks());
}

double published(const ExpressedStep& step) { return *step.row.tokens_per_s_per_gpu; }

bool is_dense_bf16(const ExpressedStep& step) {
  const TrainingRun& run = step.published.run;
  return !run.shape.experts && run.precision == Precision::kBF16 && run.spread.pp == 1 &&
         run.spread.cp == 1;
}

// A model's predictions, in tokens per second per GPU.
using Predictions = std::vector<double>;

Predictions by_constant_mfu(const ExpressedSteps& seen, const ExpressedSteps& unseen) {
  const auto peak = [](const ExpressedStep& step) {
    return step.topology->peak(DType::kBF16).value() * 1e12;
  };
  std::map<std::string, std::vector<double>> shares;
  for (const ExpressedStep& step : seen.steps) {
    const double share = published(step) * model_flops(step) / peak(step);
    shares[step.published.traits.at("gpu")].push_back(share);
    shares[""].push_back(share);
  }
  Predictions out;
  for (const ExpressedStep& step : unseen.steps) {
    const auto found = shares.find(step.published.traits.at("gpu"));
    const std::vector<double>& of = found == shares.end() ? shares.at("") : found->second;
    out.push_back(percentile(of, 0.5) * peak(step) / model_flops(step));
  }
  return out;
}

constexpr Eigen::Index kHandMadeTerms = 17;

// The 17 terms of a step, in microseconds.
Eigen::VectorXd hand_made_terms(const ExpressedStep& step, const StepPrediction& plain) {
  static const std::vector<std::string> kNamedGpus = {"a100", "a100-40", "h100", "h100-hbm2e"};
  Eigen::VectorXd terms = Eigen::VectorXd::Zero(kHandMadeTerms);
  const RunTraits& traits = step.published.traits;
  const TrainingRun& run = step.published.run;
  const StepBreakdown& parts = plain.breakdown;
  const auto gpu =
      std::find(kNamedGpus.begin(), kNamedGpus.end(), traits.at("gpu")) - kNamedGpus.begin();
  terms[gpu] = parts.gemm_us - parts.low_gemm_us;  // 0 to 4; the last is all other GPUs
  const Eigen::Index format = run.precision == Precision::kNVFP4   ? 2
                              : run.precision == Precision::kMXFP8 ? 1
                                                                   : 0;
  terms[5 + format] = parts.low_gemm_us;
  terms[8 + (run.flash_attention ? 0 : 1)] = parts.attention_us;
  terms[10 + static_cast<Eigen::Index>(run.execution)] = parts.other_us;
  terms[13 + (run.spread.tp > 1 || run.spread.ep > 1 ? 1 : 0)] = parts.collectives_us;
  terms[15] = parts.bubble_us;
  terms[16] = 1e4;
  return terms;
}

Predictions by_hand_made_terms(const ExpressedSteps& seen, const ExpressedSteps& unseen) {
  std::vector<Eigen::VectorXd> rows;
  for (const StepResult& result : predict_all(seen, {})) {
    rows.push_back(hand_made_terms(*result.step, result.prediction));
  }
  const auto count = static_cast<Eigen::Index>(rows.size());
  constexpr double kScale = 0.05;
  // Deviation of the prior of each factor's logarithm, whose mean is 0.
  constexpr double kSpread = 1.0;
  const Residuals residuals = [&](const Eigen::VectorXd& x) {
    Eigen::VectorXd out(count + kHandMadeTerms);
    const Eigen::VectorXd factors = x.array().exp();
    for (Eigen::Index r = 0; r < count; ++r) {
      const ExpressedStep& step = seen.steps[static_cast<std::size_t>(r)];
      const double us = rows[static_cast<std::size_t>(r)].dot(factors);
      out[r] = std::log(us * 1e-6 * published(step) / tokens_of(step));
    }
    out.tail(kHandMadeTerms) = kScale / kSpread * x;
    return out;
  };
  const RobustFit fit =
      fit_robustly(residuals, Eigen::VectorXd::Zero(kHandMadeTerms), kHandMadeTerms, kScale);
  const Eigen::VectorXd factors = fit.x.array().exp();
  Predictions out;
  for (const StepResult& result : predict_all(unseen, {})) {
    const double us = hand_made_terms(*result.step, result.prediction).dot(factors);
    out.push_back(tokens_of(*result.step) / (us * 1e-6));
  }
  return out;
}

using ErrorsOfModels = std::map<std::string, std::vector<double>>;
struct Errors {
  ErrorsOfModels all;
  ErrorsOfModels dense;
  std::map<std::string, ErrorsOfModels> by_source;
};
constexpr const char* kModels[] = {"shardlab", "without overlap", "17 terms", "constant MFU"};

void add_errors(const ExpressedSteps& seen, const ExpressedSteps& unseen, int threads,
                Errors& errors) {
  Predictions ours;
  Predictions sums;
  for (const StepResult& result : predict_all(unseen, calibrate_steps(seen, threads).terms)) {
    const StepBreakdown& parts = result.prediction.breakdown;
    ours.push_back(result.prediction.tokens_per_s_per_gpu);
    const double us = parts.gemm_us + parts.attention_us + parts.other_us + parts.collectives_us;
    sums.push_back(tokens_of(*result.step) / (us * 1e-6));
  }
  const Predictions all[] = {ours, sums, by_hand_made_terms(seen, unseen),
                             by_constant_mfu(seen, unseen)};
  for (std::size_t m = 0; m < std::size(all); ++m) {
    for (std::size_t r = 0; r < unseen.steps.size(); ++r) {
      const double error = 100.0 * (all[m][r] / published(unseen.steps[r]) - 1.0);
      errors.all[kModels[m]].push_back(error);
      errors.by_source[unseen.steps[r].row.source][kModels[m]].push_back(error);
      if (is_dense_bf16(unseen.steps[r])) errors.dense[kModels[m]].push_back(error);
    }
  }
}

StepProtocol protocol_of(std::string name, const Errors& errors) {
  StepProtocol protocol{std::move(name), {}, {}};
  for (const char* model : kModels) {
    const auto dense = errors.dense.find(model);
    protocol.scores.push_back(
        {model, summarize_errors(errors.all.at(model)),
         summarize_errors(dense == errors.dense.end() ? std::vector<double>{} : dense->second)});
  }
  for (const auto& [source, of_models] : errors.by_source) {
    StepSourceScore scores{source, {}};
    for (const char* model : kModels) {
      scores.models.push_back(summarize_errors(of_models.at(model)));
    }
    protocol.sources.push_back(std::move(scores));
  }
  return protocol;
}

using GroupKey = std::tuple<std::string, std::string, std::string>;

// The fold of each row: groups of rows, the largest first, are dealt out in turn.
std::vector<int> folds_of(const ExpressedSteps& steps, int folds) {
  const auto key = [](const ExpressedStep& step) {
    return GroupKey(step.row.source, step.row.model, step.row.gpu);
  };
  std::map<GroupKey, int> sizes;
  for (const ExpressedStep& step : steps.steps) ++sizes[key(step)];
  std::vector<std::pair<int, GroupKey>> order;
  for (const auto& [group, size] : sizes) order.emplace_back(-size, group);
  std::sort(order.begin(), order.end());
  std::map<GroupKey, int> fold;
  for (std::size_t i = 0; i < order.size(); ++i) {
    fold[order[i].second] = static_cast<int>(i) % folds;
  }
  std::vector<int> result;
  for (const ExpressedStep& step : steps.steps) result.push_back(fold.at(key(step)));
  return result;
}

template <class Seen>
void split(const ExpressedSteps& steps, Seen&& is_seen, ExpressedSteps& seen,
           ExpressedSteps& unseen) {
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    (is_seen(i) ? seen : unseen).steps.push_back(steps.steps[i]);
  }
}

// Protocol "held-out sources"; `given` rows of the source are seen, spread evenly over its rows.
StepProtocol sources_held_out(const ExpressedSteps& steps, std::size_t given, int threads,
                              Progress& progress) {
  std::map<std::string, std::vector<std::size_t>> rows;
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    rows[steps.steps[i].row.source].push_back(i);
  }
  Errors errors;
  for (const auto& [source, indices] : rows) {
    progress.advance();
    if (indices.size() <= given) continue;
    std::set<std::size_t> shown;
    for (std::size_t g = 0; g < given; ++g) {
      shown.insert(indices[(2 * g + 1) * indices.size() / (2 * given)]);
    }
    ExpressedSteps seen;
    ExpressedSteps unseen;
    split(
        steps,
        [&, &source = source](std::size_t i) {
          return steps.steps[i].row.source != source || shown.contains(i);
        },
        seen, unseen);
    if (seen.steps.empty()) continue;
    add_errors(seen, unseen, threads, errors);
  }
  if (errors.all.empty()) return {};
  return protocol_of(
      given == 0 ? "whole sources held out" : std::to_string(given) + " rows of a new source given",
      errors);
}

// Median and 90th percentile of each model's errors, source by source.
std::string sources_text(const StepProtocol& protocol) {
  std::string text = "\n| source: median, p90 | rows |";
  std::string rule = "\n| --- | ---: |";
  for (const StepScore& score : protocol.scores) {
    text += " " + score.model + " |";
    rule += " ---: |";
  }
  text += rule + "\n";
  for (const StepSourceScore& source : protocol.sources) {
    text += "| " + source.source + " | " + std::to_string(source.models.front().points) + " |";
    for (const ErrorSummary& errors : source.models) {
      text += " " + fixed_or(errors.median_ape_percent, 1, "-") + ", " +
              fixed_or(errors.p90_ape_percent, 1, "-") + " |";
    }
    text += "\n";
  }
  return text;
}

}  // namespace

StepScoreboard make_step_scoreboard(const ExpressedSteps& steps, int threads, bool quiet) {
  StepScoreboard board;
  board.rows = steps.steps.size();
  constexpr int kFolds = 5;
  constexpr std::array<std::size_t, 2> kGiven = {0, 3};
  std::set<std::string> sources;
  for (const ExpressedStep& step : steps.steps) sources.insert(step.row.source);
  Progress progress("fits", kFolds + kGiven.size() * sources.size(), quiet);
  const std::vector<int> folds = folds_of(steps, kFolds);
  Errors errors;
  for (int fold = 0; fold < kFolds; ++fold) {
    progress.advance();
    ExpressedSteps seen;
    ExpressedSteps unseen;
    split(
        steps, [&](std::size_t i) { return folds[i] != fold; }, seen, unseen);
    if (seen.steps.empty() || unseen.steps.empty()) continue;
    add_errors(seen, unseen, threads, errors);
  }
  if (!errors.all.empty()) {
    board.protocols.push_back(protocol_of("groups held out within clusters", errors));
  }
  for (const std::size_t given : kGiven) {
    StepProtocol protocol = sources_held_out(steps, given, threads, progress);
    if (!protocol.scores.empty()) board.protocols.push_back(std::move(protocol));
  }
  return board;
}

std::string step_scoreboard_text(const StepScoreboard& board) {
  std::string text =
      "\n# Training steps: models against published runs\n\n"
      "Generated by `scripts/generate_scoreboard.sh` (`shardlab validate --scoreboard --steps "
      "published`); do not edit.\n"
      "The tables show how far predicted tokens per second per GPU are off the published ones, in "
      "percent, over the " +
      std::to_string(board.rows) +
      " rows of\n`configs/steptimes/published.csv` that can be expressed. "
      "`runner/steps/step_scoreboard.h` explains protocols and models. `dense` are dense\n"
      "models in bf16 without pipeline and context parallelism.\n";
  for (const StepProtocol& protocol : board.protocols) {
    text += "\n## " + protocol.name +
            "\n\n| model | all: median | p90 | bias | rows | dense: median | p90 | bias | rows |\n"
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for (const StepScore& score : protocol.scores) {
      text += "| " + score.model + " |";
      for (const ErrorSummary* errors : {&score.all, &score.dense}) {
        text += " " + fixed_or(errors->median_ape_percent, 1, "-") + " | " +
                fixed_or(errors->p90_ape_percent, 1, "-") + " | " +
                fixed_or(errors->bias_percent, 1, "-") + " | " + std::to_string(errors->points) +
                " |";
      }
      text += "\n";
    }
    text += sources_text(protocol);
  }
  return text;
}

}  // namespace shardlab

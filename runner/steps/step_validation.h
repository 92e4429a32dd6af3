// Predicted against published steps.
//
//   const ExpressedSteps steps = express_steps(rows, models, topology_of, book);
//   for (const StepResult& result : predict_all(steps, terms)) result.error_percent();
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/registry.h"
#include "costmodel/straggler.h"
#include "runner/steps/published_run.h"
#include "strategies/training/step_prediction.h"

namespace shardlab {

// A row that the model expresses, ready to be priced under any terms.
struct ExpressedStep {
  StepRow row;
  PublishedRun published;
  std::shared_ptr<const StepWork> work;
  std::shared_ptr<const Topology> topology;
  std::shared_ptr<const CostModel> collectives;
  std::shared_ptr<const ComputeModel> kernels;

  [[nodiscard]] StepPrediction predict(const StepTerms& terms) const;
};

struct NotExpressed {
  std::string id;
  std::string reason;
};

struct ExpressedSteps {
  std::vector<ExpressedStep> steps;
  std::vector<NotExpressed> not_expressed;
};
// The topology of a run, with its devices in a host and its network.
using StepTopologies = std::function<Topology(const PublishedRun&)>;
struct StepModelChoices {
  const ModelChoice& collectives;
  const ModelChoice& kernels;
  const Straggler& straggler;  // The wait of each collective for its slowest rank.
};
[[nodiscard]] ExpressedSteps express_steps(std::span<const StepRow> rows,
                                           const StepModelChoices& models,
                                           const StepTopologies& topology_of,
                                           const RecipeBook& book);

struct StepResult {
  const ExpressedStep* step = nullptr;
  StepPrediction prediction;

  [[nodiscard]] double published() const { return *step->row.tokens_per_s_per_gpu; }
  [[nodiscard]] double error_percent() const {
    return 100.0 * (prediction.tokens_per_s_per_gpu / published() - 1.0);
  }
};
[[nodiscard]] std::vector<StepResult> predict_all(const ExpressedSteps& steps,
                                                  const StepTerms& terms);

}  // namespace shardlab

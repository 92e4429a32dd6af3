#include "runner/steps/step_validation.h"

#include <map>
#include <tuple>

#include "costmodel/base/error.h"

namespace shardlab {

StepPrediction ExpressedStep::predict(const StepTerms& terms) const {
  return predict_step(*work, {*collectives, *kernels, *topology, terms.factors(published.traits)});
}

ExpressedSteps express_steps(std::span<const StepRow> rows, const StepModelChoices& choices,
                             const StepTopologies& topology_of, const RecipeBook& book) {
  struct Models {
    std::shared_ptr<const Topology> topology;
    std::shared_ptr<const CostModel> collectives;
    std::shared_ptr<const ComputeModel> kernels;
  };
  std::map<std::tuple<std::string, std::int64_t, std::string>, Models> models;
  ExpressedSteps out;
  for (const StepRow& row : rows) {
    try {
      ExpressedStep step;
      step.row = row;
      step.published = published_run(row, book);
      Models& made =
          models[{step.published.topology, step.published.devices_per_host, row.inter_host}];
      if (made.topology == nullptr) {
        made.topology = std::make_shared<const Topology>(topology_of(step.published));
        made.collectives =
            choices.straggler.decorate(make_collective_model(choices.collectives, *made.topology));
        made.kernels = make_compute_model(choices.kernels, *made.topology);
      }
      step.topology = made.topology;
      step.collectives = made.collectives;
      step.kernels = made.kernels;
      step.work = std::make_shared<const StepWork>(
          step.published.run, made.topology->device().memory_gib * kBytesPerGiB);
      out.steps.push_back(std::move(step));
    } catch (const InputError& error) {
      out.not_expressed.push_back({row.id, error.what()});
    }
  }
  return out;
}

std::vector<StepResult> predict_all(const ExpressedSteps& steps, const StepTerms& terms) {
  std::vector<StepResult> results;
  for (const ExpressedStep& step : steps.steps) {
    results.push_back({&step, step.predict(terms)});
  }
  return results;
}

}  // namespace shardlab

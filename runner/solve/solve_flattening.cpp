#include "runner/solve/solve_flattening.h"

#include <nlohmann/json.hpp>

#include "costmodel/base/fields_json.h"
#include "runner/evaluation/flatten_advice_text.h"
#include "runner/solve/step_figures.h"
#include "strategies/select/evaluator.h"

namespace shardlab {

SolveAnswer flattening_answer(const PricedProgram& priced, const FoundPlan& found,
                              const TextStyle& style) {
  const FlattenAdvice advice = advise_flattening(priced.mesh, [&](const DeviceMesh& flattened) {
    StackEvaluator evaluator(priced.stack, priced.topology);
    const PricedProgram on_it{priced.stack,   priced.topology,   flattened,
                              priced.program, priced.strategies, priced.prices};
    StepPlanner planner(on_it, evaluator.on(flattened), std::nullopt);
    return planner.figures(found.solution.assignment, found.step_options).step_us;
  });
  const reports::FlattenedMeshes record = record_of(advice, priced.stack.name);
  return {"flattened_meshes", nlohmann::json(json_of(record)), flatten_advice_text(record, style)};
}

}  // namespace shardlab

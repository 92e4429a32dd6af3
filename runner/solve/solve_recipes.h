// `shardlab solve PROGRAM --compare-recipes`: compares experts' recipes with the optimum.
#pragma once

#include <functional>

#include "runner/session/session.h"
#include "runner/solve/solution.h"
#include "runner/solve/step_figures.h"

namespace shardlab {

struct RecipeComparison {
  nlohmann::json json;  // what --format json prints
  nlohmann::json rows;
  nlohmann::json record;  // the rows as a report's record holds them
  std::string text;
  bool feasible = false;  // whether any assignment satisfies the options
};

// Called after each row, with the rows that there are.
using RecipesSoFar = std::function<void(RecipeComparison)>;

// Has a row for the optimum, one for the optimum with all parameters cut as far as possible, one
// for each shipped recipe, and one that starts from the optimum's sources and gives each op what is
// cheapest there by the stack's prices. All of them satisfy the options' pins and budgets. The rows
// are in the order of what they take as they run, the recipes that do not fit the program last.
// `eager` adds what DTensor makes of each row's sources (strategies/steps/eager_step.h), which
// takes seconds.
[[nodiscard]] RecipeComparison compare_recipes(const PricedProgram& priced,
                                               const ProblemOptions& options,
                                               const StepOptions& step_options,
                                               StepPlanner& planner, const ConfigStore& store,
                                               bool eager, const TextStyle& style,
                                               const RecipesSoFar& so_far = {});

// The masks of the shipped recipes that fit the program and the mesh.
[[nodiscard]] std::vector<std::vector<LayoutMask>> recipe_masks(const PricedProgram& priced,
                                                                const ConfigStore& store);

}  // namespace shardlab

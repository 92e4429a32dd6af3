// `shardlab solve PROGRAM --compare-recipes`: compares experts' recipes with the optimum.
#pragma once

#include "runner/session/session.h"
#include "runner/solve/solution.h"

namespace shardlab {

struct RecipeComparison {
  nlohmann::json json;  // what --format json prints
  nlohmann::json rows;  // its rows, as a record holds them
  std::string text;
  bool feasible = false;  // whether any assignment satisfies the options
};

// Has a row for the optimum, one for the optimum with all parameters cut as far as possible, and
// one for each shipped recipe. All of them satisfy the options' pins and budgets.
[[nodiscard]] RecipeComparison compare_recipes(const PricedProgram& priced,
                                               const ProblemOptions& options,
                                               const ConfigStore& store);

}  // namespace shardlab

// `shardlab solve PROGRAM --compare-recipes`: experts' recipes beside the optimum.
#pragma once

#include "runner/session/session.h"
#include "runner/solve/solution.h"

namespace shardlab {

struct RecipeComparison {
  nlohmann::json json;  // what --format json prints
  nlohmann::json rows;  // its rows, as a record holds them
  std::string text;
  bool feasible = false;  // whether anything heeds the options
};

// A row for the optimum, for the optimum with all parameters cut as far as they go, and for each
// recipe of the store; all heed the options' pins and budgets.
[[nodiscard]] RecipeComparison compare_recipes(const PricedProgram& priced,
                                               const ProblemOptions& options,
                                               const ConfigStore& store);

}  // namespace shardlab

// The training run that a published row describes.
//
//   const RecipeBook book = read_recipe_book(configs_root());
//   const PublishedRun run = published_run(row, book);   // throws InputError: can't be expressed
//
// What a row leaves open comes from the recipe that its project published for that run, where one
// is known (configs/steptimes/recipes.csv), and otherwise from what the project does by default,
// which published_run.cpp lists.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "costmodel/base/csv.h"
#include "costmodel/measurements/stated_network.h"
#include "costmodel/measurements/step_rows.h"
#include "costmodel/topology.h"
#include "strategies/training/step_terms.h"
#include "strategies/training/training_run.h"

namespace shardlab {

// The lines of configs/steptimes/recipes.csv.
using RecipeBook = CsvTable;
// Throws ConfigError.
[[nodiscard]] RecipeBook read_recipe_book(const std::filesystem::path& configs);

struct PublishedRun {
  TrainingRun run;
  std::string topology;  // a shipped name, of the row's GPU or of the most similar one
  std::int64_t devices_per_host = 8;
  StatedNetwork network;  // what inter_host states
  RunTraits traits;
};

// The name by which terms know a precision: "fp8" for one scale a tensor, otherwise its own.
[[nodiscard]] std::string_view precision_trait(Precision precision);

// Throws InputError with the reason for a row that the model can't express.
[[nodiscard]] PublishedRun published_run(const StepRow& row, const RecipeBook& book);

}  // namespace shardlab

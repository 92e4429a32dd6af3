// The cost models by name, from the table that CMake generates out of the files of
// costmodel/models/.
//
//   COST_MODEL(alpha_beta){.name = "alpha_beta", ..., .make_collective = ...};
//
// stands in costmodel/models/alpha_beta.cpp and defines the constant cost_model_alpha_beta, which
// the table names. A file whose name does not match its entry fails to link, with an error that
// names the entry. Nothing runs before main.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/collective_function.h"
#include "costmodel/compute_model.h"
#include "costmodel/cost_model.h"
#include "costmodel/params.h"
#include "costmodel/topology.h"

namespace shardlab {

// A property of cost models that a faithful port of another tool's model may break, with the
// reason. `contract` is the name of a check in tests/contract.
struct ContractExemption {
  std::string_view contract;
  std::string_view reason;
};

// What a model is built from.
struct ModelInput {
  const Params& params;
  const Topology& topology;
  const nlohmann::json& rows;  // measured or tabled prices; empty for models that read none
  JsonPlace rows_place;
};

struct ModelEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view formula;
  std::string_view source;
  std::string_view valid_range;
  std::span<const ParamSpec> params = {};
  std::span<const ContractExemption> exemptions = {};
  bool reads_rows = false;
  bool fits_curves = false;  // whether `calibrate` writes the model's rows (curve_calibration.h)
  // Whether `calibrate` fits the model to other clusters' logs too (population_calibration.h).
  bool fits_population = false;
  // Whether `calibrate` fits the model to kernels (kernel_calibration.h).
  bool fits_kernels = false;
  // Names of the free constants that `calibrate` fits (constants_calibration.h), all positive.
  std::span<const std::string_view> fitted = {};
  // The prior of a fitted parameter without a default, which it keeps if the rows do not determine
  // it.
  double (*prior)(std::string_view name, const Topology& topology,
                  const GroupSpan& group) = nullptr;
  // A collective model, a compute model, or both.
  std::unique_ptr<CostModel> (*make_collective)(const ModelInput&) = nullptr;
  std::unique_ptr<ComputeModel> (*make_compute)(const ModelInput&) = nullptr;
};

// All models, sorted by name.
[[nodiscard]] std::span<const ModelEntry* const> all_cost_models();
[[nodiscard]] const ModelEntry* find_cost_model(std::string_view name);
// The models that price collectives or, if `collective` is false, those that price kernels.
[[nodiscard]] std::vector<std::string_view> model_names(bool collective);

// Models that `calibrate` fits.
[[nodiscard]] std::vector<std::string_view> fitted_model_names();

// A model as a stack names it: {"name": ..., "params": {...}, "rows": [...], "fitted_gpus": [...]},
// or just the name as a text. A function of the user's stands in no table; its entry is
// function_entry().
struct ModelChoice {
  const ModelEntry* entry;
  nlohmann::json params = nlohmann::json::object();
  nlohmann::json rows = nlohmann::json::array();
  JsonPlace place;
  // The GPUs whose runs the parameters and rows were fitted to, such as "h100"; empty if the file
  // names none (fitted_gpus.h).
  std::vector<std::string> fitted_gpus = {};
  std::shared_ptr<const CollectiveFunction> function = nullptr;

  [[nodiscard]] nlohmann::json to_json() const;
};

// What is said of a function of the user's: it has the name "function" and no parameters.
[[nodiscard]] const ModelEntry& function_entry();
// The choice of a function of the user's as the model of collectives.
[[nodiscard]] ModelChoice choose_function(std::shared_ptr<const CollectiveFunction> function);

// Throws ConfigError for an unknown model (and lists the valid ones), an unknown parameter, or a
// value out of range.
[[nodiscard]] ModelChoice read_model_choice(const nlohmann::json& json, const JsonPlace& place);
// A model that was fitted to other GPUs than the topology's does not claim that its prices are
// measured (fitted_gpus.h).
[[nodiscard]] std::unique_ptr<CostModel> make_collective_model(const ModelChoice& choice,
                                                               const Topology& topology);
[[nodiscard]] std::unique_ptr<ComputeModel> make_compute_model(const ModelChoice& choice,
                                                               const Topology& topology);

}  // namespace shardlab

#define COST_MODEL(id)                     \
  extern const ModelEntry cost_model_##id; \
  constinit const ModelEntry cost_model_##id

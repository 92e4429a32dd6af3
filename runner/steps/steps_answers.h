// What `validate --steps` and `calibrate --steps` say.
//
//   const LoadedSteps loaded = load_steps("rows.csv", "steps", session.store());
//   const std::vector<StepResult> results = predict_all(loaded.steps, loaded.terms);
//   session.print(steps_json(loaded, results));
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runner/base/text_style.h"
#include "runner/config/configs.h"
#include "runner/steps/step_calibration.h"
#include "runner/steps/step_validation.h"
#include "strategies/select/stack.h"

namespace shardlab {

// The stack that predicts steps unless another is named.
inline constexpr std::string_view kStepStack = "steps";

struct LoadedSteps {
  std::string file;
  Stack stack;
  StepTerms terms;
  ExpressedSteps steps;
  // Which rows are priced on other hardware than they name, and which columns are ignored.
  std::vector<std::string> warnings;
};

// The terms of a stack. Throws ConfigError.
[[nodiscard]] StepTerms step_terms_of(const Stack& stack);
// Throws InputError for a stack that prices no kernels, named as the user names it.
void expect_step_prices(const Stack& stack, const std::string& name);
// `file` is a path, or the name of a file of configs/steptimes without its suffix. Throws
// ConfigError for a bad file, and InputError for a stack that prices no kernels.
[[nodiscard]] LoadedSteps load_steps(const std::string& file, const std::string& stack,
                                     const ConfigStore& store);

[[nodiscard]] nlohmann::json steps_json(const LoadedSteps& loaded,
                                        const std::vector<StepResult>& results);
[[nodiscard]] std::string steps_text(const LoadedSteps& loaded,
                                     const std::vector<StepResult>& results,
                                     const TextStyle& style);

[[nodiscard]] nlohmann::json step_calibration_json(const LoadedSteps& loaded,
                                                   const StepCalibration& fit,
                                                   const std::vector<StepResult>& results);
[[nodiscard]] std::string step_calibration_text(const LoadedSteps& loaded,
                                                const StepCalibration& fit,
                                                const std::vector<StepResult>& results,
                                                const TextStyle& style);
// The stack as a file: the base with the fitted terms in the place of its own.
[[nodiscard]] nlohmann::json fitted_step_stack(const LoadedSteps& loaded,
                                               const StepCalibration& fit, const std::string& name);

}  // namespace shardlab

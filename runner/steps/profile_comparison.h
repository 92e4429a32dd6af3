// A predicted step beside a profile of one, part by part.
//
//   const StepProfile profile = read_step_profile(json, {"rank0.json", ""});
//   const std::vector<ComparedPart> parts = compared_parts(prediction, profile);
//   session.print(comparison_text(parts, profile, "rank0.json", style));
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/measurements/step_profile.h"
#include "runner/base/text_style.h"
#include "strategies/training/step_prediction.h"

namespace shardlab {

// A part of the step in both; the last one is the step itself.
struct ComparedPart {
  std::string name;
  std::string key;  // its name in JSON
  double predicted_us = 0.0;
  double profiled_us = 0.0;

  // The error of the prediction in percent; nothing if the profile spends no time on this part.
  [[nodiscard]] std::optional<double> error_percent() const;
};

// The exposed communication of all collectives is one part, and so is all idle time, whether the
// GPU waits for the host or in a pipeline's bubble.
[[nodiscard]] std::vector<ComparedPart> compared_parts(const StepPrediction& prediction,
                                                       const StepProfile& profile);

[[nodiscard]] std::string comparison_text(const std::vector<ComparedPart>& parts,
                                          const StepProfile& profile, const std::string& file,
                                          const TextStyle& style);
[[nodiscard]] nlohmann::json comparison_json(const std::vector<ComparedPart>& parts,
                                             const StepProfile& profile, const std::string& file);

}  // namespace shardlab

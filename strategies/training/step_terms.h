// What is known of clusters beside the prices of a stack: terms that change StepFactors, each for
// the runs that it names.
//
//   {"name": "gemm", "when": {"gpu": "h100"}, "value": 0.93, "low": 0.92, "high": 0.94}
//
//   const StepTerms terms = StepTerms::from_json(json, place);
//   StepFactors factors = terms.factors({{"gpu", "h100"}, {"execution", "eager"}});
//
// A factor begins as StepFactors has it, and is multiplied by the value of each term of its name
// whose conditions all hold. The values would be added to a factor that begins at 0, but none does.
// The result is kept within the bounds of all_step_factors(). A run that no term names keeps the
// stack's prices.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/json_reader.h"
#include "strategies/training/step_prediction.h"

namespace shardlab {

// What a run is, by name: gpu, source, execution, precision, kind ("dense" or "experts"), ...
using RunTraits = std::map<std::string, std::string>;

struct StepTerm {
  std::string name;  // name of a factor
  RunTraits when = {};
  double value = 1.0;
  std::optional<double> low = {};  // 95 %, if it was fitted
  std::optional<double> high = {};

  [[nodiscard]] bool holds(const RunTraits& traits) const;
};

// The names of the factors, and what each is.
struct FactorRow {
  std::string_view name;
  double StepFactors::*member;
  double min;
  double max;
  std::string_view help;
};
[[nodiscard]] std::span<const FactorRow> all_step_factors();

struct StepTerms {
  std::vector<StepTerm> terms;

  // Reads an array of terms. Throws ConfigError.
  [[nodiscard]] static StepTerms from_json(const nlohmann::json& json, const JsonPlace& place);
  [[nodiscard]] nlohmann::json to_json() const;
  [[nodiscard]] StepFactors factors(const RunTraits& traits) const;
};

}  // namespace shardlab

// One parameter table per model: default, range and help in one place. It feeds the JSON reader,
// its error messages, `describe`, and costmodel/README.md.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/base/json_reader.h"

namespace shardlab {

struct ParamSpec {
  std::string_view name;
  std::optional<double> default_value;  // absent: the topology's own figure is used
  double min;
  double max;
  std::string_view help;
  std::string_view source = {};  // of the default, where it is not the model's own
  std::string_view status = {};  // derived, measured, fitted or assumed
};

class Params {
 public:
  // `values` is an object of numbers. Throws ConfigError for unknown names and values out of range.
  Params(std::span<const ParamSpec> specs, const nlohmann::json& values, const JsonPlace& place);

  // Assumes that the table has a parameter of this name with a default value.
  [[nodiscard]] double operator[](std::string_view name) const;
  // A parameter that the topology fills when it is not given.
  [[nodiscard]] std::optional<double> get(std::string_view name) const;
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  std::span<const ParamSpec> specs_;
  std::vector<std::optional<double>> values_;
};

}  // namespace shardlab

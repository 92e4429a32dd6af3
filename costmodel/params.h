// The parameters of a model, in one table: default, range and help. The JSON reader, its error
// messages, `describe` and costmodel/README.md all come from it.
//
//   constexpr ParamSpec kParams[] = {{"launch_us", 7.0, 0.0, 1e6, "launch of one collective"}};
//   const Params params(kParams, {{"launch_us", 9.0}}, place);
//   params["launch_us"]     // 9
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
  std::optional<double> default_value;  // absent if the topology or another parameter gives it
  double min;
  double max;
  std::string_view help;
  std::string_view source = {};  // source of the default, if other than the model's source
  std::string_view status = {};  // status of the default: derived, measured, fitted or assumed
  bool is_switch = false;        // whether only 0 and 1 are valid; a calibration leaves it alone
};

// A parameter that is 0 or 1.
constexpr ParamSpec switch_spec(std::string_view name, std::optional<double> default_value,
                                std::string_view help, std::string_view source = {},
                                std::string_view status = {}) {
  return {.name = name,
          .default_value = default_value,
          .min = 0.0,
          .max = 1.0,
          .help = help,
          .source = source,
          .status = status,
          .is_switch = true};
}

class Params {
 public:
  // `values` is an object of numbers. Throws ConfigError for unknown names and values out of range.
  Params(std::span<const ParamSpec> specs, const nlohmann::json& values, const JsonPlace& place);

  // Assumes that the table has a parameter of this name with a default value.
  [[nodiscard]] double operator[](std::string_view name) const;
  // The value of a parameter that may have none: nothing if it was not given and has no default.
  [[nodiscard]] std::optional<double> get(std::string_view name) const;
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  std::span<const ParamSpec> specs_;
  std::vector<std::optional<double>> values_;
};

}  // namespace shardlab

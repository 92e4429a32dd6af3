// Stragglers: what waiting for the slowest member adds to a collective. A decorator of any cost
// model.
//
//   {"name": "none"}                          nothing
//   {"name": "percent", "percent": 5}         5 % of the collective's own price
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "costmodel/cost_model.h"
#include "costmodel/json_reader.h"

namespace shardlab {

struct Straggler {
  std::string name = "none";
  double percent = 0.0;

  // Reads an object, or just the name as a text. Throws ConfigError.
  [[nodiscard]] static Straggler from_json(const nlohmann::json& json, const JsonPlace& place);
  [[nodiscard]] nlohmann::json to_json() const;
  [[nodiscard]] std::unique_ptr<CostModel> decorate(std::unique_ptr<CostModel> model) const;
};

}  // namespace shardlab

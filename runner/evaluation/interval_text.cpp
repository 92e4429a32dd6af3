#include "runner/evaluation/interval_text.h"

#include <nlohmann/json.hpp>

namespace shardlab {

void add_interval(nlohmann::json& json, const std::optional<PriceInterval>& interval) {
  if (!interval) return;
  json["low_us"] = interval->low_us;
  json["high_us"] = interval->high_us;
}

std::string interval_text(const std::optional<PriceInterval>& interval, const TextStyle& style) {
  if (!interval) return "";
  return " (" + style.figure(interval->low_us) + " to " + style.figure(interval->high_us) +
         " us on 95 % of clusters like those measured)";
}

}  // namespace shardlab

// Intervals of prices in JSON and in text (sim/price_interval.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runner/base/text_style.h"
#include "sim/price_interval.h"

namespace shardlab {

// Adds "low_us" and "high_us", if there are any.
void add_interval(nlohmann::json& json, const std::optional<PriceInterval>& interval);
// " (210.3 to 452.8 us on 95 % of clusters like those measured)"; "" without an interval.
[[nodiscard]] std::string interval_text(const std::optional<PriceInterval>& interval,
                                        const TextStyle& style);

}  // namespace shardlab

#include "reports/records/run_header.h"

#include <cmath>

namespace shardlab::reports {

std::optional<Contradiction> contradiction_in(const RunHeader& header) {
  for (std::size_t i = 0; i < header.configuration.stacks.size(); ++i) {
    const nlohmann::json& stack = header.configuration.stacks[i];
    if (!stack.is_object() || !stack.contains("name") || !stack["name"].is_string()) {
      return Contradiction{"/configuration/stacks/" + std::to_string(i),
                           "expected an object with a name"};
    }
  }
  if (header.timing) {
    for (const auto& [name, ms] : header.timing->ms) {
      if (!name.ends_with("_ms") || !std::isfinite(ms)) {
        return Contradiction{"/timing/" + name, "expected a key ending in _ms and a finite number"};
      }
    }
  }
  return std::nullopt;
}

}  // namespace shardlab::reports

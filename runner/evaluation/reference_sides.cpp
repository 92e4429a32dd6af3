#include "runner/evaluation/reference_sides.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace shardlab {
namespace {

struct PricedPart {
  const char* key;  // key in the stack's file
  const char* name;
};
constexpr std::array<PricedPart, 4> kPricedParts = {{{"transitions", "transitions"},
                                                     {"collective_model", "collective model"},
                                                     {"compute_model", "compute model"},
                                                     {"straggler", "straggler"}}};

// Whether code prices or decides in place of what the stack's file says.
bool has_code(const Stack& stack) { return !stack.cost_function.empty() || stack.decisions; }

std::string value_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.value("name", "none");
}

}  // namespace

std::vector<std::string> reference_sides(const Stack& reference, std::span<const Stack> stacks) {
  std::vector<std::string> lines;
  const nlohmann::json of_reference = reference.to_json();
  const nlohmann::json baseline = stacks.front().to_json();
  for (const Stack& candidate : stacks.subspan(1)) {
    if (candidate.name == reference.name || stacks.front().name == reference.name) continue;
    if (has_code(reference) || has_code(candidate) || has_code(stacks.front())) continue;
    const nlohmann::json changed = candidate.to_json();
    for (const bool with_candidate : {true, false}) {
      const nlohmann::json& side = with_candidate ? changed : baseline;
      const nlohmann::json& other = with_candidate ? baseline : changed;
      std::string shared;
      std::string differs;
      for (const PricedPart& part : kPricedParts) {
        const nlohmann::json& value = of_reference.at(part.key);
        if (side.at(part.key) != value || other.at(part.key) == value) continue;
        shared += (shared.empty() ? "" : " and the ") + std::string(part.name) + " (" +
                  value_text(value) + ")";
        const bool same_name = value_text(other.at(part.key)) == value_text(value);
        differs += (differs.empty() ? "" : ", ") + value_text(other.at(part.key)) +
                   (same_name ? " with other parameters" : "");
      }
      if (shared.empty()) continue;
      const Stack& same_side = with_candidate ? candidate : stacks.front();
      const Stack& other_side = with_candidate ? stacks.front() : candidate;
      lines.push_back("has the " + shared + " of " + same_side.name + ", and not of " +
                      other_side.name + " (" + differs +
                      "), so its verdict is no evidence about flips that come from this alone");
    }
  }
  return lines;
}

}  // namespace shardlab

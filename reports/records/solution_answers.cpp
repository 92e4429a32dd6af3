#include "reports/records/solution_answers.h"

namespace shardlab {

std::optional<Contradiction> Fields<reports::RegrettedChoice>::contradiction(const Self& choice) {
  if (choice.choice.has_value() == (choice.node == choice.to_node)) return std::nullopt;
  return Contradiction{"/op", "expected where node is to_node, and only then"};
}

std::optional<Contradiction> Fields<reports::GreedyPlan>::contradiction(const Self& greedy) {
  if (greedy.objective_us.has_value() != greedy.stuck_at.empty()) {
    return Contradiction{"/objective_us", "expected a number, or else stuck_at says where"};
  }
  if (greedy.objective_us.has_value() != greedy.breakdown.has_value()) {
    return Contradiction{"/breakdown_us", "expected with objective_us, and only then"};
  }
  return std::nullopt;
}

std::optional<Contradiction> Fields<reports::RecipeCost>::contradiction(const Self& cost) {
  if (cost.objective_us.has_value() != cost.misfit.empty()) {
    return Contradiction{"/objective_us",
                         "expected a number, or else misfit says why there is none"};
  }
  if (cost.figures.has_value() != cost.misfit.empty()) {
    return Contradiction{"/kernels_us", "expected where misfit is null, and only then"};
  }
  return std::nullopt;
}

}  // namespace shardlab

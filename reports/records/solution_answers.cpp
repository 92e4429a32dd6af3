#include "reports/records/solution_answers.h"

namespace shardlab {

std::optional<Contradiction> Fields<reports::RegrettedChoice>::contradiction(const Self& choice) {
  if (choice.choice.has_value() == (choice.node == choice.to_node)) return std::nullopt;
  return Contradiction{"/op", "expected if, and only if, node equals to_node"};
}

std::optional<Contradiction> Fields<reports::GreedyPlan>::contradiction(const Self& greedy) {
  if (greedy.objective_us.has_value() != greedy.stuck_at.empty()) {
    return Contradiction{"/objective_us", "expected a number, or a node in stuck_at"};
  }
  if (greedy.objective_us.has_value() != greedy.breakdown.has_value()) {
    return Contradiction{"/breakdown_us", "expected if, and only if, objective_us is a number"};
  }
  return std::nullopt;
}

std::optional<Contradiction> Fields<reports::RecipeCost>::contradiction(const Self& cost) {
  if (cost.objective_us.has_value() != cost.misfit.empty()) {
    return Contradiction{"/objective_us", "expected a number, or a reason in misfit"};
  }
  if (cost.figures.has_value() != cost.misfit.empty()) {
    return Contradiction{"/kernels_us", "expected if, and only if, misfit is null"};
  }
  return std::nullopt;
}

}  // namespace shardlab

// What a record of `solve` holds beside the plan: one part for each option that asked for more
// (--explain, --diff, --best, --then, --greedy, --sensitivity, --budget-curve, --compare-recipes).
// A part that was not asked for is empty, and its section is left out of the report.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab::reports {

struct SolutionBreakdown {
  double compute_us = 0.0;
  double communication_us = 0.0;
  double transition_us = 0.0;
};

// A node, or a parameter, that lies otherwise in another plan.
struct LayoutChange {
  std::string what;
  std::string from;
  std::string to;
};

struct ExplainedNode {
  std::string node;
  std::string chosen;
  double chosen_us = 0.0;           // its kernel and what moves to and from it
  std::optional<double> local_us;   // with the asked layout, all else as chosen; none: can't be
  std::optional<double> global_us;  // the best total with it
};
struct Explained {
  std::string layout;
  std::vector<ExplainedNode> nodes;  // those that can have it
};

struct OtherPlan {
  std::string file;
  std::optional<double> objective_us;  // none: it breaks a constraint
  std::optional<double> gap_us;        // above the optimum
  std::optional<double> gap_percent;
  std::vector<LayoutChange> nodes;
};

struct FurtherPlan {
  double objective_us = 0.0;
  std::string changes;  // from the best one, "node value, node value"; "" of the best
};

struct FurtherPin {
  std::string pin;  // "node=layout"
  bool is_tried = false;
  std::optional<double> objective_us;  // none: the pin can't be heeded
  std::optional<double> lower_bound_us;
  std::optional<double> dearer_us;  // than before this pin
  bool optimal = false;
  std::vector<std::string> changed;   // nodes
  std::vector<std::string> conflict;  // what it contradicts
};

// A choice of the greedy walk, or a stretch of them that only together are regretted.
struct RegrettedChoice {
  std::string node, to_node;  // the first and the last
  double regret_us = 0.0;
  std::string op, chosen, instead;  // of one node
  std::optional<double> dearer_there_us;
  std::optional<double> cheaper_later_us;
};
struct GreedyPlan {
  std::optional<double> objective_us;  // none: stuck
  std::optional<double> gap_us;
  std::optional<double> gap_percent;
  std::string stuck_at;
  std::optional<SolutionBreakdown> breakdown;
  std::vector<RegrettedChoice> choices;  // the largest regret first
  std::optional<double> other_regret_us;
};

struct PlanFlipPoint {
  double factor = 1.0;
  double objective_us = 0.0;
  std::vector<LayoutChange> nodes;
};
struct ParameterRange {
  std::string parameter;               // of the stack
  std::optional<PlanFlipPoint> below;  // none: no other plan down to a 16th
  std::optional<PlanFlipPoint> above;  // none: no other plan up to 16 times
};

struct BudgetPoint {
  double kept = 0.0;  // in the curve's unit
  double kept_bytes = 0.0;
  double objective_us = 0.0;
  std::string found_by;               // hull, search
  bool is_next_known = true;          // no other optimum lies before the next point
  std::vector<LayoutChange> changes;  // of parameters, from the point before
};
struct BudgetCurveAnswer {
  std::int64_t parameters = 0;
  bool complete = false;
  bool given_up = false;
  std::vector<BudgetPoint> points;  // less and less kept
};
struct BudgetCurves {
  BudgetCurveAnswer fractions;  // kept: summed over parameters
  BudgetCurveAnswer bytes;      // kept: bytes of a device
};

struct RecipeCost {
  std::string recipe, title;
  std::string misfit;  // why it can't be; then the rest is empty
  std::optional<double> objective_us;
  std::optional<double> above_percent;
  double kernels_us = 0.0;
  double parameters_us = 0.0, gradients_us = 0.0, activations_us = 0.0;  // moves
  double kept_bytes = 0.0;
  std::optional<double> greedy_us;  // none: stuck
};

struct SolutionAnswers {
  std::optional<Explained> explained;
  std::optional<OtherPlan> diff;
  std::vector<FurtherPlan> best;
  std::vector<FurtherPin> then;
  std::optional<GreedyPlan> greedy;
  std::vector<ParameterRange> sensitivity;
  std::optional<BudgetCurves> budget_curves;
  std::vector<RecipeCost> recipes;  // the optimum first
};

[[nodiscard]] SolutionBreakdown read_breakdown(const nlohmann::json& json, std::string_view file,
                                               std::string pointer);
// Throws ConfigError, naming `file` and the JSON pointer.
[[nodiscard]] SolutionAnswers read_solution_answers(const nlohmann::json& json,
                                                    std::string_view file, std::string pointer);

}  // namespace shardlab::reports

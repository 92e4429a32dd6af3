// What a record of `solve` holds besides the plan: one part for each option that asked for more
// (--explain, --diff, --best, --then, --greedy, --sensitivity, --advise-flattened, --budget-curve,
// --compare-recipes).
// A part that was not asked for is empty, and the report leaves out its section.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/fields.h"
#include "reports/records/flattened_meshes.h"

namespace shardlab {
namespace reports {

struct SolutionBreakdown {
  double compute_us = 0.0;
  double communication_us = 0.0;
  double transition_us = 0.0;
};

// A node or a parameter that has different layouts in two plans.
struct LayoutChange {
  std::string what;
  std::string from;
  std::string to;
};
struct NodeChange : LayoutChange {};
struct ParameterChange : LayoutChange {};

struct ExplainedNode {
  std::string node;
  std::string chosen;
  double chosen_us = 0.0;
  std::optional<double> local_us;
  std::optional<double> global_us;
};
struct Explained {
  std::string layout;
  std::vector<ExplainedNode> nodes;
};

struct OtherPlan {
  std::string file;
  std::optional<double> objective_us;
  std::optional<double> gap_us;
  std::optional<double> gap_percent;
  std::vector<NodeChange> nodes;
};

struct FurtherPlan {
  double objective_us = 0.0;
  std::string changes;
};

struct FurtherPin {
  std::string pin;
  bool is_tried = false;
  std::optional<double> objective_us;
  std::optional<double> lower_bound_us;
  std::optional<double> dearer_us;
  bool optimal = false;
  std::vector<std::string> changed;
  std::vector<std::string> conflict;
};

// A choice that the greedy walk regrets, or consecutive choices that it regrets only together.
struct RegrettedNode {
  std::string op, chosen, instead;
  std::optional<double> dearer_there_us;
  std::optional<double> cheaper_later_us;
};
struct RegrettedChoice {
  std::string node, to_node;
  double regret_us = 0.0;
  std::optional<RegrettedNode> choice;  // set if `node` equals `to_node`
};
struct GreedyPlan {
  std::optional<double> objective_us;
  std::optional<double> gap_us;
  std::optional<double> gap_percent;
  std::string stuck_at;
  std::optional<SolutionBreakdown> breakdown;
  std::vector<RegrettedChoice> choices;
  std::optional<double> other_regret_us;
};

struct PlanFlipPoint {
  double factor = 1.0;
  double objective_us = 0.0;
  std::vector<NodeChange> nodes;
};
struct ParameterRange {
  std::string parameter;
  std::optional<PlanFlipPoint> below;
  std::optional<PlanFlipPoint> above;
};

struct BudgetPoint {
  double kept = 0.0;
  double kept_bytes = 0.0;
  double objective_us = 0.0;
  std::string found_by;
  bool is_next_known = true;
  std::vector<ParameterChange> changes;
};
struct BudgetCurveAnswer {
  std::int64_t parameters = 0;
  bool complete = false;
  bool given_up = false;
  std::vector<BudgetPoint> points;
};
struct BudgetCurves {
  BudgetCurveAnswer fractions;
  BudgetCurveAnswer bytes;
};

struct RecipeMoves {
  double parameters_us = 0.0, gradients_us = 0.0, activations_us = 0.0;
};
struct RecipeFigures {
  std::optional<double> above_percent;
  double kernels_us = 0.0;
  RecipeMoves moves;
  double kept_bytes = 0.0;
  std::optional<double> greedy_us;
};
// A recipe's training step; missing in older records, and where a move can't run.
struct RecipeStep {
  double executed_us = 0.0;
  double step_us = 0.0;
  double tokens_per_s_per_gpu = 0.0;
  double peak_bytes = 0.0;
  bool fits = true;
};
// The step that DTensor makes of a recipe's sources, operator by operator.
struct RecipeEager {
  std::string stack;
  double step_us = 0.0;
  double peak_bytes = 0.0;
};
struct RecipeCost {
  std::string recipe, title;
  std::string misfit;
  bool optimal = true;
  std::optional<double> objective_us;
  std::optional<RecipeFigures> figures;  // set if the recipe fits the program
  std::optional<RecipeStep> step;
  std::optional<RecipeEager> eager;
};

struct SolutionAnswers {
  std::optional<Explained> explained;
  std::optional<OtherPlan> diff;
  std::vector<FurtherPlan> best;
  std::vector<FurtherPin> then;
  std::optional<GreedyPlan> greedy;
  std::vector<ParameterRange> sensitivity;
  std::optional<FlattenedMeshes> flattened_meshes;
  std::optional<BudgetCurves> budget_curves;
  std::vector<RecipeCost> recipes;  // the optimum first
};

}  // namespace reports

template <>
struct Fields<reports::SolutionBreakdown> {
  using Self = reports::SolutionBreakdown;
  static constexpr auto kList = std::tuple(field("compute", &Self::compute_us, ""),
                                           field("communication", &Self::communication_us, ""),
                                           field("transition", &Self::transition_us, ""));
};

template <>
struct Fields<reports::NodeChange> {
  using Self = reports::NodeChange;
  static constexpr std::string_view kName = "node_change";
  static constexpr auto kList =
      std::tuple(field("node", &Self::what, ""), field("here", &Self::from, ""),
                 field("there", &Self::to, ""));
};

template <>
struct Fields<reports::ParameterChange> {
  using Self = reports::ParameterChange;
  static constexpr auto kList =
      std::tuple(field("parameter", &Self::what, ""), field("from", &Self::from, ""),
                 field("to", &Self::to, ""));
};

template <>
struct Fields<reports::ExplainedNode> {
  using Self = reports::ExplainedNode;
  static constexpr auto kList = std::tuple(
      field("node", &Self::node, ""), field("chosen", &Self::chosen, ""),
      field("chosen_us", &Self::chosen_us, "price of its kernel and of the moves to and from it"),
      field("local_us", &Self::local_us,
            "the same with the layout asked for, if all else stays as chosen; null: impossible"),
      field("global_us", &Self::global_us, "the best total with the layout asked for"));
};

template <>
struct Fields<reports::Explained> {
  using Self = reports::Explained;
  static constexpr auto kList =
      std::tuple(field("layout", &Self::layout, ""),
                 field("nodes", &Self::nodes, "the nodes that can have the layout"));
};

template <>
struct Fields<reports::OtherPlan> {
  using Self = reports::OtherPlan;
  static constexpr auto kList =
      std::tuple(field("file", &Self::file, ""),
                 field("objective_us", &Self::objective_us, "null: it breaks a constraint"),
                 field("gap_us", &Self::gap_us, "distance above the optimum"),
                 field("gap_percent", &Self::gap_percent, ""), field("nodes", &Self::nodes, ""));
};

template <>
struct Fields<reports::FurtherPlan> {
  using Self = reports::FurtherPlan;
  static constexpr auto kList = std::tuple(field("objective_us", &Self::objective_us, ""),
                                           field("changes", &Self::changes,
                                                 "what differs from the best plan, \"node value, "
                                                 "node value\"; empty for the best itself"));
};

template <>
struct Fields<reports::FurtherPin> {
  using Self = reports::FurtherPin;
  static constexpr auto kList = std::tuple(
      field("pin", &Self::pin, "node=layout"), field("tried", &Self::is_tried, ""),
      field("objective_us", &Self::objective_us, "null: the pin cannot be satisfied"),
      field("lower_bound_us", &Self::lower_bound_us, ""), field("optimal", &Self::optimal, ""),
      field("dearer_us", &Self::dearer_us,
            "how much more the plan costs than before this pin was added"),
      field("changed", &Self::changed, "the nodes that changed"),
      field("conflict", &Self::conflict, "what the pin contradicts"));
};

template <>
struct Fields<reports::RegrettedNode> {
  using Self = reports::RegrettedNode;
  static constexpr auto kList = std::tuple(
      field("op", &Self::op, ""), field("chosen", &Self::chosen, ""),
      field("instead", &Self::instead, ""), field("dearer_there_us", &Self::dearer_there_us, ""),
      field("cheaper_later_us", &Self::cheaper_later_us, ""));
};

template <>
struct Fields<reports::RegrettedChoice> {
  using Self = reports::RegrettedChoice;
  static constexpr auto kList = std::tuple(
      field("node", &Self::node, ""),
      field("to_node", &Self::to_node,
            "the last of several nodes that are regretted only together; these have no op"),
      field("regret_us", &Self::regret_us, ""), all_or_none(&Self::choice));
  static std::optional<Contradiction> contradiction(const Self& choice);
};

template <>
struct Fields<reports::GreedyPlan> {
  using Self = reports::GreedyPlan;
  static constexpr auto kList =
      std::tuple(field("objective_us", &Self::objective_us, "null: the walk is stuck"),
                 field("gap_us", &Self::gap_us, "distance above the optimum"),
                 field("gap_percent", &Self::gap_percent, ""),
                 nullable_text("stuck_at", &Self::stuck_at,
                               "a node for which the constraints leave no strategy"),
                 field("breakdown_us", &Self::breakdown, ""),
                 field("regret", &Self::choices, "the largest regret first"),
                 field("other_regret_us", &Self::other_regret_us, ""));
  static std::optional<Contradiction> contradiction(const Self& greedy);
};

template <>
struct Fields<reports::PlanFlipPoint> {
  using Self = reports::PlanFlipPoint;
  static constexpr std::string_view kName = "plan_flip";
  static constexpr auto kList =
      std::tuple(field("factor", &Self::factor, ""), field("objective_us", &Self::objective_us, ""),
                 field("nodes", &Self::nodes, ""));
};

template <>
struct Fields<reports::ParameterRange> {
  using Self = reports::ParameterRange;
  static constexpr auto kList =
      std::tuple(field("parameter", &Self::parameter, "a parameter of the stack"),
                 field("below", &Self::below, "null: the same plan down to a 16th of the value"),
                 field("above", &Self::above, "null: the same plan up to 16 times the value"));
};

template <>
struct Fields<reports::BudgetPoint> {
  using Self = reports::BudgetPoint;
  static constexpr auto kList =
      std::tuple(field("kept", &Self::kept, "in the unit of the curve"),
                 field("kept_bytes", &Self::kept_bytes, "", kAmount),
                 field("objective_us", &Self::objective_us, ""),
                 field("found_by", &Self::found_by, "hull or search"),
                 field("next_is_known", &Self::is_next_known,
                       "whether certainly no other optimum lies before the next point"),
                 field("changes", &Self::changes, "what differs from the previous point"));
};

template <>
struct Fields<reports::BudgetCurveAnswer> {
  using Self = reports::BudgetCurveAnswer;
  static constexpr std::string_view kName = "budget_curve";
  static constexpr auto kList = std::tuple(
      field("parameters", &Self::parameters, ""), field("complete", &Self::complete, ""),
      field("given_up", &Self::given_up, ""),
      field("points", &Self::points, "points, each of which keeps less than the previous one"));
};

template <>
struct Fields<reports::BudgetCurves> {
  using Self = reports::BudgetCurves;
  static constexpr auto kList =
      std::tuple(field("fractions", &Self::fractions, "kept: fractions summed over parameters"),
                 field("bytes", &Self::bytes, "kept: bytes per device"));
};

template <>
struct Fields<reports::RecipeMoves> {
  using Self = reports::RecipeMoves;
  static constexpr auto kList = std::tuple(field("parameters", &Self::parameters_us, ""),
                                           field("gradients", &Self::gradients_us, ""),
                                           field("activations", &Self::activations_us, ""));
};

template <>
struct Fields<reports::RecipeFigures> {
  using Self = reports::RecipeFigures;
  static constexpr auto kList =
      std::tuple(field("above_optimum_percent", &Self::above_percent, ""),
                 field("kernels_us", &Self::kernels_us, ""), field("moves_us", &Self::moves, ""),
                 field("kept_bytes", &Self::kept_bytes, "", kAmount),
                 field("greedy_us", &Self::greedy_us, "null: the walk is stuck"));
};

template <>
struct Fields<reports::RecipeStep> {
  using Self = reports::RecipeStep;
  static constexpr auto kList = std::tuple(
      field("executed_us", &Self::executed_us, "the sum of kernels and of the steps of all moves"),
      field("step_us", &Self::step_us, "simulated; streams overlap"),
      field("tokens_per_s_per_gpu", &Self::tokens_per_s_per_gpu, ""),
      field("peak_bytes", &Self::peak_bytes, "of a device's memory", kAmount),
      field("fits", &Self::fits, "into a device"));
};

template <>
struct Fields<reports::RecipeEager> {
  using Self = reports::RecipeEager;
  static constexpr auto kList =
      std::tuple(field("stack", &Self::stack, "whose choices these are"),
                 field("step_us", &Self::step_us, "simulated; streams overlap"),
                 field("peak_bytes", &Self::peak_bytes, "of a device's memory", kAmount));
};

template <>
struct Fields<reports::RecipeCost> {
  using Self = reports::RecipeCost;
  static constexpr auto kList =
      std::tuple(field("recipe", &Self::recipe, ""), field("title", &Self::title, ""),
                 field("objective_us", &Self::objective_us, ""),
                 nullable_text("misfit", &Self::misfit,
                               "why the recipe does not fit; all further figures are then missing"),
                 optional_field("optimal", &Self::optimal,
                                "false: the best plan that was found, not proved to be the best"),
                 all_or_none(&Self::figures),
                 optional_or_null("step", &Self::step, "a training step; null: a move can't run"),
                 optional_or_null("eager", &Self::eager,
                                  "the step where each operator is decided alone, from the same "
                                  "layouts of parameters and inputs; null: it can't run"));
  static constexpr std::string_view kAlso = R"({
    "if": {"properties": {"misfit": {"type": "null"}}},
    "then": {"required": ["kernels_us"]}})";
  static std::optional<Contradiction> contradiction(const Self& cost);
};

template <>
struct Fields<reports::SolutionAnswers> {
  using Self = reports::SolutionAnswers;
  static constexpr std::string_view kName = "answers";
  static constexpr std::string_view kMeaning =
      "answers to further questions (see reports/records/solution_answers.h)";
  static constexpr auto kList = std::tuple(
      optional_field("explain", &Self::explained, ""), optional_field("diff", &Self::diff, ""),
      optional_field("best", &Self::best, "with --best: plans by what they change"),
      optional_field("then", &Self::then, ""), optional_field("greedy", &Self::greedy, ""),
      optional_field("sensitivity", &Self::sensitivity, ""),
      optional_field("flattened_meshes", &Self::flattened_meshes, ""),
      optional_field("budget_curves", &Self::budget_curves, ""),
      optional_field("recipes", &Self::recipes,
                     "with --compare-recipes: the optimum, then each recipe"));
};

}  // namespace shardlab

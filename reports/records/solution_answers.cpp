#include "reports/records/solution_answers.h"

#include <nlohmann/json.hpp>
#include <string>

#include "reports/records/strict_json.h"

namespace shardlab::reports {
namespace {

using nlohmann::json;

// Every element of an array, each with its own pointer.
template <class Value, class Read>
std::vector<Value> read_list(const json& list, std::string_view file, const std::string& pointer,
                             const Read& read) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < list.size(); ++i) {
    StrictObject object(list[i], file, pointer + "/" + std::to_string(i));
    values.push_back(read(object));
    object.finish();
  }
  return values;
}

template <class Value, class Read>
std::vector<Value> read_list(StrictObject& object, std::string_view key, std::string_view file,
                             const Read& read) {
  return read_list<Value>(object.array(key), file, object.pointer_to(key), read);
}

std::vector<LayoutChange> read_changes(StrictObject& object, std::string_view list,
                                       std::string_view file, std::string_view what,
                                       std::string_view from, std::string_view to) {
  return read_list<LayoutChange>(object, list, file, [&](StrictObject& change) {
    return LayoutChange{change.text(what), change.text(from), change.text(to)};
  });
}

Explained read_explained(StrictObject& object, std::string_view file) {
  Explained explained;
  explained.layout = object.text("layout");
  explained.nodes = read_list<ExplainedNode>(object, "nodes", file, [](StrictObject& one) {
    ExplainedNode node;
    node.node = one.text("node");
    node.chosen = one.text("chosen");
    node.chosen_us = one.number("chosen_us");
    node.local_us = one.number_or_null("local_us");
    node.global_us = one.number_or_null("global_us");
    return node;
  });
  return explained;
}

OtherPlan read_other_plan(StrictObject& object, std::string_view file) {
  OtherPlan plan;
  plan.file = object.text("file");
  plan.objective_us = object.number_or_null("objective_us");
  plan.gap_us = object.number_or_null("gap_us");
  plan.gap_percent = object.number_or_null("gap_percent");
  plan.nodes = read_changes(object, "nodes", file, "node", "here", "there");
  return plan;
}

FurtherPlan read_further_plan(StrictObject& object) {
  FurtherPlan plan;
  plan.objective_us = object.number("objective_us");
  plan.changes = object.text("changes");
  return plan;
}

FurtherPin read_further_pin(StrictObject& object) {
  FurtherPin pin;
  pin.pin = object.text("pin");
  pin.is_tried = object.flag("tried");
  pin.objective_us = object.number_or_null("objective_us");
  pin.lower_bound_us = object.number_or_null("lower_bound_us");
  pin.dearer_us = object.number_or_null("dearer_us");
  pin.optimal = object.flag("optimal");
  pin.changed = object.texts("changed");
  pin.conflict = object.texts("conflict");
  return pin;
}

RegrettedChoice read_choice(StrictObject& object) {
  RegrettedChoice choice;
  choice.node = object.text("node");
  choice.to_node = object.text("to_node");
  choice.regret_us = object.number("regret_us");
  if (choice.node != choice.to_node) return choice;
  choice.op = object.text("op");
  choice.chosen = object.text("chosen");
  choice.instead = object.text("instead");
  choice.dearer_there_us = object.number_or_null("dearer_there_us");
  choice.cheaper_later_us = object.number_or_null("cheaper_later_us");
  return choice;
}

GreedyPlan read_greedy(StrictObject& object, std::string_view file) {
  GreedyPlan greedy;
  greedy.objective_us = object.number_or_null("objective_us");
  greedy.gap_us = object.number_or_null("gap_us");
  greedy.gap_percent = object.number_or_null("gap_percent");
  greedy.stuck_at = object.text_or_null("stuck_at");
  const json& parts = object.value("breakdown_us");
  if (!parts.is_null()) {
    greedy.breakdown = read_breakdown(parts, file, object.pointer_to("breakdown_us"));
  }
  greedy.choices = read_list<RegrettedChoice>(object, "regret", file, read_choice);
  greedy.other_regret_us = object.number_or_null("other_regret_us");
  if (greedy.objective_us.has_value() != greedy.stuck_at.empty()) {
    object.fail("objective_us", "expected a number, or else stuck_at says where");
  }
  if (greedy.objective_us.has_value() != greedy.breakdown.has_value()) {
    object.fail("breakdown_us", "expected with objective_us, and only then");
  }
  return greedy;
}

std::optional<PlanFlipPoint> read_flip(StrictObject& range, std::string_view side,
                                       std::string_view file) {
  const json& value = range.value(side);
  if (value.is_null()) return std::nullopt;
  StrictObject object(value, file, range.pointer_to(side));
  PlanFlipPoint point;
  point.factor = object.number("factor");
  point.objective_us = object.number("objective_us");
  point.nodes = read_changes(object, "nodes", file, "node", "here", "there");
  object.finish();
  return point;
}

BudgetCurveAnswer read_curve(StrictObject& curves, std::string_view key, std::string_view file) {
  StrictObject object(curves.object(key), file, curves.pointer_to(key));
  BudgetCurveAnswer curve;
  curve.parameters = object.integer("parameters", 0);
  curve.complete = object.flag("complete");
  curve.given_up = object.flag("given_up");
  curve.points = read_list<BudgetPoint>(object, "points", file, [&](StrictObject& one) {
    BudgetPoint point;
    point.kept = one.number("kept");
    point.kept_bytes = one.number("kept_bytes");
    point.objective_us = one.number("objective_us");
    point.found_by = one.text("found_by");
    point.is_next_known = one.flag("next_is_known");
    point.changes = read_changes(one, "changes", file, "parameter", "from", "to");
    return point;
  });
  object.finish();
  return curve;
}

RecipeCost read_recipe(StrictObject& object, std::string_view file) {
  RecipeCost cost;
  cost.recipe = object.text("recipe");
  cost.title = object.text("title");
  cost.misfit = object.text_or_null("misfit");
  cost.objective_us = object.number_or_null("objective_us");
  if (cost.objective_us.has_value() != cost.misfit.empty()) {
    object.fail("objective_us", "expected a number, or else misfit says why there is none");
  }
  if (!cost.misfit.empty()) return cost;
  cost.above_percent = object.number_or_null("above_optimum_percent");
  cost.kernels_us = object.number("kernels_us");
  StrictObject moves(object.object("moves_us"), file, object.pointer_to("moves_us"));
  cost.parameters_us = moves.number("parameters");
  cost.gradients_us = moves.number("gradients");
  cost.activations_us = moves.number("activations");
  moves.finish();
  cost.kept_bytes = object.number("kept_bytes");
  cost.greedy_us = object.number_or_null("greedy_us");
  return cost;
}

}  // namespace

SolutionBreakdown read_breakdown(const json& value, std::string_view file, std::string pointer) {
  StrictObject parts(value, file, std::move(pointer));
  SolutionBreakdown breakdown;
  breakdown.compute_us = parts.number("compute");
  breakdown.communication_us = parts.number("communication");
  breakdown.transition_us = parts.number("transition");
  parts.finish();
  return breakdown;
}

SolutionAnswers read_solution_answers(const json& value, std::string_view file,
                                      std::string pointer) {
  StrictObject object(value, file, std::move(pointer));
  SolutionAnswers answers;
  const auto with_object = [&](std::string_view key, const auto& read) {
    StrictObject part(object.object(key), file, object.pointer_to(key));
    auto answer = read(part);
    part.finish();
    return answer;
  };
  if (object.has("explain")) {
    answers.explained =
        with_object("explain", [&](StrictObject& part) { return read_explained(part, file); });
  }
  if (object.has("diff")) {
    answers.diff =
        with_object("diff", [&](StrictObject& part) { return read_other_plan(part, file); });
  }
  if (object.has("best")) {
    answers.best = read_list<FurtherPlan>(object, "best", file, read_further_plan);
  }
  if (object.has("then")) {
    answers.then = read_list<FurtherPin>(object, "then", file, read_further_pin);
  }
  if (object.has("greedy")) {
    answers.greedy =
        with_object("greedy", [&](StrictObject& part) { return read_greedy(part, file); });
  }
  if (object.has("sensitivity")) {
    answers.sensitivity =
        read_list<ParameterRange>(object, "sensitivity", file, [&](StrictObject& range) {
          return ParameterRange{range.text("parameter"), read_flip(range, "below", file),
                                read_flip(range, "above", file)};
        });
  }
  if (object.has("budget_curves")) {
    answers.budget_curves = with_object("budget_curves", [&](StrictObject& curves) {
      return BudgetCurves{read_curve(curves, "fractions", file), read_curve(curves, "bytes", file)};
    });
  }
  if (object.has("recipes")) {
    answers.recipes = read_list<RecipeCost>(
        object, "recipes", file, [&](StrictObject& recipe) { return read_recipe(recipe, file); });
  }
  object.finish();
  return answers;
}

}  // namespace shardlab::reports

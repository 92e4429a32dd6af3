#include "reports/records/solution_record.h"

#include <utility>

namespace shardlab::reports {
namespace {

using nlohmann::json;

SolvedMove read_move(const json& value, std::string_view file, std::string pointer) {
  StrictObject object(value, file, std::move(pointer));
  SolvedMove move;
  move.input = object.integer("input", 0);
  move.of = object.text("of");
  move.tensor = object.text("tensor");
  move.from = object.text("from");
  move.to = object.text("to");
  move.us = object.number("us");
  object.finish();
  return move;
}

SolvedNode read_node(const json& value, std::string_view file, std::string pointer) {
  StrictObject object(value, file, std::move(pointer));
  SolvedNode node;
  node.node = object.text("node");
  node.kind = object.text("kind");
  node.phase = object.text("phase");
  node.op = object.text("op");
  if (object.has("layer") && !object.value("layer").is_null()) {
    node.layer = object.integer("layer", 0);
  }
  node.layout_in = object.texts("layout_in");
  node.layout_out = object.text("layout_out");
  node.compute_us = object.number("compute_us");
  node.communication_us = object.number("communication_us");
  if (object.has("transition_us")) node.transition_us = object.number("transition_us");
  if (object.has("moves")) {
    const json& moves = object.array("moves");
    for (std::size_t i = 0; i < moves.size(); ++i) {
      node.moves.push_back(
          read_move(moves[i], file, object.pointer_to("moves") + "/" + std::to_string(i)));
    }
  }
  node.margin_us = object.number_or_null("margin_us");
  object.finish();
  return node;
}

SolutionConstraints read_constraints(const json& value, std::string_view file) {
  StrictObject object(value, file, "/result/constraints");
  SolutionConstraints constraints;
  constraints.recipe = object.text_or_null("recipe");
  constraints.pins = object.integer("pins", 0);
  constraints.pin_inputs = object.text_or_null("pin_inputs");
  constraints.pin_outputs = object.text_or_null("pin_outputs");
  constraints.parameter_budget = object.number_or_null("parameter_budget");
  constraints.memory_budget_bytes = object.number_or_null("memory_budget_bytes");
  object.finish();
  return constraints;
}

}  // namespace

SolutionRecord read_solution_record(ResultRecord record, std::string_view file) {
  SolutionRecord solution;
  static_cast<ResultRecord&>(solution) = std::move(record);
  StrictObject object(solution.result, file, "/result");
  solution.program = object.text("program");
  solution.mesh = object.text("mesh");
  solution.stack = object.text("stack");
  if (object.has("constraints")) {
    solution.constraints = read_constraints(object.object("constraints"), file);
  }
  solution.nodes = object.integer("nodes", 0);
  solution.edges = object.integer("edges", 0);
  solution.strategies = object.integer("strategies", 0);
  solution.objective_us = object.number_or_null("objective_us");
  solution.lower_bound_us = object.number_or_null("lower_bound_us");
  solution.optimal = object.flag("optimal");
  solution.optima = object.number_or_null("optima");
  solution.infeasible = object.text_or_null("infeasible");
  solution.notes = object.texts("notes");
  if (!object.value("breakdown_us").is_null()) {
    solution.breakdown =
        read_breakdown(object.object("breakdown_us"), file, "/result/breakdown_us");
  }
  const json& assignment = object.array("assignment");
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    solution.assignment.push_back(
        read_node(assignment[i], file, "/result/assignment/" + std::to_string(i)));
  }
  if (object.has("executed_us")) solution.executed_us = object.number_or_null("executed_us");
  if (object.has("unexecutable")) solution.unexecutable = object.text_or_null("unexecutable");
  if (object.has("answers")) {
    solution.answers = read_solution_answers(object.object("answers"), file, "/result/answers");
  }
  if (solution.objective_us.has_value() != solution.infeasible.empty() ||
      solution.objective_us.has_value() != solution.breakdown.has_value()) {
    object.fail("objective_us", "expected with breakdown_us, or else infeasible says why");
  }
  object.finish();
  return solution;
}

}  // namespace shardlab::reports

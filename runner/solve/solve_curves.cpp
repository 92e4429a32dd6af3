#include "runner/solve/solve_curves.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/base/text_table.h"
#include "strategies/programs/parameter_weights.h"
#include "strategies/solvers/budget_curve.h"

namespace shardlab {
namespace {

// Parameters that can have only one layout, whatever the budget.
std::vector<std::size_t> fixed_parameters(const ProgramSolution& solved) {
  std::vector<std::size_t> fixed;
  for (std::size_t n = 0; n < solved.program.nodes.size(); ++n) {
    if (solved.program.nodes[n].kind != NodeKind::kParameter) continue;
    const std::span<const double> costs = solved.network.costs(static_cast<int>(n));
    if (std::ranges::count_if(costs, [](double cost) { return cost < kForbidden; }) == 1) {
      fixed.push_back(n);
    }
  }
  return fixed;
}

struct Curve {
  ProblemBudget budget;
  std::size_t parameters = 0;  // number of parameters in the sum
  BudgetCurve curve;
};

Curve curve_of(const ProgramSolution& solved, ProblemBudget budget, std::size_t points) {
  Budget weights{.name = budget.name, .limit = 0, .weights = {}};
  for (const ProblemBudget::Weights& own : budget.weights) {
    weights.weights.push_back({own.variable, own.of_value});
  }
  BudgetCurve curve = budget_curve(solved.network, weights, {.points = points});
  const std::size_t parameters = budget.weights.size();
  return {std::move(budget), parameters, std::move(curve)};
}

// A parameter whose layout differs from that at the previous point.
struct Change {
  std::string parameter;
  std::string from;
  std::string to;
};
std::vector<Change> changes_of(const ProgramSolution& solved, const Assignment& before,
                               const Assignment& after) {
  std::vector<Change> changes;
  for (std::size_t n = 0; n < solved.program.nodes.size(); ++n) {
    const ProgramNode& node = solved.program.nodes[n];
    if (node.kind != NodeKind::kParameter || before[n] == after[n]) continue;
    changes.push_back({node.label.empty() ? node.name : node.label,
                       layouts_of(solved, n, to_index(before[n])).out,
                       layouts_of(solved, n, to_index(after[n])).out});
  }
  return changes;
}

std::string changes_text(std::span<const Change> changes) {
  constexpr std::size_t kFew = 2;
  std::vector<std::string> texts;
  for (const Change& change : changes.first(std::min(changes.size(), kFew))) {
    texts.push_back(change.parameter + " " + change.from + " -> " + change.to);
  }
  if (changes.size() > kFew) {
    texts.push_back("and " + std::to_string(changes.size() - kFew) + " more");
  }
  return join(texts);
}

std::string_view found_by(const CurvePoint& point) { return point.on_hull ? "hull" : "search"; }

nlohmann::json curve_json(const ProgramSolution& solved, const Curve& curve,
                          const ProblemBudget& memory) {
  nlohmann::json points = nlohmann::json::array();
  for (std::size_t i = 0; i < curve.curve.points.size(); ++i) {
    const CurvePoint& point = curve.curve.points[i];
    nlohmann::json changes = nlohmann::json::array();
    if (i > 0) {
      for (const Change& change :
           changes_of(solved, curve.curve.points[i - 1].assignment, point.assignment)) {
        changes.push_back(
            {{"parameter", change.parameter}, {"from", change.from}, {"to", change.to}});
      }
    }
    points.push_back({{"kept", static_cast<double>(point.weight) * curve.budget.unit},
                      {"kept_bytes", memory.amount(point.assignment)},
                      {"objective_us", point.objective_us},
                      {"found_by", found_by(point)},
                      {"next_is_known", point.is_next_known},
                      {"changes", std::move(changes)}});
  }
  return {{"parameters", curve.parameters},
          {"complete", curve.curve.is_complete()},
          {"given_up", curve.curve.given_up},
          {"points", std::move(points)}};
}

std::string curve_text(const ProgramSolution& solved, const Curve& curve,
                       const ProblemBudget& memory, const TextStyle& style) {
  const bool is_memory = curve.budget.name == memory.name;
  TextTable table(style, {is_memory ? "kept bytes" : "kept fractions", "objective us", "kept MB",
                          "found by", "changes"});
  const std::vector<CurvePoint>& points = curve.curve.points;
  std::vector<double> all_kept;
  for (const CurvePoint& point : points) {
    all_kept.push_back(static_cast<double>(point.weight) * curve.budget.unit);
  }
  const std::vector<std::string> fractions = style.figures(all_kept);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double kept_mb = memory.amount(points[i].assignment) / 1e6;
    table.add({is_memory ? format_fixed(all_kept[i], 0) : fractions[i],
               style.figure(points[i].objective_us), style.figure(kept_mb),
               std::string(found_by(points[i])),
               i == 0 ? ""
                      : changes_text(
                            changes_of(solved, points[i - 1].assignment, points[i].assignment))});
    if (!points[i].is_next_known) table.add({"...", "", "", "", "more points may lie here"});
  }
  const std::string count = std::to_string(curve.parameters);
  std::string out =
      is_memory ? "  cost against bytes that a device keeps of " + count +
                      " parameters, their gradients and Adam's state"
                : "  cost against the sum of the kept fractions of " + count + " parameters";
  if (curve.curve.given_up) {
    out += "; searches between corners of the hull were given up because they take too long";
  }
  out += ":\n";
  return out + table.text();
}

}  // namespace

SolveAnswer budget_curve_answer(const ProgramSolution& solved, const DeviceMesh& mesh,
                                std::size_t points, const TextStyle& style) {
  const ProblemBudget memory = memory_weights(solved.program, mesh, solved.strategies);
  const Curve fractions = curve_of(
      solved, fraction_weights(solved.program, mesh, solved.strategies, fixed_parameters(solved)),
      points);
  const Curve bytes = curve_of(solved, memory, points);
  return {"budget_curves",
          {{"fractions", curve_json(solved, fractions, memory)},
           {"bytes", curve_json(solved, bytes, memory)}},
          curve_text(solved, fractions, memory, style) + curve_text(solved, bytes, memory, style)};
}

}  // namespace shardlab

#include "runner/solve/solution.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/base/terminal.h"

namespace shardlab {
namespace {

nlohmann::json moves_json(const ProgramSolution& solved, std::span<const NodeMove> moves) {
  nlohmann::json json = nlohmann::json::array();
  for (const NodeMove& move : moves) {
    json.push_back({{"input", move.argument},
                    {"of", solved.program.nodes[move.producer].name},
                    {"tensor", move.tensor},
                    {"from", move.from},
                    {"to", move.to},
                    {"us", move.us}});
  }
  return json;
}

nlohmann::json assignment_json(const ProgramSolution& solved) {
  const std::vector<std::vector<NodeMove>> moves = moves_of(solved);
  nlohmann::json nodes = nlohmann::json::array();
  for (std::size_t n = 0; n < solved.program.nodes.size(); ++n) {
    const NodeLayouts layouts = chosen_layouts(solved, n);
    const auto compute = solved.prices.compute_us(solved.strategies.class_of[n]);
    const std::vector<double>& margins = solved.solution.margins;
    nodes.push_back(
        {{"node", solved.program.nodes[n].name},
         {"op", solved.program.nodes[n].op},
         {"layout_in", layouts.in},
         {"layout_out", layouts.out},
         {"runs", solved.problem.runs[n]},
         {"compute_us", solved.problem.runs[n] * compute[to_index(solved.solution.assignment[n])]},
         {"communication_us", sum_us(moves[n], &NodeMove::communication_us)},
         {"transition_us", sum_us(moves[n], &NodeMove::transition_us)},
         {"moves", moves_json(solved, moves[n])},
         {"margin_us", margins.empty() ? nlohmann::json(nullptr) : finite_or_null(margins[n])}});
  }
  return nodes;
}

}  // namespace

std::string changes_of(const ProgramSolution& solved, const Assignment& assignment) {
  std::vector<std::string> changes;
  for (int v = 0; v < solved.network.variables(); ++v) {
    if (assignment[to_index(v)] == solved.solution.assignment[to_index(v)]) continue;
    changes.push_back(solved.network.name(v) + " " +
                      solved.network.value_name(v, assignment[to_index(v)]));
  }
  return join(changes, ", ");
}

std::vector<std::string> conflict_of(const ProgramSolution& solved,
                                     std::span<const ConflictPart> conflict,
                                     const std::vector<Restriction>& restrictions) {
  std::vector<std::string> texts;
  for (const ConflictPart& part : conflict) {
    std::string& text = texts.emplace_back(describe(part, solved.network, restrictions));
    if (part.kind != ConflictPart::Kind::kVariable) continue;
    const std::vector<std::string>& by = solved.problem.forbidden_by[to_index(part.index)];
    if (!by.empty()) text += " (" + join(by) + ")";
  }
  return texts;
}
std::vector<std::string> conflict_of(const ProgramSolution& solved) {
  return conflict_of(solved, solved.solution.conflict, {});
}

NodeLayouts layouts_of(const ProgramSolution& solved, std::size_t node, std::size_t strategy) {
  const NodeClass& kind = solved.strategies.of(node);
  NodeLayouts layouts;
  for (std::size_t t = 0; t < kind.tensors.size(); ++t) {
    const LayoutId id = solved.strategies.layout(kind, strategy, t);
    const std::string& text = solved.strategies.layouts.text(id);
    if (t < kind.outputs) {
      layouts.out += (layouts.out.empty() ? "" : ", ") + text;
    } else {
      layouts.in.push_back(text);
    }
  }
  return layouts;
}
NodeLayouts chosen_layouts(const ProgramSolution& solved, std::size_t node) {
  return layouts_of(solved, node, to_index(solved.solution.assignment[node]));
}

std::vector<std::vector<NodeMove>> moves_of(const ProgramSolution& solved) {
  std::vector<std::vector<NodeMove>> moves(solved.program.nodes.size());
  const ShardingProblem& problem = solved.problem;
  const auto layout = [&](std::size_t node, std::size_t tensor) {
    return solved.strategies.layout(solved.strategies.of(node),
                                    to_index(solved.solution.assignment[node]), tensor);
  };
  for (std::size_t e = 0; e < problem.priced.size(); ++e) {
    const PricedEdge& priced = problem.priced[e];
    const auto row = to_index(solved.solution.assignment[priced.reader]);
    const auto column = to_index(solved.solution.assignment[priced.producer]);
    const int runs = problem.runs[priced.reader];
    const double communication_us = runs * solved.prices.table(priced.table).at(row, column);
    const LayoutId from = layout(priced.producer, priced.output);
    const LayoutId to =
        layout(priced.reader, solved.strategies.of(priced.reader).outputs + priced.argument);
    const double transition_us = from == to ? 0.0 : runs * solved.prices.transition_us();
    if (from == to && communication_us <= 0.0) continue;
    const std::uint32_t meta = solved.strategies.meta(priced.producer, priced.output);
    moves[priced.reader].push_back({.producer = priced.producer,
                                    .argument = priced.argument,
                                    .tensor = solved.strategies.metas[meta].text(),
                                    .from = solved.strategies.layouts.text(from),
                                    .to = solved.strategies.layouts.text(to),
                                    .us = communication_us + transition_us,
                                    .communication_us = communication_us,
                                    .transition_us = transition_us});
  }
  return moves;
}

double sum_us(std::span<const NodeMove> moves, double NodeMove::*time) {
  double us = 0.0;
  for (const NodeMove& move : moves) us += move.*time;
  return us;
}

Assignment sources_of(const Program& program, const Assignment& assignment) {
  Assignment sources(assignment.size(), -1);
  for (std::size_t n = 0; n < sources.size(); ++n) {
    if (program.nodes[n].is_source()) sources[n] = assignment[n];
  }
  return sources;
}

std::optional<double> percent_above(double us, double least_us) {
  if (!(least_us > 0.0) || !(us < kForbidden)) return std::nullopt;
  return 100.0 * (us / least_us - 1.0);
}

nlohmann::json breakdown_json(const Breakdown& parts) {
  return {{"compute", parts.compute_us},
          {"communication", parts.communication_us},
          {"transition", parts.transition_us}};
}

std::string breakdown_text(const Breakdown& parts, const TextStyle& style) {
  return "kernels " + style.figure(parts.compute_us) + " us, communication " +
         style.figure(parts.communication_us) + " us, transitions " +
         style.figure(parts.transition_us) + " us";
}

std::string bounds_text(const ExactSolution& solution, const TextStyle& style,
                        const std::string& interval) {
  const std::array bounds = {solution.objective, solution.lower_bound};
  std::vector<std::string> figures = style.figures(bounds);
  if (solution.optimal && style.digits != kAllDigits)
    figures[1] = figures[0] = style.figure(bounds[0]);
  return figures[0] + " us" + interval + ", lower bound " + figures[1] + " us";
}

std::string why_infeasible(const ProgramSolution& solved) {
  if (!solved.misfit.empty()) return solved.misfit;
  return "no assignment satisfies all of: " + join(conflict_of(solved), "; ");
}

nlohmann::json solution_json(const ProgramSolution& solved) {
  const ExactSolution& solution = solved.solution;
  std::size_t strategies = 0;
  for (int v = 0; v < solved.network.variables(); ++v)
    strategies += to_index(solved.network.values(v));
  const auto when_solved = [&](double value) {
    return solution.feasible ? finite_or_null(value) : nlohmann::json(nullptr);
  };
  nlohmann::json json = {
      {"program", solved.program.name},
      {"nodes", solved.program.nodes.size()},
      {"edges", solved.problem.priced.size()},
      {"strategies", strategies},
      {"objective_us", when_solved(solution.objective)},
      {"lower_bound_us", when_solved(solution.lower_bound)},
      {"optimal", solution.feasible && solution.optimal},
      {"optima", solution.optima ? finite_or_null(*solution.optima) : nlohmann::json(nullptr)},
      {"infeasible",
       solution.feasible ? nlohmann::json(nullptr) : nlohmann::json(why_infeasible(solved))},
      {"conflict", conflict_of(solved)},
      {"notes", solved.strategies.notes},
      {"breakdown_us", nullptr},
      {"assignment", nlohmann::json::array()},
      {"best", nlohmann::json::array()}};
  if (!solution.feasible) return json;
  if (!solution.optimal && solution.objective > 0.0) {
    json["gap"] = (solution.objective - solution.lower_bound) / solution.objective;
  }
  const Breakdown parts =
      solved.problem.breakdown(solved.strategies, solved.prices, solution.assignment);
  json["breakdown_us"] = breakdown_json(parts);
  json["assignment"] = assignment_json(solved);
  for (const RankedAssignment& ranked : solution.best) {
    json["best"].push_back(
        {{"objective_us", ranked.objective}, {"changes", changes_of(solved, ranked.assignment)}});
  }
  return json;
}

}  // namespace shardlab

#include "runner/commands/solved_program.h"

#include <algorithm>

#include "costmodel/text.h"
#include "runner/terminal.h"

namespace shardlab {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// What reaching each node's inputs costs, transitions included, by node.
std::vector<double> communication_of(const SolvedProgram& solved) {
  std::vector<double> us(solved.program.nodes.size(), 0.0);
  const ShardingProblem& problem = solved.problem;
  for (std::size_t e = 0; e < problem.priced.size(); ++e) {
    const ProblemEdge& edge = problem.edges[e];
    const ProblemTable& table = problem.tables[at(edge.table)];
    const auto row = at(solved.solution.assignment[at(edge.first)]);
    const auto column = at(solved.solution.assignment[at(edge.second)]);
    us[problem.priced[e].reader] += table.costs[row * at(table.columns) + column];
  }
  return us;
}

nlohmann::json assignment_json(const SolvedProgram& solved) {
  const std::vector<double> communication = communication_of(solved);
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
         {"compute_us", compute[at(solved.solution.assignment[n])]},
         {"communication_us", communication[n]},
         {"margin_us", margins.empty() ? nlohmann::json(nullptr) : finite_or_null(margins[n])}});
  }
  return nodes;
}

// Values that differ from the optimum's, "node value, ...".
std::string changes_of(const SolvedProgram& solved, const Assignment& assignment) {
  std::vector<std::string> changes;
  for (int v = 0; v < solved.network.variables(); ++v) {
    if (assignment[at(v)] == solved.solution.assignment[at(v)]) continue;
    changes.push_back(solved.network.name(v) + " " +
                      solved.network.value_name(v, assignment[at(v)]));
  }
  return join(changes, ", ");
}

std::vector<std::string> conflict_of(const SolvedProgram& solved) {
  std::vector<std::string> texts;
  for (const ConflictPart& part : solved.solution.conflict) {
    texts.push_back(describe(part, solved.network, {}));
  }
  return texts;
}

}  // namespace

NodeLayouts layouts_of(const SolvedProgram& solved, std::size_t node, std::size_t row) {
  const NodeClass& kind = solved.strategies.of(node);
  NodeLayouts layouts;
  for (std::size_t t = 0; t < kind.tensors.size(); ++t) {
    const LayoutId id = solved.strategies.layout(kind, row, t);
    const std::string text = Layout(solved.strategies.layouts[id]).text();
    if (t < kind.outputs) {
      layouts.out += (layouts.out.empty() ? "" : ", ") + text;
    } else {
      layouts.in.push_back(text);
    }
  }
  return layouts;
}
NodeLayouts chosen_layouts(const SolvedProgram& solved, std::size_t node) {
  return layouts_of(solved, node, at(solved.solution.assignment[node]));
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
nlohmann::json percent_json(std::optional<double> percent) {
  return percent ? nlohmann::json(*percent) : nlohmann::json(nullptr);
}
std::string percent_text(std::optional<double> percent, int digits) {
  return percent ? format_fixed(*percent, digits) : "-";
}

std::string note_on_free_kernels(const ProgramStrategies& strategies, const ProgramPrices& prices,
                                 double objective_us) {
  if (objective_us != 0.0) return "";
  for (std::uint32_t c = 0; c < strategies.classes.size(); ++c) {
    if (std::ranges::any_of(prices.compute_us(c), [](double us) { return us > 0.0; })) return "";
  }
  return "this stack prices no kernels: replicating everything is free";
}

nlohmann::json breakdown_json(const Breakdown& parts) {
  return {{"compute", parts.compute_us},
          {"communication", parts.communication_us},
          {"transition", parts.transition_us}};
}

std::string breakdown_text(const Breakdown& parts) {
  return "kernels " + format_fixed(parts.compute_us, 3) + " us, communication " +
         format_fixed(parts.communication_us, 3) + " us, transitions " +
         format_fixed(parts.transition_us, 3) + " us";
}

nlohmann::json solved_json(const SolvedProgram& solved) {
  const ExactSolution& solution = solved.solution;
  std::size_t strategies = 0;
  for (int v = 0; v < solved.network.variables(); ++v) strategies += at(solved.network.values(v));
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
      {"optimal", solution.optimal},
      {"optima", solution.optima ? finite_or_null(*solution.optima) : nlohmann::json(nullptr)},
      {"infeasible", solution.feasible ? nlohmann::json(nullptr)
                                       : nlohmann::json("no assignment heeds: " +
                                                        join(conflict_of(solved), "; "))},
      {"conflict", conflict_of(solved)},
      {"notes", solved.strategies.notes},
      {"breakdown_us", nullptr},
      {"assignment", nlohmann::json::array()},
      {"best", nlohmann::json::array()}};
  if (!solution.feasible) return json;
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

std::string solved_text(const SolvedProgram& solved) {
  const ExactSolution& solution = solved.solution;
  std::string out = solved.program.name + ": " + std::to_string(solved.program.nodes.size()) +
                    " nodes, " + std::to_string(solved.problem.priced.size()) + " edges\n";
  for (const std::string& note : solved.strategies.notes) out += "  note: " + note + "\n";
  if (!solution.feasible) {
    return out + "  infeasible: no assignment heeds: " + join(conflict_of(solved), "; ") + "\n";
  }
  const Breakdown parts =
      solved.problem.breakdown(solved.strategies, solved.prices, solution.assignment);
  out += "  objective " + format_double(solution.objective) + " us, lower bound " +
         format_double(solution.lower_bound) + " us" +
         (solution.optimal ? ", optimal" : ", not proved optimal") + "\n";
  out += "  " + breakdown_text(parts) + "\n";
  if (solution.optima) out += "  optima " + format_double(*solution.optima) + "\n";
  std::vector<std::string> header = {"node", "op", "inputs", "outputs", "kernel us", "moves us"};
  if (!solution.margins.empty()) header.emplace_back("margin us");
  TextTable table(header);
  const std::vector<double> communication = communication_of(solved);
  for (std::size_t n = 0; n < solved.program.nodes.size(); ++n) {
    const NodeLayouts layouts = chosen_layouts(solved, n);
    const auto compute = solved.prices.compute_us(solved.strategies.class_of[n]);
    std::vector<std::string> row = {solved.program.nodes[n].name,
                                    solved.program.nodes[n].is_source()
                                        ? solved.program.nodes[n].label
                                        : solved.program.nodes[n].op,
                                    join(layouts.in, ", "),
                                    layouts.out,
                                    format_fixed(compute[at(solution.assignment[n])], 3),
                                    format_fixed(communication[n], 3)};
    if (!solution.margins.empty()) {
      row.push_back(solution.margins[n] < kForbidden ? format_fixed(solution.margins[n], 3)
                                                     : "no other value");
    }
    table.add(std::move(row));
  }
  out += table.text();
  for (std::size_t i = 1; i < solution.best.size(); ++i) {
    out += "  number " + std::to_string(i + 1) + ": " + format_double(solution.best[i].objective) +
           " us, " + changes_of(solved, solution.best[i].assignment) + "\n";
  }
  return out;
}

}  // namespace shardlab

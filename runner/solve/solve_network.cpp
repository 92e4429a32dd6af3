#include "runner/solve/solve_network.h"

#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/base/read_file.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/config/read_json.h"
#include "runner/solve/solution.h"
#include "strategies/solvers/cfn.h"
#include "strategies/solvers/exact.h"

namespace shardlab {
namespace {

struct NetworkTimes {
  double read_ms = 0.0;
  double solve_ms = 0.0;
  double total_ms = 0.0;
};

nlohmann::json values_json(const CostNetwork& network, const Assignment& assignment) {
  nlohmann::json values = nlohmann::json::object();
  for (int v = 0; v < network.variables(); ++v) {
    values[network.name(v)] = network.value_name(v, assignment[to_index(v)]);
  }
  return values;
}

std::vector<std::string> conflict_of(const CostNetwork& network, const ExactSolution& solution) {
  std::vector<std::string> texts;
  for (const ConflictPart& part : solution.conflict) texts.push_back(describe(part, network, {}));
  return texts;
}

std::string infeasible_text(const CfnProblem& problem, const ExactSolution& solution) {
  if (!solution.feasible) {
    return "no assignment satisfies all of: " + join(conflict_of(problem.network, solution), "; ");
  }
  return "the cheapest assignment costs " + format_double(solution.objective) +
         ", and has to cost less than " + format_double(problem.below);
}

nlohmann::json network_json(const CfnProblem& problem, const ExactSolution& solution, bool solved) {
  const CostNetwork& network = problem.network;
  std::size_t strategies = 0;
  for (int v = 0; v < network.variables(); ++v) {
    strategies += network.domain_names(v).size();
  }
  const auto if_feasible = [&](double value) {
    return solution.feasible ? finite_or_null(value) : nlohmann::json(nullptr);
  };
  nlohmann::json json = {
      {"problem", problem.name},
      {"nodes", network.variables()},
      {"edges", network.edges().size()},
      {"strategies", strategies},
      {"objective_us", if_feasible(solution.objective)},
      {"lower_bound_us", if_feasible(solution.lower_bound)},
      {"optimal", solved && solution.optimal},
      {"optima", solution.optima ? finite_or_null(*solution.optima) : nlohmann::json(nullptr)},
      {"infeasible",
       solved ? nlohmann::json(nullptr) : nlohmann::json(infeasible_text(problem, solution))},
      {"conflict", conflict_of(network, solution)}};
  nlohmann::json assignment = nlohmann::json::array();
  nlohmann::json best = nlohmann::json::array();
  if (solved) {
    for (int v = 0; v < network.variables(); ++v) {
      const auto at = static_cast<std::size_t>(v);
      const int value = solution.assignment[at];
      assignment.push_back(
          {{"node", network.name(v)},
           {"layout_out", network.value_name(v, value)},
           {"cost_us", network.costs(v)[to_index(value)]},
           {"margin_us", solution.margins.empty() ? nlohmann::json(nullptr)
                                                  : finite_or_null(solution.margins[at])}});
    }
    for (const RankedAssignment& ranked : solution.best) {
      if (!(ranked.objective < problem.below)) continue;
      best.push_back({{"objective_us", ranked.objective},
                      {"assignment", values_json(network, ranked.assignment)}});
    }
  }
  json["assignment"] = std::move(assignment);
  json["best"] = std::move(best);
  return json;
}

std::string network_text(const CfnProblem& problem, const ExactSolution& solution, bool solved,
                         const TextStyle& style) {
  const CostNetwork& network = problem.network;
  std::string out = printable(problem.name) + ": " + std::to_string(network.variables()) +
                    " variables, " + std::to_string(network.edges().size()) + " edges\n";
  if (!solved) {
    return out + "  " + style.painted(Tone::kBad, "infeasible:") + " " +
           printable(infeasible_text(problem, solution)) + "\n";
  }
  out += "  objective " + bounds_text(solution, style) + ", " +
         (solution.optimal ? style.painted(Tone::kGood, "optimal") : "not proved optimal") + "\n";
  if (solution.optima) out += "  optima " + format_double(*solution.optima) + "\n";
  std::vector<std::string> header = {"variable", "value", "cost us"};
  if (!solution.margins.empty()) header.emplace_back("margin us");
  TextTable table(style, header);
  for (int v = 0; v < network.variables(); ++v) {
    const auto at = static_cast<std::size_t>(v);
    const int value = solution.assignment[at];
    std::vector<std::string> row = {network.name(v), network.value_name(v, value),
                                    style.figure(network.costs(v)[to_index(value)])};
    if (!solution.margins.empty()) {
      row.push_back(solution.margins[at] < kForbidden ? style.figure(solution.margins[at])
                                                      : "no other value");
    }
    table.add(std::move(row));
  }
  out += table.text();
  std::vector<double> objectives;
  for (const RankedAssignment& ranked : solution.best) objectives.push_back(ranked.objective);
  const std::vector<std::string> figures = style.figures(objectives, kRoundingNoise);
  for (std::size_t i = 1; i < solution.best.size(); ++i) {
    if (!(solution.best[i].objective < problem.below)) break;
    std::string changes;
    for (int v = 0; v < network.variables(); ++v) {
      const int value = solution.best[i].assignment[to_index(v)];
      if (value == solution.assignment[to_index(v)]) continue;
      changes +=
          (changes.empty() ? "" : ", ") + network.name(v) + " " + network.value_name(v, value);
    }
    out += "  number " + std::to_string(i + 1) + ": " + figures[i] + " us, " + printable(changes) +
           "\n";
  }
  return out;
}

// Leaves out the margins of values with which no assignment costs less than the limit.
void keep_margins_below(double below, ExactSolution& solution) {
  for (double& margin : solution.margins) {
    if (!(solution.objective + margin < below)) margin = kForbidden;
  }
}

}  // namespace

void solve_network(const SolveNetworkArguments& arguments, Session& session) {
  const StopWatch total;
  NetworkTimes times;
  const CfnProblem problem = read_cfn(
      parse_json(strict_cfn(read_text_file(arguments.file)), arguments.file), {arguments.file, ""});
  times.read_ms = total.ms();
  const StopWatch solving;
  ExactOptions options;
  options.jobs = session.threads();
  options.margins = arguments.margins;
  options.best = arguments.best;
  ExactSolution solution = ExactSolver(problem.network).solve(options);
  keep_margins_below(problem.below, solution);
  times.solve_ms = solving.ms();
  const bool solved = solution.feasible && solution.objective < problem.below;
  if (!solved) session.exit_code = kGateSaidNo;
  times.total_ms = total.ms();
  if (session.json()) {
    nlohmann::json json = network_json(problem, solution, solved);
    if (!session.no_timing) {
      json["timing"] = {
          {"read_ms", times.read_ms}, {"solve_ms", times.solve_ms}, {"total_ms", times.total_ms}};
    }
    session.print(json);
    return;
  }
  const TextStyle style = session.style();
  std::string text = network_text(problem, solution, solved, style);
  if (!session.no_timing) {
    text += "  read " + style.rounded(times.read_ms, 1) + " ms, solved and checked " +
            style.rounded(times.solve_ms, 1) + " ms\n";
  }
  session.print(text);
}

}  // namespace shardlab

// shardlab solve: the cheapest assignment of a cost-function network, with its proof.
#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/commands/commands.h"
#include "runner/config/read_json.h"
#include "runner/session/run_reports.h"
#include "runner/solve/solve_program.h"
#include "strategies/solvers/cfn.h"
#include "strategies/solvers/exact.h"

namespace shardlab {
namespace {

struct SolveArguments {
  std::string problem;
  SolveProgramArguments program;
  SolveAnswers answers;
  std::vector<CommandOption> of_programs;  // options that a network does not take
  std::vector<CommandOption> of_plans;     // options that --compare-recipes does not take
};

struct Times {
  double read_ms = 0.0;
  double solve_ms = 0.0;
  double total_ms = 0.0;
};

nlohmann::json number_or_null(bool there, double value) {
  return there ? finite_or_null(value) : nlohmann::json(nullptr);
}

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
    return "no assignment heeds: " + join(conflict_of(problem.network, solution), "; ");
  }
  return "the cheapest assignment costs " + format_double(solution.objective) +
         ", and has to cost less than " + format_double(problem.below);
}

nlohmann::json solution_json(const CfnProblem& problem, const ExactSolution& solution,
                             bool solved) {
  const CostNetwork& network = problem.network;
  std::size_t strategies = 0;
  for (int v = 0; v < network.variables(); ++v) {
    strategies += network.domain_names(v).size();
  }
  nlohmann::json json = {
      {"problem", problem.name},
      {"nodes", network.variables()},
      {"edges", network.edges().size()},
      {"strategies", strategies},
      {"objective_us", number_or_null(solution.feasible, solution.objective)},
      {"lower_bound_us", number_or_null(solution.feasible, solution.lower_bound)},
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

std::string solution_text(const CfnProblem& problem, const ExactSolution& solution, bool solved) {
  const CostNetwork& network = problem.network;
  std::string out = printable(problem.name) + ": " + std::to_string(network.variables()) +
                    " variables, " + std::to_string(network.edges().size()) + " edges\n";
  if (!solved) return out + "  infeasible: " + printable(infeasible_text(problem, solution)) + "\n";
  out += "  objective " + format_double(solution.objective) + " us, lower bound " +
         format_double(solution.lower_bound) + " us" +
         (solution.optimal ? ", optimal" : ", not proved optimal") + "\n";
  if (solution.optima) out += "  optima " + format_double(*solution.optima) + "\n";
  std::vector<std::string> header = {"variable", "value", "cost us"};
  if (!solution.margins.empty()) header.emplace_back("margin us");
  TextTable table(header);
  for (int v = 0; v < network.variables(); ++v) {
    const auto at = static_cast<std::size_t>(v);
    const int value = solution.assignment[at];
    std::vector<std::string> row = {network.name(v), network.value_name(v, value),
                                    format_fixed(network.costs(v)[to_index(value)], 4)};
    if (!solution.margins.empty()) {
      row.push_back(solution.margins[at] < kForbidden ? format_fixed(solution.margins[at], 4)
                                                      : "no other value");
    }
    table.add(std::move(row));
  }
  out += table.text();
  for (std::size_t i = 1; i < solution.best.size(); ++i) {
    if (!(solution.best[i].objective < problem.below)) break;
    std::string changes;
    for (int v = 0; v < network.variables(); ++v) {
      const int value = solution.best[i].assignment[to_index(v)];
      if (value == solution.assignment[to_index(v)]) continue;
      changes +=
          (changes.empty() ? "" : ", ") + network.name(v) + " " + network.value_name(v, value);
    }
    out += "  number " + std::to_string(i + 1) + ": " + format_double(solution.best[i].objective) +
           " us, " + printable(changes) + "\n";
  }
  return out;
}

void solve_network(const SolveArguments& arguments, Session& session) {
  const StopWatch total;
  Times times;
  const CfnProblem problem =
      read_cfn(parse_json(strict_cfn(read_text_file(arguments.problem)), arguments.problem),
               {arguments.problem, ""});
  times.read_ms = total.ms();
  const StopWatch solving;
  ExactOptions options;
  options.jobs = session.threads();
  options.margins = arguments.answers.margins;
  options.best = arguments.answers.best;
  const ExactSolution solution = ExactSolver(problem.network).solve(options);
  times.solve_ms = solving.ms();
  const bool solved = solution.feasible && solution.objective < problem.below;
  if (!solved) session.exit_code = kGateSaidNo;
  times.total_ms = total.ms();
  if (session.json()) {
    nlohmann::json json = solution_json(problem, solution, solved);
    if (!session.no_timing) {
      json["timing"] = {
          {"read_ms", times.read_ms}, {"solve_ms", times.solve_ms}, {"total_ms", times.total_ms}};
    }
    session.print(json);
    return;
  }
  std::string text = solution_text(problem, solution, solved);
  if (!session.no_timing) {
    text += "  read " + format_fixed(times.read_ms, 1) + " ms, solved and checked " +
            format_fixed(times.solve_ms, 1) + " ms\n";
  }
  session.print(text);
}

void run_solve(const SolveArguments& arguments, Session& session) {
  if (arguments.problem.empty() == arguments.program.program.empty()) {
    throw InputError("solve: found " +
                     std::string(arguments.problem.empty() ? "neither a PROGRAM nor --problem"
                                                           : "both a PROGRAM and --problem") +
                     "; valid: one of them");
  }
  if (arguments.problem.empty()) {
    if (arguments.program.mesh.empty()) throw InputError("solve: --mesh is required");
    for (const CommandOption& option : arguments.of_plans) {
      if (!arguments.program.compare_recipes || !option.is_given()) continue;
      throw InputError("solve: " + option.name() +
                       " is of one plan; --compare-recipes prints none");
    }
    solve_program(arguments.program, arguments.answers, session);
    return;
  }
  for (const CommandOption& option : arguments.of_programs) {
    if (!option.is_given()) continue;
    throw InputError("solve: " + option.name() + " is of programs; --problem has none");
  }
  session.expect_no_sets("solve --problem");
  if (writes_report(session)) {
    throw InputError("solve: --out and --summary are of programs; --problem has no layers to show");
  }
  solve_network(arguments, session);
}

}  // namespace

void add_solve_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<SolveArguments>();
  const Command command = root.subcommand(
      "solve",
      "the best layouts of a whole program, or of a cost-function network, with their proof\n"
      "  shardlab solve llama.json --mesh 8x8 --parameter-budget 0.015625 --pin-inputs \"S(0)R\"\n"
      "  shardlab solve --problem network.cfn --margins");
  SolveProgramArguments& program = arguments->program;
  command.option("program", program.program, "shipped name, or path of shardlab/program/1");
  command.option("--problem", arguments->problem,
                 "instead: a cost-function network in toulbar2's JSON format (.cfn)");
  const auto of_programs = [&](const CommandOption& option) {
    arguments->of_programs.push_back(option);
    return option;
  };
  of_programs(command.option("--mesh", program.mesh, "8x8, or dp=8,tp=8"));
  of_programs(command.option("--stack", program.stack, "shipped name or path")).show_default();
  const auto of_plans = [&](const CommandOption& option) { arguments->of_plans.push_back(option); };
  of_plans(
      of_programs(command.option("--recipe", program.recipe,
                                 "an expert's layouts, the rest is solved: shipped name or path")));
  of_programs(command.option("--pin", program.pins,
                             "NAME=LAYOUT of a node, or a parameter's or input's "
                             "label in place of its name; may be repeated"))
      .repeatable();
  of_programs(command.option("--pin-inputs", program.pin_inputs, "layout of all inputs"));
  of_programs(command.option("--pin-outputs", program.pin_outputs, "layout of all outputs"));
  of_programs(command.option("--parameter-budget", program.parameter_budget,
                             "kept fractions of parameters sum to at most the sum of "
                             "max(least possible, this): AutoParallel's rule"))
      .check(number_from(0.0, 1.0));
  of_programs(command.option("--memory-budget", program.memory_budget,
                             "bytes of a device for parameters, gradients and Adam's state: "
                             "80GB, 8GiB"))
      .check(not_empty());
  of_programs(
      command.flag("--strided", program.strided, "products and views may keep strided shards"));
  of_plans(
      of_programs(command.option("--explain", arguments->answers.explain,
                                 "where this layout is available, its price there with all else as "
                                 "chosen, and the best total with it")));
  of_plans(of_programs(
      command.option("--diff", arguments->answers.diff,
                     "price another plan, and say where it differs: JSON of solve, or of "
                     "AutoParallel")));
  of_plans(of_programs(
      command
          .option("--then", arguments->answers.then,
                  "NAME=LAYOUT: then pin this too and solve again, from where it ended; may be "
                  "repeated")
          .repeatable()));
  of_programs(command.flag(
      "--compare-recipes", program.compare_recipes,
      "instead of a plan: all shipped recipes beside the optimum, and where their time goes"));
  of_plans(
      of_programs(command.flag("--greedy", arguments->answers.greedy,
                               "also walk node by node without looking ahead, as DTensor does at "
                               "run time, and say which choices that regrets")));
  of_plans(of_programs(command.flag(
      "--sensitivity", arguments->answers.sensitivity,
      "also how far latency, bandwidth and the launch floor of kernels may move, from a 16th to 16 "
      "times, before the plan changes")));
  of_plans(of_programs(command
                           .option("--budget-curve", arguments->answers.budget_curve,
                                   "also what the optimum costs when a device may keep "
                                   "less and less: at most this many points, "
                                   "unless the hull has more corners")
                           .check(integer_from(2, 1000))));
  of_plans(of_programs(command.option("--export-problem", program.export_problem,
                                      "write the network as .cfn as well")));
  of_plans(
      command.flag("--margins", arguments->answers.margins,
                   "how much dearer the best with another value is, per variable; count optima"));
  of_plans(of_programs(command.flag(
      "--nodes", arguments->answers.all_nodes,
      "print every node; else a program of more than 60 is summed up: its sources, what moves")));
  of_plans(command.option("--best", arguments->answers.best, "this many different assignments")
               .check(integer_from(1, 100000))
               .show_default());
  add_report_options(command, session);
  of_programs(add_topology_option(command, session));
  add_common_options(command, session);
  command.runs([arguments, &session] { run_solve(*arguments, session); });
}

}  // namespace shardlab

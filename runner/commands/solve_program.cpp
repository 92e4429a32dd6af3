#include "runner/commands/solve_program.h"

#include <iostream>

#include "costmodel/text.h"
#include "runner/commands/solve_answers.h"
#include "runner/commands/solve_curves.h"
#include "runner/commands/solve_recipes.h"
#include "runner/commands/solve_sensitivity.h"
#include "runner/commands/solve_then.h"
#include "runner/run_reports.h"
#include "runner/simulation.h"
#include "runner/solution_report.h"
#include "runner/write_file.h"
#include "strategies/sharding_network.h"
#include "strategies/solvers/cfn.h"
#include "strategies/solvers/exact.h"

namespace shardlab {
namespace {

struct Times {
  double read_ms = 0.0;
  double enumerate_ms = 0.0;
  double price_ms = 0.0;
  double solve_ms = 0.0;
  double total_ms = 0.0;
};

Placements placements_of(const std::string& option, std::string_view text, const DeviceMesh& mesh) {
  return parse_option(option, [&] {
    const Layout layout = Layout::parse(text, mesh.ndim());
    return layout.placements;
  });
}

// --pin and --then: NAME=LAYOUT.
NodePin pin_of(const std::string& option, const std::string& text, const DeviceMesh& mesh) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    throw InputError(option + ": found \"" + text + "\"; valid: NAME=LAYOUT");
  }
  return {text.substr(0, equals), placements_of(option, text.substr(equals + 1), mesh)};
}

ProblemOptions options_of(const SolveProgramArguments& arguments, const SolveAnswers& answers,
                          const DeviceMesh& mesh) {
  ProblemOptions options;
  for (const std::string& pin : arguments.pins) {
    options.pins.push_back(pin_of("--pin", pin, mesh));
  }
  if (!arguments.pin_inputs.empty()) {
    options.pin_inputs = placements_of("--pin-inputs", arguments.pin_inputs, mesh);
  }
  if (!arguments.pin_outputs.empty()) {
    options.pin_outputs = placements_of("--pin-outputs", arguments.pin_outputs, mesh);
  }
  if (answers.budget_curve && (arguments.parameter_budget || !arguments.memory_budget.empty())) {
    throw InputError("solve: found --budget-curve, which goes through all budgets, and --" +
                     std::string(arguments.parameter_budget ? "parameter" : "memory") +
                     "-budget; valid: one of them");
  }
  options.parameter_budget = arguments.parameter_budget;
  if (!arguments.memory_budget.empty()) {
    options.memory_budget_bytes =
        parse_option("--memory-budget", [&] { return parse_bytes(arguments.memory_budget); });
  }
  return options;
}

// What the report has no section for.
void remark_on_left_out(const std::vector<Answer>& answers, const Session& session) {
  if (answers.empty() || session.quiet) return;
  std::vector<std::string> options;
  for (const Answer& answer : answers) options.push_back(answer.option);
  std::cerr << "shardlab: the report is of the plan alone, without what is asked for by "
            << join(options) << "\n";
}

}  // namespace

void solve_program(const SolveProgramArguments& arguments, const SolveAnswers& answers,
                   Session& session) {
  const StopWatch total;
  Times times;
  prepare_out(session);
  const ConfigStore store = session.store();
  const DeviceMesh mesh = parse_option("--mesh", [&] { return DeviceMesh::parse(arguments.mesh); });
  ProblemOptions options = options_of(arguments, answers, mesh);
  const Stack stack = store.stack(arguments.stack);
  const Topology topology = store.topology(session.topology);
  const StopWatch reading;
  const Program program = store.program(arguments.program);
  times.read_ms = reading.ms();
  if (!arguments.recipe.empty()) {
    options.masks = store.recipe(arguments.recipe).masks(program, mesh);
  }

  const StopWatch enumerating;
  const ProgramStrategies strategies =
      enumerate_strategies(program, mesh, {.rules = stack.rules, .strided = arguments.strided});
  times.enumerate_ms = enumerating.ms();

  const StopWatch pricing;
  StackEvaluator evaluator(stack, topology);
  const ProgramPrices prices(program, strategies, evaluator, mesh);
  times.price_ms = pricing.ms();

  const PricedProgram priced{stack, topology, mesh, program, strategies, prices};
  if (arguments.compare_recipes) {
    compare_recipes(priced, options, session);
    return;
  }

  const StopWatch solving;
  const ShardingProblem problem = make_problem(program, mesh, strategies, prices, options);
  const CostNetwork network = network_of(problem);
  if (!arguments.export_problem.empty()) {
    write_file(arguments.export_problem, write_cfn(network, program.name));
  }
  ExactSolver solver(network);
  const ExactSolution solution = solver.solve({.restrictions = {},
                                               .jobs = session.threads(),
                                               .margins = answers.margins,
                                               .best = answers.best});
  times.solve_ms = solving.ms();
  times.total_ms = total.ms();
  if (!solution.feasible) session.exit_code = kGateSaidNo;
  const SolvedProgram solved{program, strategies, prices, problem, network, solution};
  std::vector<Answer> more;
  if (!answers.explain.empty()) {
    const std::string layout = Layout(placements_of("--explain", answers.explain, mesh)).text();
    if (solution.feasible) more.push_back(explain_answer(solved, layout, solver, session));
  }
  if (solution.feasible && !answers.diff.empty()) {
    more.push_back(diff_answer(solved, answers.diff));
  }
  if (solution.feasible && answers.budget_curve) {
    more.push_back(budget_curve_answer(solved, mesh, *answers.budget_curve));
  }
  if (solution.feasible && answers.sensitivity) {
    more.push_back(sensitivity_answer(solved, priced, options));
  }
  if (solution.feasible && !answers.then.empty()) {
    std::vector<ThenPin> pins;
    for (const std::string& pin : answers.then) {
      const NodePin read = pin_of("--then", pin, mesh);
      pins.push_back({read.node, Layout(read.layout).text()});
    }
    more.push_back(then_answer(solved, pins, solver, session));
    if (more.back().says_no) session.exit_code = kGateSaidNo;
  }
  if (solution.feasible && answers.greedy) more.push_back(greedy_answer(solved, solver));
  nlohmann::json json = solved_json(solved);
  std::vector<std::string> notes;
  if (solution.feasible) {
    const std::string note = note_on_free_kernels(strategies, prices, solution.objective);
    if (!note.empty()) notes.push_back(note);
  }
  if (!network.budgets().empty() && (answers.margins || answers.best > 1)) {
    notes.emplace_back(
        "a budget ties parameters together: margins, the number of optima and further plans are "
        "not worked out within it");
  }
  for (const std::string& note : notes) json["notes"].push_back(note);
  if (writes_report(session)) {
    write_solution(session, {.program = program,
                             .stack = stack,
                             .topology = topology,
                             .mesh = mesh.text(),
                             .recipe = arguments.recipe,
                             .options = options,
                             .result = json,
                             .wall_ms = times.total_ms});
    remark_on_left_out(more, session);
    if (session.summary) return;
  }
  if (session.json()) {
    for (Answer& answer : more) json[answer.key] = std::move(answer.json);
    json["stack"] = stack.name;
    json["topology"] = topology.name();
    json["mesh"] = mesh.text();
    json["recipe"] = text_or_null(arguments.recipe);
    if (!session.no_timing) {
      json["timing"] = {{"read_ms", times.read_ms},
                        {"enumerate_ms", times.enumerate_ms},
                        {"price_ms", times.price_ms},
                        {"solve_ms", times.solve_ms},
                        {"total_ms", times.total_ms}};
    }
    session.print(json);
    return;
  }
  std::string text = solved_text(solved);
  for (const std::string& note : notes) text += "  note: " + note + "\n";
  for (const Answer& answer : more) text += answer.text;
  if (!session.no_timing) {
    text += "  read " + format_fixed(times.read_ms, 1) + " ms, enumerated " +
            format_fixed(times.enumerate_ms, 1) + " ms, priced " + format_fixed(times.price_ms, 1) +
            " ms, solved and checked " + format_fixed(times.solve_ms, 1) + " ms, " +
            format_fixed(times.total_ms, 1) + " ms in all\n";
  }
  session.print(text + report_line(session));
}

}  // namespace shardlab

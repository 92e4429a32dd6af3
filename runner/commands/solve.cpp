// shardlab solve: the best layouts of a whole program, with their proof; or, with --problem, what
// solve-network prints.
#include <memory>

#include "runner/commands/commands.h"
#include "runner/session/run_reports.h"
#include "runner/solve/solve_network.h"
#include "runner/solve/solve_program.h"

namespace shardlab {
namespace {

struct SolveArguments {
  std::string problem;
  SolveProgramArguments program;
  SolveAnswers answers;
  std::vector<CommandOption> of_programs;  // options that a network does not take
  std::vector<CommandOption> of_plans;     // options that --compare-recipes does not take
};

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
  solve_network({.file = arguments.problem,
                 .margins = arguments.answers.margins,
                 .best = arguments.answers.best},
                session);
}

}  // namespace

void add_solve_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<SolveArguments>();
  const Command command = root.subcommand(
      "solve",
      "the best layouts of a whole program, with their proof\n"
      "  shardlab solve llama.json --mesh 8x8 --parameter-budget 0.015625 --pin-inputs \"S(0)R\"");
  SolveProgramArguments& program = arguments->program;
  command.option("program", program.program, "shipped name, or path of shardlab/program/1");
  command.option("--problem", arguments->problem,
                 "instead: a cost-function network, as solve-network takes it");
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

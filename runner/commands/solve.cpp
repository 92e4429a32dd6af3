// shardlab solve: finds the best layouts of a whole program, and proves that they are the best.
// With --problem it does the same as solve-network.
#include <memory>

#include "runner/commands/commands.h"
#include "runner/config/program_stack.h"
#include "runner/evaluation/flatten_advice_text.h"
#include "runner/session/layout_names.h"
#include "runner/session/run_reports.h"
#include "runner/solve/solve_network.h"
#include "runner/solve/solve_program.h"

namespace shardlab {
namespace {

struct SolveArguments {
  std::string problem;
  SolveProgramArguments program;
  SolveQuestions asked;
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
                       " is for one plan, but --compare-recipes prints none; valid: without it");
    }
    solve_program(arguments.program, arguments.asked, session);
    return;
  }
  for (const CommandOption& option : arguments.of_programs) {
    if (!option.is_given()) continue;
    throw InputError("solve: " + option.name() +
                     " is for a PROGRAM, not for --problem; valid: without it");
  }
  session.expect_no_sets("solve --problem");
  if (writes_report(session)) {
    throw InputError(
        "solve: --out and --summary are for a PROGRAM, but --problem has no layers to show; valid: "
        "without them");
  }
  solve_network(
      {.file = arguments.problem, .margins = arguments.asked.margins, .best = arguments.asked.best},
      session);
}

// Options that define the problem and its constraints.
void add_constraints(const Command& command, SolveProgramArguments& program) {
  command.option("--mesh", program.mesh, "8x8, or dp=8,tp=8");
  program.flattened.add(command);
  command.option("--stack", program.stack, std::string(kProgramStackHelp));
  command.option("--recipe", program.recipe,
                 "an expert's layouts, around which the rest is solved: shipped name or path");
  command
      .option("--pin", program.pins,
              "NAME=LAYOUT: the node NAME gets this layout; a parameter or an input can be named "
              "by its label; may be repeated")
      .repeatable();
  command.option("--pin-inputs", program.pin_inputs, "layout of all inputs");
  command.option("--pin-outputs", program.pin_outputs, "layout of all outputs");
  command
      .option("--parameter-budget", program.parameter_budget,
              "bound on the fractions of the parameters that a device keeps: their sum is at most "
              "the sum of max(least possible fraction, this number), as in AutoParallel")
      .check(number_from(0.0, 1.0));
  command
      .option(
          "--memory-budget", program.memory_budget,
          "bytes that a step may take on a device at its peak, such as 80GB or 8GiB; default: the "
          "memory of the topology's device")
      .check(not_empty());
  command.flag("--no-fit", program.no_fit,
               "print the best plan even if its peak exceeds the device's memory");
  command
      .option(
          "--recompute", program.recompute,
          "what the backward pass computes again instead of keeping it: none, full (each block of "
          "the model), selective (all but attention and every second matrix product), every:N "
          "(every N-th block), full:N or selective:N (the first N blocks), or auto: as little as "
          "the memory allows")
      .show_default();
  command.flag(
      "--reshard-after-forward", program.reshard_after_forward,
      "gather weights again in the backward pass instead of keeping them, as fully_shard does");
  command
      .option("--units", program.units,
              "whether the simulated step gathers weights and reduces gradients by the block, as "
              "fully_shard does, or one by one: block or none")
      .check(one_of({"block", "none"}))
      .show_default();
  command
      .option("--prefetch", program.prefetch,
              "how many units ahead the simulated step gathers weights")
      .check(integer_from(0, 1000))
      .show_default();
  command
      .option("--objective", program.objective,
              "sum: the sum of kernels and moves, which is proved to be minimal; step: then also "
              "search for a plan with a shorter simulated step")
      .check(one_of({"sum", "step"}))
      .show_default();
  command.flag("--strided", program.strided, "let products and views keep strided shards");
  command.flag("--tie-repeated", program.tie_repeated,
               "give nodes at the same place of repeated layers the same strategy, as AutoParallel "
               "does by default");
  command.flag("--narrow-reduction", program.narrow_reduction,
               "let gradients be reduced before the cast that widens them, as AutoParallel does "
               "where reduce_dtype is not wider than param_dtype");
  program.replicas.add(command);
  command
      .option("--time-limit", program.time_limit_s,
              "seconds for bounds, search and margins, after which the best plan so far is taken, "
              "with a proved bound on what an optimum could save, and margins that are not known "
              "are left out; pricing is not counted")
      .check(number_from(0.0, 1e6));
}

// Options that ask for something besides the plan, or instead of it.
void add_questions(const Command& command, SolveProgramArguments& program, SolveQuestions& asked) {
  command.option("--explain", asked.explain,
                 "say where this layout is available, what it costs there if all else stays as "
                 "chosen, and the best total with it");
  command.option(
      "--diff", asked.diff,
      "price another plan, from the JSON of solve or of AutoParallel, and say where it differs");
  command
      .option("--then", asked.then,
              "NAME=LAYOUT: then pin this node too, and solve again from where the last solve "
              "ended; may be repeated")
      .repeatable();
  command.flag(
      "--compare-recipes", program.compare_recipes,
      "instead of a plan, print all shipped recipes beside the optimum, and where their time goes");
  command.flag("--greedy", asked.greedy,
               "also walk node by node without looking ahead, as DTensor does at run time, and say "
               "which of the choices made so cost most; with --compare-recipes, the step of each "
               "recipe if DTensor decides it so");
  command.flag("--sensitivity", asked.sensitivity,
               "also say how far latency, bandwidth and the launch floor of kernels may move, from "
               "a 16th to 16 times, before the plan changes");
  command.flag("--advise-flattened", asked.advises_flattening, std::string(kAdviseFlattenedHelp));
  command
      .option("--budget-curve", asked.budget_curve,
              "also say what the optimum costs when a device may keep less and less, at no more "
              "points than this, unless the convex hull has more corners")
      .check(integer_from(2, 1000));
  command.option("--export-problem", program.export_problem,
                 "file to write the network to, as .cfn");
  command.flag("--margins", asked.margins,
               "say for each variable how much dearer the best assignment with another value is; "
               "also count the optima");
  command.flag("--nodes", asked.all_nodes,
               "print every node; without this flag, a program of more than 60 nodes is "
               "summarised by its sources and moves");
  command.option("--best", asked.best, "print this many different assignments, the cheapest first")
      .check(integer_from(1, 100000))
      .show_default();
}

}  // namespace

void add_solve_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<SolveArguments>();
  const Command command = root.subcommand(
      "solve",
      "find the best layouts of a whole program, and prove that they are\n"
      "  shardlab solve mlp --mesh 2x4 --pin-inputs \"S(0)R\"\n"
      "  shardlab program llama3-8b --layers 2 --out llama.json\n"
      "  shardlab solve llama.json --mesh 8x8 --parameter-budget 0.015625 --pin-inputs \"S(0)R\"");
  command.option("program", arguments->program.program,
                 "shipped name, or path of shardlab/program/1");
  command.option("--problem", arguments->problem,
                 "instead of a program: a cost-function network, as solve-network takes it");
  add_constraints(command, arguments->program);
  add_questions(command, arguments->program, arguments->asked);
  add_report_options(command, session);
  add_topology_option(command, session);
  add_torch_names_option(command, session);
  add_common_options(command, session, {.jobs = true, .sets = true, .digits = true});
  for (const char* name : {"--mesh",
                           "--stack",
                           "--recipe",
                           "--pin",
                           "--pin-inputs",
                           "--pin-outputs",
                           "--parameter-budget",
                           "--memory-budget",
                           "--no-fit",
                           "--recompute",
                           "--reshard-after-forward",
                           "--units",
                           "--prefetch",
                           "--objective",
                           "--strided",
                           "--tie-repeated",
                           "--narrow-reduction",
                           "--time-limit",
                           "--require-bitwise-replicas",
                           "--explain",
                           "--diff",
                           "--then",
                           "--compare-recipes",
                           "--greedy",
                           "--sensitivity",
                           "--advise-flattened",
                           "--flatten",
                           "--budget-curve",
                           "--export-problem",
                           "--nodes",
                           "--topology",
                           "--torch-names"}) {
    arguments->of_programs.push_back(command.declared(name));
  }
  for (const char* name :
       {"--recipe", "--explain", "--diff", "--then", "--sensitivity", "--advise-flattened",
        "--budget-curve", "--export-problem", "--margins", "--nodes", "--best"}) {
    arguments->of_plans.push_back(command.declared(name));
  }
  command.runs([arguments, &session] { run_solve(*arguments, session); });
}

}  // namespace shardlab

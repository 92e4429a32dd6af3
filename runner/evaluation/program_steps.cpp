#include "runner/evaluation/program_steps.h"

#include <algorithm>
#include <utility>

#include "runner/base/read_file.h"
#include "runner/config/in_program.h"
#include "runner/config/program_stack.h"
#include "runner/config/read_json.h"
#include "runner/config/saved_plan.h"
#include "runner/evaluation/flatten_advice_text.h"
#include "runner/session/session.h"
#include "strategies/programs/program_prices.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/programs/sharding_network.h"
#include "strategies/programs/sharding_problem.h"
#include "strategies/select/evaluator.h"
#include "strategies/solvers/exact.h"
#include "strategies/steps/eager_step.h"
#include "strategies/steps/flatten_advice.h"

namespace shardlab {
namespace {

// The layouts of all sources in the best plan under the reference.
std::vector<Placements> solved_sources(const ConfigStore& store,
                                       const ProgramCaseArguments& arguments,
                                       const Program& program, const DeviceMesh& mesh,
                                       const Stack& reference, const Topology& topology) {
  ProblemOptions options;
  if (!arguments.recipe.empty()) {
    options.masks = store.recipe(arguments.recipe).masks(program, mesh);
  }
  options.runs = runs_under(program, blocks_of(program), arguments.recomputation);
  StackEvaluator evaluator(reference, topology);
  const ProgramStrategies strategies = in_program(arguments.program, [&] {
    return enumerate_strategies(program, mesh,
                                {.rules = reference.rules.set_for("compare --program")});
  });
  const ProgramPrices prices(program, strategies, evaluator, mesh, arguments.jobs);
  const ShardingProblem problem = make_problem(program, mesh, strategies, prices, options);
  const CostNetwork network = network_of(problem);
  const ExactSolution best = ExactSolver(network).solve(
      {.jobs = arguments.jobs, .explain = false, .patience = {.takes_gap = true}});
  if (!best.feasible) {
    throw InputError("compare --program: no plan of " + program.name + " on " + mesh.text() +
                     " satisfies " +
                     (arguments.recipe.empty() ? "its own pairs" : "recipe " + arguments.recipe));
  }
  return first_outputs(placements_of(strategies, best.assignment));
}

std::vector<Placements> saved_sources(const std::string& file, const Program& program,
                                      const DeviceMesh& mesh) {
  return first_outputs(
      read_placements(parse_json(read_text_file(file), file), file, program, mesh));
}

// The baseline's run, without which there is nothing to compare. Its errors name the stack.
EagerRun run_of_baseline(EagerStep& eager, EagerStack& stack, const std::string& program) {
  try {
    return eager.run(stack);
  } catch (const NodeError& error) {
    throw InputError("compare --program: the baseline's decisions cannot run " + program + ": " +
                     error.what());
  }
}

reports::StepFlip record_of(const StepFlip& flip, const Program& program) {
  return {.node = program.nodes[flip.node].name,
          .count = flip.count,
          .op = flip.question.op(),
          .inputs = flip.question.inputs(),
          .baseline = flip.baseline,
          .candidate = flip.candidate,
          .delta_step_us = flip.delta_step_us,
          .delta_peak_bytes = flip.delta_peak_bytes,
          .delta_local_us = flip.delta_local_us,
          .delta_sum_us = flip.delta_sum_us,
          .followers = flip.followers};
}

// The decisions that a stack makes are its own on each mesh, since it may count on merged steps.
reports::FlattenedMeshes flattened_meshes(const ProgramCase& program, const Stack& stack,
                                          const Stack& reference, const Topology& topology) {
  const FlattenAdvice advice = advise_flattening(program.mesh, [&](const DeviceMesh& flattened) {
    EagerStack decides(stack, topology);
    return EagerStep(program.program, flattened, program.sources, reference, topology,
                     program.step_options)
        .run(decides)
        .step_us;
  });
  return record_of(advice, stack.name);
}

}  // namespace

ProgramCase read_program(const ConfigStore& store, const ProgramCaseArguments& arguments,
                         const Stack& reference, const Topology& topology) {
  if (!arguments.recipe.empty() && !arguments.plan.empty()) {
    throw InputError(
        "compare: found --recipe and --plan, which both say how parameters are laid out; valid: "
        "one of them");
  }
  expect_kernel_prices(reference, "compare --program");
  ProgramCase made;
  made.step_options.recomputation = arguments.recomputation;
  made.mesh = arguments.mesh;
  made.program = store.program(arguments.program);
  if (!arguments.plan.empty()) {
    made.sources = saved_sources(arguments.plan, made.program, made.mesh);
    made.sources_text = "the plan " + arguments.plan;
  } else {
    made.sources = solved_sources(store, arguments, made.program, made.mesh, reference, topology);
    made.sources_text = "the best plan under " + reference.name;
    if (!arguments.recipe.empty()) made.sources_text += " with recipe " + arguments.recipe;
  }
  return made;
}

Suite suite_of(const ProgramCase& program, const Stack& baseline, const Stack& reference,
               const Topology& topology) {
  EagerStack stack(baseline, topology);
  EagerStep eager(program.program, program.mesh, program.sources, reference, topology,
                  program.step_options);
  Suite suite;
  suite.name = program.program.name;
  suite.source = "the questions that " + program.program.name + " asks " + baseline.name + " on " +
                 program.mesh.text() + ", op by op; parameters and inputs are laid out as in " +
                 program.sources_text;
  const EagerRun run = run_of_baseline(eager, stack, program.program.name);
  for (const AskedQuestion& asked : run.questions) {
    Question question = asked.decision->question;
    question.count = static_cast<std::int64_t>(asked.nodes.size());
    suite.questions.push_back(std::move(question));
  }
  return suite;
}

std::vector<reports::StepComparison> compare_steps(const ProgramCase& program,
                                                   std::span<const Stack> stacks,
                                                   const Stack& reference, const Topology& topology,
                                                   bool advises_flattening) {
  EagerStep eager(program.program, program.mesh, program.sources, reference, topology,
                  program.step_options);
  EagerStack baseline(stacks[0], topology);
  const EagerRun before = run_of_baseline(eager, baseline, program.program.name);
  std::vector<reports::StepComparison> steps;
  std::optional<reports::FlattenedMeshes> of_baseline;
  if (advises_flattening) of_baseline = flattened_meshes(program, stacks[0], reference, topology);
  for (const Stack& stack : stacks.subspan(1)) {
    EagerStack candidate(stack, topology);
    reports::StepComparison& step = steps.emplace_back();
    step.program = program.program.name;
    step.mesh = program.mesh.text();
    step.sources = program.sources_text;
    step.candidate = stack.name;
    step.step_us.baseline = before.step_us;
    step.peak_bytes.baseline = before.peak_bytes;
    step.device_bytes = topology.device().memory_gib * kBytesPerGiB;
    try {
      const EagerRun after = eager.run(candidate);
      step.step_us.candidate = after.step_us;
      step.peak_bytes.candidate = after.peak_bytes;
    } catch (const NodeError& error) {
      step.cannot_run = error.what();
    }
    if (of_baseline) {
      step.flattened_meshes.push_back(*of_baseline);
      if (step.cannot_run.empty()) {
        step.flattened_meshes.push_back(flattened_meshes(program, stack, reference, topology));
      }
    }
    for (const StepFlip& flip : eager.flips(baseline, candidate)) {
      step.flips.push_back(record_of(flip, program.program));
    }
  }
  return steps;
}

}  // namespace shardlab

#include "runner/solve/solve_program.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>

#include "runner/base/interrupt.h"
#include "runner/base/optional_values.h"
#include "runner/base/stop_watch.h"
#include "runner/base/write_file.h"
#include "runner/config/configs.h"
#include "runner/config/in_program.h"
#include "runner/config/program_stack.h"
#include "runner/evaluation/interval_text.h"
#include "runner/evaluation/measured_groups.h"
#include "runner/session/run_reports.h"
#include "runner/session/unstoppable_work.h"
#include "runner/solve/executed_plan.h"
#include "runner/solve/pictured_plan.h"
#include "runner/solve/plan_search.h"
#include "runner/solve/record_solution.h"
#include "runner/solve/search_time.h"
#include "runner/solve/solution_text.h"
#include "runner/solve/solve_answers.h"
#include "runner/solve/solve_curves.h"
#include "runner/solve/solve_flattening.h"
#include "runner/solve/solve_recipes.h"
#include "runner/solve/solve_sensitivity.h"
#include "runner/solve/solve_then.h"
#include "runner/solve/step_figures.h"
#include "sim/placement_text.h"
#include "strategies/programs/program_graph.h"
#include "strategies/programs/pruned_strategies.h"
#include "strategies/solvers/cfn.h"
#include "strategies/solvers/exact.h"

namespace shardlab {
namespace {

struct Times {
  double read_ms = 0.0;
  double enumerate_ms = 0.0;
  bool prunes = false;  // whether bounds left out strategies
  double prune_ms = 0.0;
  double price_ms = 0.0;
  double solve_ms = 0.0;
  double total_ms = 0.0;
};

// `tensor_ndim` is the number of dims of the tensor that has this layout, if it is known.
Placements placements_of(const std::string& option, std::string_view text, const DeviceMesh& mesh,
                         std::optional<int> tensor_ndim) {
  return parse_option(option, [&] {
    const Layout layout = tensor_ndim ? parse_layout_of(text, mesh.ndim(), *tensor_ndim)
                                      : Layout::parse(text, mesh.ndim());
    if (layout.has_registered()) {
      throw TextError("layout", text, 0,
                      "a layout of R, S(d), _S(d,f) and P(op), because programs have no registered "
                      "placements");
    }
    return encode_order_as_strided(layout, mesh).placements;
  });
}

// --pin and --then: NAME=LAYOUT. A layout may have other equals signs: Shard(dim=0).
NodePin pin_of(const std::string& option, const std::string& text, const DeviceMesh& mesh,
               const Program& program) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    throw InputError(option + ": found \"" + text + "\"; valid: NAME=LAYOUT");
  }
  const std::string name = text.substr(0, equals);
  const std::optional<std::size_t> node = find_by_name_or_label(program, name);
  std::optional<int> tensor_ndim;
  if (node && !program.nodes[*node].outputs.empty()) {
    tensor_ndim = program.nodes[*node].outputs[0].ndim();
  }
  return {name, placements_of(option, text.substr(equals + 1), mesh, tensor_ndim)};
}

// The number of dims of all nodes of this kind; nothing if they differ.
std::optional<int> ndim_of_all(const Program& program, NodeKind kind) {
  std::optional<int> ndim;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != kind) continue;
    for (const TensorMeta& meta : node.outputs) {
      if (ndim && *ndim != meta.ndim()) return std::nullopt;
      ndim = meta.ndim();
    }
  }
  return ndim;
}

ProblemOptions options_of(const SolveProgramArguments& arguments, const SolveQuestions& asked,
                          const DeviceMesh& mesh, const Program& program) {
  ProblemOptions options;
  for (const std::string& pin : arguments.pins) {
    options.pins.push_back(pin_of("--pin", pin, mesh, program));
  }
  if (!arguments.pin_inputs.empty()) {
    options.pin_inputs = placements_of("--pin-inputs", arguments.pin_inputs, mesh,
                                       ndim_of_all(program, NodeKind::kInput));
  }
  if (!arguments.pin_outputs.empty()) {
    options.pin_outputs = placements_of("--pin-outputs", arguments.pin_outputs, mesh,
                                        ndim_of_all(program, NodeKind::kOutput));
  }
  if (asked.budget_curve && (arguments.parameter_budget || !arguments.memory_budget.empty())) {
    throw InputError("solve: found --budget-curve, which goes through all budgets, and --" +
                     std::string(arguments.parameter_budget ? "parameter" : "memory") +
                     "-budget; valid: one of them");
  }
  options.tie_repeated = arguments.tie_repeated;
  options.gradient_dtype_rule = !arguments.narrow_reduction;
  options.parameter_budget = arguments.parameter_budget;
  return options;
}

// --memory-budget in bytes.
std::optional<double> memory_budget_of(const SolveProgramArguments& arguments) {
  if (arguments.memory_budget.empty()) return std::nullopt;
  if (arguments.no_fit) {
    throw InputError(
        "solve: found --no-fit, which takes any plan, and --memory-budget, which says what a plan "
        "may take; valid: one of them");
  }
  return parse_memory_option("--memory-budget", arguments.memory_budget);
}

StepOptions step_options_of(const SolveProgramArguments& arguments) {
  StepOptions options{
      .recomputation = {}, .units = arguments.units == "block", .prefetch = arguments.prefetch};
  if (arguments.recompute != "auto") {
    options.recomputation =
        parse_option("--recompute", [&] { return Recomputation::parse(arguments.recompute); });
  } else if (arguments.no_fit) {
    throw InputError(
        "solve: found --no-fit and --recompute auto, which fits the plan into memory; valid: one "
        "of them");
  }
  options.recomputation.reshards_weights = arguments.reshard_after_forward;
  return options;
}

// What the reader of a plan should know about the stack and the constraints, in sentences.
std::vector<std::string> notes_on(const PricedProgram& priced, const ShardingProblem& problem,
                                  const SolveProgramArguments& arguments) {
  std::vector<std::string> notes;
  const std::int64_t hosts = priced.topology.devices_per_host();
  if (priced.stack.collective_model.entry->name == "ap_nccl" && priced.mesh.size() % hosts != 0) {
    notes.push_back("the mesh has " + std::to_string(priced.mesh.size()) +
                    " devices, which is no multiple of the " + std::to_string(hosts) +
                    " of a host: AutoParallel then takes its default model, as the stack "
                    "ap-default does, unless it is given a topology");
  }
  if (arguments.tie_repeated) {
    notes.push_back(problem.ties.empty() ? "no layer repeats, so --tie-repeated ties nothing"
                                         : std::to_string(problem.ties.size()) +
                                               " nodes are tied to those at the same place of "
                                               "another layer");
  }
  return notes;
}

// The answers in the form that a report's record holds.
nlohmann::json answers_record(std::span<const SolveAnswer> answers, const nlohmann::json& best) {
  nlohmann::json record = nlohmann::json::object();
  if (best.size() > 1) record["best"] = best;
  for (const SolveAnswer& answer : answers) {
    record[answer.key] = answer.record.is_null() ? answer.json : answer.record;
  }
  return record;
}

void print_recipes(const RecipeComparison& recipes, const Session& session) {
  if (session.json()) {
    session.print(recipes.json);
  } else {
    session.print(recipes.text + report_line(session));
  }
}

// A question about the optimum that is answered after the plan is printed.
struct FurtherQuestion {
  std::string option;
  std::function<SolveAnswer()> answer;
  bool is_of_any_plan = false;  // whether it makes sense of a plan that is not the optimum
};

// The questions of --explain, --diff, --budget-curve, --sensitivity, --advise-flattened,
// --then and --greedy.
std::vector<FurtherQuestion> questions_of(const ProgramSolution& solved,
                                          const PricedProgram& priced, const FoundPlan& found,
                                          const ProblemOptions& options,
                                          const SolveQuestions& asked, ExactSolver& solver,
                                          const Session& session) {
  // The layout is parsed before anything else, so that a malformed one is an error even if there is
  // no optimum.
  std::string explained;
  if (!asked.explain.empty()) {
    explained = solved.strategies.layouts.text_of(
        placements_of("--explain", asked.explain, priced.mesh, std::nullopt));
  }
  const TextStyle style = session.style();
  std::vector<FurtherQuestion> questions;
  if (!solved.solution.feasible) return questions;
  if (!explained.empty()) {
    questions.push_back({"--explain", [&solved, explained, &solver, &session] {
                           return explain_answer(solved, explained, solver, session);
                         }});
  }
  if (!asked.diff.empty()) {
    // The file is read before the plan is printed, so that a faulty one is an error at once.
    questions.push_back(
        {"--diff",
         [answer = diff_answer(solved, priced.mesh, asked.diff, style)] { return answer; }, true});
  }
  if (asked.budget_curve) {
    questions.push_back({"--budget-curve", [&, style] {
                           return budget_curve_answer(solved, priced.mesh, *asked.budget_curve,
                                                      style);
                         }});
  }
  if (asked.sensitivity) {
    questions.push_back({"--sensitivity", [&, style] {
                           return sensitivity_answer(solved, priced, options, style);
                         }});
  }
  if (asked.advises_flattening && found.step) {
    questions.push_back(
        {"--advise-flattened",
         [&priced, &found, style] { return flattening_answer(priced, found, style); }, true});
  }
  if (!asked.then.empty()) {
    std::vector<ThenPin> pins;
    for (const std::string& pin : asked.then) {
      const NodePin read = pin_of("--then", pin, priced.mesh, priced.program);
      pins.push_back({read.node, solved.strategies.layouts.text_of(read.layout)});
    }
    questions.push_back({"--then", [&solved, pins, &solver, &session] {
                           return then_answer(solved, pins, solver, session);
                         }});
  }
  if (asked.greedy) {
    questions.push_back({"--greedy", [&, style] { return greedy_answer(solved, solver, style); }});
  }
  return questions;
}

nlohmann::json to_json(const Times& times) {
  return {{"read_ms", times.read_ms},   {"enumerate_ms", times.enumerate_ms},
          {"prune_ms", times.prune_ms}, {"price_ms", times.price_ms},
          {"solve_ms", times.solve_ms}, {"total_ms", times.total_ms}};
}

std::string text_of(const Times& times, const TextStyle& style) {
  return "  read " + style.rounded(times.read_ms, 1) + " ms, enumerated " +
         style.rounded(times.enumerate_ms, 1) +
         (times.prunes ? " ms, pruned " + style.rounded(times.prune_ms, 1) : "") + " ms, priced " +
         style.rounded(times.price_ms, 1) + " ms, solved and checked " +
         style.rounded(times.solve_ms, 1) + " ms, " + style.rounded(times.total_ms, 1) +
         " ms in all\n";
}

// What --objective step did: where it started, and how many plans it simulated.
struct Searched {
  std::size_t plans = 0;
  double least_sum_us = 0.0;        // the proved optimum of the sum
  double step_us_of_optimum = 0.0;  // its simulated step
};
nlohmann::json searched_json(const Searched& searched) {
  return {{"plans", searched.plans},
          {"optimum",
           {{"objective_us", searched.least_sum_us}, {"step_us", searched.step_us_of_optimum}}}};
}

// Everything that a solve prints: the plan, the further answers, and the time it took.
struct PrintedPlan {
  const SolveProgramArguments& arguments;
  const PricedProgram& priced;
  const ProgramSolution& solved;
  const FoundPlan& found;
  const PruneResult& pruned;
  ExecutedPlan executed;
  std::optional<PriceInterval> step_interval = {};
  std::optional<Searched> searched = {};  // with --objective step
  std::vector<std::string> notes = {};
  // What a reader should know of the prices; in JSON, not_measured and what DoubtedPrices adds.
  std::vector<std::string> price_notes = {};
  nlohmann::json doubts = nlohmann::json::object();
  const ReplicaGate* replica_gate = nullptr;
  std::vector<SolveAnswer> answers = {};
};

// The plan without the further answers. A report's record starts from this JSON.
nlohmann::json plan_json(const PrintedPlan& plan) {
  nlohmann::json json = solution_json(plan.solved);
  json["executed_us"] = or_null(plan.executed.us);
  json["unexecutable"] = text_or_null(plan.executed.unexecutable);
  json["objective_name"] = objective_name(plan.priced.stack);
  json["recompute"] = plan.found.step_options.recomputation.text();
  json["reshard_after_forward"] = plan.found.step_options.recomputation.reshards_weights;
  json["step_us"] = plan.found.step ? nlohmann::json(plan.found.step->step_us) : nullptr;
  json["memory"] = plan.found.step ? plan.found.step->memory.json() : nullptr;
  add_interval(json, plan.executed.interval);
  if (plan.step_interval) {
    json["step_low_us"] = plan.step_interval->low_us;
    json["step_high_us"] = plan.step_interval->high_us;
  }
  if (plan.searched) json["searched"] = searched_json(*plan.searched);
  if (plan.pruned.strategies) json["strategies"] = plan.pruned.before;
  for (const std::string& note : plan.notes) json["notes"].push_back(note);
  json["ties"] = nlohmann::json::array();
  for (const auto& [node, root] : plan.solved.problem.ties) {
    json["ties"].push_back({{"node", plan.priced.program.nodes[node].name},
                            {"to", plan.priced.program.nodes[root].name}});
  }
  return json;
}

void print_json(const PrintedPlan& plan, nlohmann::json json, const Times& times,
                const Session& session) {
  for (const SolveAnswer& answer : plan.answers) json[answer.key] = answer.json;
  if (!plan.executed.not_measured.empty()) json["not_measured"] = plan.executed.not_measured;
  json.update(plan.doubts);
  plan.replica_gate->add_to(json);
  json["stack"] = plan.priced.stack.name;
  json["topology"] = plan.priced.topology.name();
  json["mesh"] = plan.priced.mesh.text();
  json["recipe"] = text_or_null(plan.arguments.recipe);
  if (!session.no_timing) json["timing"] = to_json(times);
  session.print(json);
}

std::string searched_text(const Searched& searched, const PrintedPlan& plan,
                          const TextStyle& style) {
  const double saved = searched.step_us_of_optimum - plan.found.step->step_us;
  return "  searched " + std::to_string(searched.plans) + " plans by their simulated step: " +
         (saved > 0.0 ? "this one is " + style.difference(saved, searched.step_us_of_optimum) +
                            " us shorter than the plan of the least sum, " +
                            style.figure(searched.least_sum_us) + " us, which is proved"
                      : "none is shorter than the plan of the least sum, which is proved") +
         "\n";
}

std::string plan_text(const PrintedPlan& plan, const LayoutNames& names, const TextStyle& style,
                      bool all_nodes) {
  const ProgramSolution& solved = plan.solved;
  std::string executed;
  std::string interval;
  if (solved.solution.feasible) {
    const Breakdown parts =
        solved.problem.breakdown(solved.strategies, solved.prices, solved.solution.assignment);
    executed = executed_text(plan.executed, parts, plan.priced.stack, style);
    if (plan.executed.is(parts)) interval = interval_text(plan.executed.interval, style);
    if (plan.found.step) {
      executed += step_text(*plan.found.step, plan.step_interval, plan.found.step_options, style);
    }
    if (plan.searched) executed += searched_text(*plan.searched, plan, style);
  }
  return solution_text(solved, {objective_name(plan.priced.stack), interval, executed}, names,
                       style, all_nodes);
}

// What --time-limit left out of the margins: "" if nothing.
std::string unknown_margins_text(const ExactSolution& solution) {
  const auto unknown =
      std::ranges::count_if(solution.margins, [](double margin) { return std::isnan(margin); });
  std::vector<std::string> missing;
  if (unknown > 0) {
    missing.push_back("the margins of " + std::to_string(unknown) + " of " +
                      std::to_string(solution.margins.size()) + " nodes");
  }
  if (!solution.margins.empty() && !solution.optima) missing.emplace_back("the number of optima");
  return missing.empty() ? "" : "not known within the time limit: " + join(missing, ", and ");
}

// Answers everything that is asked besides the plan. What takes too long or too much memory becomes
// a note: it never costs the plan. Each text is printed as soon as it is there. `patience` is for
// margins.
template <class Print>
void answer_all(PrintedPlan& plan, ExactSolution& solution, ExactSolver& solver,
                const SolveQuestions& asked, std::span<const FurtherQuestion> questions,
                const Patience& patience, const Session& session, const Print& print) {
  const auto note = [&](const std::string& text) {
    plan.notes.push_back(text);
    print("  note: " + text + "\n");
  };
  if (asked.margins || asked.best > 1) {
    if (!plan.found.is_optimum_of_network) {
      note(
          "the plan is not the one of the least sum, so margins, the number of optima and further "
          "plans are not worked out");
    } else if (!plan.solved.network.budgets().empty()) {
      note(
          "a budget couples the parameters, so margins, the number of optima and further plans are "
          "not worked out");
    } else if (solution.feasible) {
      try {
        ExactSolution all = solver.solve({.jobs = session.threads(),
                                          .margins = asked.margins,
                                          .best = asked.best,
                                          .patience = patience,
                                          .known = solution.assignment});
        solution.margins = std::move(all.margins);
        solution.optima = all.optima;
        solution.best = std::move(all.best);
        print(margins_and_plans_text(plan.solved, LayoutNames(session), session.style(),
                                     asked.all_nodes));
        if (const std::string text = unknown_margins_text(solution); !text.empty()) note(text);
      } catch (const LimitError& error) {
        note(std::string("margins and further plans are not worked out: ") + error.what());
      }
    }
  }
  for (const FurtherQuestion& question : questions) {
    if (!plan.found.is_optimum_of_network && !question.is_of_any_plan) {
      note(question.option +
           " is about the plan of the least sum, which is not this one, so it is not "
           "answered");
      continue;
    }
    try {
      plan.answers.push_back(question.answer());
      print(plan.answers.back().text);
    } catch (const LimitError& error) {
      note(question.option + " is not answered: " + error.what());
    }
  }
}

void write_plan(const PrintedPlan& plan, const nlohmann::json& json, const ProblemOptions& options,
                const std::optional<RecipeComparison>& recipes, StepPlanner& planner,
                const Times& times, const Session& session) {
  nlohmann::json result = json;
  for (const std::string& note : plan.price_notes) result["notes"].push_back(note);
  nlohmann::json answers = answers_record(plan.answers, json["best"]);
  if (recipes) answers["recipes"] = recipes->record;
  std::optional<PicturedPlan> picture;
  if (plan.found.solution.feasible) picture.emplace(plan.priced, plan.found.solution.assignment);
  if (picture && plan.found.step) picture->note_step(planner, plan.found.step_options);
  record_solution(session, {.program = plan.priced.program,
                            .stack = plan.priced.stack,
                            .topology = plan.priced.topology,
                            .mesh = plan.priced.mesh.text(),
                            .recipe = plan.arguments.recipe,
                            .options = options,
                            .result = std::move(result),
                            .answers = std::move(answers),
                            .picture = picture ? &*picture : nullptr,
                            .wall_ms = times.total_ms});
}

// Whether the questions are about more plans than the best one, or nodes run more than once. Only
// that one is known to have none of the strategies that are left out.
bool needs_all_strategies(const SolveProgramArguments& arguments, const SolveQuestions& asked) {
  return asked.margins || asked.best > 1 || !asked.explain.empty() || !asked.diff.empty() ||
         !asked.then.empty() || asked.budget_curve || asked.sensitivity || asked.greedy ||
         arguments.compare_recipes || !arguments.export_problem.empty() ||
         arguments.recompute != "none" || arguments.reshard_after_forward ||
         arguments.objective != "sum" || arguments.tie_repeated;
}

// Costs that differ by a smaller share than this are equal. Status: assumed; the solver's
// tolerance.
constexpr double kSameCost = 1e-9;

// An assignment with a strategy that was left out costs at least the floor, and any at least the
// bound.
void take_bounds(const PruneResult& pruned, ExactSolution& solution) {
  if (!pruned.strategies || !solution.feasible) return;
  const double same = (1.0 - kSameCost) * solution.objective;
  if (pruned.floor_us < same) {
    solution.lower_bound = std::min(solution.lower_bound, pruned.floor_us);
    solution.optimal = false;
  }
  if (solution.optimal || pruned.bound_us <= solution.lower_bound) return;
  solution.lower_bound = std::min(pruned.bound_us, solution.objective);
  solution.optimal = pruned.bound_us >= same;
}

// Ctrl-C prints the rows that there are.
RecipeComparison compare_recipes_until_interrupt(const PricedProgram& priced,
                                                 const ProblemOptions& options,
                                                 const StepOptions& step_options,
                                                 StepPlanner& planner, const ConfigStore& store,
                                                 bool eager, Session& session) {
  std::optional<RecipeComparison> recipes;
  std::optional<RecipeComparison> known;
  std::mutex mutex;  // guards `known`
  const std::size_t all = store.names(ConfigKind::kRecipe).size() + 2;
  run_unstoppable(session,
                  {.what = "comparing recipes",
                   .interruption = [&]() -> std::string {
                     const std::lock_guard lock(mutex);
                     if (!known || !known->feasible) return "";
                     return "interrupted after " + std::to_string(known->rows.size()) + " of " +
                            std::to_string(all) + " recipes";
                   },
                   .print_known =
                       [&] {
                         const std::lock_guard lock(mutex);
                         print_recipes(*known, session);
                       }},
                  [&] {
                    recipes = compare_recipes(priced, options, step_options, planner, store, eager,
                                              session.style(), [&](RecipeComparison so_far) {
                                                const std::lock_guard lock(mutex);
                                                known = std::move(so_far);
                                              });
                  });
  return *std::move(recipes);
}

std::string note_of(const PruneResult& pruned) {
  const bool may_be_better = pruned.floor_us < (1.0 - kSameCost) * pruned.upper_us;
  return "bounds left out " + std::to_string(pruned.before - pruned.after) + " of " +
         std::to_string(pruned.before) + " strategies, with which " +
         (may_be_better
              ? "a plan takes at least " + format_fixed(std::floor(pruned.floor_us), 0) + " us"
              : "no plan is better than this one");
}

// What is asked, as it was read.
struct SolveInputs {
  ConfigStore store;
  DeviceMesh mesh;
  std::optional<double> most_bytes;  // of --memory-budget
  StepOptions step_options;
  Topology topology;
  Stack stack;
  RuleSet rules;
  Program program;
  ProblemOptions options;
};

SolveInputs read_inputs(const SolveProgramArguments& arguments, const SolveQuestions& asked,
                        const Session& session, Times& times) {
  const ConfigStore store = session.store();
  const DeviceMesh mesh = arguments.flattened.read(arguments.mesh);
  if (asked.advises_flattening) expect_names_to_flatten(mesh);
  const std::optional<double> most_bytes = memory_budget_of(arguments);
  const StepOptions step_options = step_options_of(arguments);
  const Topology topology = store.topology(session.topology);
  const Stack stack = program_stack(store, arguments.stack, topology);
  const RuleSet rules = stack.rules.set_for("solve");
  expect_kernel_prices(stack, "solve");
  const StopWatch reading;
  Program program = store.program(arguments.program);
  times.read_ms = reading.ms();
  ProblemOptions options = options_of(arguments, asked, mesh, program);
  if (!arguments.recipe.empty()) {
    options.masks = store.recipe(arguments.recipe).masks(program, mesh);
  }
  return {.store = store,
          .mesh = mesh,
          .most_bytes = most_bytes,
          .step_options = step_options,
          .topology = topology,
          .stack = stack,
          .rules = rules,
          .program = std::move(program),
          .options = std::move(options)};
}

// The strategies of all nodes, without those that bounds left out.
struct ListedStrategies {
  ProgramStrategies strategies;
  PruneResult pruned;
};

ListedStrategies list_and_prune(const SolveProgramArguments& arguments, const SolveQuestions& asked,
                                const SolveInputs& inputs, StackEvaluator& evaluator,
                                SearchTime& time, RunningTime& running, const Session& session,
                                Times& times) {
  ListedStrategies listed;
  const StopWatch enumerating;
  listed.strategies = in_program(arguments.program, [&] {
    return enumerate_strategies(inputs.program, inputs.mesh,
                                {.rules = inputs.rules,
                                 .strided = arguments.strided,
                                 .links = links_of(evaluator.on(inputs.mesh))});
  });
  times.enumerate_ms = enumerating.ms();

  const StopWatch pruning;
  if (!needs_all_strategies(arguments, asked)) {
    running.now("leaving out strategies that no best plan has");
    listed.pruned = time.bound([&](const Patience& patience) {
      return prune_strategies(inputs.program, inputs.mesh, listed.strategies, evaluator,
                              inputs.options, {.patience = patience, .jobs = session.threads()});
    });
  }
  if (listed.pruned.strategies) {
    listed.strategies = *listed.pruned.strategies;
    listed.strategies.notes.push_back(note_of(listed.pruned));
    times.prunes = true;
  }
  times.prune_ms = pruning.ms();
  return listed;
}

// The plan, and how it was searched for.
struct SearchedPlan {
  FoundPlan found;
  std::optional<Searched> searched;  // with --objective step
  bool interrupted = false;          // before the plan was proved
  Patience for_margins = {};         // what --time-limit leaves for questions about margins
};

SearchedPlan find_plan(const SolveProgramArguments& arguments, const SolveInputs& inputs,
                       const PricedProgram& priced, const PruneResult& pruned, StepPlanner& planner,
                       const SearchTime& time, const Session& session, Times& times) {
  const StopWatch solving;
  SearchedPlan plan;
  {
    const Interrupt interrupt;
    PlanSearchOptions options{.jobs = session.threads(),
                              .has_all_strategies = !pruned.strategies,
                              .patience = time.for_search(interrupt),
                              .known = pruned.best};
    // A plan around one recipe is not searched for among those of the others.
    if (arguments.recipe.empty()) {
      options.recipes = [&] { return recipe_masks(priced, inputs.store); };
    }
    plan.for_margins = {.takes_gap = options.patience.until.has_value(),
                        .until = options.patience.until};
    PlanSearch search(priced, planner, options);
    plan.found = arguments.recompute == "auto"
                     ? search.best_recomputation(inputs.options, inputs.step_options)
                 : arguments.no_fit ? search.best(inputs.options, inputs.step_options)
                                    : search.best_that_fits(inputs.options, inputs.step_options);
    if (arguments.objective == "step" && plan.found.solution.feasible && plan.found.step) {
      plan.searched = {.plans = 0,
                       .least_sum_us = plan.found.solution.objective,
                       .step_us_of_optimum = plan.found.step->step_us};
      PlanSearch::StepSearch shortest =
          search.shortest_step(std::move(plan.found), inputs.options,
                               recipe_masks(priced, inputs.store), !arguments.no_fit);
      plan.searched->plans = shortest.plans;
      plan.found = std::move(shortest.found);
    }
    plan.interrupted = interrupt.came() || time.was_interrupted();
  }
  take_bounds(pruned, plan.found.solution);
  const ExactSolution& solution = plan.found.solution;
  plan.interrupted = plan.interrupted && !(solution.feasible && solution.optimal);
  if (!arguments.export_problem.empty()) {
    write_output("--export-problem", arguments.export_problem,
                 write_cfn(*plan.found.network, inputs.program.name));
  }
  times.solve_ms = solving.ms();
  return plan;
}

// What a reader should know of the prices of a plan's moves, in sentences.
std::vector<std::string> price_notes_on(const ExecutedPlan& executed,
                                        const DoubtedPrices& doubted) {
  std::vector<std::string> notes;
  if (!executed.not_measured.empty()) {
    notes.push_back("prices of moves are " + carried_over_text(executed.not_measured));
  }
  std::ranges::copy(doubted.lines(), std::back_inserter(notes));
  return notes;
}

// How the plan runs, and what a reader should know of it. The gate is given the plans of all moves.
PrintedPlan describe(const SolveProgramArguments& arguments, const SolveQuestions& asked,
                     const PricedProgram& priced, const ProgramSolution& solved,
                     const SearchedPlan& plan, const PruneResult& pruned, StackEvaluator& evaluator,
                     StepPlanner& planner, ReplicaGate& gate) {
  const FoundPlan& found = plan.found;
  const ExactSolution& solution = found.solution;
  DoubtedPrices doubted(evaluator);
  const ExecutedPlan executed = solution.feasible
                                    ? executed_plan(solved, evaluator, priced.mesh, doubted, gate)
                                    : ExecutedPlan();
  std::optional<PriceInterval> step_interval;
  if (found.step) {
    step_interval = planner.interval_of_step(solution.assignment, found.step_options,
                                             evaluator.collective_model());
  }
  std::vector<std::string> notes = notes_on(priced, *found.problem, arguments);
  if (plan.interrupted) {
    notes.emplace_back(solution.feasible
                           ? "the search was interrupted; this is the best plan that it had"
                           : "the search was interrupted before it had such a plan");
  }
  if (asked.advises_flattening && solution.feasible && !found.step) {
    notes.emplace_back("--advise-flattened is not answered, because the plan can't run");
  }
  nlohmann::json doubts = nlohmann::json::object();
  doubted.add_to(doubts);
  return {.arguments = arguments,
          .priced = priced,
          .solved = solved,
          .found = found,
          .pruned = pruned,
          .executed = executed,
          .step_interval = step_interval,
          .searched = plan.searched,
          .notes = std::move(notes),
          .price_notes = price_notes_on(executed, doubted),
          .doubts = std::move(doubts),
          .replica_gate = &gate};
}

// Prints the plan as text, if `print` does, and answers everything that is asked besides.
template <class Print>
void print_and_answer(PrintedPlan& plan, ExactSolution& solution, const SolveInputs& inputs,
                      const SolveQuestions& asked, const Patience& for_margins, Session& session,
                      const Print& print) {
  ExactSolver solver(*plan.found.network);
  const std::vector<FurtherQuestion> questions =
      questions_of(plan.solved, plan.priced, plan.found, inputs.options, asked, solver, session);
  print(plan_text(plan, LayoutNames(session), session.style(), asked.all_nodes));
  for (const std::string& note : plan.notes) print("  note: " + note + "\n");
  for (const std::string& note : plan.price_notes) print("  note: " + note + "\n");
  print(plan.replica_gate->text());
  answer_all(plan, solution, solver, asked, questions, for_margins, session, print);
  if (!solution.feasible || plan.replica_gate->says_no() ||
      std::ranges::any_of(plan.answers, &SolveAnswer::says_no)) {
    session.exit_code = kGateSaidNo;
  }
}

// Prints the plan with all answers, and writes its report. `solution` is the plan's.
void emit(PrintedPlan& plan, ExactSolution& solution, const SolveInputs& inputs,
          const SolveQuestions& asked, const Patience& for_margins,
          const std::optional<RecipeComparison>& recipes, StepPlanner& planner,
          const StopWatch& total, Times& times, Session& session) {
  const bool prints_text = !recipes && !session.json() && !session.summary;
  const auto print = [&](const std::string& text) {
    if (prints_text && !text.empty()) session.print(text);
  };
  print_and_answer(plan, solution, inputs, asked, for_margins, session, print);
  times.total_ms = total.ms();
  nlohmann::json json = plan_json(plan);
  if (writes_report(session)) {
    ProblemOptions options = inputs.options;
    options.memory_budget_bytes = inputs.most_bytes;
    write_plan(plan, json, options, recipes, planner, times, session);
    if (session.summary) return;
  }
  if (recipes) {
    print_recipes(*recipes, session);
  } else if (session.json()) {
    print_json(plan, std::move(json), times, session);
  } else {
    print((session.no_timing ? "" : text_of(times, session.style())) + report_line(session));
  }
}

}  // namespace

void solve_program(const SolveProgramArguments& arguments, const SolveQuestions& asked,
                   Session& session) {
  const StopWatch total;
  Times times;
  prepare_out(session);
  const SolveInputs inputs = read_inputs(arguments, asked, session, times);
  StackEvaluator evaluator(inputs.stack, inputs.topology);
  SearchTime time(arguments.time_limit_s);
  RunningTime running(session, "listing the strategies of each node");
  const ListedStrategies listed =
      list_and_prune(arguments, asked, inputs, evaluator, time, running, session, times);

  running.now("pricing the program's strategies and moves");
  const StopWatch pricing;
  const ProgramPrices prices(inputs.program, listed.strategies, evaluator, inputs.mesh,
                             session.threads());
  times.price_ms = pricing.ms();
  const PricedProgram priced{.stack = inputs.stack,
                             .topology = inputs.topology,
                             .mesh = inputs.mesh,
                             .program = inputs.program,
                             .strategies = listed.strategies,
                             .prices = prices};
  StepPlanner planner(priced, evaluator.on(inputs.mesh), inputs.most_bytes);
  std::optional<RecipeComparison> recipes;
  if (arguments.compare_recipes) {
    running.stop();
    recipes = compare_recipes_until_interrupt(priced, inputs.options, inputs.step_options, planner,
                                              inputs.store, asked.greedy, session);
    if (!recipes->feasible) session.exit_code = kGateSaidNo;
    if (!writes_report(session)) return print_recipes(*recipes, session);
  }

  running.now("searching for the best plan");
  SearchedPlan plan =
      find_plan(arguments, inputs, priced, listed.pruned, planner, time, session, times);
  running.stop();
  const ProgramSolution solved{.program = inputs.program,
                               .strategies = listed.strategies,
                               .prices = prices,
                               .problem = *plan.found.problem,
                               .network = *plan.found.network,
                               .solution = plan.found.solution,
                               .misfit = plan.found.misfit,
                               .is_misfit_proved = plan.found.is_misfit_proved};
  ReplicaGate gate(arguments.replicas, inputs.mesh, inputs.topology);
  PrintedPlan printed =
      describe(arguments, asked, priced, solved, plan, listed.pruned, evaluator, planner, gate);
  emit(printed, plan.found.solution, inputs, asked, plan.for_margins, recipes, planner, total,
       times, session);
  if (plan.interrupted) session.exit_code = kInterrupted;
}

}  // namespace shardlab

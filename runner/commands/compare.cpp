// shardlab compare: which decisions does a change of stack flip, and what does that cost in time?
// It loads the stacks, asks the questions, compares training steps, and reports the record of it.
#include "runner/commands/compare.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>

#include "costmodel/base/parallel.h"
#include "reports/records/record.h"
#include "reports/report.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/evaluation/asked_suites.h"
#include "runner/evaluation/comparison_text.h"
#include "runner/evaluation/explained_flips.h"
#include "runner/evaluation/flatten_advice_text.h"
#include "runner/evaluation/price_curves.h"
#include "runner/evaluation/program_steps.h"
#include "runner/evaluation/unread_changes.h"
#include "runner/evaluation/untested_merging.h"
#include "runner/session/run_reports.h"
#include "runner/session/unstoppable_work.h"
#include "strategies/select/invariants.h"

namespace shardlab {
namespace {

using reports::ComparisonRecord;

constexpr int kInvariantSamples = 2000;

// The topology, stacks and suites of a comparison, with every override applied.
struct Comparison {
  Topology topology;
  std::vector<Stack> stacks;  // the baseline first
  Stack reference;
  UnreadChanges unread;
  std::vector<Suite> suites;
  std::vector<ProgramCase> programs;
};

// Refuses options that need others, and those that exclude each other.
void expect_options_that_fit(const CompareArguments& arguments) {
  if (arguments.downstream && arguments.programs.empty()) {
    throw InputError(
        "compare: found --downstream without --program; valid: with --program and --mesh, since a "
        "suite does not say which operator reads what");
  }
  if (arguments.programs.empty() &&
      (arguments.advises_flattening || !arguments.flattened.axes.empty())) {
    throw InputError(
        "compare: found --flatten or --advise-flattened without --program; valid: with --program "
        "and --mesh, since the questions of a suite name their own meshes");
  }
  if (arguments.suites.empty() && arguments.programs.empty()) {
    throw InputError(
        "compare: found neither --suite nor --program; valid: at least one of them, which says "
        "what is decided");
  }
  if (arguments.programs.empty() != arguments.mesh.empty()) {
    throw InputError(arguments.mesh.empty()
                         ? "compare: found --program without --mesh; valid: the mesh that the "
                           "program runs on"
                         : "compare: found --mesh without --program; valid: both, or neither");
  }
  if (arguments.programs.empty() && !(arguments.recipe.empty() && arguments.plan.empty())) {
    throw InputError(
        "compare: found --recipe or --plan, which lay out the parameters of a program, without "
        "--program");
  }
  if (arguments.programs.empty() &&
      (!arguments.recompute.empty() || arguments.reshard_after_forward)) {
    throw InputError(
        "compare: found --recompute or --reshard-after-forward, which change the step of a "
        "program, without --program");
  }
}

Recomputation recomputation_of(const CompareArguments& arguments) {
  Recomputation recomputation;
  if (!arguments.recompute.empty()) {
    recomputation =
        parse_option("--recompute", [&] { return Recomputation::parse(arguments.recompute); });
  }
  recomputation.reshards_weights = arguments.reshard_after_forward;
  return recomputation;
}

// Watches from here on whether what --set changes of the topology changes a price. The memory of a
// device changes no price, but the verdict whether a program's step fits.
UnreadChanges watch_changes(Comparison& comparison, bool has_programs, const Session& session) {
  if (session.json()) return {};  // JSON has no notes
  UnreadChanges unread(session, comparison.topology);
  if (has_programs) unread.leave_out_memory();
  for (Stack& stack : comparison.stacks) unread.watch(stack);
  unread.watch(comparison.reference);
  return unread;
}

// --set stack.* is the change under evaluation, so it applies to the candidates only. If no
// candidate is named, the candidate is the baseline with this change.
void add_candidates(const CompareArguments& arguments, const ConfigStore& changed,
                    std::vector<Stack>& stacks) {
  const bool changes_stack = changed.changes_stacks();
  std::vector<std::string> candidates = arguments.candidates;
  if (candidates.empty() && changes_stack) candidates.push_back(arguments.baseline);
  if (candidates.empty()) {
    throw InputError(
        "compare: a --candidate is required, or a change such as --set stack.transition_us=1");
  }
  for (const std::string& name : candidates) {
    Stack stack = changed.stack(name);
    if (changes_stack) stack.name += "+set";
    for (const Stack& other : stacks) {
      if (other.name == stack.name) {
        throw InputError("compare: stack \"" + stack.name +
                         "\" is named twice; valid: stacks of different names (to compare a stack "
                         "with itself, copy its file under another name)");
      }
    }
    stacks.push_back(std::move(stack));
  }
}

Comparison load(const CompareArguments& arguments, const Session& session) {
  const Recomputation recomputation = recomputation_of(arguments);
  const ConfigStore changed = session.store();
  const ConfigStore shipped = changed.with_stacks_as_written();
  Comparison comparison{.topology = shipped.topology(session.topology),
                        .stacks = {shipped.stack(arguments.baseline)},
                        .reference = shipped.stack(arguments.reference),
                        .unread = {},
                        .suites = {},
                        .programs = {}};
  add_candidates(arguments, changed, comparison.stacks);
  comparison.unread = watch_changes(comparison, !arguments.programs.empty(), session);
  for (const std::string& name : arguments.suites) {
    comparison.suites.push_back(shipped.suite(name));
    expect_new_suite(comparison.suites);
  }
  for (const std::string& name : arguments.programs) {
    comparison.programs.push_back(read_program(shipped,
                                               {.program = name,
                                                .mesh = arguments.flattened.read(arguments.mesh),
                                                .recipe = arguments.recipe,
                                                .plan = arguments.plan,
                                                .recomputation = recomputation,
                                                .jobs = session.threads()},
                                               comparison.reference, comparison.topology));
    comparison.suites.push_back(suite_of(comparison.programs.back(), comparison.stacks[0],
                                         comparison.reference, comparison.topology));
    expect_new_suite(comparison.suites);
  }
  return comparison;
}

// Programs take a while to lay out.
Comparison load_until_interrupt(const CompareArguments& arguments, Session& session) {
  if (arguments.programs.empty()) return load(arguments, session);
  std::optional<Comparison> loaded;
  run_unstoppable(session, {.what = "laying out the parameters of the program", .interruption = {}},
                  [&] { loaded = load(arguments, session); });
  if (arguments.advises_flattening) expect_names_to_flatten(loaded->programs.front().mesh);
  return *std::move(loaded);
}

void say(const std::string& text) {
  if (!text.empty()) std::cerr << "shardlab: " << printable(text) << "\n";
}

// Says which changes of the topology change no price that was asked for.
void say_unread_changes(Comparison& comparison, const Session& session) {
  const std::vector<std::string> texts = comparison.unread.texts();
  if (!session.interruption.empty()) return;
  for (const std::string& text : texts) say(text);
}

std::string reference_label(const Stack& reference) {
  const ModelChoice& collectives = reference.collective_model;
  const std::string_view model = collectives.entry->name;
  // `calibrate` writes such a stack: it has fitted constants, but not the measured rows.
  if (reference.source.starts_with("fitted:") && !collectives.entry->fitted.empty() &&
      !collectives.params.empty()) {
    return "collectives from constants fitted to measured rows, kernels from the datasheet";
  }
  if (collectives.function) return "the function's prices, not measured";
  if (model == "dtensor") return "DTensor's own model, not measured";
  if (model == "nccl") return "NCCL's own model, not measured";
  if (model.starts_with("ap_")) return "AutoParallel's model, not measured";
  if (collectives.entry->reads_rows) {
    return "collectives fitted to measured rows and carried over to other groups, kernels from the "
           "datasheet";
  }
  return "datasheet, not measured";
}

// The record before anything is asked.
ComparisonRecord record_of(const Comparison& comparison, const Session& session) {
  ComparisonRecord record;
  static_cast<reports::RunHeader&>(record) = header_of(session);
  record.configuration.topology = comparison.topology.to_json();
  for (const Stack& stack : comparison.stacks) {
    record.stacks.push_back(stack.name);
    record.configuration.stacks.push_back(stack.to_json());
  }
  if (std::ranges::find(record.stacks, comparison.reference.name) == record.stacks.end()) {
    record.configuration.stacks.push_back(comparison.reference.to_json());
  }
  record.reference = {.name = comparison.reference.name,
                      .label = reference_label(comparison.reference)};
  return record;
}

// The training steps of all programs, one for each program and candidate. After Ctrl-C,
// `print_known` prints the rest of the comparison.
std::vector<reports::StepComparison> compare_programs(const Comparison& comparison,
                                                      bool advises_flattening, Session& session,
                                                      const std::function<void()>& print_known) {
  std::vector<reports::StepComparison> steps;
  if (comparison.programs.empty()) return steps;
  run_unstoppable(
      session,
      {.what = "comparing training steps",
       .interruption =
           [] { return "interrupted after the questions, before training steps were compared"; },
       .print_known = print_known},
      [&] {
        for (const ProgramCase& program : comparison.programs) {
          std::vector<reports::StepComparison> of_program =
              compare_steps(program, comparison.stacks, comparison.reference, comparison.topology,
                            advises_flattening);
          std::move(of_program.begin(), of_program.end(), std::back_inserter(steps));
        }
      });
  return steps;
}

void check_all_invariants(const Comparison& comparison, const Session& session,
                          ComparisonRecord& record) {
  std::vector<std::vector<reports::InvariantResult>> checks(comparison.stacks.size());
  parallel_for(
      comparison.stacks.size(), session.threads(), [] { return std::make_unique<int>(0); },
      [&](int&, std::size_t i) {
        checks[i] = check_invariants(comparison.stacks[i], comparison.topology, session.seed,
                                     kInvariantSamples);
      });
  for (std::vector<reports::InvariantResult>& results : checks) {
    std::move(results.begin(), results.end(), std::back_inserter(record.invariants));
  }
}

bool may_leave_different_replicas(const ComparisonRecord& record) {
  return std::ranges::any_of(record.questions, [](const reports::RecordQuestion& question) {
    return std::any_of(question.answers.begin() + 1, question.answers.end(),
                       [](const auto& answer) { return !answer.replicas_may_differ.empty(); });
  });
}

ComparisonTextOptions text_options_of(const CompareArguments& arguments) {
  return {.shown = arguments.shown,
          .has_replica_gate = arguments.replicas.is_required,
          .downstream = arguments.downstream,
          .recomputation = recomputation_of(arguments)};
}

// Prints the record and writes its report.
void print_comparison(ComparisonRecord& record, const CompareArguments& arguments,
                      const StopWatch& watch, Session& session) {
  record.provenance = session.provenance();
  if (!session.no_timing) {
    record.timing = reports::RunTiming{.started_utc = {}, .ms = {{"wall_ms", watch.ms()}}};
  }
  std::string text = session.json()
                         ? reports::report_json(record)
                         : comparison_text(record, text_options_of(arguments), session.style()) +
                               report_line(session);
  write_run(session, std::move(record), arguments.shown);
  if (session.summary) return;
  if (session.json() && !session.interruption.empty()) {
    session.print(nlohmann::json::parse(text));  // with its key "interrupted"
  } else {
    session.print(text);
  }
}

void print_nothing(const Session& session) {
  if (session.json()) {
    session.print(nlohmann::json::object());
  } else {
    session.print(std::string());
  }
}

}  // namespace

void run_compare(const CompareArguments& arguments, Session& session) {
  expect_options_that_fit(arguments);
  const StopWatch watch;
  Comparison comparison = load_until_interrupt(arguments, session);
  const auto& [topology, stacks, reference, unread, suites, programs] = comparison;
  if (programs.empty() && !session.json()) say(untested_merging_text(stacks, suites));
  prepare_out(session);  // a folder that cannot be made is an error before the work, not after it

  ComparisonRecord record = record_of(comparison, session);
  const std::vector<const Question*> questions =
      ask_suites({.stacks = stacks,
                  .reference = reference,
                  .topology = topology,
                  .suites = suites,
                  .programs = programs,
                  .checks_replicas = arguments.replicas.is_required},
                 session, record);
  if (questions.empty() && !session.interruption.empty()) return print_nothing(session);
  const auto finish = [&] { print_comparison(record, arguments, watch, session); };
  if (session.interruption.empty()) {
    explain_flips(
        {.stacks = stacks, .reference = reference, .topology = topology, .questions = questions},
        session, record);
  }
  if (session.interruption.empty()) {
    record.steps = compare_programs(comparison, arguments.advises_flattening, session, finish);
  }
  say_unread_changes(comparison, session);
  check_all_invariants(comparison, session, record);
  record.curves = price_curves(stacks, reference, topology);
  if (may_leave_different_replicas(record)) session.exit_code = kGateSaidNo;
  finish();
}

void add_compare_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<CompareArguments>();
  const Command command = root.subcommand(
      "compare",
      "which decisions does a cost-model change flip, and what does that cost in time?\n"
      "  shardlab compare --baseline dtensor-v3 --candidate dtensor-v3-rp "
      "--suite ops-small --out report/");
  command.option("--baseline", arguments->baseline, "stack: shipped name or path").required();
  command
      .option("--candidate", arguments->candidates,
              "stack to compare with the baseline; may be repeated. Without one, the candidate is "
              "the baseline as --set stack.* changes it")
      .repeatable();
  command.option("--suite", arguments->suites, "shipped name or path; may be repeated")
      .repeatable();
  command
      .option("--program", arguments->programs,
              "program that asks the questions as it runs op by op, and whose training step is "
              "compared: shipped name or path; may be repeated")
      .repeatable();
  command.option("--mesh", arguments->mesh, "mesh of --program, such as 2x4 or dp=8,tp=8");
  arguments->flattened.add(command);
  command.flag("--advise-flattened", arguments->advises_flattening,
               std::string(kAdviseFlattenedHelp));
  command.option(
      "--recipe", arguments->recipe,
      "lay parameters and inputs of --program out as in the best plan, by the reference's "
      "prices, that follows this recipe; default: as in the best plan of all");
  command.option("--plan", arguments->plan,
                 "lay parameters and inputs of --program out as in this file, which solve --format "
                 "json has written");
  command.option("--recompute", arguments->recompute,
                 "what the backward pass of --program computes again instead of keeping it: none, "
                 "full, selective, every:N, full:N or selective:N, as solve has it; default: none");
  command.flag("--reshard-after-forward", arguments->reshard_after_forward,
               "gather the weights of --program again in the backward pass, as fully_shard does");
  command.flag(
      "--downstream", arguments->downstream,
      "with --program, also say what each flip changes together with all that follows from it, "
      "until the layouts are the same again");
  arguments->replicas.add(command);
  command.option("--reference", arguments->reference, "stack whose prices judge the choices")
      .show_default();
  add_min_share_option(command, arguments->shown);
  add_report_options(command, session);
  add_topology_option(command, session);
  add_verify_option(command, session);
  add_common_options(command, session, {.seed = true, .jobs = true, .sets = true});
  command.runs([arguments, &session] { run_compare(*arguments, session); });
}

}  // namespace shardlab

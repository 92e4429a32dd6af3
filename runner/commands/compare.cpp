// shardlab compare: which decisions does a change of stack flip, and what does that cost in time?
// It loads the stacks, asks the questions, writes the record and prints the report. shardlab demo
// is one such comparison.
#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include "costmodel/base/parallel.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "reports/records/record.h"
#include "reports/report.h"
#include "reports/statistics.h"
#include "reports/summary.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/evaluation/doubted_prices.h"
#include "runner/evaluation/explained_flips.h"
#include "runner/evaluation/flatten_advice_text.h"
#include "runner/evaluation/memory_options.h"
#include "runner/evaluation/program_steps.h"
#include "runner/evaluation/reference_sides.h"
#include "runner/evaluation/replica_gate.h"
#include "runner/evaluation/unread_changes.h"
#include "runner/session/flattened_meshes.h"
#include "runner/session/long_loop.h"
#include "runner/session/run_reports.h"
#include "runner/session/unstoppable_work.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/invariants.h"
#include "strategies/select/questionnaire.h"

namespace shardlab {
namespace {

using reports::ComparisonRecord;

constexpr int kInvariantSamples = 2000;

struct CompareArguments {
  std::string baseline;
  std::vector<std::string> candidates;
  std::vector<std::string> suites;
  std::vector<std::string> programs;
  std::string recompute;
  bool reshard_after_forward = false;
  std::string mesh;
  FlattenedMeshes flattened;
  bool advises_flattening = false;
  std::string recipe;
  std::string plan;
  std::string reference = "alpha-beta";
  ReplicaGateOption replicas;
  bool downstream = false;
  reports::ComparisonOptions shown;
};

// The topology, stacks and suites of a comparison, with every override applied.
struct Comparison {
  Topology topology;
  std::vector<Stack> stacks;  // the baseline first
  Stack reference;
  UnreadChanges unread;
  std::vector<Suite> suites;
  std::vector<ProgramCase> programs;
};

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
Comparison load(const CompareArguments& arguments, const Session& session) {
  if (arguments.suites.empty() && arguments.programs.empty()) {
    throw InputError(
        "compare: found neither --suite nor --program; valid: at least one of them, which says "
        "what "
        "is decided");
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
  Recomputation recomputation;
  if (!arguments.recompute.empty()) {
    recomputation =
        parse_option("--recompute", [&] { return Recomputation::parse(arguments.recompute); });
  }
  recomputation.reshards_weights = arguments.reshard_after_forward;
  const ConfigStore changed = session.store();
  const bool changes_stack = changed.changes_stacks();
  const ConfigStore shipped = changed.with_stacks_as_written();
  Comparison comparison{.topology = shipped.topology(session.topology),
                        .stacks = {shipped.stack(arguments.baseline)},
                        .reference = shipped.stack(arguments.reference),
                        .unread = {},
                        .suites = {},
                        .programs = {}};
  std::vector<std::string> candidates = arguments.candidates;
  if (candidates.empty() && changes_stack) candidates.push_back(arguments.baseline);
  if (candidates.empty()) {
    throw InputError(
        "compare: a --candidate is required, or a change such as --set stack.transition_us=1");
  }
  for (const std::string& name : candidates) {
    Stack stack = changed.stack(name);
    if (changes_stack) stack.name += "+set";
    for (const Stack& other : comparison.stacks) {
      if (other.name == stack.name) {
        throw InputError("compare: stack \"" + stack.name +
                         "\" is named twice; valid: stacks of different names (to compare a stack "
                         "with itself, copy its file under another name)");
      }
    }
    comparison.stacks.push_back(std::move(stack));
  }
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

std::optional<double> rank_correlation(const Answer& answer) {
  std::vector<double> own;
  std::vector<double> reference;
  for (std::size_t i = 0; i < answer.totals.size() && i < answer.reference_totals.size(); ++i) {
    if (answer.totals[i] < kInfinity && answer.reference_totals[i] < kInfinity) {
      own.push_back(answer.totals[i]);
      reference.push_back(answer.reference_totals[i]);
    }
  }
  return reports::kendall_tau_b(own, reference);
}

reports::StackAnswer to_record(const Answer& answer) {
  reports::StackAnswer out = answer;
  out.kendall_tau = rank_correlation(answer);
  return out;
}

// The ids of recorded questions already begin with the suite's name.
std::string question_id(const Question& question, const std::string& suite) {
  return question.id.starts_with(suite + "/") ? question.id : suite + "/" + question.id;
}

reports::RecordQuestion to_record(const Question& question, const std::string& suite,
                                  const QuestionResult& result) {
  reports::RecordQuestion out;
  out.id = question_id(question, suite);
  out.suite = suite;
  out.kind = question.kind == Question::Kind::kPlan ? reports::QuestionKind::kPlan
                                                    : reports::QuestionKind::kSelect;
  out.op = question.op();
  out.mesh = question.mesh.text();
  out.mesh_dims = question.mesh.ndim();
  out.bytes = question.bytes();
  out.inputs = question.inputs();
  out.args.assign(question.call.args.begin(), question.call.args.end());
  out.count = question.count;
  out.best = result.best;
  for (const Answer& answer : result.answers) {
    out.candidates = std::max(out.candidates, answer.candidates);
    out.answers.push_back(to_record(answer));
  }
  return out;
}

// "aten.where.self 675, aten.dot.default 12 and 3 other ops": the most frequent ones first.
std::string counts_text(const std::map<std::string, std::size_t>& by_op) {
  constexpr std::size_t kShown = 4;
  std::vector<std::pair<std::size_t, std::string>> order;
  for (const auto& [op, count] : by_op) order.emplace_back(count, op);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(order.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + order[i].second + " " + std::to_string(order[i].first);
  }
  if (order.size() > kShown) {
    text += " and " + std::to_string(order.size() - kShown) + " other ops";
  }
  return text;
}

// The program that a suite was recorded from: the one that --program names, or what the source of a
// recorded suite is called. "" for questions that were generated or written by hand.
std::string program_of(const Suite& suite, const Comparison& comparison) {
  for (const ProgramCase& program : comparison.programs) {
    if (program.program.name == suite.name) return suite.name + " on " + program.mesh.text();
  }
  if (!suite.source.starts_with("recorded")) return "";
  return suite.title.empty() ? suite.name : suite.title;
}

// Asks all questions, and returns those with an answer, in the order of record.questions.
std::vector<const Question*> ask_all(const Comparison& comparison, bool checks_replicas,
                                     Session& session, ComparisonRecord& record) {
  std::vector<const Question*> questions;
  std::size_t total = 0;
  for (const Suite& suite : comparison.suites) total += suite.questions.size();
  std::vector<const Question*> to_ask;
  for (const Suite& suite : comparison.suites) {
    for (const Question& question : suite.questions) to_ask.push_back(&question);
  }
  session.prepare(comparison.stacks, to_ask, comparison.topology);
  session.prepare({&comparison.reference, 1}, to_ask, comparison.topology);
  LongLoop loop(session, "questions", total);
  const StackEvaluator reference(comparison.reference, comparison.topology);
  DoubtedPrices doubted(reference);
  std::mutex doubting;
  const auto note_prices = [&](const Plan& plan, const Redistributor& redistributor) {
    const std::lock_guard lock(doubting);
    doubted.add(plan, redistributor);
  };
  for (const Suite& suite : comparison.suites) {
    if (loop.was_left()) break;
    std::vector<std::optional<reports::RecordQuestion>> asked(suite.questions.size());
    std::vector<std::string> reasons(suite.questions.size());
    const std::size_t done = parallel_for(
        suite.questions.size(), session.threads(),
        [&] {
          auto questionnaire = std::make_unique<Questionnaire>(
              comparison.stacks, comparison.reference, comparison.topology);
          questionnaire->watch_plans(note_prices);
          if (checks_replicas) questionnaire->check_replicas();
          return questionnaire;
        },
        [&](Questionnaire& questionnaire, std::size_t i) {
          const QuestionResult result = questionnaire.ask(suite.questions[i]);
          if (result.error.empty()) {
            asked[i] = to_record(suite.questions[i], suite.name, result);
          } else {
            reasons[i] = result.error;
          }
          loop.advance();
        },
        loop.stop());
    std::size_t not_asked = 0;
    std::map<std::string, std::size_t> not_asked_by_op;
    for (std::size_t i = 0; i < done; ++i) {
      if (asked[i]) {
        record.questions.push_back(std::move(*asked[i]));
        questions.push_back(&suite.questions[i]);
      } else {
        ++not_asked;
        ++not_asked_by_op[suite.questions[i].op()];
        record.not_asked.push_back({.id = question_id(suite.questions[i], suite.name),
                                    .suite = suite.name,
                                    .op = suite.questions[i].op(),
                                    .reason = std::move(reasons[i])});
      }
    }
    std::string source = suite.source;
    if (done < suite.questions.size()) {
      source += (source.empty() ? "" : "; ") + std::string("interrupted after ") +
                std::to_string(done) + " of " + std::to_string(suite.questions.size()) +
                " questions";
    }
    if (not_asked > 0) {
      source += (source.empty() ? "" : "; ") + std::to_string(not_asked) + " of " +
                std::to_string(done) + " not asked (" + counts_text(not_asked_by_op) + ")";
    }
    record.configuration.suites.push_back({.name = suite.name,
                                           .questions = static_cast<std::int64_t>(done - not_asked),
                                           .source = source,
                                           .program = program_of(suite, comparison)});
  }
  if (record.questions.empty() && !record.not_asked.empty()) {
    const reports::UnaskedQuestion& first = record.not_asked.front();
    throw ConfigError(first.suite, "",
                      "none of the " + std::to_string(record.not_asked.size()) +
                          " questions can be asked, the first, " + first.id + ", because " +
                          first.reason);
  }
  record.reference.doubtful = reference_sides(comparison.reference, comparison.stacks);
  const std::vector<std::string> doubts = doubted.lines();
  record.reference.doubtful.insert(record.reference.doubtful.end(), doubts.begin(), doubts.end());
  return questions;
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

// Adds curves of the price of the four collectives against their bytes, within one host and across
// eight.
void draw_curves(const Comparison& comparison, ComparisonRecord& record) {
  struct Change {
    Collective collective;
    Placement from;
    Placement to;
  };
  const std::array<Change, 4> changes = {{
      {Collective::kAllGather, Placement::shard(0), Placement::replicate()},
      {Collective::kReduceScatter, Placement::partial(), Placement::shard(0)},
      {Collective::kAllReduce, Placement::partial(), Placement::replicate()},
      {Collective::kAllToAll, Placement::shard(0), Placement::shard(1)},
  }};
  const std::int64_t per_host = comparison.topology.devices_per_host();
  const std::array<std::pair<DeviceMesh, std::string>, 2> meshes = {{
      {DeviceMesh::make({std::max<std::int64_t>(2, per_host)}), "one host"},
      {DeviceMesh::make({8 * per_host}), "8 hosts"},
  }};
  std::vector<Stack> stacks = comparison.stacks;
  const auto is_reference = [&](const Stack& s) { return s.name == comparison.reference.name; };
  if (std::none_of(stacks.begin(), stacks.end(), is_reference)) {
    stacks.push_back(comparison.reference);
  }
  for (const Stack& stack : stacks) {
    StackEvaluator evaluator(stack, comparison.topology);
    for (const auto& [mesh, where] : meshes) {
      const TransitionPricer& pricer = evaluator.on(mesh).pricer();
      const double n = static_cast<double>(mesh.size());
      for (const Change& change : changes) {
        reports::PriceCurve curve{.stack = stack.name,
                                  .collective = std::string(to_string(change.collective)),
                                  .mesh = mesh.text(),
                                  .group = mesh.text() + " ranks, " + where,
                                  .bytes = {},
                                  .price_us = {}};
        for (double bytes = 1024; bytes <= 1024.0 * 1024 * 1024; bytes *= 4) {
          const double local = change.collective == Collective::kAllGather ? bytes / n : bytes;
          const Price price = pricer.price(change.from, change.to, 0, local, DType::kBF16).price;
          curve.bytes.push_back(bytes);
          curve.price_us.push_back(price.is_possible() ? std::optional(price.total.value())
                                                       : std::nullopt);
        }
        record.curves.push_back(std::move(curve));
      }
    }
  }
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

// Less time is better.
Tone tone_of_change(std::string_view change) {
  return change.starts_with('-')   ? Tone::kGood
         : change.starts_with('+') ? Tone::kBad
                                   : Tone::kPlain;
}

std::string with_sign(double change, const std::string& figure) {
  return (change > 0.0 && figure != "0" ? "+" : "") + figure;
}

// What may make a step fit that exceeds a device's memory; "" if all of them fit.
std::string memory_advice(const ComparisonRecord& record, std::span<const ProgramCase> programs) {
  const bool all_fit = std::ranges::all_of(record.steps, [](const reports::StepComparison& step) {
    const double most = step.device_bytes.value_or(kInfinity);
    return step.peak_bytes.baseline <= most && step.peak_bytes.candidate.value_or(0.0) <= most;
  });
  if (all_fit) return "";
  return "  a step exceeds a device's memory; try " +
         memory_options(programs.front().step_options.recomputation) + "\n";
}

// How many choices of each stack may leave replicas that differ, with the first of them.
std::string replicas_text(const ComparisonRecord& record, const ReplicaGateOption& option) {
  if (!option.is_required) return "";
  std::string text;
  for (std::size_t s = 0; s < record.stacks.size(); ++s) {
    std::size_t count = 0;
    std::string first;
    for (const reports::RecordQuestion& question : record.questions) {
      const std::string& differ = question.answers[s].replicas_may_differ;
      if (differ.empty()) continue;
      if (count++ == 0) first = question.id + ", " + differ;
    }
    text += "  " + record.stacks[s] + ": replicas may differ after " + std::to_string(count) +
            " of " + std::to_string(record.questions.size()) + " choices" +
            (count > 0 ? ", first at " + printable(first) : "") + "\n";
  }
  return text;
}

bool may_leave_different_replicas(const ComparisonRecord& record) {
  return std::ranges::any_of(record.questions, [](const reports::RecordQuestion& question) {
    return std::any_of(question.answers.begin() + 1, question.answers.end(),
                       [](const auto& answer) { return !answer.replicas_may_differ.empty(); });
  });
}

// What a reader should know of the reference's prices: a note for each line.
std::string doubts_text(const ComparisonRecord& record) {
  std::string text;
  for (const std::string& line : record.reference.doubtful) {
    text += "  note: " + printable(record.reference.name) + ": " + printable(line) + "\n";
  }
  return text;
}

// What each flip saves on its own, and with all that follows from it: a table for each step.
std::string downstream_text(const reports::StepComparison& step, const TextStyle& style) {
  constexpr std::size_t kShown = 20;
  TextTable table(style, {"node", "flips", "alone us", "with what follows us", "step us",
                          "nodes that follow", "baseline becomes candidate"});
  std::size_t cheaper = 0;
  std::size_t dearer_later = 0;
  for (std::size_t i = 0; i < step.flips.size(); ++i) {
    const reports::StepFlip& flip = step.flips[i];
    const double alone = flip.delta_local_us.value_or(0.0);
    const double whole = flip.delta_sum_us.value_or(0.0);
    if (alone < 0.0) ++cheaper;
    if (alone < 0.0 && whole > 0.0) ++dearer_later;
    if (i >= kShown) continue;
    const auto figure = [&](double us) { return with_sign(us, style.figure(us)); };
    table.add({flip.op + " at " + flip.node, std::to_string(flip.count), figure(alone),
               figure(whole), figure(flip.delta_step_us),
               std::to_string(flip.followers.value_or(0)),
               flip.baseline + " becomes " + flip.candidate});
  }
  return "  flips of " + printable(step.program) + " under " + step.candidate +
         ", each taken alone:\n" + table.text() +
         (step.flips.size() > kShown
              ? "  and " + std::to_string(step.flips.size() - kShown) + " more\n"
              : "") +
         "  " + std::to_string(cheaper) + " of " + std::to_string(step.flips.size()) +
         " flips are cheaper on their own, and " + std::to_string(dearer_later) +
         " of these cost more than they save with what follows\n";
}

// The flips that change each step most: a line for each.
std::string step_flips_text(const ComparisonRecord& record, bool downstream,
                            const TextStyle& style) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (const reports::StepComparison& step : record.steps) {
    if (step.flips.empty()) continue;
    if (downstream) {
      text += downstream_text(step, style);
      continue;
    }
    text += "  each taken alone, in a step of " + printable(step.program) + " under " +
            step.candidate + ":\n";
    for (std::size_t i = 0; i < std::min(step.flips.size(), kShown); ++i) {
      const reports::StepFlip& flip = step.flips[i];
      const std::string change = with_sign(
          flip.delta_step_us, style.difference(flip.delta_step_us, step.step_us.baseline));
      const double megabytes = flip.delta_peak_bytes / 1e6;
      text += "    " + style.painted(tone_of_change(change), change + " us") + ", " +
              (megabytes == 0.0 ? "same memory"
                                : with_sign(megabytes, style.figure(megabytes)) + " MB") +
              ": " + flip.op + " at " + printable(flip.node) +
              (flip.count > 1 ? " and " + std::to_string(flip.count - 1) + " like it" : "") + ", " +
              flip.baseline + " becomes " + flip.candidate + "\n";
    }
    if (step.flips.size() > kShown) {
      text += "    and " + std::to_string(step.flips.size() - kShown) + " more\n";
    }
  }
  return text;
}

std::string comparison_text(const reports::ComparisonText& comparison, const TextStyle& style) {
  std::string text = printable(comparison.sentence) + "\n";
  if (comparison.suites.empty()) return text;
  const std::vector<std::string>& titles = comparison.suites.front();
  const auto change =
      static_cast<std::size_t>(std::find(titles.begin(), titles.end(), "change") - titles.begin());
  TextTable suites(style, titles);
  for (std::size_t i = 1; i < comparison.suites.size(); ++i) {
    const std::vector<std::string>& cells = comparison.suites[i];
    suites.add(cells);
    const bool is_time = std::find(cells.begin(), cells.end(), "time") != cells.end();
    if (is_time && change < cells.size()) suites.paint(change, tone_of_change(cells[change]));
  }
  text += suites.text();
  TextTable flips(style, 2);
  for (const std::vector<std::string>& cells : comparison.flips) {
    flips.add(cells);
    flips.paint(0, tone_of_change(cells[0]));
  }
  if (!comparison.flips_title.empty()) text += "  " + comparison.flips_title + "\n" + flips.text();
  if (!comparison.hidden_flips.empty()) text += "  " + comparison.hidden_flips + "\n";
  TextTable steps(style, 2);
  for (const std::vector<std::string>& cells : comparison.steps) {
    steps.add(cells);
    steps.paint(0, tone_of_change(cells[0]));
  }
  if (!comparison.steps_title.empty()) text += "  " + comparison.steps_title + "\n" + steps.text();
  return text;
}

// Says which changes of the topology change no price that was asked for.
void say_unread_changes(Comparison& comparison, const Session& session) {
  const std::vector<std::string> texts = comparison.unread.texts();
  if (!session.interruption.empty()) return;
  for (const std::string& text : texts) std::cerr << "shardlab: " << printable(text) << "\n";
}

// Says which candidates differ from the baseline only by how they merge collectives, although no
// question has a flattened mesh, without which nothing is merged.
void say_what_no_question_tests(const Comparison& comparison, const Session& session) {
  if (session.json() || !comparison.programs.empty()) return;
  for (const Suite& suite : comparison.suites) {
    for (const Question& question : suite.questions) {
      if (question.mesh.has_flattened()) return;
    }
  }
  const auto besides_merging = [](const Stack& stack) {
    nlohmann::json json = stack.to_json();
    for (const char* key :
         {"merge", "merge_rule", "merge_checks_all_gather", "name", "title", "source"}) {
      json.erase(key);
    }
    return json;
  };
  const auto merging = [](const Stack& stack) {
    const RedistributionOptions& options = stack.redistribution;
    return std::tuple(options.merge, options.merge_rule, options.merge_checks_all_gather);
  };
  std::vector<std::string> others;
  for (const Stack& stack : std::span(comparison.stacks).subspan(1)) {
    const Stack& baseline = comparison.stacks[0];
    if (merging(stack) == merging(baseline)) continue;
    if (besides_merging(stack) == besides_merging(baseline)) others.push_back(stack.name);
  }
  if (others.empty()) return;
  std::cerr << "shardlab: "
            << printable("how " + reports::listed(others) +
                         (others.size() == 1 ? " merges" : " merge") +
                         " collectives is not tested here, since only flattened meshes merge, and "
                         "no question has one (compare --program with --flatten does)")
            << "\n";
}

// The advice of --advise-flattened. That for the baseline is the same in each comparison of a
// program.
std::string flattened_meshes_text(const ComparisonRecord& record, const TextStyle& style) {
  std::string text;
  std::set<std::pair<std::string, std::string>> told;  // program and stack
  for (const reports::StepComparison& step : record.steps) {
    for (const reports::FlattenedMeshes& advice : step.flattened_meshes) {
      if (!told.emplace(step.program, advice.stack).second) continue;
      text += flatten_advice_text(advice, style);
    }
  }
  return text;
}

// Prints the record and writes its report.
void print_comparison(reports::ComparisonRecord& record, const CompareArguments& arguments,
                      std::span<const ProgramCase> programs,
                      std::chrono::steady_clock::time_point start, Session& session) {
  record.provenance = session.provenance();
  if (!session.no_timing) {
    const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
    record.timing = reports::RunTiming{.started_utc = {}, .ms = {{"wall_ms", wall.count()}}};
  }
  const TextStyle style = session.style();
  std::string text = session.json()
                         ? reports::report_json(record)
                         : comparison_text(reports::summary_text(record, arguments.shown), style) +
                               doubts_text(record) + replicas_text(record, arguments.replicas) +
                               memory_advice(record, programs) +
                               step_flips_text(record, arguments.downstream, style) +
                               flattened_meshes_text(record, style) + report_line(session);
  write_run(session, std::move(record), arguments.shown);
  if (session.summary) return;
  if (session.json() && !session.interruption.empty()) {
    session.print(nlohmann::json::parse(text));  // with its key "interrupted"
  } else {
    session.print(text);
  }
}

void run_compare(const CompareArguments& arguments, Session& session) {
  if (arguments.downstream && arguments.programs.empty()) {
    throw InputError(
        "compare: found --downstream without --program; valid: with --program and --mesh, since a "
        "suite "
        "does not say which operator reads what");
  }
  if (arguments.programs.empty() &&
      (arguments.advises_flattening || !arguments.flattened.axes.empty())) {
    throw InputError(
        "compare: found --flatten or --advise-flattened without --program; valid: with --program "
        "and "
        "--mesh, since the questions of a suite name their own meshes");
  }
  const auto start = std::chrono::steady_clock::now();
  std::optional<Comparison> loaded;
  if (arguments.programs.empty()) {
    loaded = load(arguments, session);
  } else {
    run_unstoppable(session,
                    {.what = "laying out the parameters of the program", .interruption = {}},
                    [&] { loaded = load(arguments, session); });
  }
  Comparison& comparison = *loaded;
  if (arguments.advises_flattening) expect_names_to_flatten(comparison.programs.front().mesh);
  say_what_no_question_tests(comparison, session);
  prepare_out(session);  // a folder that cannot be made is an error before the work, not after it
  ComparisonRecord record;
  static_cast<reports::RunHeader&>(record) = header_of(session);
  record.configuration.topology = comparison.topology.to_json();
  for (const Stack& stack : comparison.stacks) {
    record.stacks.push_back(stack.name);
    record.configuration.stacks.push_back(stack.to_json());
  }
  bool reference_listed = false;
  for (const std::string& name : record.stacks) {
    reference_listed = reference_listed || name == comparison.reference.name;
  }
  if (!reference_listed) record.configuration.stacks.push_back(comparison.reference.to_json());
  record.reference = {.name = comparison.reference.name,
                      .label = reference_label(comparison.reference)};

  const std::vector<const Question*> questions =
      ask_all(comparison, arguments.replicas.is_required, session, record);
  if (questions.empty() && !session.interruption.empty()) {
    if (session.json()) session.print(nlohmann::json::object());
    if (!session.json()) session.print(std::string());
    return;
  }
  if (session.interruption.empty()) {
    explain_flips({.stacks = comparison.stacks,
                   .reference = comparison.reference,
                   .topology = comparison.topology,
                   .questions = questions},
                  session, record);
  }
  const auto finish = [&] {
    print_comparison(record, arguments, comparison.programs, start, session);
  };
  std::vector<reports::StepComparison> steps;
  const auto compare_programs = [&] {
    for (const ProgramCase& program : comparison.programs) {
      std::vector<reports::StepComparison> of_program =
          compare_steps(program, comparison.stacks, comparison.reference, comparison.topology,
                        arguments.advises_flattening);
      std::move(of_program.begin(), of_program.end(), std::back_inserter(steps));
    }
  };
  if (session.interruption.empty() && !comparison.programs.empty()) {
    run_unstoppable(
        session,
        {.what = "comparing training steps",
         .interruption =
             [&] { return "interrupted after the questions, before training steps were compared"; },
         .print_known = finish},
        compare_programs);
  }
  record.steps = std::move(steps);
  say_unread_changes(comparison, session);
  check_all_invariants(comparison, session, record);
  draw_curves(comparison, record);
  if (may_leave_different_replicas(record)) session.exit_code = kGateSaidNo;
  finish();
}

}  // namespace

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
  command.option("--recipe", arguments->recipe,
                 "how parameters and inputs of --program are laid out: as in the best plan under "
                 "the reference that satisfies this recipe; default: as in the best plan");
  command.option("--plan", arguments->plan,
                 "how they are laid out: as in this file, which solve --format json has written");
  command.option("--recompute", arguments->recompute,
                 "what the backward pass of --program computes again instead of keeping it: none, "
                 "full, selective, every:N, full:N or selective:N, as solve has it; default: none");
  command.flag("--reshard-after-forward", arguments->reshard_after_forward,
               "gather the weights of --program again in the backward pass, as fully_shard does");
  command.flag(
      "--downstream", arguments->downstream,
      "for --program: beside what each flip saves on its own, what it changes with all that "
      "follows from it, until the layouts are the same again");
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

// The comparison of the demo: a new release, on generated questions and on those that training
// programs ask. LLaMA3-8B was recorded from torchtitan and NeMo Automodel, and a mixture of experts
// from transformers (docs/suites.md).
void add_demo_command(const Command& root, Session& session) {
  const Command command = root.subcommand(
      "demo",
      "write the report of a comparison that comes with shardlab: PyTorch 2.13 with 2.15\n"
      "  shardlab demo --out demo/");
  auto out = std::make_shared<std::string>("shardlab-demo");
  command.option("--out", *out, "folder for report.html, report.md, report.json and record.json")
      .check(not_empty())
      .show_default();
  add_common_options(command, session, {.seed = true, .jobs = true, .sets = true});
  command.runs([out, &session] {
    session.out = *out;
    CompareArguments arguments;
    arguments.baseline = "dtensor-2.13";
    arguments.candidates = {"dtensor-2.15"};
    arguments.suites = {"ops-small", "torchtitan-llama3-8b-fsdp-tp", "nemo-llama3-8b-fsdp-sp",
                        "transformers-qwen3-30b-a3b-ep"};
    session.command_line = {"compare", "--baseline", arguments.baseline, "--candidate",
                            arguments.candidates[0]};
    for (const std::string& suite : arguments.suites) {
      session.command_line.insert(session.command_line.end(), {"--suite", suite});
    }
    for (const std::string& set : session.sets) {
      session.command_line.insert(session.command_line.end(), {"--set", set});
    }
    if (session.seed != 0) {
      session.command_line.insert(session.command_line.end(),
                                  {"--seed", std::to_string(session.seed)});
    }
    run_compare(arguments, session);
    if (!session.json() && session.interruption.empty()) {
      session.print(printable("the same: shardlab " + join(session.command_line, " ") + " --out " +
                              session.out) +
                    "\n");
    }
  });
}

}  // namespace shardlab

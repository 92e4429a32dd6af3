#include "runner/evaluation/asked_suites.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/parallel.h"
#include "costmodel/base/units.h"
#include "reports/statistics.h"
#include "runner/evaluation/doubted_prices.h"
#include "runner/evaluation/reference_sides.h"
#include "runner/session/long_loop.h"
#include "strategies/proof/choice_proof.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/questionnaire.h"

namespace shardlab {
namespace {

using reports::ComparisonRecord;

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
std::string program_of(const Suite& suite, std::span<const ProgramCase> programs) {
  for (const ProgramCase& program : programs) {
    if (program.program.name == suite.name) return suite.name + " on " + program.mesh.text();
  }
  if (!suite.source.starts_with("recorded")) return "";
  return suite.title.empty() ? suite.name : suite.title;
}

}  // namespace

std::vector<const Question*> ask_suites(const SuitesToAsk& to_ask, Session& session,
                                        ComparisonRecord& record) {
  std::vector<const Question*> questions;
  std::size_t total = 0;
  for (const Suite& suite : to_ask.suites) total += suite.questions.size();
  std::vector<const Question*> all;
  for (const Suite& suite : to_ask.suites) {
    for (const Question& question : suite.questions) all.push_back(&question);
  }
  session.prepare(to_ask.stacks, all, to_ask.topology);
  session.prepare({&to_ask.reference, 1}, all, to_ask.topology);
  LongLoop loop(session, "questions", total);
  const StackEvaluator reference(to_ask.reference, to_ask.topology);
  DoubtedPrices doubted(reference);
  std::mutex doubting;
  const auto note_prices = [&](const Plan& plan, const Redistributor& redistributor) {
    const std::lock_guard lock(doubting);
    doubted.add(plan, redistributor);
  };
  for (const Suite& suite : to_ask.suites) {
    if (loop.was_left()) break;
    std::vector<std::optional<reports::RecordQuestion>> asked(suite.questions.size());
    std::vector<std::string> reasons(suite.questions.size());
    const std::size_t done = parallel_for(
        suite.questions.size(), session.threads(),
        [&] {
          auto questionnaire =
              std::make_unique<Questionnaire>(to_ask.stacks, to_ask.reference, to_ask.topology);
          questionnaire->watch_plans(note_prices);
          questionnaire->prove_choices(fault_of_choice);
          if (to_ask.checks_replicas) questionnaire->check_replicas();
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
                                           .program = program_of(suite, to_ask.programs)});
  }
  if (record.questions.empty() && !record.not_asked.empty()) {
    const reports::UnaskedQuestion& first = record.not_asked.front();
    throw ConfigError(first.suite, "",
                      "none of the " + std::to_string(record.not_asked.size()) +
                          " questions can be asked, the first, " + first.id + ", because " +
                          first.reason);
  }
  record.reference.doubtful = reference_sides(to_ask.reference, to_ask.stacks);
  const std::vector<std::string> doubts = doubted.lines();
  record.reference.doubtful.insert(record.reference.doubtful.end(), doubts.begin(), doubts.end());
  return questions;
}

}  // namespace shardlab

#include "runner/torch/sample_check.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"
#include "runner/choices/question_text.h"
#include "sim/counter_hash.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/questionnaire.h"

namespace shardlab {
namespace {

// The questions in an order in which every beginning is spread over ops and numbers of mesh dims:
// one of each kind in turn, the kinds and what is within a kind in random order.
std::vector<const Question*> spread(std::span<const Question* const> questions,
                                    std::uint64_t seed) {
  struct Kind {
    std::uint64_t order = 0;
    std::vector<std::pair<std::uint64_t, const Question*>> questions;
  };
  std::map<std::pair<std::string, int>, Kind> kinds;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& question = *questions[i];
    Kind& kind = kinds[{question.op(), question.mesh.ndim()}];
    const std::uint64_t random = counter_hash(seed, i, 0);
    if (kind.questions.empty()) kind.order = random;
    kind.questions.emplace_back(random, &question);
  }
  std::vector<Kind*> turns;
  for (auto& [name, kind] : kinds) {
    std::stable_sort(kind.questions.begin(), kind.questions.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    turns.push_back(&kind);
  }
  std::stable_sort(turns.begin(), turns.end(),
                   [](const Kind* a, const Kind* b) { return a->order < b->order; });
  std::vector<const Question*> out;
  for (std::size_t round = 0; out.size() < questions.size(); ++round) {
    const std::size_t before = out.size();
    for (const Kind* kind : turns) {
      if (round < kind->questions.size()) out.push_back(kind->questions[round].second);
    }
    if (out.size() == before) break;
  }
  return out;
}

struct OwnAnswer {
  std::optional<Candidate> choice;
  std::size_t candidates = 0;
  std::string refusal;
};

OwnAnswer own_answer(StackEvaluator& evaluator, const OpCall& call, const DeviceMesh& mesh) {
  OwnAnswer answer;
  try {
    const Selection selection =
        evaluator.select(call, mesh, {.search = SearchKind::kFull, .order = CandidateOrder{}});
    answer.choice = selection.choice;
    answer.candidates = selection.candidates.size();
  } catch (const InputError& error) {
    answer.refusal = error.what();
  }
  return answer;
}

std::string price_text(double us) {
  return us < kInfinity ? std::to_string(us) + " us" : "an infinite price";
}

// How the answers differ; empty if they agree. Where PyTorch's choice follows the order of a hash
// set, only the prices are compared.
std::string difference(const OwnAnswer& own, const TorchDecisions::Answer& torch) {
  if (!torch.refusal.empty() && !own.refusal.empty()) return "";
  if (!torch.refusal.empty()) return "shardlab answers, but " + torch.refusal;
  if (!own.refusal.empty()) return "PyTorch answers, but shardlab says: " + own.refusal;
  const GivenDecision& decision = torch.decision;
  if (decision.weighed && own.candidates != *decision.weighed) {
    return "shardlab has " + std::to_string(own.candidates) + " candidates, PyTorch " +
           std::to_string(*decision.weighed);
  }
  const double least = torch.least_us.value_or(kInfinity);
  if (!is_same_total(std::max(own.choice->total_us, least),
                     std::min(own.choice->total_us, least)) &&
      own.choice->total_us != least) {
    return "shardlab pays " + price_text(own.choice->total_us) + ", PyTorch " + price_text(least);
  }
  if (!decision.chosen) return "";
  const FollowCandidate& chosen = decision.candidates.at(*decision.chosen);
  if (chosen.inputs == own.choice->inputs && chosen.outputs == own.choice->outputs) return "";
  return "shardlab chooses " + choice_text(own.choice->inputs, own.choice->outputs) + ", PyTorch " +
         choice_text(chosen.inputs, chosen.outputs);
}

// One question, asked whole, and how the answers differ.
struct Comparison {
  std::string question;  // as a text
  std::string difference;
};

// Nothing if the question is not compared: PyTorch decides about the op anyway, or its answer
// depends on the order of a hash set or is none that shardlab can read.
std::optional<Comparison> compare_choice(const Question& question, StackEvaluator& evaluator,
                                         TorchDecisions& decisions) {
  if (decisions.takes_all()) return std::nullopt;
  OpCall call = question.call;
  try {
    if (is_foreach(call.op)) call = foreach_child(call, 0);
  } catch (const InputError&) {  // reported when the question is asked
    return std::nullopt;
  }
  const OwnAnswer own = own_answer(evaluator, call, question.mesh);
  const TorchDecisions::Answer torch = decisions.answer(call, question.mesh, evaluator.topology());
  if (!torch.is_settled || torch.has_foreign_layouts) return std::nullopt;
  return Comparison{call.text(), difference(own, torch)};
}

std::string steps_text(const Plan& plan) {
  std::string text;
  for (const PlanStep& step : plan.steps) {
    text += text.empty() ? "" : ", ";
    text += step.from.text() + " to " + step.to.text() + " over mesh dim";
    for (const int dim : step.mesh_dims) text += " " + std::to_string(dim);
  }
  return text.empty() ? "no step" : text;
}

// How two plans of one question differ; empty if they agree. Plans without a price are not taken,
// so that their steps do not matter.
std::string difference(const Question& question, StackEvaluator& evaluator,
                       const GivenPlan& torch) {
  const Plan own = evaluator.plan(question.mesh, question.tensor, question.from, question.to, {});
  const double own_us = own.impossible.empty() ? own.price.total.value() : kInfinity;
  const double torch_us = torch.price_us.value_or(kInfinity);
  if (own_us != torch_us &&
      !is_same_total(std::max(own_us, torch_us), std::min(own_us, torch_us))) {
    return "shardlab pays " + price_text(own_us) + ", PyTorch " + price_text(torch_us);
  }
  if (torch_us == kInfinity) return "";
  const std::string own_steps = steps_text(own);
  const std::string torch_steps = steps_text(
      evaluator.on(question.mesh).plan_of_steps(question.tensor, question.from, torch.steps));
  if (own_steps == torch_steps) return "";
  return "shardlab takes " + own_steps + ", PyTorch " + torch_steps;
}

std::optional<Comparison> compare_plan(const Question& question, StackEvaluator& evaluator,
                                       TorchDecisions& decisions) {
  if (decisions.takes_all()) return std::nullopt;
  const TorchDecisions::PlanAnswer torch = decisions.plan_answer(
      question.mesh, evaluator.topology(), question.tensor, question.from, question.to);
  if (!torch.is_settled) return std::nullopt;
  Comparison compared{
      question.tensor.text() + " " + question.from.text() + " to " + question.to.text(), ""};
  try {
    compared.difference = difference(question, evaluator, torch.plan);
    if (!torch.refusal.empty()) compared.difference = "shardlab answers, but " + torch.refusal;
  } catch (const InputError& error) {
    if (torch.refusal.empty()) {
      compared.difference = std::string("PyTorch answers, but shardlab says: ") + error.what();
    }
  }
  return compared;
}

}  // namespace

SampleCheck check_sample(const Stack& stack, TorchRules& rules,
                         std::span<const Question* const> questions, const Topology& topology,
                         const SampleOptions& options) {
  SampleCheck result;
  if (options.count == 0) return result;
  const auto begin = std::chrono::steady_clock::now();
  StackEvaluator evaluator(stack, topology);
  for (const Question* question : spread(questions, options.seed)) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    const bool is_enough =
        options.count ? result.asked >= *options.count
                      : spent.count() > options.budget_s && result.asked >= options.at_least;
    if (is_enough) break;
    const std::optional<Comparison> compared =
        question->kind == Question::Kind::kPlan
            ? compare_plan(*question, evaluator, rules.decisions())
            : compare_choice(*question, evaluator, rules.decisions());
    if (!compared) continue;
    ++result.asked;
    if (compared->difference.empty()) {
      ++result.equal;
    } else {
      result.different.push_back(compared->question + " on " + question->mesh.text() + ": " +
                                 compared->difference);
    }
  }
  return result;
}

}  // namespace shardlab

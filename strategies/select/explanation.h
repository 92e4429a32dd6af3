// Why a stack answers a question as it does: its cheapest candidates with the parts of their
// prices, the steps that it would run, and the parameter whose smallest change flips the choice.
//
//   StackEvaluator reference(judging_stack, topology);
//   Explainer explainer(stack, topology, reference);
//   reports::AnswerDetail why = explainer.explain(question, {"S(0)R, RR -> S(0)R"});
//   why.candidates.front().parts->transfer_us    // of redistributing its inputs
//
// The texts that are passed with the question are choices of other stacks. They are listed too,
// however expensive they are, if this stack's rules allow them. A redistribution has one candidate,
// its plan. An explanation takes about ten times as long as a decision, so it is for the few
// questions that a report shows in detail, not for all questions of a suite. Each thread needs
// explainers and a reference of its own; the explainers of several stacks may share a reference, so
// that what it has priced for one stack need not be priced for the next.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/records/answer_detail.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/price_flips.h"
#include "strategies/select/suite.h"

namespace shardlab {

// How many of the cheapest candidates an explanation lists. The elements of a foreach op share this
// number.
inline constexpr std::size_t kExplainedCandidates = 8;

class Explainer {
 public:
  // Keeps a reference to `reference`.
  Explainer(const Stack& stack, const Topology& topology, StackEvaluator& reference);

  // Throws InputError as StackEvaluator::select does. Looking for the parameter that flips the
  // choice takes most of the time; `looks_for_flip` says whether to do so.
  [[nodiscard]] reports::AnswerDetail explain(const Question& question,
                                              const std::vector<std::string>& also,
                                              bool looks_for_flip = true);

 private:
  // One call, and where its explanation goes.
  struct Job;
  void explain_plan(const Question& question, reports::AnswerDetail& detail);
  void explain_call(const Job& job, std::optional<PriceFlip>& first_flip,
                    reports::AnswerDetail& detail);
  // The candidates to show, by price: the cheapest, the choice, and those asked for.
  [[nodiscard]] std::vector<std::size_t> shown_candidates(const Job& job,
                                                          const Expansion& expansion,
                                                          const Pricing& pricing,
                                                          const Candidate& choice);
  [[nodiscard]] Price moves_of(const Candidate& candidate, const OpCall& call,
                               const DeviceMesh& mesh);

  StackEvaluator evaluator_;
  StackEvaluator& reference_;
  PriceFlips flips_;
};

}  // namespace shardlab

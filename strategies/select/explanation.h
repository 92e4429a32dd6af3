// Why a stack answers a question as it does: its cheapest candidates with the parts of their
// prices, the steps it would run, and the parameter whose change flips the choice first.
//
//   Explainer explainer(stack, topology, reference);
//   reports::AnswerDetail why = explainer.explain(question, {"S(0)R, RR -> S(0)R"});
//   why.candidates.front().parts->transfer_us    // of redistributing its inputs
//
// The texts asked for beside the question are choices of other stacks: they are listed as well,
// however dear, where this stack's rules list them at all. A redistribution has one candidate, its
// plan. For the few questions that a report opens, not for all of a suite: an explanation costs
// about ten times a decision. One explainer a thread. Tested by
// tests/unit/strategies/select/explanation_test.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/records/answer_detail.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/price_flips.h"
#include "strategies/select/suite.h"

namespace shardlab {

// A foreach op's elements share these.
inline constexpr std::size_t kExplainedCandidates = 8;

class Explainer {
 public:
  Explainer(const Stack& stack, const Topology& topology, const Stack& reference);

  // Throws InputError as StackEvaluator::select does.
  // Whether the parameter is looked for, which takes most of the time, is the caller's to say.
  [[nodiscard]] reports::AnswerDetail explain(const Question& question,
                                              const std::vector<std::string>& also,
                                              bool looks_for_flip = true);

 private:
  // One call and where what is found of it goes.
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
  StackEvaluator reference_;
  PriceFlips flips_;
};

}  // namespace shardlab

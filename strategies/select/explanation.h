// Why a stack answers a question as it does: its cheapest candidates with the parts of their
// prices, the steps it would run, and the parameter whose change flips the choice first.
//
//   Explainer explainer(stack, topology, reference);
//   Explanation why = explainer.explain(question, {"S(0)R, RR -> S(0)R"});
//   why.candidates.front().moves.transfer    // of redistributing its inputs
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

#include "strategies/select/evaluator.h"
#include "strategies/select/price_flips.h"
#include "strategies/select/suite.h"

namespace shardlab {

struct ExplainedCandidate {
  std::string choice;                  // as choice_text() or Plan::path() says it
  double total_us = 0.0;               // infinity: impossible
  Price moves;                         // of redistributing the inputs
  double kernel_us = 0.0;              // of the op itself
  std::optional<double> reference_us;  // the reference's own price of the same layouts
  bool is_chosen = false;
};

struct ExplainedStep {
  std::string of;    // "input 0"; "" for a redistribution
  std::string what;  // "all_gather on mesh dim 1, S(0) to R"
  Bytes full_bytes = 0.0;
  Price price;
};

struct Explanation {
  std::vector<ExplainedCandidate> candidates;  // by total; equal ones as the rules list them
  std::vector<ExplainedStep> steps;
  std::optional<PriceFlip> flip;  // nothing within the factors looked at flips it, or none exists
};

// A foreach op's elements share these.
inline constexpr std::size_t kExplainedCandidates = 8;

class Explainer {
 public:
  Explainer(const Stack& stack, const Topology& topology, const Stack& reference);

  // Throws InputError as StackEvaluator::select does.
  // Whether the parameter is looked for, which takes most of the time, is the caller's to say.
  [[nodiscard]] Explanation explain(const Question& question, const std::vector<std::string>& also,
                                    bool looks_for_flip = true);

 private:
  void explain_plan(const Question& question, Explanation& explanation);
  void explain_call(const OpCall& call, const DeviceMesh& mesh,
                    const std::vector<std::string>& also, const std::string& element,
                    bool looks_for_flip, Explanation& explanation);
  [[nodiscard]] Price moves_of(const Candidate& candidate, const OpCall& call,
                               const DeviceMesh& mesh);

  StackEvaluator evaluator_;
  StackEvaluator reference_;
  PriceFlips flips_;
};

}  // namespace shardlab

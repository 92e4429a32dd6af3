// Why a stack answers a question as it does: its cheapest candidates with the parts of their
// prices, the steps that it would run, and the parameter whose change flips the choice first.
//
//   Explainer explainer(stack, topology, reference);
//   Explanation why = explainer.explain(question, {"S(0)R, RR -> S(0)R"});
//   why.candidates.front().moves.transfer    // of redistributing its inputs
//
// The texts that are passed beside the question are choices of other stacks: they are listed as
// well, however dear, where this stack's rules list them at all. A redistribution has one
// candidate, its plan. An explanation takes about ten times as long as a decision, so it is for the
// few questions that a report opens, not for all questions of a suite. Each thread needs an
// explainer of its own.
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
  std::optional<PriceFlip> flip;  // nothing: no factor in range flips the choice, or none was asked
};

// The cheapest candidates that an explanation lists; the elements of a foreach op share them.
inline constexpr std::size_t kExplainedCandidates = 8;

class Explainer {
 public:
  Explainer(const Stack& stack, const Topology& topology, const Stack& reference);

  // Throws InputError as StackEvaluator::select does. Looking for the parameter that flips the
  // choice takes most of the time; `looks_for_flip` says whether to do so.
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

// One question put to several stacks and judged by a reference.
//
//   Questionnaire questionnaire(stacks, reference, topology);
//   QuestionResult result = questionnaire.ask(question);    // one answer per stack, in order
//
// An answer is a choice and what it costs: the placements that an op takes (with the plans that
// bring its inputs there), or the plan of a redistribution. The reference prices the very steps
// that the stack would run, with its own models. The best choice is the cheapest over the
// reference's own candidates and plans and over the choices of all stacks. An op is judged on its
// own: what its output costs later is not counted. If the reference's collective model has measured
// rows, each answer also states how far its price rests on them (strategies/select/price_basis.h).
// Each thread needs a questionnaire of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/measured_ranges.h"
#include "reports/records/question.h"
#include "sim/price_interval.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/stack.h"
#include "strategies/select/suite.h"

namespace shardlab {

// An answer as it stands in a record, with more fields that are needed only to judge it.
struct Answer : reports::StackAnswer {
  std::int64_t moving_steps = 0;  // steps of the path that move data between ranks
  std::int64_t candidates = 1;
  // Prices of the same candidates by this stack and by the reference, for rank correlation.
  std::vector<double> totals;
  std::vector<double> reference_totals;
  std::vector<UnsurePrice> unsure;  // the reference's prices of what the choice moves
  std::vector<Placements> inputs;   // the placements of the choice
  std::vector<Placements> outputs;
};

struct QuestionResult {
  std::vector<Answer> answers;  // one per stack
  reports::BestChoice best;
  std::string error;  // why the question can't be asked at all; then there are no answers
};

class Questionnaire {
 public:
  Questionnaire(const std::vector<Stack>& stacks, const Stack& reference, const Topology& topology);

  [[nodiscard]] QuestionResult ask(const Question& question);

  // `seen` is called with each plan that the reference prices to judge a choice.
  using SeenPlan = std::function<void(const Plan& plan, const Redistributor& redistributor)>;
  void watch_plans(SeenPlan seen) { seen_ = std::move(seen); }
  // `find` says which row of a choice computes something else than the op, and "" where none is
  // known to (strategies/proof/choice_proof.h). It is asked where choices differ, about those of
  // stacks whose rules are not shardlab's own: the rows of releases are known, and `rules` proves
  // them.
  using FindFault = std::function<std::string(const OpCall& call, const DeviceMesh& mesh,
                                              const std::vector<Placements>& inputs,
                                              const std::vector<Placements>& outputs)>;
  void prove_choices(FindFault find) { find_fault_ = std::move(find); }
  // From now on, answers say after which step of a stack's plan replicas may differ
  // (sim/replicas.h).
  void check_replicas() { checks_replicas_ = true; }

 private:
  void note_faults(const OpCall& call, const DeviceMesh& mesh, QuestionResult& result) const;
  void note_replicas(Answer& answer, const Plan& plan, const DeviceMesh& mesh) const;
  void ask_plan(const Question& question, QuestionResult& result);
  void ask_op(const Question& question, QuestionResult& result);
  void ask_select(const OpCall& call, const DeviceMesh& mesh, QuestionResult& result);
  void ask_foreach(const OpCall& call, const DeviceMesh& mesh, QuestionResult& result);
  [[nodiscard]] Answer select_answer(StackEvaluator& stack, const Expansion& expansion,
                                     const OpRule& rule, const OpCall& call,
                                     const DeviceMesh& mesh);
  [[nodiscard]] bool best_runs(const Candidate& best, const OpCall& call, const DeviceMesh& mesh);
  [[nodiscard]] std::optional<reports::PriceBasis> basis_of_best(const Candidate& best,
                                                                 const OpCall& call,
                                                                 const DeviceMesh& mesh);

  std::vector<std::unique_ptr<StackEvaluator>> stacks_;
  std::unique_ptr<StackEvaluator> reference_;
  SeenPlan seen_;
  FindFault find_fault_;
  bool checks_replicas_ = false;
  MeasuredRanges measured_;  // what the reference's collective model knows from measured rows
};

// Tells a source of rules (strategies/rules/rule_source.h) which calls the questions are about. A
// live PyTorch answers many calls together much faster than one by one.
void prepare_rules(RuleSource& source, std::span<const Question* const> questions);

// A choice as text, inputs and then outputs: "S(0)R, R -> S(0)R".
[[nodiscard]] std::string choice_text(const std::vector<Placements>& inputs,
                                      const std::vector<Placements>& outputs);

// "element 3, " before what is said of that element of a call on lists of tensors; "" where the
// lists have one tensor each. Assumes a call for which foreach_size() has an answer.
[[nodiscard]] std::string element_label(const OpCall& call, std::size_t index);

}  // namespace shardlab

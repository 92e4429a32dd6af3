#include "strategies/select/ties.h"

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"
#include "strategies/select/questionnaire.h"

namespace shardlab {
namespace {

TieItem audit_plan(const Question& question, StackEvaluator& evaluator) {
  PlanOptions options;
  options.count_optimal_paths = true;
  const Plan plan =
      evaluator.on(question.mesh).plan(question.tensor, question.from, question.to, options);
  TieItem item;
  item.choice = plan.path();
  item.tied = {item.choice};
  item.total_us = plan.impossible.empty() ? plan.price.total.value() : kInfinity;
  item.paths = static_cast<std::size_t>(plan.optimal_paths);
  if (plan.optimal_paths > 1) item.exact = static_cast<std::size_t>(plan.optimal_paths);
  return item;
}

void audit_call(const OpCall& call, const DeviceMesh& mesh, StackEvaluator& evaluator,
                double within_percent, PriceFlips* flips, TieItem& item) {
  const OpRule& rule = find_op_rule(call.op, evaluator.stack().rules);
  const Expansion expansion = expand(rule, call, mesh);
  if (!expansion.in_place_error().empty()) throw InputError(expansion.in_place_error());
  if (expansion.size() == 0) throw InputError(call.op + ": no sharding candidate is left");
  const Pricing pricing = evaluator.price(expansion, &rule, call, mesh);
  const Decision decision = evaluator.decide(expansion, pricing, &rule, call, mesh);
  const std::string choice = choice_text(decision.choice.inputs, decision.choice.outputs);
  item.choice += (item.choice.empty() ? "" : "; ") + choice;
  item.total_us += decision.choice.total_us;
  item.candidates = std::max(item.candidates, decision.candidates);
  if (!(decision.choice.total_us < kInfinity)) return;
  if (flips != nullptr) {
    std::optional<PriceFlip> flip =
        flips->first_of({rule, call, mesh, expansion, pricing, decision});
    if (flip && (!item.flip || flip->distance() < item.flip->distance())) {
      item.flip = std::move(flip);
    }
  }
  const double limit = decision.choice.total_us * (1 + within_percent / 100.0);
  std::size_t near = 0;
  for (const double total : pricing.totals) near += total <= limit ? 1U : 0U;
  item.near += near > decision.ties ? near - decision.ties : 0;
  item.exact = std::max(item.exact, decision.ties);
  item.order_dependent = item.order_dependent || decision.flips_with_order;
  if (decision.margin_us && (!item.margin_us || *decision.margin_us < *item.margin_us)) {
    item.margin_us = decision.margin_us;
  }
  if (decision.ties < 2) return;
  for (const std::size_t i : ties_at_minimum(pricing.totals)) {
    if (item.tied.size() == kMaxListed) break;
    const Candidate tied = evaluator.candidate(expansion, pricing, i);
    item.tied.push_back(choice_text(tied.inputs, tied.outputs));
  }
}

}  // namespace

TieItem audit_ties(const Question& question, StackEvaluator& evaluator, double within_percent,
                   PriceFlips* flips) {
  if (question.kind == Question::Kind::kPlan) return audit_plan(question, evaluator);
  TieItem item;
  try {
    if (!is_foreach(question.call.op)) {
      audit_call(question.call, question.mesh, evaluator, within_percent, flips, item);
    } else {
      for (std::size_t i = 0; i < foreach_size(question.call); ++i) {
        audit_call(foreach_child(question.call, i), question.mesh, evaluator, within_percent, flips,
                   item);
      }
    }
  } catch (const InputError& error) {
    item = {};
    item.error = error.what();
  }
  return item;
}

}  // namespace shardlab

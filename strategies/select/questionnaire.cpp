#include "strategies/select/questionnaire.h"

#include <algorithm>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"
#include "sim/price_interval.h"
#include "sim/replicas.h"
#include "strategies/select/price_basis.h"

namespace shardlab {
namespace {

std::string joined(const std::vector<Placements>& layouts) {
  std::string text;
  for (const Placements& placements : layouts) {
    text += (text.empty() ? "" : ", ") + Layout(placements).text();
  }
  return text;
}

void set_reference(Answer& answer, double us, const std::string& reason) {
  if (us < kInfinity) {
    answer.reference_us = us;
  } else {
    answer.reference_impossible = reason;
  }
}

// The bounds of a reference price; the price itself where it has no interval.
std::optional<double> low_of(const Answer& answer) {
  return answer.reference_low_us ? answer.reference_low_us : answer.reference_us;
}
std::optional<double> high_of(const Answer& answer) {
  return answer.reference_high_us ? answer.reference_high_us : answer.reference_us;
}

// The interval of everything that the choice moves, beside the kernel, which has no error.
void set_interval(Answer& answer, const std::optional<PriceInterval>& moves, double moved_us) {
  if (!moves || !answer.reference_us) return;
  answer.reference_low_us = *answer.reference_us - moved_us + moves->low_us;
  answer.reference_high_us = *answer.reference_us - moved_us + moves->high_us;
}

// Keeps the cheapest of all choices that the reference can price; returns whether this one is
// cheaper than those before it.
bool keep_best(reports::BestChoice& best, const std::string& choice, std::optional<double> us) {
  if (!us || (best.us && *us >= *best.us)) return false;
  best.us = us;
  best.choice = choice;
  best.reason.clear();
  return true;
}

void keep_best(reports::BestChoice& best, const Answer& answer) {
  if (answer.is_usable() && keep_best(best, answer.choice, answer.reference_us)) {
    best.basis = answer.basis;
  }
}

// An answer has either a price or the reason why there is none. In an answer without a price, the
// fields that only describe a price (ties, margin, ...) are cleared.
void settle(Answer& answer) {
  if (answer.reference_us) {
    answer.reference_impossible.clear();
  } else {
    answer.reference_kernel_us.reset();
    answer.traffic.reset();
  }
  if (answer.price_us) {
    answer.impossible.clear();
    return;
  }
  answer.cannot_run.clear();
  answer.computes_wrong.clear();
  answer.ties = 1;
  answer.flips_with_order = false;
  answer.margin_us.reset();
}

std::optional<double> sum(const std::optional<double>& left, const std::optional<double>& right) {
  return left && right ? std::optional(*left + *right) : std::nullopt;
}

// Adds the basis of one price to the basis of a sum of prices. The result is known only if both
// are.
void add_known(std::optional<reports::PriceBasis>& sum,
               const std::optional<reports::PriceBasis>& more) {
  if (sum && more) {
    add_basis(*sum, *more);
  } else {
    sum.reset();
  }
}

void add(reports::TrafficByKind& sum, const reports::TrafficByKind& more) {
  for (const auto& [kind, traffic] : more) {
    reports::CollectiveTraffic& total = sum[kind];
    total.count += traffic.count;
    total.bytes += traffic.bytes;
  }
}

// The collectives of a stack's plan, with the bytes that the reference sees in them: where two
// stacks run the same steps, their bytes are the same, too, however the stacks themselves count
// them.
reports::TrafficByKind traffic_of(const Plan& repriced, const Redistributor& reference) {
  reports::TrafficByKind traffic;
  for (const PlanStep& step : repriced.steps) {
    if (!communicates({step.collective, step.full_bytes, reference.span(step)})) continue;
    reports::CollectiveTraffic& total = traffic[std::string(to_string(step.collective))];
    ++total.count;
    total.bytes += step.full_bytes;
  }
  return traffic;
}

std::int64_t moving_steps_of(const Plan& plan) {
  return std::count_if(plan.steps.begin(), plan.steps.end(),
                       [](const auto& step) { return step.collective != Collective::kLocal; });
}

}  // namespace

void prepare_rules(RuleSource& source, std::span<const Question* const> questions) {
  std::vector<OpCall> elements;  // of foreach ops
  std::vector<const OpCall*> calls;
  for (const Question* question : questions) {
    if (question->kind == Question::Kind::kPlan) continue;
    if (!is_foreach(question->call.op)) {
      calls.push_back(&question->call);
      continue;
    }
    try {
      for (std::size_t i = 0; i < foreach_size(question->call); ++i) {
        elements.push_back(foreach_child(question->call, i));
      }
    } catch (const InputError&) {  // reported when the question is asked
    }
  }
  for (const OpCall& element : elements) calls.push_back(&element);
  source.prepare(calls);
}

std::string choice_text(const std::vector<Placements>& inputs,
                        const std::vector<Placements>& outputs) {
  return joined(inputs) + " -> " + joined(outputs);
}

std::string element_label(const OpCall& call, std::size_t index) {
  return foreach_size(call) > 1 ? "element " + std::to_string(index) + ", " : "";
}

Questionnaire::Questionnaire(const std::vector<Stack>& stacks, const Stack& reference,
                             const Topology& topology)
    : reference_(std::make_unique<StackEvaluator>(reference, topology)),
      measured_(reference_->collective_model().measured()) {
  for (const Stack& stack : stacks) {
    stacks_.push_back(std::make_unique<StackEvaluator>(stack, topology));
  }
}

QuestionResult Questionnaire::ask(const Question& question) {
  QuestionResult result;
  result.best.reason = "the reference finds no possible choice";
  if (question.kind == Question::Kind::kPlan) {
    ask_plan(question, result);
  } else {
    ask_op(question, result);
  }
  for (Answer& answer : result.answers) {
    settle(answer);
    const Answer& first = result.answers.front();
    if (first.reference_low_us || answer.reference_low_us) {
      answer.reference_gain_error_us =
          error_of_difference_us(first.unsure, answer.unsure, reference_->collective_model());
    }
  }
  return result;
}

void Questionnaire::note_replicas(Answer& answer, const Plan& plan, const DeviceMesh& mesh) const {
  if (!checks_replicas_ || !answer.replicas_may_differ.empty()) return;
  if (const auto fault = replicas_may_differ(plan, mesh, reference_->topology())) {
    answer.replicas_may_differ = plan.path() + ": " + fault->text(plan);
  }
}

void Questionnaire::note_faults(const OpCall& call, const DeviceMesh& mesh,
                                QuestionResult& result) const {
  const bool is_flip = std::ranges::any_of(result.answers, [&](const Answer& answer) {
    return answer.choice != result.answers.front().choice;
  });
  if (!find_fault_ || !is_flip) return;
  for (std::size_t s = 0; s < stacks_.size(); ++s) {
    if (stacks_[s]->stack().rules.source() == nullptr) continue;
    Answer& answer = result.answers[s];
    answer.computes_wrong = find_fault_(call, mesh, answer.inputs, answer.outputs);
  }
}

void Questionnaire::ask_op(const Question& question, QuestionResult& result) {
  try {
    if (is_foreach(question.call.op)) {
      ask_foreach(question.call, question.mesh, result);
    } else {
      ask_select(question.call, question.mesh, result);
    }
  } catch (const InputError& error) {
    result.answers.clear();
    result.error = error.what();
  }
}

void Questionnaire::ask_plan(const Question& question, QuestionResult& result) {
  Redistributor& reference = reference_->on(question.mesh);
  const Plan best = reference.plan(question.tensor, question.from, question.to);
  const auto basis_of = [&](const Plan& repriced) {
    std::optional<reports::PriceBasis> basis;
    if (!measured_.empty()) add_steps(basis.emplace(), repriced, reference, measured_);
    return basis;
  };
  if (best.impossible.empty() && best.unexecutable.empty()) {
    keep_best(result.best, best.path(), best.price.total.value());
    result.best.basis = basis_of(best);
  }
  for (const auto& stack : stacks_) {
    const Plan plan = stack->asked_plan(question.mesh, question.tensor, question.from, question.to);
    Answer answer;
    answer.choice = plan.path();
    answer.path = {plan.path()};
    answer.moving_steps = moving_steps_of(plan);
    if (plan.impossible.empty()) answer.price_us = finite(plan.price.total.value());
    answer.impossible = plan.impossible;
    answer.cannot_run = plan.unexecutable;
    note_replicas(answer, plan, question.mesh);
    const bool planned = !plan.steps.empty() || plan.impossible.empty();
    const Plan repriced = reference.repriced(plan);
    if (seen_) seen_(repriced, reference);
    const Price judged = planned ? repriced.executed_price() : Price::make_impossible("no plan");
    answer.reference_kernel_us = 0.0;
    set_reference(answer, judged.total.value(), std::string(judged.impossible));
    if (answer.reference_us) answer.basis = basis_of(repriced);
    set_interval(answer, interval_of(repriced, reference, reference_->collective_model()),
                 judged.total.value());
    add_unsure_prices(answer.unsure, repriced, reference, reference_->collective_model());
    answer.traffic = traffic_of(repriced, reference);
    keep_best(result.best, answer);
    result.answers.push_back(std::move(answer));
  }
}

Answer Questionnaire::select_answer(StackEvaluator& stack, const Expansion& expansion,
                                    const OpRule& rule, const OpCall& call,
                                    const DeviceMesh& mesh) {
  const Pricing pricing = stack.price(expansion, &rule, call, mesh);
  const Decision decision = stack.decide_by_search(expansion, pricing, rule, call, mesh);
  Answer answer;
  answer.choice = choice_text(decision.choice.inputs, decision.choice.outputs);
  answer.inputs = decision.choice.inputs;
  answer.outputs = decision.choice.outputs;
  answer.price_us = finite(decision.choice.total_us);
  answer.candidates = static_cast<std::int64_t>(decision.candidates);
  answer.ties = static_cast<std::int64_t>(decision.ties);
  answer.margin_us = decision.margin_us;
  answer.flips_with_order = decision.flips_with_order;
  answer.totals = pricing.totals;

  // The plans that the stack would run, as the reference prices them.
  Redistributor& reference = reference_->on(mesh);
  const auto tensors = call.tensors();
  double judged = 0.0;
  double moved = 0.0;  // of what has an interval
  std::optional<PriceInterval> interval;
  std::string reason;
  if (!measured_.empty()) answer.basis.emplace();
  answer.traffic.emplace();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout to = asked_layout(call, decision.choice.inputs[i]);
    const bool moves = to.placements != tensors[i]->layout.placements;
    if (!moves) continue;
    const Plan plan = stack.plan(mesh, tensors[i]->meta, tensors[i]->layout, to);
    answer.path.push_back("input " + std::to_string(i) + ": " + plan.path());
    answer.moving_steps += moving_steps_of(plan);
    note_replicas(answer, plan, mesh);
    if (answer.impossible.empty() && !plan.impossible.empty()) {
      answer.impossible = "input " + std::to_string(i) + ": " + plan.impossible;
    }
    if (answer.cannot_run.empty() && !plan.unexecutable.empty()) {
      answer.cannot_run = "input " + std::to_string(i) + ": " + plan.unexecutable;
    }
    // A plan without steps and without a reason keeps the data as it is (for example, a strided
    // shard of factor 1 is a shard).
    const bool planned = !plan.steps.empty() || plan.impossible.empty();
    const Plan repriced = reference.repriced(plan);
    if (seen_) seen_(repriced, reference);
    const Price price = planned ? repriced.executed_price() : Price::make_impossible("no plan");
    if (answer.basis) add_steps(*answer.basis, repriced, reference, measured_);
    add(*answer.traffic, traffic_of(repriced, reference));
    if (const auto own = interval_of(repriced, reference, reference_->collective_model())) {
      if (!interval) interval.emplace();
      *interval += *own;
      moved += price.total.value();
      add_unsure_prices(answer.unsure, repriced, reference, reference_->collective_model());
    }
    judged += price.total.value() + reference_->stack().transition_us;
    if (!price.is_possible() && reason.empty()) {
      reason = "input " + std::to_string(i) + ": " + std::string(price.impossible);
    }
  }
  if (answer.price_us) answer.impossible.clear();
  if (!answer.price_us && answer.impossible.empty()) {
    answer.impossible = "its price is infinite where the decision was made, although nothing moves";
  }
  answer.reference_kernel_us =
      reference_->compute_us(rule, call, mesh, decision.choice.inputs, decision.choice.outputs);
  judged += *answer.reference_kernel_us;
  set_reference(answer, judged, reason);
  set_interval(answer, interval, moved);
  if (!answer.reference_us) answer.basis.reset();
  return answer;
}

bool Questionnaire::best_runs(const Candidate& best, const OpCall& call, const DeviceMesh& mesh) {
  Redistributor& reference = reference_->on(mesh);
  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout to = asked_layout(call, best.inputs[i]);
    if (to.placements == tensors[i]->layout.placements) continue;
    if (!reference.plan(tensors[i]->meta, tensors[i]->layout, to).unexecutable.empty()) {
      return false;
    }
  }
  return true;
}

// The basis of the price at which the reference itself brings the inputs into the best choice's
// layouts.
std::optional<reports::PriceBasis> Questionnaire::basis_of_best(const Candidate& best,
                                                                const OpCall& call,
                                                                const DeviceMesh& mesh) {
  if (measured_.empty()) return std::nullopt;
  reports::PriceBasis basis;
  Redistributor& reference = reference_->on(mesh);
  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout to = asked_layout(call, best.inputs[i]);
    if (to.placements == tensors[i]->layout.placements) continue;
    add_steps(basis, reference.plan(tensors[i]->meta, tensors[i]->layout, to), reference,
              measured_);
  }
  return basis;
}

void Questionnaire::ask_select(const OpCall& call, const DeviceMesh& mesh, QuestionResult& result) {
  // Stacks that have the same rule set share their candidates.
  struct Expanded {
    Rules rules;
    const OpRule* rule;
    Expansion expansion;
    Pricing reference;
  };
  std::vector<std::unique_ptr<Expanded>> shared;
  const auto expanded = [&](const Rules& rules) -> Expanded& {
    for (const auto& known : shared) {
      if (known->rules == rules) return *known;
    }
    const OpRule& rule = find_op_rule(call.op, rules);
    auto made = std::make_unique<Expanded>(Expanded{rules, &rule, expand(rule, call, mesh), {}});
    if (!made->expansion.in_place_error().empty()) {
      throw InputError(made->expansion.in_place_error());
    }
    if (made->expansion.size() == 0) throw InputError(call.op + ": no sharding candidate is left");
    made->reference = reference_->price(made->expansion, &rule, call, mesh);
    shared.push_back(std::move(made));
    return *shared.back();
  };

  const Expanded& own = expanded(reference_->stack().rules);
  const auto least = std::min_element(own.reference.totals.begin(), own.reference.totals.end());
  if (*least < kInfinity) {
    const Candidate best =
        reference_->candidate(own.expansion, own.reference,
                              static_cast<std::size_t>(least - own.reference.totals.begin()));
    if (best_runs(best, call, mesh)) {
      keep_best(result.best, choice_text(best.inputs, best.outputs), best.total_us);
      result.best.basis = basis_of_best(best, call, mesh);
    }
  }
  for (const auto& stack : stacks_) {
    const Expanded& candidates = expanded(stack->stack().rules);
    Answer answer = select_answer(*stack, candidates.expansion, *candidates.rule, call, mesh);
    answer.reference_totals = candidates.reference.totals;
    result.answers.push_back(std::move(answer));
  }
  note_faults(call, mesh, result);
  for (const Answer& answer : result.answers) keep_best(result.best, answer);
}

// The elements of a tensor list are independent questions: their choices are listed, their prices
// added.
void Questionnaire::ask_foreach(const OpCall& call, const DeviceMesh& mesh,
                                QuestionResult& result) {
  const std::size_t elements = foreach_size(call);
  for (std::size_t i = 0; i < elements; ++i) {
    QuestionResult child;
    child.best.reason = result.best.reason;
    ask_select(foreach_child(call, i), mesh, child);
    for (Answer& answer : child.answers) {
      for (std::string& step : answer.path) step = element_label(call, i) + step;
    }
    if (i == 0) {
      result = std::move(child);
      continue;
    }
    for (std::size_t s = 0; s < result.answers.size(); ++s) {
      Answer& whole = result.answers[s];
      Answer& more = child.answers[s];
      whole.choice += "; " + more.choice;
      whole.path.insert(whole.path.end(), more.path.begin(), more.path.end());
      whole.moving_steps += more.moving_steps;
      whole.price_us = sum(whole.price_us, more.price_us);
      if (whole.impossible.empty()) whole.impossible = more.impossible;
      whole.reference_low_us = sum(low_of(whole), low_of(more));
      whole.reference_high_us = sum(high_of(whole), high_of(more));
      whole.unsure.insert(whole.unsure.end(), more.unsure.begin(), more.unsure.end());
      whole.reference_us = sum(whole.reference_us, more.reference_us);
      whole.reference_kernel_us = sum(whole.reference_kernel_us, more.reference_kernel_us);
      if (whole.reference_impossible.empty())
        whole.reference_impossible = more.reference_impossible;
      if (whole.cannot_run.empty()) whole.cannot_run = more.cannot_run;
      if (whole.computes_wrong.empty()) whole.computes_wrong = more.computes_wrong;
      if (whole.replicas_may_differ.empty()) whole.replicas_may_differ = more.replicas_may_differ;
      add_known(whole.basis, more.basis);
      add(*whole.traffic, *more.traffic);
      whole.candidates = std::max(whole.candidates, more.candidates);
      whole.ties = std::max(whole.ties, more.ties);
      if (!whole.margin_us || (more.margin_us && *more.margin_us < *whole.margin_us)) {
        whole.margin_us = more.margin_us;
      }
      whole.flips_with_order = whole.flips_with_order || more.flips_with_order;
    }
    reports::BestChoice& best = result.best;
    best.us = sum(best.us, child.best.us);
    add_known(best.basis, child.best.basis);
    best.choice += "; " + child.best.choice;
    if (!best.us) {
      best.choice.clear();
      best.reason = child.best.reason;
    }
  }
}

}  // namespace shardlab

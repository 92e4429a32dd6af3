#include "strategies/select/explanation.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "costmodel/base/error.h"
#include "strategies/select/questionnaire.h"

namespace shardlab {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Among more candidates than this, looking for a choice by its text takes longer than it is worth.
constexpr std::size_t kMostSearched = 20'000;

std::string mesh_dims_text(const PlanStep& step) {
  std::string text = step.is_merged() ? "mesh dims " : "mesh dim ";
  for (std::size_t i = 0; i < step.mesh_dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(step.mesh_dims[i]);
  }
  return text;
}

void add_steps(const Plan& plan, const std::string& of, Explanation& explanation) {
  for (const PlanStep& step : plan.steps) {
    explanation.steps.push_back({.of = of,
                                 .what = std::string(to_string(step.collective)) + " on " +
                                         mesh_dims_text(step) + ", " + step.from.text() + " to " +
                                         step.to.text(),
                                 .full_bytes = step.full_bytes,
                                 .price = step.price});
  }
}

bool same_layouts(const Candidate& left, const Candidate& right) {
  return left.inputs == right.inputs && left.outputs == right.outputs;
}

std::optional<double> finite(double us) {
  return us < kInfinity ? std::optional(us) : std::nullopt;
}

}  // namespace

Explainer::Explainer(const Stack& stack, const Topology& topology, const Stack& reference)
    : evaluator_(stack, topology), reference_(reference, topology), flips_(stack, topology) {}

Explanation Explainer::explain(const Question& question, const std::vector<std::string>& also,
                               bool looks_for_flip) {
  Explanation explanation;
  if (question.kind == Question::Kind::kPlan) {
    explain_plan(question, explanation);
  } else if (question.call.op.find("_foreach_") == std::string::npos) {
    explain_call(question.call, question.mesh, also, "", looks_for_flip, explanation);
  } else {
    const std::size_t elements = foreach_size(question.call);
    for (std::size_t i = 0; i < elements; ++i) {
      explain_call(foreach_child(question.call, i), question.mesh, {},
                   elements > 1 ? "element " + std::to_string(i) + ", " : "", looks_for_flip,
                   explanation);
    }
  }
  return explanation;
}

void Explainer::explain_plan(const Question& question, Explanation& explanation) {
  const Plan plan = evaluator_.on(question.mesh).plan(question.tensor, question.from, question.to);
  const bool is_planned = !plan.steps.empty() || plan.impossible.empty();
  ExplainedCandidate only{.choice = plan.path(),
                          .total_us = kInfinity,
                          .moves = plan.price,
                          .kernel_us = 0.0,
                          .reference_us = {},
                          .is_chosen = true};
  if (plan.impossible.empty()) only.total_us = plan.price.total.value();
  if (is_planned) {
    only.reference_us = finite(reference_.on(question.mesh).price_of(plan).total.value());
  }
  explanation.candidates.push_back(std::move(only));
  add_steps(plan, "", explanation);
}

Price Explainer::moves_of(const Candidate& candidate, const OpCall& call, const DeviceMesh& mesh) {
  Price sum;
  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout to(candidate.inputs[i]);
    if (to.placements == tensors[i]->layout.placements) continue;
    sum += evaluator_.on(mesh).plan(tensors[i]->meta, tensors[i]->layout, to).price;
  }
  return sum;
}

void Explainer::explain_call(const OpCall& call, const DeviceMesh& mesh,
                             const std::vector<std::string>& also, const std::string& element,
                             bool looks_for_flip, Explanation& explanation) {
  const OpRule& rule = find_op_rule(call.op, evaluator_.stack().rules);
  const Expansion expansion = expand(rule, call, mesh);
  if (!expansion.in_place_error().empty()) throw InputError(expansion.in_place_error());
  if (expansion.size() == 0) throw InputError(call.op + ": no sharding candidate is left");
  const Pricing pricing = evaluator_.price(expansion, &rule, call, mesh);
  const Pricing judged = reference_.price(expansion, &rule, call, mesh);
  const Decision decision = evaluator_.decide(expansion, pricing, &rule, call, mesh);

  std::vector<std::size_t> shown(expansion.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  const std::size_t most = std::min(kExplainedCandidates, shown.size());
  const auto is_cheaper = [&](std::size_t a, std::size_t b) {
    const double left = pricing.totals[a];
    const double right = pricing.totals[b];
    return left != right ? left < right : a < b;
  };
  std::partial_sort(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(most), shown.end(),
                    is_cheaper);
  shown.resize(most);
  // Adds the choice, which may be one of many at the minimum, and the choices of other stacks.
  bool has_choice = false;
  for (const std::size_t i : shown) {
    has_choice =
        has_choice || same_layouts(evaluator_.candidate(expansion, pricing, i), decision.choice);
  }
  const bool searches =
      (!has_choice || !also.empty()) && expansion.size() <= kMostSearched && element.empty();
  for (std::size_t i = 0; searches && i < expansion.size(); ++i) {
    if (std::find(shown.begin(), shown.end(), i) != shown.end()) continue;
    const Candidate candidate = evaluator_.candidate(expansion, pricing, i);
    const std::string text = choice_text(candidate.inputs, candidate.outputs);
    if (same_layouts(candidate, decision.choice) ||
        std::find(also.begin(), also.end(), text) != also.end()) {
      shown.push_back(i);
    }
  }
  std::sort(shown.begin(), shown.end(), is_cheaper);

  for (const std::size_t i : shown) {
    if (explanation.candidates.size() >= 2 * kExplainedCandidates) break;
    const Candidate candidate = evaluator_.candidate(expansion, pricing, i);
    explanation.candidates.push_back(
        {.choice = element + choice_text(candidate.inputs, candidate.outputs),
         .total_us = candidate.total_us,
         .moves = moves_of(candidate, call, mesh),
         .kernel_us = candidate.compute_us,
         .reference_us = finite(judged.totals[i]),
         .is_chosen = same_layouts(candidate, decision.choice)});
  }

  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout to(decision.choice.inputs[i]);
    if (to.placements == tensors[i]->layout.placements) continue;
    add_steps(evaluator_.on(mesh).plan(tensors[i]->meta, tensors[i]->layout, to),
              element + "input " + std::to_string(i), explanation);
  }
  if (!looks_for_flip || !(decision.choice.total_us < kInfinity)) return;
  std::optional<PriceFlip> flip = flips_.first_of(call, mesh);
  if (flip && (!explanation.flip || flip->distance() < explanation.flip->distance())) {
    explanation.flip = std::move(flip);
  }
}

}  // namespace shardlab

#include "strategies/select/explanation.h"

#include <algorithm>
#include <numeric>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"
#include "strategies/select/questionnaire.h"

namespace shardlab {
namespace {

// The longest list of candidates in which a choice is looked up by its text. In longer lists, this
// takes more time than it is worth.
constexpr std::size_t kMostSearched = 20'000;

std::string mesh_dims_text(const PlanStep& step) {
  std::string text = step.is_merged() ? "mesh dims " : "mesh dim ";
  for (std::size_t i = 0; i < step.mesh_dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(step.mesh_dims[i]);
  }
  return text;
}

std::optional<reports::PartsOfPrice> parts_of(const Price& price) {
  if (!price.is_possible()) return std::nullopt;
  return reports::PartsOfPrice{.latency_us = price.latency.value(),
                               .transfer_us = price.transfer.value(),
                               .compute_us = price.compute.value(),
                               .straggler_us = price.straggler.value()};
}

void add_steps(const Plan& plan, const std::string& of, reports::AnswerDetail& detail) {
  for (const PlanStep& step : plan.steps) {
    detail.steps.push_back({.of = of,
                            .what = std::string(to_string(step.collective)) + " on " +
                                    mesh_dims_text(step) + ", " + step.from.text() + " to " +
                                    step.to.text(),
                            .full_bytes = step.full_bytes,
                            .price_us = finite(step.price.total.value()),
                            .parts = parts_of(step.price)});
  }
}

bool same_layouts(const Candidate& left, const Candidate& right) {
  return left.inputs == right.inputs && left.outputs == right.outputs;
}

// Finds candidates by the text that choice_text() gives them. Thousands of candidates share few
// layouts, so each layout of a tensor is written once.
class ChoiceTexts {
 public:
  explicit ChoiceTexts(const Expansion& expansion) : expansion_(expansion) {
    for (std::size_t i = 0; i < expansion.inputs(); ++i) add(expansion.outputs() + i, "");
    for (std::size_t o = 0; o < expansion.outputs(); ++o) add(o, o == 0 ? " -> " : "");
    if (expansion.outputs() == 0) end_ = " -> ";
  }

  [[nodiscard]] bool has(std::size_t candidate, std::string_view text) {
    for (Column& column : columns_) {
      const std::string& part = part_of(column, column.codes[candidate]);
      if (!text.starts_with(part)) return false;
      text.remove_prefix(part.size());
    }
    return text == end_;
  }

 private:
  // One tensor of the text.
  struct Column {
    std::size_t tensor;
    std::string before;  // what stands between the tensor before and this one
    Expansion::CodesOf codes;
    std::vector<std::string> parts;  // by code; empty where it is not written yet
  };

  void add(std::size_t tensor, std::string before) {
    if (before.empty() && !columns_.empty()) before = ", ";
    columns_.push_back({tensor, std::move(before), expansion_.codes_of_tensor(tensor),
                        std::vector<std::string>(expansion_.tensor_codes(tensor))});
  }

  [[nodiscard]] const std::string& part_of(Column& column, std::uint32_t code) const {
    std::string& part = column.parts[code];
    if (part.empty()) {
      part = column.before + Layout(expansion_.tensor_layout(column.tensor, code)).text();
    }
    return part;
  }

  const Expansion& expansion_;
  std::vector<Column> columns_;  // in the order of the text: inputs, then outputs
  std::string_view end_;
};

}  // namespace

struct Explainer::Job {
  const OpCall& call;
  const DeviceMesh& mesh;
  const std::vector<std::string>& also;
  const std::string element;  // "element 3, " of a tensor list; else empty
  bool looks_for_flip = true;
};

Explainer::Explainer(const Stack& stack, const Topology& topology, StackEvaluator& reference)
    : evaluator_(stack, topology), reference_(reference), flips_(stack, topology) {}

reports::AnswerDetail Explainer::explain(const Question& question,
                                         const std::vector<std::string>& also,
                                         bool looks_for_flip) {
  reports::AnswerDetail detail;
  std::optional<PriceFlip> first_flip;
  if (question.kind == Question::Kind::kPlan) {
    explain_plan(question, detail);
  } else if (!is_foreach(question.call.op)) {
    explain_call({question.call, question.mesh, also, "", looks_for_flip}, first_flip, detail);
  } else {
    const std::size_t elements = foreach_size(question.call);
    for (std::size_t i = 0; i < elements; ++i) {
      explain_call({foreach_child(question.call, i), question.mesh, std::vector<std::string>(),
                    element_label(question.call, i), looks_for_flip},
                   first_flip, detail);
    }
  }
  if (looks_for_flip) detail.flips_first.emplace();
  if (first_flip) {
    *detail.flips_first = reports::DetailFlip{.parameter = std::string(first_flip->parameter),
                                              .factor = first_flip->factor,
                                              .to = first_flip->to};
  }
  return detail;
}

void Explainer::explain_plan(const Question& question, reports::AnswerDetail& detail) {
  const Plan plan = evaluator_.on(question.mesh).plan(question.tensor, question.from, question.to);
  const bool is_planned = !plan.steps.empty() || plan.impossible.empty();
  reports::DetailCandidate only{.choice = plan.path(),
                                .total_us = {},
                                .parts = parts_of(plan.price),
                                .kernel_us = 0.0,
                                .reference_us = {},
                                .is_chosen = true};
  if (plan.impossible.empty()) only.total_us = finite(plan.price.total.value());
  if (is_planned) {
    only.reference_us = finite(reference_.on(question.mesh).price_of(plan).total.value());
  }
  detail.candidates.push_back(std::move(only));
  add_steps(plan, "", detail);
}

Price Explainer::moves_of(const Candidate& candidate, const OpCall& call, const DeviceMesh& mesh) {
  Price sum;
  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout to = asked_layout(call, candidate.inputs[i]);
    if (to.placements == tensors[i]->layout.placements) continue;
    sum += evaluator_.on(mesh).plan(tensors[i]->meta, tensors[i]->layout, to).price;
  }
  return sum;
}

std::vector<std::size_t> Explainer::shown_candidates(const Job& job, const Expansion& expansion,
                                                     const Pricing& pricing,
                                                     const Candidate& choice) {
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
  // The choice may be one of many at the minimum, and is then not among the candidates shown.
  const bool has_choice = std::any_of(shown.begin(), shown.end(), [&](std::size_t i) {
    return same_layouts(evaluator_.candidate(expansion, pricing, i), choice);
  });
  const bool searches = (!has_choice || !job.also.empty()) && expansion.size() <= kMostSearched &&
                        job.element.empty();
  if (searches) {
    std::vector<std::string> wanted = job.also;
    wanted.push_back(choice_text(choice.inputs, choice.outputs));
    ChoiceTexts texts(expansion);
    for (std::size_t i = 0; i < expansion.size(); ++i) {
      const bool is_wanted = std::any_of(wanted.begin(), wanted.end(),
                                         [&](const auto& text) { return texts.has(i, text); });
      if (is_wanted && std::find(shown.begin(), shown.end(), i) == shown.end()) shown.push_back(i);
    }
  }
  std::sort(shown.begin(), shown.end(), is_cheaper);
  return shown;
}

void Explainer::explain_call(const Job& job, std::optional<PriceFlip>& first_flip,
                             reports::AnswerDetail& detail) {
  const OpCall& call = job.call;
  const OpRule& rule = find_op_rule(call.op, evaluator_.stack().rules);
  const Expansion expansion = expand(rule, call, job.mesh);
  if (!expansion.in_place_error().empty()) throw InputError(expansion.in_place_error());
  if (expansion.size() == 0) throw InputError(call.op + ": no sharding candidate is left");
  const Pricing pricing = evaluator_.price(expansion, &rule, call, job.mesh);
  const Pricing judged = reference_.price(expansion, &rule, call, job.mesh);
  const Decision decision = evaluator_.decide_by_search(expansion, pricing, rule, call, job.mesh);

  for (const std::size_t i : shown_candidates(job, expansion, pricing, decision.choice)) {
    if (detail.candidates.size() >= 2 * kExplainedCandidates) break;
    const Candidate candidate = evaluator_.candidate(expansion, pricing, i);
    detail.candidates.push_back(
        {.choice = job.element + choice_text(candidate.inputs, candidate.outputs),
         .total_us = finite(candidate.total_us),
         .parts = parts_of(moves_of(candidate, call, job.mesh)),
         .kernel_us = candidate.compute_us,
         .reference_us = finite(judged.totals[i]),
         .is_chosen = same_layouts(candidate, decision.choice)});
  }

  const auto tensors = call.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout to = asked_layout(job.call, decision.choice.inputs[i]);
    if (to.placements == tensors[i]->layout.placements) continue;
    add_steps(evaluator_.on(job.mesh).plan(tensors[i]->meta, tensors[i]->layout, to),
              job.element + "input " + std::to_string(i), detail);
  }
  if (!job.looks_for_flip || !(decision.choice.total_us < kInfinity)) return;
  // At which prices the queue would find something else is not known.
  if (evaluator_.chooses_by_queue(call)) return;
  std::optional<PriceFlip> flip = flips_.first_of(call, job.mesh);
  if (flip && (!first_flip || flip->distance() < first_flip->distance())) {
    first_flip = std::move(flip);
  }
}

}  // namespace shardlab

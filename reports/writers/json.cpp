#include "reports/writers/json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "costmodel/base/fields_json.h"
#include "reports/records/json_text.h"
#include "reports/summary.h"
#include "reports/writers/inline_text.h"

namespace shardlab::reports {
namespace {

using nlohmann::ordered_json;

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

ordered_json counts_json(const FlipCounts& counts) {
  ordered_json value = {{"questions", counts.questions}, {"total", counts.total}};
  for (const Verdict verdict : kVerdicts) {
    if (verdict == Verdict::kWrong && counts[verdict] == 0) continue;
    value[std::string(verdict_text(verdict))] = counts[verdict];
  }
  return value;
}

ordered_json groups_json(const std::vector<FlipGroup>& groups) {
  ordered_json value = ordered_json::object();
  for (const FlipGroup& group : groups) value[group.label] = counts_json(group.counts);
  return value;
}

ordered_json basis_counts_json(const BasisCounts& counts) {
  ordered_json value = ordered_json::object();
  for (const Basis basis : kBases) value[std::string(name_of(basis))] = counts[basis];
  return value;
}

ordered_json basis_group_json(const BasisGroup& group) {
  return {{"decisions", basis_counts_json(group.decisions)},
          {"flips", basis_counts_json(group.flips)}};
}

ordered_json basis_groups_json(const std::vector<BasisGroup>& groups) {
  ordered_json value = ordered_json::object();
  for (const BasisGroup& group : groups) value[group.label] = basis_group_json(group);
  return value;
}

ordered_json not_measured_json(const std::vector<NotMeasured>& groups) {
  ordered_json value = ordered_json::array();
  for (const NotMeasured& group : groups) {
    value.push_back({{"what", group.what}, {"decisions", group.decisions}, {"flips", group.flips}});
  }
  return value;
}

ordered_json invariants_json(const ComparisonRecord& record, const std::string& stack) {
  ordered_json value = ordered_json::object();
  for (const InvariantResult& invariant : record.invariants) {
    if (invariant.stack != stack) continue;
    value[invariant.name] = {{"checked", invariant.checked},
                             {"violated", invariant.violated},
                             {"worst", json_of(invariant.worst)}};
  }
  return value;
}

ordered_json regret_json(const RegretSummary& regret) {
  ordered_json value = {{"mean", json_of(regret.mean)},
                        {"p50", json_of(regret.p50)},
                        {"p99", json_of(regret.p99)},
                        {"max", json_of(regret.max)},
                        {"weighted_mean", json_of(regret.weighted_mean)},
                        {"judged", regret.judged},
                        {"unbounded", regret.unbounded},
                        {"unbounded_max_us", json_of(regret.unbounded_max_us)},
                        {"impossible", regret.impossible},
                        {"cannot_run", regret.cannot_run},
                        {"unpriced", regret.unpriced}};
  if (regret.computes_wrong > 0) value["computes_wrong"] = regret.computes_wrong;
  if (regret.judged == 0) value["reason"] = "the reference judges no decision of this stack";
  return value;
}

ordered_json stack_json(const ComparisonRecord& record, const StackSummary& stack, bool is_baseline,
                        bool tells_basis) {
  ordered_json value = {{"name", stack.name},
                        {"role", is_baseline ? "baseline" : "candidate"},
                        {"regret", regret_json(stack.regret)},
                        {"kendall_tau", json_of(stack.kendall_tau)},
                        {"kendall_tau_weighted", json_of(stack.weighted_kendall_tau)},
                        {"kendall_tau_questions", stack.ranked}};
  if (!stack.kendall_tau)
    value["kendall_tau_reason"] = "no question has candidates that both stack and reference rank";
  value["invariants"] = invariants_json(record, stack.name);
  value["ties"] = {{"exact", stack.ties.exact},
                   {"near", stack.ties.near},
                   {"order_dependent", stack.ties.order_dependent},
                   {"most_candidates", stack.ties.most_candidates}};
  if (stack.ties.unknown > 0) value["ties"]["unknown"] = stack.ties.unknown;
  if (is_baseline) return value;
  value["flips"] = counts_json(stack.flips);
  value["flips_by_op"] = groups_json(stack.by_op);
  value["flips_by_size"] = groups_json(stack.by_size_band);
  value["flips_by_mesh_dims"] = groups_json(stack.by_mesh_dims);
  if (tells_basis) {
    value["rests_on"] = basis_group_json(stack.basis);
    value["rests_on_by_suite"] = basis_groups_json(stack.basis_by_suite);
    value["rests_on_by_mesh"] = basis_groups_json(stack.basis_by_mesh);
  }
  return value;
}

ordered_json traffic_json(const CollectiveChange& change) {
  return {{"baseline", json_of(change.baseline)}, {"candidate", json_of(change.candidate)}};
}

ordered_json suite_change_json(const ComparisonRecord& record, const SuiteChange& change) {
  ordered_json value = {{"name", change.name}, {"stack", record.stacks[change.stack]}};
  if (!change.suites.empty()) {
    value["suites"] = change.suites;
  } else if (!change.program.empty()) {
    value["program"] = change.program;
  }
  value["questions"] = change.questions;
  value["questions_timed"] = change.timed;
  if (change.timed > 0) {
    value["total_us"] = {{"baseline", change.baseline_us}, {"candidate", change.candidate_us}};
    value["delta_us"] = change.delta_us;
    value["delta_percent"] = json_of(change.percent());
    if (!change.percent()) value["reason"] = "the baseline's choices take no time";
  } else {
    value["total_us"] = {{"baseline", nullptr}, {"candidate", nullptr}};
    value["delta_us"] = nullptr;
    value["delta_percent"] = nullptr;
    value["reason"] = "every question has a choice that has no price or cannot run";
  }
  value["same_choice_by_other_steps"] = change.other_steps;
  value["other_steps_us"] = change.other_steps_us;
  if (!change.tells_collectives) {
    value["collectives"] = nullptr;
    value["collectives_reason"] = change.timed > 0
                                      ? "the record does not hold the collectives of its choices"
                                      : "no question is timed";
    return value;
  }
  value["collectives"] = ordered_json::object();
  for (const CollectiveChange& one : change.collectives) {
    value["collectives"][one.kind] = traffic_json(one);
  }
  return value;
}

ordered_json flip_json(const ComparisonRecord& record, const Flip& flip) {
  const RecordQuestion& question = record.questions[flip.question];
  const StackAnswer& before = question.answers[0];
  const StackAnswer& after = question.answers[flip.stack];
  ordered_json value = {{"question", question.id},
                        {"suite", question.suite},
                        {"op", question.op},
                        {"mesh", question.mesh},
                        {"bytes", question.bytes},
                        {"inputs", question.inputs},
                        {"count", question.count},
                        {"stack", record.stacks[flip.stack]},
                        {"baseline", before.choice},
                        {"candidate", after.choice},
                        {"baseline_us", json_of(before.price_us)},
                        {"candidate_us", json_of(after.price_us)},
                        {"reference_us",
                         {{"baseline", json_of(before.reference_us)},
                          {"candidate", json_of(after.reference_us)},
                          {"best", json_of(best_known_us(question))}}},
                        {"verdict", verdict_text(flip.verdict)},
                        {"gain_us", json_of(flip.gain_us)},
                        {"gain_percent", json_of(flip.gain_percent)},
                        {"delta_us", json_of(flip.delta_us)},
                        {"share_percent", json_of(flip.share_percent)}};
  // A missing price always has its reason.
  if (!before.price_us) value["baseline_impossible"] = before.impossible;
  if (!after.price_us) value["candidate_impossible"] = after.impossible;
  if (flip.verdict == Verdict::kUndecided) {
    value["reason"] = undecided_reason(record, flip);
  } else if (!flip.gain_us || !flip.delta_us) {
    value["reason"] = unusable_reason(record, flip);
  } else if (!flip.gain_percent) {
    value["reason"] = "the reference prices the baseline's choice at 0, so there is no percentage";
  }
  if (flip.basis) {
    value["rests_on"] = name_of(*flip.basis);
    value["not_measured"] = not_measured_of(bases_of(question, flip.stack));
  }
  value["baseline_path"] = before.path;
  value["candidate_path"] = after.path;
  value["best"] = text_or_null(question.best.choice);
  if (before.detail) value["baseline_detail"] = json_of(*before.detail);
  if (after.detail) value["candidate_detail"] = json_of(*after.detail);
  return value;
}

}  // namespace

std::string write_json(const ComparisonRecord& record, const Comparison& comparison) {
  JsonObjectText text;
  text.value("schema", ordered_json(kReportSchema));
  text.value("summary", ordered_json(plain_text(summary_sentence(record, comparison))));
  text.value("questions", ordered_json(record.questions.size()));
  text.value("baseline", ordered_json(record.stacks[0]));
  text.value("candidates", ordered_json(std::vector<std::string>(record.stacks.begin() + 1,
                                                                 record.stacks.end())));
  text.value("reference", json_of(record.reference));
  text.begin_array("suites");
  for (const SuiteChange& change : comparison.suites) {
    text.element(suite_change_json(record, change));
  }
  text.end_array();
  if (!comparison.programs.empty()) {
    text.begin_array("programs");
    for (const SuiteChange& change : comparison.programs) {
      text.element(suite_change_json(record, change));
    }
    text.end_array();
  }
  text.begin_array("stacks");
  for (const StackSummary& stack : comparison.stacks) {
    text.element(
        stack_json(record, stack, &stack == &comparison.stacks[0], comparison.tells_basis));
  }
  text.end_array();
  if (comparison.tells_basis) {
    text.value("not_measured", not_measured_json(comparison.not_measured));
  }
  text.begin_array("flips");
  for (const Flip& flip : comparison.flips) text.element(flip_json(record, flip));
  text.end_array();
  text.begin_array("other_steps");
  for (const OtherSteps& one : decisions_by_other_steps(record)) {
    const RecordQuestion& question = record.questions[one.question];
    text.element({{"question", question.id},
                  {"stack", record.stacks[one.stack]},
                  {"choice", question.answers[0].choice},
                  {"delta_us", one.delta_us}});
  }
  text.end_array();
  text.begin_array("order_dependent");
  for (const RecordQuestion& question : record.questions) {
    for (std::size_t stack = 0; stack < record.stacks.size(); ++stack) {
      const StackAnswer& answer = question.answers[stack];
      if (!answer.flips_with_order) continue;
      text.element({{"question", question.id},
                    {"stack", record.stacks[stack]},
                    {"choice", answer.choice},
                    {"ties", answer.ties},
                    {"price_us", json_of(answer.price_us)}});
    }
  }
  text.end_array();
  text.begin_array("curves");
  for (const PriceCurve& curve : record.curves) text.element(json_of(curve));
  text.end_array();
  if (!record.steps.empty()) {
    text.begin_array("steps");
    for (const StepComparison& step : record.steps) text.element(json_of(step));
    text.end_array();
  }
  if (!record.not_asked.empty()) {
    text.begin_array("not_asked");
    for (const UnaskedQuestion& question : record.not_asked) text.element(json_of(question));
    text.end_array();
  }
  text.value("context", json_of(record.context));
  text.value("configuration", json_of(record.configuration));
  if (record.provenance) text.value("provenance", json_of(*record.provenance));
  if (record.timing) text.value("timing", json_of(*record.timing));
  return text.finish();
}

}  // namespace shardlab::reports

#include "reports/summary.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "reports/number_text.h"
#include "reports/time_text.h"

namespace shardlab::reports {
namespace {

// Up to this many candidates are named one by one; if there are more, only the extremes are named.
constexpr std::size_t kToldOneByOne = 3;

// "132 of 1,204 decisions (11.0 %)", "none of 1,204 decisions", "the only decision".
std::string flips_of_decisions(const FlipCounts& flips) {
  if (flips.questions == 1) return flips.total == 1 ? "the only decision" : "not the only decision";
  const std::string decisions = grouped(flips.questions) + " decisions";
  if (flips.total == 0) return "none of " + decisions;
  if (flips.total == flips.questions)
    return (flips.total == 2 ? "both" : "all " + grouped(flips.total)) + " decisions";
  return grouped(flips.total) + " of " + decisions + " (" +
         percent(static_cast<double>(flips.total) / static_cast<double>(flips.questions)) + ")";
}

// "is an improvement" for one flip, "are improvements" for several.
std::string verdict_predicate(Verdict verdict, bool is_one) {
  switch (verdict) {
    case Verdict::kBetter:
      return is_one ? "is an improvement" : "are improvements";
    case Verdict::kWorse:
      return is_one ? "is a regression" : "are regressions";
    case Verdict::kEqual:
      return is_one ? "costs as much as before" : "cost as much as before";
    case Verdict::kWrong:
      return is_one ? "takes a choice that computes something wrong"
                    : "take a choice that computes something wrong";
    case Verdict::kUndecided:
      break;
  }
  return "cannot be judged";
}

// "120 of them are improvements, 4 are regressions and 8 cost as much as before", "the flip is an
// improvement", "both are regressions", "neither can be judged". Assumes at least one flip.
std::string judgement(const FlipCounts& flips) {
  for (const Verdict verdict : kVerdicts) {
    if (flips[verdict] != flips.total) continue;
    if (verdict == Verdict::kUndecided && flips.total > 1) {
      return flips.total == 2 ? "neither can be judged" : "none of them can be judged";
    }
    const std::string all = flips.total == 1   ? "the flip "
                            : flips.total == 2 ? "both "
                                               : "all of them ";
    return all + verdict_predicate(verdict, flips.total == 1);
  }
  std::vector<std::string> parts;
  for (const Verdict verdict : kVerdicts) {
    if (flips[verdict] == 0) continue;
    parts.push_back(grouped(flips[verdict]) + (parts.empty() ? " of them " : " ") +
                    verdict_predicate(verdict, flips[verdict] == 1));
  }
  return listed(parts);
}

// "mean regret falls from 3.2 % to 1.1 %"; "" if neither mean is known. A stack that judges itself
// has no regret, whatever its prices are worth: "by the prices of `alpha-beta`, which is itself the
// reference, `dtensor-v3` has a mean regret of 10.8 %".
std::string regret_change(const ComparisonRecord& record, const StackSummary& baseline,
                          const StackSummary& candidate) {
  const RegretSummary& before = baseline.regret;
  const RegretSummary& after = candidate.regret;
  if (!before.mean && !after.mean) return "";
  const bool is_of_baseline = judges_itself(record, baseline);
  if (is_of_baseline || judges_itself(record, candidate)) {
    const StackSummary& other = is_of_baseline ? candidate : baseline;
    return "by the prices of " + code(record.reference.name) + ", which is itself the reference, " +
           code(other.name) + " has " +
           (other.regret.mean ? "a mean regret of " + percent(*other.regret.mean)
                              : "no known regret");
  }
  const RegretOfBoth both = regret_of_both(record, 1);
  if (!both.before || !both.after) {
    return "mean regret is " + (before.mean ? percent(*before.mean) : "unknown") + " before and " +
           (after.mean ? percent(*after.mean) : "unknown") + " after";
  }
  const std::string over = both.judged == before.judged && both.judged == after.judged
                               ? ""
                               : " (over the " + counted(both.judged, "decision", "decisions") +
                                     (both.judged == 1 ? " that is" : " that are") +
                                     " judged before and after)";
  const std::string from = percent(*both.before);
  const std::string to = percent(*both.after);
  if (from == to) return "mean regret stays at " + to + over;
  return "mean regret " + std::string(*both.after < *both.before ? "falls" : "rises") + " from " +
         from + " to " + to + over;
}

// "; 12 decisions keep their choice and reach it by other steps, which take 14.57 ms less"; "" if
// none does.
std::string other_steps(const Comparison& comparison, std::size_t stack) {
  std::int64_t count = 0;
  double us = 0.0;
  for (const SuiteChange& change : comparison.suites) {
    if (change.stack != stack) continue;
    count += change.other_steps;
    us += change.other_steps_us;
  }
  if (count == 0) return "";
  return "; " + counted(count, "decision", "decisions") +
         (count == 1 ? " keeps its choice and reaches it by other steps"
                     : " keep their choice and reach it by other steps") +
         (us == 0.0
              ? ", which take as long in all"
              : ", which take " + duration_text(std::abs(us)) + (us < 0.0 ? " less" : " more"));
}

// "12 of 30 priced flips".
std::string priced_part(std::int64_t part, std::int64_t total, const std::string& what) {
  return grouped(part) + " of " + counted(total, "priced " + what, "priced " + what + "s");
}

// ", 1,015 of which have one candidate"; "" if all decisions have several.
std::string without_choice(const ComparisonRecord& record) {
  const auto alone = std::count_if(
      record.questions.begin(), record.questions.end(), [](const RecordQuestion& question) {
        return question.kind == QuestionKind::kSelect && question.candidates == 1;
      });
  if (alone == 0) return "";
  if (record.questions.size() == 1) return ", which has one candidate";
  return ", " + grouped(alone) + " of which " + (alone == 1 ? "has" : "have") + " one candidate";
}

// "; it changes the price of all_to_all, which no choice runs", "; it changes the prices of
// all_gather, which its choices run, and of all_to_all, which no choice runs"; "" if every
// collective whose price changes is run, or if the record does not tell.
std::string unused_collectives(const ComparisonRecord& record, const Comparison& comparison) {
  std::set<std::string> changed;
  for (const PriceCurve& before : record.curves) {
    if (before.stack != record.stacks[0]) continue;
    for (const PriceCurve& after : record.curves) {
      const bool is_same_question = after.stack == record.stacks[1] &&
                                    after.collective == before.collective &&
                                    after.mesh == before.mesh && after.bytes == before.bytes;
      if (is_same_question && after.price_us != before.price_us) changed.insert(after.collective);
    }
  }
  std::set<std::string> run;
  for (const SuiteChange& suite : comparison.suites) {
    if (!suite.tells_collectives) return "";
    for (const CollectiveChange& kind : suite.collectives) {
      if (changed.erase(kind.kind) > 0) run.insert(kind.kind);
    }
  }
  if (changed.empty()) return "";
  const std::string unused = listed({changed.begin(), changed.end()}) + ", which no choice runs";
  if (run.empty()) return "; it changes the price of " + unused;
  return "; it changes the prices of " + listed({run.begin(), run.end()}) +
         ", which its choices run, and of " + unused;
}

// "It flips 132 of 1,204 decisions (11.0 %): 120 of them are improvements ...; mean regret falls
// from 3.2 % to 1.1 %."
std::string one_candidate(const ComparisonRecord& record, const Comparison& comparison) {
  const StackSummary& baseline = comparison.stacks[0];
  const StackSummary& candidate = comparison.stacks[1];
  std::string text;
  if (candidate.flips.total == 0) {
    text = candidate.flips.questions == 1 ? "It does not flip the only decision"
                                          : "It flips " + flips_of_decisions(candidate.flips);
    text += without_choice(record) + unused_collectives(record, comparison);
  } else {
    text = "It flips " + flips_of_decisions(candidate.flips) + ": " + judgement(candidate.flips);
  }
  text += other_steps(comparison, 1);
  const std::string change = regret_change(record, baseline, candidate);
  if (!change.empty()) text += "; " + change;
  for (const StackSummary* stack : {&baseline, &candidate}) {
    const std::int64_t count = stack->regret.cannot_run;
    if (count == 0) continue;
    text += "; " + counted(count, "choice", "choices") + " of " + code(stack->name) +
            " cannot run and " + (count == 1 ? "has" : "have") + " no regret";
  }
  if (baseline.regret.computes_wrong + candidate.regret.computes_wrong > 0) {
    text += "; what computes something wrong has no regret";
  }
  if (comparison.tells_basis) text += "; " + basis_sentence(candidate.basis);
  return text + ".";
}

// "`dtensor-v4` flips 132 (11.0 %; 120 better, 4 worse and 8 equal; mean regret 1.1 %)".
std::string one_of_several(const ComparisonRecord& record, const StackSummary& candidate) {
  const FlipCounts& flips = candidate.flips;
  std::string text =
      code(candidate.name) + " flips " + (flips.total == 0 ? "none" : grouped(flips.total));
  std::string remarks;
  const auto remark = [&remarks](const std::string& part) {
    if (!part.empty()) remarks += (remarks.empty() ? "" : "; ") + part;
  };
  if (flips.total > 0) {
    remark(percent(static_cast<double>(flips.total) / static_cast<double>(flips.questions)));
  }
  remark(verdicts_text(flips));
  const BasisCounts& judged = candidate.basis.flips;
  if (judged.total() > 0) {
    remark(priced_part(judged[Basis::kMeasured], judged.total(), "flip") + " on measured groups");
  }
  if (judges_itself(record, candidate)) {
    remark("the reference itself");
  } else if (candidate.regret.mean) {
    remark("mean regret " + percent(*candidate.regret.mean));
  }
  return remarks.empty() ? text : text + " (" + remarks + ")";
}

std::string several_candidates(const ComparisonRecord& record, const Comparison& comparison) {
  const StackSummary& baseline = comparison.stacks[0];
  const std::string decisions = counted(baseline.flips.questions, "decision", "decisions") +
                                " of " + code(baseline.name) +
                                (baseline.regret.mean && !judges_itself(record, baseline)
                                     ? " (mean regret " + percent(*baseline.regret.mean) + ")"
                                     : "");
  std::string judge;
  if (comparison.tells_basis) {
    BasisGroup all;
    for (const StackSummary& stack : comparison.stacks) {
      all.decisions += stack.basis.decisions;
      all.flips += stack.basis.flips;
    }
    judge = "; over all candidates, " + basis_sentence(all);
  }
  judge += ".";
  const std::span<const StackSummary> candidates(comparison.stacks.begin() + 1,
                                                 comparison.stacks.end());
  if (candidates.size() <= kToldOneByOne) {
    std::vector<std::string> parts;
    for (const StackSummary& candidate : candidates)
      parts.push_back(one_of_several(record, candidate));
    return "Of " + decisions + ", " + listed(parts) + judge;
  }
  const auto fewer_flips = [](const StackSummary& left, const StackSummary& right) {
    return left.flips.total < right.flips.total;
  };
  const auto [fewest, most] =
      std::minmax_element(candidates.begin(), candidates.end(), fewer_flips);
  std::string text = "Of " + decisions + ", the " + std::to_string(candidates.size()) +
                     " candidates flip between " + grouped(fewest->flips.total) + " (" +
                     code(fewest->name) + ") and " + grouped(most->flips.total) + " (" +
                     code(most->name) + ")";
  if (fewest->flips.total == most->flips.total) {
    text = "Of " + decisions + ", each of the " + std::to_string(candidates.size()) +
           " candidates flips " + (most->flips.total == 0 ? "none" : grouped(most->flips.total));
  }
  const StackSummary* lowest = lowest_regret(record, comparison);
  if (lowest != nullptr) {
    text += "; the lowest mean regret is " + percent(*lowest->regret.mean) + " (" +
            code(lowest->name) + ")";
  }
  return text + judge;
}

// " Neither fits into the 80.0 GB of a device, so neither can run."; "" if both fit.
std::string fit_sentence(const StepComparison& step, const std::string& baseline) {
  if (!step.device_bytes || !step.peak_bytes.candidate) return "";
  const bool before_fits = step.peak_bytes.baseline <= *step.device_bytes;
  const bool after_fits = *step.peak_bytes.candidate <= *step.device_bytes;
  if (before_fits && after_fits) return "";
  const std::string device = " into the " + bytes_text(*step.device_bytes) + " of a device";
  if (!before_fits && !after_fits) return " Neither fits" + device + ", so neither can run.";
  const std::string& too_large = before_fits ? step.candidate : baseline;
  return " The step under " + code(too_large) + " does not fit" + device + ", so it cannot run.";
}

}  // namespace

std::string code(std::string_view name) {
  std::string text = "`" + std::string(name) + "`";
  std::replace(text.begin() + 1, text.end() - 1, '`', '\'');
  return text;
}

std::string report_title(const ComparisonRecord& record) {
  const std::size_t candidates = record.stacks.size() - 1;
  if (candidates == 1) return code(record.stacks[0]) + " to " + code(record.stacks[1]);
  return code(record.stacks[0]) + " against " + std::to_string(candidates) + " candidates";
}

std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

std::string verdicts_text(const FlipCounts& counts) {
  std::vector<std::string> parts;
  for (const Verdict verdict : kVerdicts) {
    if (counts[verdict] == 0) continue;
    parts.push_back(grouped(counts[verdict]) + " " + std::string(verdict_text(verdict)));
  }
  return listed(parts);
}

std::string basis_sentence(const BasisGroup& basis) {
  const BasisCounts& flips = basis.flips;
  const BasisCounts& decisions = basis.decisions;
  const bool has_flips = flips.total() > 0;
  const auto rest_on = [&](Basis what) {
    return !has_flips && decisions[what] == 1 ? std::string(" rests on ") : " rest on ";
  };
  std::string text;
  if (has_flips) text += priced_part(flips[Basis::kMeasured], flips.total(), "flip") + " and ";
  text += priced_part(decisions[Basis::kMeasured], decisions.total(), "decision") +
          rest_on(Basis::kMeasured) + "measured groups";
  if (decisions[Basis::kLocalWork] > 0) {
    text += "; ";
    if (has_flips) text += counted(flips[Basis::kLocalWork], "flip", "flips") + " and ";
    text += counted(decisions[Basis::kLocalWork], "decision", "decisions") +
            rest_on(Basis::kLocalWork) + "local work alone";
  }
  if (decisions[Basis::kCarriedOver] > 0) {
    text += "; the prices of the others are carried over from other groups or sizes";
  }
  return text;
}

std::string summary_sentence(const ComparisonRecord& record, const Comparison& comparison) {
  if (record.questions.empty()) {
    return "No decision was compared:" + (record.not_asked.empty()
                                              ? std::string(" the suites hold no questions.")
                                              : not_asked_sentence(record));
  }
  const std::string text = time_sentence(record, comparison) + " " +
                           (comparison.stacks.size() == 2 ? one_candidate(record, comparison)
                                                          : several_candidates(record, comparison));
  // A training step that cannot run, or that runs longer, matters more than its operators' times.
  return record.steps.empty() ? text : steps_sentence(record) + " " + text;
}

std::string steps_sentence(const ComparisonRecord& record) {
  std::string text;
  for (const StepComparison& step : record.steps) {
    text += (text.empty() ? "" : " ") + ("Under " + code(step.candidate)) + ", a step of " +
            code(step.program) + " on " + code(step.mesh);
    if (!step.cannot_run.empty()) {
      text += " cannot run: " + step.cannot_run + ".";
      continue;
    }
    const double before = step.step_us.baseline;
    const double after = *step.step_us.candidate;
    const double held_before = step.peak_bytes.baseline;
    const double held_after = *step.peak_bytes.candidate;
    text += " takes ";
    if (after == before) {
      text += "as long as under " + code(record.stacks[0]) + ", " + duration_text(after);
    } else {
      const double share = before > 0.0 ? 100.0 * std::abs(after - before) / before : 0.0;
      text += duration_text(after) + ", which is " + duration_text(std::abs(after - before)) +
              " (" + (share < 0.005 ? "<0.01" : fixed(share, 2)) + " %) " +
              (after > before ? "longer" : "shorter") + " than under " + code(record.stacks[0]);
    }
    if (held_after == held_before) {
      text += ", and as much memory at its peak, " + bytes_text(held_after) + ".";
    } else {
      text += ", and " + bytes_text(held_after) + " of memory at its peak, " +
              bytes_text(std::abs(held_after - held_before)) +
              (held_after > held_before ? " more." : " less.");
    }
    text += fit_sentence(step, record.stacks[0]);
  }
  return text;
}

}  // namespace shardlab::reports

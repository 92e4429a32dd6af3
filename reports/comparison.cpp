#include "reports/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "reports/number_text.h"
#include "reports/statistics.h"

namespace shardlab::reports {
namespace {

constexpr double kEqualWithin = 1e-9;
constexpr double kNearTieFraction = 0.01;

bool equal_price(double left, double right) {
  return std::abs(left - right) <= kEqualWithin * std::max(std::abs(left), std::abs(right));
}

const StackAnswer& answer_of(const ComparisonRecord& record, std::size_t question,
                             std::size_t stack) {
  return record.questions[question].answers[stack];
}

Flip judge(const ComparisonRecord& record, std::size_t question, std::size_t stack) {
  Flip flip;
  flip.question = question;
  flip.stack = stack;
  if (!answer_of(record, question, stack).computes_wrong.empty()) {
    flip.verdict = Verdict::kWrong;
    return flip;
  }
  const bool baseline_runs = answer_of(record, question, 0).is_usable();
  const bool candidate_runs = answer_of(record, question, stack).is_usable();
  const std::optional<double>& before = answer_of(record, question, 0).reference_us;
  const std::optional<double>& after = answer_of(record, question, stack).reference_us;
  if (baseline_runs != candidate_runs && (baseline_runs ? before : after)) {
    flip.verdict = candidate_runs ? Verdict::kBetter : Verdict::kWorse;
    return flip;
  }
  if (!before || !after) return flip;
  if (equal_price(*before, *after)) {
    flip.verdict = Verdict::kEqual;
    flip.gain_us = 0.0;
    flip.gain_percent = 0.0;
    return flip;
  }
  flip.verdict = *after < *before ? Verdict::kBetter : Verdict::kWorse;
  flip.gain_us = *before - *after;
  if (std::abs(*flip.gain_us) < gain_error_us(record, flip)) flip.verdict = Verdict::kUndecided;
  if (*before > 0.0) flip.gain_percent = 100.0 * *flip.gain_us / *before;
  return flip;
}

// A choice that cannot run outweighs any time, so these flips come first. Then comes the time that
// is saved or lost; then what nobody can judge, and what changes nothing.
int reading_place(const Flip& flip) {
  if (flip.verdict == Verdict::kUndecided) return 2;
  if (flip.verdict == Verdict::kEqual) return 3;
  return flip.delta_us ? 1 : 0;
}

bool reads_before(const Flip& left, const Flip& right) {
  const auto key = [](const Flip& flip) {
    return std::make_tuple(reading_place(flip), -std::abs(flip.delta_us.value_or(0.0)),
                           flip.question, flip.stack);
  };
  return key(left) < key(right);
}

// Sets the time that each flip saves or loses, and its share of the time of its suite.
void set_deltas(const ComparisonRecord& record, Comparison& comparison) {
  std::map<std::pair<std::string_view, std::size_t>, double> suite_us;
  for (const SuiteChange& change : comparison.suites) {
    suite_us[{change.name, change.stack}] = change.baseline_us;
  }
  for (Flip& flip : comparison.flips) {
    const RecordQuestion& question = record.questions[flip.question];
    if (!is_timed(question, flip.stack)) continue;
    flip.delta_us =
        static_cast<double>(question.count) *
        (*question.answers[flip.stack].reference_us - *question.answers[0].reference_us);
    const double whole_us = suite_us[{question.suite, flip.stack}];
    if (*flip.delta_us == 0.0) {
      flip.share_percent = 0.0;
    } else if (whole_us > 0.0) {
      flip.share_percent = 100.0 * *flip.delta_us / whole_us;
    }
  }
}

void add(FlipCounts& counts, const std::optional<Flip>& flip) {
  ++counts.questions;
  if (!flip) return;
  ++counts.total;
  ++counts.by_verdict[to_index(flip->verdict)];
}

// Counts what the priced decisions of one candidate rest on, and what was not measured for any.
class BasisTally {
 public:
  // Counts one candidate's decision on one question.
  std::optional<Basis> add(const RecordQuestion& question, std::size_t stack, bool is_flip) {
    const std::vector<const PriceBasis*> bases = bases_of(question, stack);
    const std::optional<Basis> basis = joint_basis(bases);
    if (!basis) return basis;
    const auto place = static_cast<std::size_t>(*basis);
    for (BasisGroup* group :
         {&all_, &of_suite(question.suite), &by_mesh_[{question.mesh_dims, question.mesh}]}) {
      ++group->decisions.by_basis[place];
      if (is_flip) ++group->flips.by_basis[place];
    }
    for (const std::string& what : not_measured_of(bases)) {
      NotMeasured& group = not_measured_[what];
      ++group.decisions;
      if (is_flip) ++group.flips;
    }
    return basis;
  }

  // Ends a candidate: the counts of the next start at zero.
  void finish(StackSummary& summary) {
    summary.basis = std::exchange(all_, {});
    summary.basis_by_suite = std::exchange(by_suite_, {});
    for (auto& [mesh, group] : std::exchange(by_mesh_, {})) {
      group.label = mesh.second;
      summary.basis_by_mesh.push_back(std::move(group));
    }
  }

  [[nodiscard]] std::vector<NotMeasured> not_measured() const {
    std::vector<NotMeasured> sorted;
    for (const auto& [what, group] : not_measured_) {
      sorted.push_back(group);
      sorted.back().what = what;
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const NotMeasured& left, const NotMeasured& right) {
                       return left.decisions > right.decisions;
                     });
    return sorted;
  }

 private:
  BasisGroup& of_suite(const std::string& name) {
    for (BasisGroup& group : by_suite_) {
      if (group.label == name) return group;
    }
    by_suite_.push_back({name, {}, {}});
    return by_suite_.back();
  }

  BasisGroup all_;
  std::vector<BasisGroup> by_suite_;
  std::map<std::pair<std::int64_t, std::string>, BasisGroup> by_mesh_;
  std::map<std::string, NotMeasured> not_measured_;
};

RegretSummary summarise_regret(const ComparisonRecord& record, std::size_t stack) {
  RegretSummary summary;
  std::vector<double> values;
  std::vector<double> weights;
  for (const RecordQuestion& question : record.questions) {
    const StackAnswer& answer = question.answers[stack];
    if (!answer.price_us) {
      ++summary.impossible;
      continue;
    }
    if (!answer.cannot_run.empty()) {
      ++summary.cannot_run;
      continue;
    }
    if (!answer.computes_wrong.empty()) {
      ++summary.computes_wrong;
      continue;
    }
    if (!answer.reference_us) {
      ++summary.unpriced;
      continue;
    }
    if (const std::optional<double> value = regret(question, stack)) {
      values.push_back(*value);
      weights.push_back(static_cast<double>(question.count));
      continue;
    }
    ++summary.unbounded;
    const double above_us = *answer.reference_us - *best_known_us(question);
    summary.unbounded_max_us = std::max(summary.unbounded_max_us.value_or(above_us), above_us);
  }
  summary.judged = static_cast<std::int64_t>(values.size());
  summary.mean = mean(values);
  summary.p50 = median(values);
  summary.p99 = percentile(values, 0.99);
  summary.max = maximum(values);
  summary.weighted_mean = weighted_mean(values, weights);
  return summary;
}

TieSummary summarise_ties(const ComparisonRecord& record, std::size_t stack) {
  TieSummary summary;
  for (const RecordQuestion& question : record.questions) {
    const StackAnswer& answer = question.answers[stack];
    if (answer.flips_with_order) ++summary.order_dependent;
    if (answer.ties == 0 && answer.price_us) ++summary.unknown;
    if (answer.ties >= 2) {
      ++summary.exact;
      summary.most_candidates = std::max(summary.most_candidates, answer.ties);
    } else if (answer.price_us && answer.margin_us &&
               *answer.margin_us < kNearTieFraction * std::abs(*answer.price_us)) {
      ++summary.near;
    }
  }
  return summary;
}

void summarise_rank_correlation(const ComparisonRecord& record, std::size_t stack,
                                StackSummary& summary) {
  std::vector<double> values;
  std::vector<double> weights;
  for (const RecordQuestion& question : record.questions) {
    const std::optional<double>& tau = question.answers[stack].kendall_tau;
    if (!tau) continue;
    values.push_back(*tau);
    weights.push_back(static_cast<double>(question.count));
  }
  summary.ranked = static_cast<std::int64_t>(values.size());
  summary.kendall_tau = mean(values);
  summary.weighted_kendall_tau = weighted_mean(values, weights);
}

StackSummary summarise(const ComparisonRecord& record, std::size_t stack, std::vector<Flip>& flips,
                       BasisTally& tally) {
  StackSummary summary;
  summary.name = record.stacks[stack];
  summary.regret = summarise_regret(record, stack);
  summary.ties = summarise_ties(record, stack);
  summarise_rank_correlation(record, stack, summary);

  std::map<std::string_view, FlipCounts> by_op;
  std::map<std::int64_t, FlipCounts> by_mesh_dims;
  std::array<FlipCounts, kSizeBands.size()> by_size_band;
  for (std::size_t i = 0; i < record.questions.size(); ++i) {
    const RecordQuestion& question = record.questions[i];
    std::optional<Flip> flip;
    if (question.answers[stack].choice != question.answers[0].choice) {
      flip = judge(record, i, stack);
    }
    if (stack > 0) {
      const std::optional<Basis> basis = tally.add(question, stack, flip.has_value());
      if (flip) flip->basis = basis;
    }
    if (flip) flips.push_back(*flip);
    add(summary.flips, flip);
    add(by_op[question.op], flip);
    add(by_mesh_dims[question.mesh_dims], flip);
    add(by_size_band[size_band(question.bytes)], flip);
  }
  for (const auto& [op, counts] : by_op) summary.by_op.push_back({std::string(op), counts});
  std::stable_sort(summary.by_op.begin(), summary.by_op.end(),
                   [](const FlipGroup& left, const FlipGroup& right) {
                     return left.counts.total > right.counts.total;
                   });
  for (std::size_t band = 0; band < kSizeBands.size(); ++band) {
    summary.by_size_band.push_back({std::string(kSizeBands[band]), by_size_band[band]});
  }
  for (const auto& [mesh_dims, counts] : by_mesh_dims) {
    summary.by_mesh_dims.push_back({std::to_string(mesh_dims) + "-D", counts});
  }
  tally.finish(summary);
  return summary;
}

}  // namespace

std::string_view verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "better";
    case Verdict::kWorse:
      return "worse";
    case Verdict::kEqual:
      return "equal";
    case Verdict::kUndecided:
      return "undecided";
    case Verdict::kWrong:
      return "wrong";
  }
  SHARDLAB_CHECK(false, "no such verdict: ", static_cast<int>(verdict));
  return {};
}

std::size_t size_band(double bytes) {
  if (bytes < 1e6) return 0;
  return bytes < 64e6 ? 1 : 2;
}

double gain_error_us(const ComparisonRecord& record, const Flip& flip) {
  const StackAnswer& candidate = answer_of(record, flip.question, flip.stack);
  if (candidate.reference_gain_error_us) return *candidate.reference_gain_error_us;
  // Records of earlier versions lack that error. Their sum is taken as if the errors were
  // independent.
  double squares = 0.0;
  for (const std::size_t stack : {std::size_t{0}, flip.stack}) {
    const StackAnswer& answer = answer_of(record, flip.question, stack);
    if (!answer.reference_low_us || !answer.reference_high_us) continue;
    const double half = 0.5 * (*answer.reference_high_us - *answer.reference_low_us);
    squares += half * half;
  }
  return std::sqrt(squares);
}

std::string undecided_reason(const ComparisonRecord& record, const Flip& flip) {
  if (flip.verdict != Verdict::kUndecided) return {};
  if (flip.gain_us) {
    return "the choices differ by " + duration_text(std::abs(*flip.gain_us)) + ", and " +
           record.reference.name + " knows their difference to " +
           duration_text(gain_error_us(record, flip)) + " (95 %)";
  }
  for (const std::size_t stack : {std::size_t{0}, flip.stack}) {
    const StackAnswer& answer = answer_of(record, flip.question, stack);
    if (answer.reference_us) continue;
    return record.reference.name + " has no price for the choice of " + record.stacks[stack] +
           ": " + answer.reference_impossible;
  }
  return {};
}

std::string unusable_reason(const ComparisonRecord& record, const Flip& flip) {
  // A choice that computes something wrong is what its flip is about.
  const StackAnswer& candidate = answer_of(record, flip.question, flip.stack);
  if (!candidate.computes_wrong.empty()) {
    return record.stacks[flip.stack] +
           "'s choice computes something wrong: " + candidate.computes_wrong;
  }
  for (const std::size_t stack : {std::size_t{0}, flip.stack}) {
    const StackAnswer& answer = answer_of(record, flip.question, stack);
    if (!answer.cannot_run.empty()) {
      return record.stacks[stack] + "'s choice cannot run: " + answer.cannot_run;
    }
    if (!answer.computes_wrong.empty()) {
      return record.stacks[stack] + "'s choice computes something wrong: " + answer.computes_wrong;
    }
  }
  return {};
}

std::span<const Verdict> shown_verdicts(const Comparison& comparison) {
  const std::span<const Verdict> all(kVerdicts);
  return comparison.has_wrong ? all : all.first(all.size() - 1);
}

std::optional<double> best_known_us(const RecordQuestion& question) {
  std::optional<double> best = question.best.us;
  for (const StackAnswer& answer : question.answers) {
    if (!answer.reference_us || !answer.is_usable()) continue;
    if (!best || *answer.reference_us < *best) best = answer.reference_us;
  }
  return best;
}

std::optional<double> regret(const RecordQuestion& question, std::size_t stack) {
  const std::optional<double>& choice = question.answers[stack].reference_us;
  const std::optional<double> best = best_known_us(question);
  if (!choice || !best || !question.answers[stack].is_usable()) return std::nullopt;
  if (*choice <= *best) return 0.0;
  if (*best <= 0.0) return std::nullopt;
  return (*choice - *best) / *best;
}

RegretOfBoth regret_of_both(const ComparisonRecord& record, std::size_t stack) {
  std::vector<double> before;
  std::vector<double> after;
  for (const RecordQuestion& question : record.questions) {
    const std::optional<double> old_regret = regret(question, 0);
    const std::optional<double> new_regret = regret(question, stack);
    if (!old_regret || !new_regret) continue;
    before.push_back(*old_regret);
    after.push_back(*new_regret);
  }
  return {.judged = static_cast<std::int64_t>(before.size()),
          .before = mean(before),
          .after = mean(after)};
}

std::int64_t BasisCounts::total() const {
  return std::accumulate(by_basis.begin(), by_basis.end(), std::int64_t{0});
}

BasisCounts& BasisCounts::operator+=(const BasisCounts& other) {
  for (std::size_t i = 0; i < by_basis.size(); ++i) by_basis[i] += other.by_basis[i];
  return *this;
}

std::vector<const PriceBasis*> bases_of(const RecordQuestion& question, std::size_t stack) {
  const StackAnswer& before = question.answers[0];
  const StackAnswer& after = question.answers[stack];
  if (!before.reference_us || !after.reference_us) return {};
  std::optional<double> best_us = question.best.us;
  const std::optional<PriceBasis>* best = &question.best.basis;
  for (const StackAnswer& answer : question.answers) {
    if (!answer.reference_us || !answer.is_usable()) continue;
    if (best_us && *answer.reference_us >= *best_us) continue;
    best_us = answer.reference_us;
    best = &answer.basis;
  }
  std::vector<const PriceBasis*> bases;
  for (const std::optional<PriceBasis>* basis : {&before.basis, &after.basis, best}) {
    if (!*basis) return {};
    bases.push_back(&**basis);
  }
  return bases;
}

std::optional<Basis> joint_basis(const std::vector<const PriceBasis*>& bases) {
  if (bases.empty()) return std::nullopt;
  bool measured = false;
  for (const PriceBasis* basis : bases) {
    if (!basis->not_measured.empty()) return Basis::kCarriedOver;
    measured = measured || basis->measured_steps > 0;
  }
  return measured ? Basis::kMeasured : Basis::kLocalWork;
}

std::vector<std::string> not_measured_of(const std::vector<const PriceBasis*>& bases) {
  std::vector<std::string> texts;
  for (const PriceBasis* basis : bases) {
    for (const std::string& what : basis->not_measured) {
      if (std::find(texts.begin(), texts.end(), what) == texts.end()) texts.push_back(what);
    }
  }
  return texts;
}

Comparison compare(const ComparisonRecord& record, const ComparisonOptions& options) {
  check_record(record);
  Comparison comparison;
  comparison.min_share_percent = options.min_share_percent;
  comparison.suites = change_by_suite(record);
  comparison.programs = change_by_program(record);
  BasisTally tally;
  for (std::size_t stack = 0; stack < record.stacks.size(); ++stack) {
    comparison.stacks.push_back(summarise(record, stack, comparison.flips, tally));
    comparison.tells_basis =
        comparison.tells_basis || comparison.stacks.back().basis.decisions.total() > 0;
  }
  comparison.not_measured = tally.not_measured();
  set_deltas(record, comparison);
  std::sort(comparison.flips.begin(), comparison.flips.end(), reads_before);
  comparison.has_wrong = std::ranges::any_of(
      comparison.flips, [](const Flip& flip) { return flip.verdict == Verdict::kWrong; });
  comparison.is_weighted =
      std::any_of(record.questions.begin(), record.questions.end(),
                  [](const RecordQuestion& question) { return question.count != 1; });
  return comparison;
}

bool judges_itself(const ComparisonRecord& record, const StackSummary& stack) {
  constexpr double kRounding = 1e-12;
  return stack.name == record.reference.name && stack.regret.mean.value_or(0.0) < kRounding;
}

const StackSummary* lowest_regret(const ComparisonRecord& record, const Comparison& comparison) {
  const StackSummary* lowest = nullptr;
  for (const StackSummary& stack : comparison.stacks) {
    if (!stack.regret.mean || judges_itself(record, stack)) continue;
    if (lowest == nullptr || *stack.regret.mean < *lowest->regret.mean) lowest = &stack;
  }
  return lowest;
}

bool is_hidden(const Comparison& comparison, const Flip& flip) {
  return flip.share_percent && std::abs(*flip.share_percent) < comparison.min_share_percent;
}

std::size_t hidden_flips(const Comparison& comparison) {
  return static_cast<std::size_t>(
      std::count_if(comparison.flips.begin(), comparison.flips.end(),
                    [&](const Flip& flip) { return is_hidden(comparison, flip); }));
}

}  // namespace shardlab::reports

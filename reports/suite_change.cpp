#include "reports/suite_change.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

namespace shardlab::reports {
namespace {

// Sums of many doubles whose rounding errors are carried along, so that the order of the questions
// does not show in the digits. Source: Neumaier 1974.
class Sum {
 public:
  void add(double value) {
    const double total = total_ + value;
    carried_ +=
        std::abs(total_) >= std::abs(value) ? (total_ - total) + value : (value - total) + total_;
    total_ = total;
  }
  [[nodiscard]] double value() const { return total_ + carried_; }

 private:
  double total_ = 0.0;
  double carried_ = 0.0;
};

struct Tally {
  SuiteChange change;
  Sum baseline_us, candidate_us, delta_us, other_steps_us;
  std::map<std::string, CollectiveChange> by_kind;
  bool lacks_collectives = false;
};

void add_traffic(Tally& tally, const RecordQuestion& question, const StackAnswer& answer,
                 CollectiveTraffic CollectiveChange::*side) {
  if (!answer.traffic) {
    tally.lacks_collectives = true;
    return;
  }
  for (const auto& [kind, traffic] : *answer.traffic) {
    CollectiveTraffic& total = tally.by_kind[kind].*side;
    total.count += question.count * traffic.count;
    total.bytes += static_cast<double>(question.count) * traffic.bytes;
  }
}

bool takes_other_steps(const RecordQuestion& question, std::size_t stack) {
  const StackAnswer& before = question.answers[0];
  const StackAnswer& after = question.answers[stack];
  return is_timed(question, stack) && before.choice == after.choice &&
         *before.reference_us != *after.reference_us;
}

void add(Tally& tally, const RecordQuestion& question) {
  SuiteChange& change = tally.change;
  ++change.questions;
  if (!is_timed(question, change.stack)) return;
  ++change.timed;
  const StackAnswer& before = question.answers[0];
  const StackAnswer& after = question.answers[change.stack];
  const auto times = static_cast<double>(question.count);
  tally.baseline_us.add(times * *before.reference_us);
  tally.candidate_us.add(times * *after.reference_us);
  const double delta_us = times * (*after.reference_us - *before.reference_us);
  tally.delta_us.add(delta_us);
  if (takes_other_steps(question, change.stack)) {
    ++change.other_steps;
    tally.other_steps_us.add(delta_us);
  }
  add_traffic(tally, question, before, &CollectiveChange::baseline);
  add_traffic(tally, question, after, &CollectiveChange::candidate);
}

SuiteChange finished(Tally tally) {
  SuiteChange change = std::move(tally.change);
  change.baseline_us = tally.baseline_us.value();
  change.candidate_us = tally.candidate_us.value();
  change.delta_us = tally.delta_us.value();
  change.other_steps_us = tally.other_steps_us.value();
  change.tells_collectives = change.timed > 0 && !tally.lacks_collectives;
  if (!change.tells_collectives) return change;
  for (auto& [kind, of_kind] : tally.by_kind) {
    of_kind.kind = kind;
    change.collectives.push_back(std::move(of_kind));
  }
  return change;
}

// Groups the questions by a name; those whose name is empty belong to no group.
std::vector<SuiteChange> changes_by(
    const ComparisonRecord& record,
    const std::function<const std::string&(const RecordQuestion&)>& name_of) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<Tally>> tallies;  // one for each candidate
  for (const RecordQuestion& question : record.questions) {
    const std::string& name = name_of(question);
    if (name.empty()) continue;
    std::vector<Tally>& of_name = tallies[name];
    if (of_name.empty()) {
      names.push_back(name);
      of_name.resize(record.stacks.size() - 1);
      for (std::size_t i = 0; i < of_name.size(); ++i) {
        of_name[i].change.name = name;
        of_name[i].change.stack = i + 1;
      }
    }
    for (Tally& tally : of_name) {
      std::vector<std::string>& suites = tally.change.suites;
      if (std::find(suites.begin(), suites.end(), question.suite) == suites.end()) {
        suites.push_back(question.suite);
      }
      add(tally, question);
    }
  }
  std::vector<SuiteChange> changes;
  for (const std::string& name : names) {
    for (Tally& tally : tallies[name]) changes.push_back(finished(std::move(tally)));
  }
  return changes;
}

// The program of each suite, by its name.
std::map<std::string, std::string> programs_of(const ComparisonRecord& record) {
  std::map<std::string, std::string> programs;
  for (const SuiteSource& suite : record.configuration.suites) {
    programs[suite.name] = suite.program;
  }
  return programs;
}

template <class IsWanted>
const SuiteChange* largest_of(const std::vector<SuiteChange>& changes, const IsWanted& is_wanted) {
  const auto size = [](const SuiteChange& change) {
    return std::abs(change.percent().value_or(std::numeric_limits<double>::infinity()));
  };
  const SuiteChange* largest = nullptr;
  for (const SuiteChange& change : changes) {
    if (change.timed == 0 || !is_wanted(change)) continue;
    if (largest == nullptr || size(change) > size(*largest)) largest = &change;
  }
  return largest;
}

}  // namespace

std::optional<double> SuiteChange::percent() const {
  if (timed == 0) return std::nullopt;
  if (delta_us == 0.0) return 0.0;
  if (baseline_us <= 0.0) return std::nullopt;
  return 100.0 * delta_us / baseline_us;
}

bool SuiteChange::is_nothing() const {
  const std::optional<double> change = percent();
  return change && std::abs(*change) < kNothingPercent;
}

CollectiveChange SuiteChange::all_collectives() const {
  CollectiveChange all;
  for (const CollectiveChange& one : collectives) {
    all.baseline.count += one.baseline.count;
    all.baseline.bytes += one.baseline.bytes;
    all.candidate.count += one.candidate.count;
    all.candidate.bytes += one.candidate.bytes;
  }
  return all;
}

std::vector<OtherSteps> decisions_by_other_steps(const ComparisonRecord& record) {
  std::vector<OtherSteps> all;
  for (std::size_t i = 0; i < record.questions.size(); ++i) {
    const RecordQuestion& question = record.questions[i];
    for (std::size_t stack = 1; stack < record.stacks.size(); ++stack) {
      if (!takes_other_steps(question, stack)) continue;
      const double delta_us =
          *question.answers[stack].reference_us - *question.answers[0].reference_us;
      all.push_back({.question = i,
                     .stack = stack,
                     .delta_us = static_cast<double>(question.count) * delta_us});
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const OtherSteps& one) { return std::abs(one.delta_us); });
  return all;
}

bool is_timed(const RecordQuestion& question, std::size_t stack) {
  for (const std::size_t one : {std::size_t{0}, stack}) {
    const StackAnswer& answer = question.answers[one];
    if (!answer.reference_us || !answer.is_usable()) return false;
  }
  return true;
}

std::vector<SuiteChange> change_by_suite(const ComparisonRecord& record) {
  std::vector<SuiteChange> changes = changes_by(
      record, [](const RecordQuestion& question) -> const std::string& { return question.suite; });
  const std::map<std::string, std::string> programs = programs_of(record);
  for (SuiteChange& change : changes) {
    change.suites.clear();
    if (const auto known = programs.find(change.name); known != programs.end()) {
      change.program = known->second;
    }
  }
  return changes;
}

std::vector<SuiteChange> change_by_program(const ComparisonRecord& record) {
  const std::map<std::string, std::string> programs = programs_of(record);
  static const std::string kNone;
  std::vector<SuiteChange> changes =
      changes_by(record, [&](const RecordQuestion& question) -> const std::string& {
        const auto known = programs.find(question.suite);
        return known == programs.end() ? kNone : known->second;
      });
  for (SuiteChange& change : changes) change.program = change.name;
  return changes;
}

const SuiteChange* largest_change(const std::vector<SuiteChange>& changes, std::size_t stack) {
  return largest_of(changes, [stack](const SuiteChange& change) { return change.stack == stack; });
}

const SuiteChange* largest_change(const std::vector<SuiteChange>& changes) {
  return largest_of(changes, [](const SuiteChange&) { return true; });
}

}  // namespace shardlab::reports

// What a candidate does to a suite as a whole: its time by the reference, and its collectives.
//
//   const std::vector<SuiteChange> changes = change_by_suite(record);
//   changes[0].baseline_us;               // what the baseline's choices take, in microseconds
//   changes[0].percent();                 // -0.04: the candidate's choices take 0.04 % less
//   changes[0].collectives[0].candidate;  // how many all_gathers the candidate runs, of what bytes
//
// Time of a suite: the sum over its timed questions of the reference's price of the choice times
// the question's count, which is how often the program asks it. A question is timed if the
// reference prices the choices of both stacks and both can run. Times and collectives of both
// stacks are taken over the same questions; those of one candidate are therefore not always those
// of another. A stack can change the time of a question without flipping it: the choice stays, and
// other steps lead to it (`other_steps`).
//
// Microseconds and bytes; the bytes of a collective are those of the larger of one rank's two
// buffers.
// Cost: one pass for each candidate. Tested by tests/unit/reports/suite_change_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/records/record.h"

namespace shardlab::reports {

// Changes below this many percent are called nothing: "changes nothing in time (-0.001 %)". Status:
// assumed. Collectives that are timed twice differ by more than a hundred times as much.
inline constexpr double kNothingPercent = 0.01;

struct CollectiveChange {
  std::string kind;  // "all_gather"
  CollectiveTraffic baseline;
  CollectiveTraffic candidate;
};

struct SuiteChange {
  std::string name;                 // name of the suite or of the program
  std::string program;              // which program the suite was recorded from; "" if from none
  std::vector<std::string> suites;  // the suites that were recorded from a program
  std::size_t stack = 0;            // index into record.stacks, 1 or more
  std::int64_t questions = 0;
  std::int64_t timed = 0;  // questions with a time; the figures below are taken over them
  double baseline_us = 0.0;
  double candidate_us = 0.0;
  double delta_us = 0.0;           // candidate minus baseline: the sum over questions
  std::int64_t other_steps = 0;    // timed questions that keep their choice at another price
  double other_steps_us = 0.0;     // their part of delta_us
  bool tells_collectives = false;  // false for a record without them
  std::vector<CollectiveChange> collectives;  // the kinds that either stack runs, by name

  // The change in percent of the baseline's time. Empty if nothing is timed, or if the baseline
  // takes no time and the candidate some.
  [[nodiscard]] std::optional<double> percent() const;
  [[nodiscard]] bool is_nothing() const;  // timed, and less than kNothingPercent
  // All kinds together.
  [[nodiscard]] CollectiveChange all_collectives() const;
};

// A decision that keeps its choice and reaches it by other steps, at another price.
struct OtherSteps {
  std::size_t question = 0;  // index into record.questions
  std::size_t stack = 0;     // index into record.stacks, 1 or more
  double delta_us = 0.0;     // candidate minus baseline, as often as the question is asked
};
// All of them, those that change time most first.
[[nodiscard]] std::vector<OtherSteps> decisions_by_other_steps(const ComparisonRecord& record);

// Whether the choices of the baseline and of this stack have a time: the reference prices both, and
// both can run.
[[nodiscard]] bool is_timed(const RecordQuestion& question, std::size_t stack);

// Returns the changes of all candidates for the first suite, then those for the next one. Suites
// come in the order in which the questions name them.
[[nodiscard]] std::vector<SuiteChange> change_by_suite(const ComparisonRecord& record);
// The same for the programs that suites were recorded from.
[[nodiscard]] std::vector<SuiteChange> change_by_program(const ComparisonRecord& record);

// The change of this candidate that is largest in percent; a change from no time at all is larger
// than any. Null if no suite is timed.
[[nodiscard]] const SuiteChange* largest_change(const std::vector<SuiteChange>& changes,
                                                std::size_t stack);
// The same over all candidates.
[[nodiscard]] const SuiteChange* largest_change(const std::vector<SuiteChange>& changes);

}  // namespace shardlab::reports

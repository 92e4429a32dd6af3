// What a record shows: which decisions each candidate flips, what the reference says of them, and
// how much each stack loses by its choices.
//
//   const Comparison comparison = compare(record);
//   comparison.stacks[1].flips.total;       // decisions the first candidate takes otherwise
//   comparison.flips.front().verdict;       // kWorse, if any flip is: losses come first
//
// Flip: the candidate's choice is another text than the baseline's.
// Best: the cheapest known choice by the reference: the record's best, or an answer the reference
//   prices lower still (rule sets differ between stacks: one may choose what another never lists).
// A choice that cannot run, since no collective does one of its steps (PyTorch's executor refuses
//   P(sum)->P(max), for one), is worse than any that runs, whatever the prices: a flip to one that
//   runs is better, with no gain in microseconds. It has no regret, and is never the best.
// Regret of an answer: (its reference price - best) / best, a fraction, never negative. Where best
// is 0, regret is 0
//   for a choice that is free as well; a choice that costs something has no ratio and counts as
//   unbounded, with its microseconds.
// Gain of a flip: the baseline's reference price minus the candidate's; positive is better. In
// percent of the
//   baseline's. Prices within 1e-9 of each other, relatively, are equal: DTensor compares sums of
//   doubles.
//
// Basis: what the reference's judgement of a decision rests on, where its collective model has
//   measured rows. A judged decision, one whose two choices the reference prices, is `measured` when
//   every communication step of the baseline's choice, of the candidate's and of the best was
//   measured (reports/records/price_basis.h: a row of the same collective among as many ranks on as many
//   hosts, the bytes between the smallest and the largest such row), `carried over` when one was not,
//   and `local work` when none of the three communicates.
//
// Not for: running anything. A comparison indexes into its record and is meaningless without it.
// Cost: one pass and a sort per stack; 20,000 questions x 8 stacks take some 0.1 s.
// Tested by tests/unit/reports/comparison_test.cpp and price_basis_test.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/index.h"
#include "reports/records/record.h"

namespace shardlab::reports {

enum class Verdict { kBetter, kWorse, kEqual, kUndecided };
inline constexpr std::array<Verdict, 4> kVerdicts = {Verdict::kBetter, Verdict::kWorse,
                                                     Verdict::kEqual, Verdict::kUndecided};

// "better", "worse", "equal", "undecided".
[[nodiscard]] std::string_view verdict_text(Verdict verdict);

// The size of a question's largest tensor: "<1MB", "1-64MB", ">=64MB", decimal, as in `validate`.
inline constexpr std::array<std::string_view, 3> kSizeBands = {"<1MB", "1-64MB", ">=64MB"};
[[nodiscard]] std::size_t size_band(double bytes);  // an index into kSizeBands

struct Flip {
  std::size_t question = 0;  // index into record.questions
  std::size_t stack = 0;     // index into record.stacks, 1 or more
  Verdict verdict = Verdict::kUndecided;
  std::optional<double> gain_us;  // nothing where undecided, or where one choice cannot run
  std::optional<double>
      gain_percent;            // nothing where gain_us is, or where the baseline's choice is free
  std::optional<Basis> basis;  // nothing where undecided, or where the record does not tell
};

// Why the reference cannot judge an undecided flip; "" for the others.
[[nodiscard]] std::string undecided_reason(const ComparisonRecord& record, const Flip& flip);
// "dtensor-v0's choice cannot run: ..." where one of a flip's choices cannot; "" where both can.
[[nodiscard]] std::string cannot_run_reason(const ComparisonRecord& record, const Flip& flip);

struct FlipCounts {
  std::int64_t questions = 0;
  std::int64_t total = 0;
  std::array<std::int64_t, 4> by_verdict{};  // indexed by Verdict
  [[nodiscard]] std::int64_t operator[](Verdict verdict) const {
    return by_verdict[to_index(verdict)];
  }
  friend bool operator==(const FlipCounts&, const FlipCounts&) = default;
};

// The flips among the questions of one op, size band or number of mesh dims.
struct FlipGroup {
  std::string label;
  FlipCounts counts;
};

// Judged decisions by what they rest on.
struct BasisCounts {
  std::array<std::int64_t, 3> by_basis{};  // indexed by Basis
  [[nodiscard]] std::int64_t operator[](Basis basis) const { return by_basis[to_index(basis)]; }
  [[nodiscard]] std::int64_t total() const;
  BasisCounts& operator+=(const BasisCounts& other);
  friend bool operator==(const BasisCounts&, const BasisCounts&) = default;
};

// Of all questions, or of those of one suite or mesh.
struct BasisGroup {
  std::string label;
  BasisCounts decisions;
  BasisCounts flips;  // the flips among them
};

// A collective and group, or its sizes beyond the measured ones, that prices were carried over to.
struct NotMeasured {
  std::string what;            // "all_gather of 16 ranks on 2 hosts"
  std::int64_t decisions = 0;  // judged ones that it takes part in, of all candidates
  std::int64_t flips = 0;
};

struct RegretSummary {
  std::int64_t judged = 0;  // answers with a regret: what the figures below are taken over
  std::optional<double> mean, p50, p99, max;
  std::optional<double> weighted_mean;  // by the questions' counts
  std::int64_t unbounded = 0;           // best is free, the choice is not
  std::optional<double> unbounded_max_us;
  std::int64_t impossible = 0;  // the stack itself has no price for its answer
  std::int64_t cannot_run = 0;  // the stack has a price for it, and no collective does it
  std::int64_t unpriced = 0;    // the stack has a price for its answer, the reference has none
};

struct TieSummary {
  std::int64_t exact = 0;            // two or more candidates at the lowest price
  std::int64_t near = 0;             // no exact tie, but the margin is below 1 % of the price
  std::int64_t order_dependent = 0;  // another order of candidates, another choice
  std::int64_t most_candidates = 0;  // in the largest exact tie
};

struct StackSummary {
  std::string name;
  RegretSummary regret;
  std::int64_t ranked = 0;            // questions with a rank correlation
  std::optional<double> kendall_tau;  // mean over those
  std::optional<double> weighted_kendall_tau;
  TieSummary ties;
  FlipCounts flips;                     // against the baseline: none for the baseline itself
  std::vector<FlipGroup> by_op;         // by flips, falling; then by name
  std::vector<FlipGroup> by_size_band;  // in the order of kSizeBands
  std::vector<FlipGroup> by_mesh_dims;  // rising
  // Of a candidate, where the record tells it.
  BasisGroup basis;                        // of all its decisions
  std::vector<BasisGroup> basis_by_suite;  // as the record names them first
  std::vector<BasisGroup> basis_by_mesh;   // by mesh dims, then by name
};

struct Comparison {
  std::vector<StackSummary> stacks;  // as record.stacks: the baseline first
  // Of all candidates: worse, undecided, better, equal; within each the largest |gain| first.
  std::vector<Flip> flips;
  bool is_weighted = false;  // some question counts more than once
  bool tells_basis = false;  // of some judged decision the record says what it rests on
  std::vector<NotMeasured> not_measured;  // by decisions, falling; then by name
};

// The answer's share above the cheapest known choice; nothing where there is no ratio.
[[nodiscard]] std::optional<double> regret(const RecordQuestion& question, std::size_t stack);

// The cheapest known choice by the reference.
[[nodiscard]] std::optional<double> best_known_us(const RecordQuestion& question);

// What the judgement of one candidate's decision rests on: of the baseline's choice, its own and the
// best known one. Empty where the reference does not price both choices, or the record does not tell.
// Points into `question`.
[[nodiscard]] std::vector<const PriceBasis*> bases_of(const RecordQuestion& question,
                                                      std::size_t stack);
// Of all of them; nothing where there are none.
[[nodiscard]] std::optional<Basis> joint_basis(const std::vector<const PriceBasis*>& bases);
// What of all of them was not measured, each text once, in order.
[[nodiscard]] std::vector<std::string> not_measured_of(const std::vector<const PriceBasis*>& bases);

[[nodiscard]] Comparison compare(const ComparisonRecord& record);

// The stack with the lowest mean regret, the first of equals; the reference itself aside, whose
// regret is 0 by its own prices. Points into `comparison`; null where none has a mean.
[[nodiscard]] const StackSummary* lowest_regret(const ComparisonRecord& record,
                                                const Comparison& comparison);

// Indices into `flips`, so ordered that every prefix is a fair selection: as many of each verdict
// while they last, the largest |gain| first. Four losses do not drown in a thousand gains, wherever
// a writer has to cut.
[[nodiscard]] std::vector<std::size_t> most_telling_first(const Comparison& comparison);

}  // namespace shardlab::reports

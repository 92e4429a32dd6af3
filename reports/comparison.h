// What a record shows: what each candidate does to the time of each suite, which decisions it
// flips, what the reference says of them, and how much each stack loses by its choices.
//
//   const Comparison comparison = compare(record);
//   comparison.suites[0].percent();         // how much the time of the first suite changes
//   comparison.stacks[1].flips.total;       // decisions the first candidate takes otherwise
//   comparison.flips.front().delta_us;      // the largest in size, unless a choice cannot run
//
// Flip: a question that the candidate answers with another choice than the baseline does.
// Best: the cheapest known choice by the reference. That is the record's best, or an answer that
//   the reference prices lower still (rule sets differ between stacks: one may choose what another
//   never lists).
// A choice that cannot run, since no collective does one of its steps (PyTorch's executor refuses
//   P(sum)->P(max), for one), is worse than any that runs, whatever the prices: a flip to one that
//   runs is better, with no gain in microseconds. It has no regret, and is never the best.
// A choice that computes something wrong, as a proof of its rows shows, is taken into no sum: a
//   flip to it is `wrong`, neither better nor worse. It has no regret, and is never the best.
// Regret of an answer: (its reference price - best) / best, a fraction that is never negative.
//   Where best is 0, the regret of a choice that is free as well is 0; a choice that costs
//   something has no ratio and counts as unbounded, with its microseconds.
// Undecided: a flip that the reference cannot judge, since it has no price for one of the choices,
//   or since its own error is larger than the difference. The error of the difference is the one
//   that the record states (StackAnswer::reference_gain_error_us). If the record states none, it is
//   the root of the summed squares of the two intervals' half widths, as if the two errors had
//   nothing in common; on one cluster they have, so that this errs on the side of doubt.
// Gain of a flip: the baseline's reference price minus the candidate's, so that positive is better;
//   gain_percent is in percent of the baseline's price. Prices that differ by less than 1e-9 of
//   their size are equal, since DTensor compares sums of doubles.
//
// Delta of a flip: the candidate's reference price minus the baseline's, times the question's
//   count, so that negative is better. It is empty unless both choices have a time
//   (reports/suite_change.h). Its share is in percent of what the baseline's choices of the whole
//   suite take.
//
// Basis: what the reference's judgement of a decision rests on, where its collective model has
//   measured rows. A priced decision, one whose two choices the reference prices, is `measured`
//   when every communication step of the baseline's choice, of the candidate's and of the best was
//   measured (reports/records/price_basis.h: a row of the same collective among as many ranks on as
//   many hosts, the bytes between the smallest and the largest such row), `carried over` when one
//   was not, and `local work` when none of the three communicates.
//
// Nothing is run here. A comparison indexes into its record and is meaningless without it.
// Cost: one pass and a sort per stack; 20,000 questions x 8 stacks take some 0.1 s.
// Tested by tests/unit/reports/comparison_test.cpp and
// tests/unit/reports/records/price_basis_test.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/index.h"
#include "reports/records/record.h"
#include "reports/suite_change.h"

namespace shardlab::reports {

enum class Verdict { kBetter, kWorse, kEqual, kUndecided, kWrong };
inline constexpr std::array<Verdict, 5> kVerdicts = {
    Verdict::kBetter, Verdict::kWorse, Verdict::kEqual, Verdict::kUndecided, Verdict::kWrong};

// "better", "worse", "equal", "undecided", "wrong".
[[nodiscard]] std::string_view verdict_text(Verdict verdict);

// Bands of the size of a question's largest tensor: "<1MB", "1-64MB", ">=64MB". They are decimal,
// as in `validate`.
inline constexpr std::array<std::string_view, 3> kSizeBands = {"<1MB", "1-64MB", ">=64MB"};
[[nodiscard]] std::size_t size_band(double bytes);  // an index into kSizeBands

struct Flip {
  std::size_t question = 0;  // index into record.questions
  std::size_t stack = 0;     // index into record.stacks, 1 or more
  Verdict verdict = Verdict::kUndecided;
  std::optional<double> gain_us;        // empty without both prices, or if one choice cannot run
  std::optional<double> gain_percent;   // empty if gain_us is, or if the baseline's choice is free
  std::optional<double> delta_us;       // empty if one of the choices has no time
  std::optional<double> share_percent;  // empty if delta_us is, or if the suite takes no time
  std::optional<Basis> basis;           // empty if undecided, or if the record does not tell
};

// The half width of the 95 % interval of a flip's gain, in microseconds; 0 where the reference does
// not know its error.
[[nodiscard]] double gain_error_us(const ComparisonRecord& record, const Flip& flip);
// Why the reference cannot judge an undecided flip; "" for the others.
[[nodiscard]] std::string undecided_reason(const ComparisonRecord& record, const Flip& flip);
// "dtensor-v0's choice cannot run: ..." or "... computes something wrong: ..." where that holds for
// one of a flip's choices; "" where both can be taken.
[[nodiscard]] std::string unusable_reason(const ComparisonRecord& record, const Flip& flip);

struct FlipCounts {
  std::int64_t questions = 0;
  std::int64_t total = 0;
  std::array<std::int64_t, kVerdicts.size()> by_verdict{};  // indexed by Verdict
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

// How many priced decisions rest on measured prices, on carried-over prices and on local work.
struct BasisCounts {
  std::array<std::int64_t, 3> by_basis{};  // indexed by Basis
  [[nodiscard]] std::int64_t operator[](Basis basis) const { return by_basis[to_index(basis)]; }
  [[nodiscard]] std::int64_t total() const;
  BasisCounts& operator+=(const BasisCounts& other);
  friend bool operator==(const BasisCounts&, const BasisCounts&) = default;
};

// The counts of all questions, or of the questions of one suite or mesh.
struct BasisGroup {
  std::string label;
  BasisCounts decisions;
  BasisCounts flips;  // the flips among them
};

// A collective among a group, or at sizes, for which nothing was measured: its prices are carried
// over from what was.
struct NotMeasured {
  std::string what;            // "all_gather of 16 ranks on 2 hosts"
  std::int64_t decisions = 0;  // priced decisions of all candidates that it takes part in
  std::int64_t flips = 0;
};

struct RegretSummary {
  std::int64_t judged = 0;  // answers with a regret; the figures below are taken over them
  std::optional<double> mean, p50, p99, max;
  std::optional<double> weighted_mean;  // the mean weighted by the questions' counts
  std::int64_t unbounded = 0;  // answers that cost something although the best choice is free
  std::optional<double> unbounded_max_us;
  std::int64_t impossible = 0;      // the stack itself has no price for its answer
  std::int64_t cannot_run = 0;      // the stack has a price for it, and no collective does it
  std::int64_t computes_wrong = 0;  // the stack has a price for it, and it computes something else
  std::int64_t unpriced = 0;        // the stack has a price for its answer, the reference has none
};

struct TieSummary {
  std::int64_t exact = 0;            // two or more candidates at the lowest price
  std::int64_t near = 0;             // no exact tie, but the margin is below 1 % of the price
  std::int64_t order_dependent = 0;  // the choice changes with the order of the candidates
  std::int64_t most_candidates = 0;  // number of candidates in the largest exact tie
  std::int64_t unknown = 0;          // recorded choices, whose other candidates are not known
};

struct StackSummary {
  std::string name;
  RegretSummary regret;
  std::int64_t ranked = 0;            // questions with a rank correlation
  std::optional<double> kendall_tau;  // mean over these questions
  std::optional<double> weighted_kendall_tau;
  TieSummary ties;
  FlipCounts flips;                     // flips against the baseline; the baseline itself has none
  std::vector<FlipGroup> by_op;         // by flips, falling; then by name
  std::vector<FlipGroup> by_size_band;  // in the order of kSizeBands
  std::vector<FlipGroup> by_mesh_dims;  // rising
  // These are filled for a candidate, where the record tells them.
  BasisGroup basis;                        // over all its decisions
  std::vector<BasisGroup> basis_by_suite;  // in the order in which the record first names them
  std::vector<BasisGroup> basis_by_mesh;   // by mesh dims, then by name
};

struct Comparison {
  std::vector<StackSummary> stacks;  // in the order of record.stacks, so the baseline comes first
  // The flips of all candidates: those that take a choice which can run for one which cannot, or
  // the reverse; then by |delta_us|, falling; then the undecided ones, and those that change
  // nothing.
  std::vector<Flip> flips;
  std::vector<SuiteChange> suites;    // for each suite, a change for each candidate
  std::vector<SuiteChange> programs;  // the same for programs that suites were recorded from
  double min_share_percent = 0.0;     // see is_hidden
  bool has_wrong = false;             // some flip takes a choice that computes something wrong
  bool is_weighted = false;           // some question counts more than once
  bool tells_basis = false;           // the record says of some priced decision what it rests on
  std::vector<NotMeasured> not_measured;  // by decisions, falling; then by name
};

// The regret of an answer. Empty if the reference does not price it, if it cannot run, or if it
// costs something although the best choice is free.
[[nodiscard]] std::optional<double> regret(const RecordQuestion& question, std::size_t stack);

// The mean regrets of the baseline and of a candidate over the decisions on which both have one.
// Means over different decisions would not be comparable.
struct RegretOfBoth {
  std::int64_t judged = 0;  // how many decisions these are
  std::optional<double> before, after;
};
[[nodiscard]] RegretOfBoth regret_of_both(const ComparisonRecord& record, std::size_t stack);

// The cheapest known choice by the reference.
[[nodiscard]] std::optional<double> best_known_us(const RecordQuestion& question);

// What the judgement of one candidate's decision rests on: the bases of the baseline's choice, of
// its own and of the best known one. Empty where the reference does not price both choices, or
// where the record does not tell. The pointers point into `question`.
[[nodiscard]] std::vector<const PriceBasis*> bases_of(const RecordQuestion& question,
                                                      std::size_t stack);
// The least measured of several bases; empty if there are none.
[[nodiscard]] std::optional<Basis> joint_basis(const std::vector<const PriceBasis*>& bases);
// Everything that one of them names as not measured: each text once, in the order in which it is
// met.
[[nodiscard]] std::vector<std::string> not_measured_of(const std::vector<const PriceBasis*>& bases);

// What a reader wants of a comparison, which changes no figure.
struct ComparisonOptions {
  // Flips whose share of their suite's time is below this are hidden from pages and texts.
  double min_share_percent = 0.0;
};

[[nodiscard]] Comparison compare(const ComparisonRecord& record,
                                 const ComparisonOptions& options = {});

// The verdicts that have a column of their own: kWrong only where some flip has it.
[[nodiscard]] std::span<const Verdict> shown_verdicts(const Comparison& comparison);

// Whether the flip is hidden because it saves or loses too little. A flip without a share is shown,
// since nobody knows how little that is.
[[nodiscard]] bool is_hidden(const Comparison& comparison, const Flip& flip);
// How many flips are hidden.
[[nodiscard]] std::size_t hidden_flips(const Comparison& comparison);

// Whether the stack is the reference itself and takes what it prices lowest, so that its regret,
// which is 0, says nothing of it. A planner that does not find its cheapest plan has a regret by
// its own prices too.
[[nodiscard]] bool judges_itself(const ComparisonRecord& record, const StackSummary& stack);

// The stack with the lowest mean regret, and the first of several that are equal. A stack that
// judges itself is left out. Points into `comparison`; null where no stack has a mean.
[[nodiscard]] const StackSummary* lowest_regret(const ComparisonRecord& record,
                                                const Comparison& comparison);

}  // namespace shardlab::reports

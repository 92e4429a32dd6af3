// A record of one comparison, "shardlab/record/1": everything a report says about a run follows
// from its record, so an old run can be reported again without the code that made it.
//
//   ComparisonRecord record;
//   record.stacks = {"dtensor-v3", "dtensor-v4"};      // the baseline first, then the candidates
//   record.questions.push_back(...);                   // one answer for each stack, in that order
//   const std::string text = record_text(record);      // JSON, one question to a line
//   const ComparisonRecord again = parse_record(text, "run.json");   // again == record
//
// Fill it once, then leave it alone: every reader takes it const. Times are microseconds, sizes
// bytes. What has no number holds nothing and a reason, never infinity or NaN.
//
// Not for: results as they are computed (strategies/), or conclusions (reports/comparison.h).
// Cost: about 400 bytes an answer; 20,000 questions put to 8 stacks are some 60 MB. The text is
// written and read a question at a time, without a JSON tree of the whole. Tested by
// tests/unit/reports/records/record_test.cpp.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/answer_detail.h"
#include "reports/records/price_basis.h"
#include "reports/records/run_header.h"

namespace shardlab::reports {

// The stack whose prices judge the others.
struct ReferenceStack {
  std::string name;
  std::string label;  // "datasheet, not measured"
  friend bool operator==(const ReferenceStack&, const ReferenceStack&) = default;
};

enum class QuestionKind {
  kSelect,  // which placements does an op take?
  kPlan,    // which steps take one layout to another?
};

// The cheapest choice by the reference, over all candidates.
struct BestChoice {
  std::string choice;
  std::optional<double> us;
  std::string reason;                    // why there is no price, else ""
  std::optional<PriceBasis> basis = {};  // of `us`, where the reference has measured rows
  friend bool operator==(const BestChoice&, const BestChoice&) = default;
};

// What one stack chose.
struct StackAnswer {
  std::string choice;                  // "" when the stack finds nothing possible
  std::vector<std::string> path;       // the plan's steps, or one redistribution of an input each
  std::optional<double> price_us;      // the stack's own price of its choice
  std::string impossible;              // why there is no price, else ""
  std::optional<double> reference_us;  // the reference's price of the same choice
  std::string reference_impossible;    // why there is none, else ""
  std::string cannot_run;              // which step no collective does, else ""
  std::optional<PriceBasis> basis;     // of reference_us, where the reference has measured rows
  std::int64_t ties = 1;          // candidates at the lowest price: 1 is a choice, 2 or more a tie
  bool flips_with_order = false;  // another order of the candidates gives another choice
  std::optional<double> margin_us;     // to the best different price
  std::optional<double> kendall_tau;   // tau-b of its candidate prices against the reference's
  std::optional<AnswerDetail> detail;  // of the baseline and of who decides otherwise
  friend bool operator==(const StackAnswer&, const StackAnswer&) = default;
};

struct RecordQuestion {
  std::string id;  // unique in its record
  std::string suite;
  QuestionKind kind = QuestionKind::kSelect;
  std::string op;    // "aten.mm.default", or "redistribute"
  std::string mesh;  // "dp=8,tp=8"
  std::int64_t mesh_dims = 1;
  double bytes = 0.0;  // the largest tensor, unsharded
  std::vector<std::string> inputs;
  std::int64_t count = 1;  // how often the suite asks it: its weight
  std::int64_t candidates = 0;
  BestChoice best;
  std::vector<StackAnswer> answers;  // one for each of ComparisonRecord::stacks
  friend bool operator==(const RecordQuestion&, const RecordQuestion&) = default;
};

// The case that breaks an invariant most.
struct InvariantWitness {
  std::string witness;  // "S(0)R to RS(1) by way of RR on 2x4, f32[64,32]"
  double amount_us = 0.0;
  std::optional<double> amount_percent;  // nothing where the fair price is 0
  friend bool operator==(const InvariantWitness&, const InvariantWitness&) = default;
};

struct InvariantResult {
  std::string stack;
  std::string name;  // triangle, monotone, monotone_bandwidth, zero_same_layout, ...
  std::int64_t checked = 0;
  std::int64_t violated = 0;
  std::optional<InvariantWitness> worst;
  friend bool operator==(const InvariantResult&, const InvariantResult&) = default;
};

// Price against bytes: one collective over one group.
struct PriceCurve {
  std::string stack;
  std::string collective;
  std::string mesh;
  std::string group;  // "tp, 8 ranks, one host"
  std::vector<double> bytes;
  std::vector<std::optional<double>> price_us;  // as long as `bytes`
  friend bool operator==(const PriceCurve&, const PriceCurve&) = default;
};

struct ComparisonRecord : RunHeader {
  std::vector<std::string> stacks;  // the baseline, then the candidates
  ReferenceStack reference;
  std::vector<RecordQuestion> questions;
  std::vector<InvariantResult> invariants;
  std::vector<PriceCurve> curves;
  friend bool operator==(const ComparisonRecord&, const ComparisonRecord&) = default;
};

// Throws ContractError where the record contradicts itself: answers that do not match the stacks, a
// NaN, two questions of one id, a missing price without its reason. Everything below assumes, and
// the readers guarantee, that it passes.
void check_record(const ComparisonRecord& record);

[[nodiscard]] nlohmann::ordered_json to_json(const ComparisonRecord& record);

// The parts of a record that a report repeats as they are, in the record's own JSON.
[[nodiscard]] nlohmann::ordered_json to_json(const ReferenceStack& reference);
[[nodiscard]] nlohmann::ordered_json to_json(const InvariantWitness& witness);
[[nodiscard]] nlohmann::ordered_json to_json(const PriceCurve& curve);

// Throws ConfigError, naming `file` and the JSON pointer, for an unknown or missing key, a wrong
// type, another schema, or a record that contradicts itself.
[[nodiscard]] ComparisonRecord from_json(const nlohmann::json& json, std::string_view file);

// The same content as to_json, one question, invariant and curve to a line.
[[nodiscard]] std::string record_text(const ComparisonRecord& record);

// A record's JSON, the elements of "questions" read already: 20,000 of them are never a tree.
struct RecordTree {
  nlohmann::json value;
  std::vector<RecordQuestion> questions;
};

// Throws ConfigError for text that is not JSON, naming its line and column, and for bad questions.
[[nodiscard]] RecordTree parse_record_tree(std::string_view text, std::string_view file);
// Throws ConfigError as from_json does.
[[nodiscard]] ComparisonRecord from_tree(RecordTree tree, std::string_view file);

// Throws ConfigError as both do.
[[nodiscard]] ComparisonRecord parse_record(std::string_view text, std::string_view file);

}  // namespace shardlab::reports

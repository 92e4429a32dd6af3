// A record of one comparison, "shardlab/record/1": everything a report says about a run follows
// from its record, so an old run can be reported again without the code that made it.
//
//   ComparisonRecord record;
//   record.stacks = {"dtensor-v3", "dtensor-v4"};      // the baseline first, then the candidates
//   record.questions.push_back(...);                   // one answer for each stack, in that order
//   const std::string text = record_text(record);      // JSON, one question to a line
//   const ComparisonRecord again = parse_record(text, "run.json");   // again == record
//
// Fill it once and do not change it afterwards: every reader takes it const. Times are in
// microseconds, sizes in bytes. A missing number is an empty optional with its reason beside it,
// never infinity or NaN.
//
// The lists of fields (costmodel/base/fields.h) are the one description of this JSON: the writer,
// the strict reader and configs/schema/record.schema.json follow from them. To add a figure to the
// answers, see reports/records/question.h.
//
// This file draws no conclusions; reports/comparison.h does. Cost: about 400 bytes per answer, so
// 20,000 questions to 8 stacks take some 60 MB. The text is written and read one question at a
// time, without a JSON tree of the whole. Tested by tests/unit/reports/records/record_test.cpp.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/invariant_result.h"
#include "reports/records/question.h"
#include "reports/records/run_header.h"
#include "reports/records/step_comparison.h"

namespace shardlab {
namespace reports {

struct ReferenceStack {
  std::string name;
  std::string label;
  std::vector<std::string> doubtful = {};  // what speaks against its verdicts, a line each
  friend bool operator==(const ReferenceStack&, const ReferenceStack&) = default;
};

// A question of a suite that one of the stacks or the reference cannot be asked.
struct UnaskedQuestion {
  std::string id, suite, op;
  std::string reason;  // "aten.rot90.default: no sharding candidate is left"
  friend bool operator==(const UnaskedQuestion&, const UnaskedQuestion&) = default;
};

struct PriceCurve {
  std::string stack;
  std::string collective;
  std::string mesh;
  std::string group;
  std::vector<double> bytes;
  std::vector<std::optional<double>> price_us;  // as long as `bytes`
  friend bool operator==(const PriceCurve&, const PriceCurve&) = default;
};

struct ComparisonRecord : RunHeader {
  std::vector<std::string> stacks;
  ReferenceStack reference;
  std::vector<RecordQuestion> questions;
  std::vector<InvariantResult> invariants;
  std::vector<PriceCurve> curves;
  std::vector<StepComparison> steps;  // empty if no program was named
  std::vector<UnaskedQuestion> not_asked = {};
  friend bool operator==(const ComparisonRecord&, const ComparisonRecord&) = default;
};

// Throws ContractError if the record contradicts itself: answers that do not match the stacks, a
// NaN, two questions with the same id, a missing price without its reason. All other functions on
// records assume that this check passes, and the readers guarantee it.
void check_record(const ComparisonRecord& record);

[[nodiscard]] nlohmann::ordered_json to_json(const ComparisonRecord& record);

// Throws ConfigError, naming `file` and the JSON pointer, for an unknown or missing key, a wrong
// type, another schema, or a record that contradicts itself.
[[nodiscard]] ComparisonRecord from_json(const nlohmann::json& json, std::string_view file);

// The same content as to_json, one question, invariant and curve to a line.
[[nodiscard]] std::string record_text(const ComparisonRecord& record);

// The JSON of a record without its questions, which have been read already: 20,000 questions are
// never held as a JSON tree.
struct RecordTree {
  nlohmann::json value;
  std::vector<RecordQuestion> questions;
};

// Throws ConfigError, which names line and column, for text that is not JSON, and for bad
// questions.
[[nodiscard]] RecordTree parse_record_tree(std::string_view text, std::string_view file);
// Throws ConfigError as from_json does.
[[nodiscard]] ComparisonRecord from_tree(RecordTree tree, std::string_view file);

// Reads a record from its text. Throws ConfigError as the two functions above do.
[[nodiscard]] ComparisonRecord parse_record(std::string_view text, std::string_view file);

}  // namespace reports

template <>
struct Fields<reports::ReferenceStack> {
  using Self = reports::ReferenceStack;
  static constexpr std::string_view kName = "reference";
  static constexpr std::string_view kMeaning = "the stack whose prices judge the others";
  static constexpr auto kList = std::tuple(
      field("name", &Self::name, ""), field("label", &Self::label, "datasheet, not measured"),
      optional_field("doubtful", &Self::doubtful,
                     "what speaks against its verdicts: prices "
                     "that cannot be right or are unlike what "
                     "was measured, and parts of a stack that "
                     "it shares with one side alone"));
};

template <>
struct Fields<reports::UnaskedQuestion> {
  using Self = reports::UnaskedQuestion;
  static constexpr std::string_view kName = "unasked_question";
  static constexpr std::string_view kMeaning =
      "a question that one of the stacks, or the reference, cannot be asked";
  static constexpr auto kList =
      std::tuple(field("id", &Self::id, ""), field("suite", &Self::suite, ""),
                 field("op", &Self::op, ""), field("reason", &Self::reason, "why, in words"));
};

template <>
struct Fields<reports::PriceCurve> {
  using Self = reports::PriceCurve;
  static constexpr std::string_view kName = "curve";
  static constexpr std::string_view kMeaning = "price against bytes: one collective over one group";
  static constexpr auto kList = std::tuple(
      field("stack", &Self::stack, ""), field("collective", &Self::collective, ""),
      field("mesh", &Self::mesh, ""), field("group", &Self::group, "tp, 8 ranks, one host"),
      field("bytes", &Self::bytes, "", kAmount),
      field("price_us", &Self::price_us, "one for each size"));
};

template <>
struct Fields<reports::ComparisonRecord> {
  using Self = reports::ComparisonRecord;
  static constexpr std::string_view kName = "compare_record";
  static constexpr auto kList = std::tuple_cat(
      std::tuple(ConstantField{"schema", reports::kRecordSchema},
                 // Older records, from when comparisons were the only kind, do not name it.
                 ConstantField{"kind", reports::kCompareKind, KeyPresence::kOptional}),
      Fields<reports::RunHeader>::kList,
      std::tuple(field("stacks", &Self::stacks, "the baseline, then the candidates",
                       {.schema = R"({"type": "array", "minItems": 2, "uniqueItems": true,
                                      "items": {"type": "string"}})"}),
                 field("reference", &Self::reference, ""), field("questions", &Self::questions, ""),
                 field("invariants", &Self::invariants, ""), field("curves", &Self::curves, ""),
                 optional_field("steps", &Self::steps,
                                "the training steps of the programs that were named"),
                 optional_field("not_asked", &Self::not_asked,
                                "the questions of the suites that are not in `questions`")));
};

}  // namespace shardlab

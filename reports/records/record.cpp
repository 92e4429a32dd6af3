#include "reports/records/record.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>
#include <utility>

#include "costmodel/base/error.h"
#include "reports/records/json_text.h"
#include "reports/records/strict_json.h"

namespace shardlab::reports {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// ---- writing

ordered_json number_or_null(const std::optional<double>& number) {
  return number ? ordered_json(*number) : ordered_json(nullptr);
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

std::string_view kind_text(QuestionKind kind) {
  return kind == QuestionKind::kSelect ? "select" : "plan";
}

ordered_json answer_json(const StackAnswer& answer) {
  ordered_json value = {{"choice", answer.choice},
                        {"path", answer.path},
                        {"price_us", number_or_null(answer.price_us)},
                        {"impossible", text_or_null(answer.impossible)},
                        {"reference_us", number_or_null(answer.reference_us)},
                        {"reference_impossible", text_or_null(answer.reference_impossible)},
                        {"ties", answer.ties},
                        {"flips_with_order", answer.flips_with_order},
                        {"margin_us", number_or_null(answer.margin_us)},
                        {"kendall_tau", number_or_null(answer.kendall_tau)}};
  if (!answer.cannot_run.empty()) value["cannot_run"] = answer.cannot_run;
  if (answer.basis) value["rests_on"] = to_json(*answer.basis);
  if (answer.detail) value["detail"] = to_json(*answer.detail);
  return value;
}

ordered_json best_json(const BestChoice& best) {
  ordered_json value = {{"choice", best.choice},
                        {"us", number_or_null(best.us)},
                        {"reason", text_or_null(best.reason)}};
  if (best.basis) value["rests_on"] = to_json(*best.basis);
  return value;
}

ordered_json question_json(const RecordQuestion& question) {
  ordered_json answers = ordered_json::array();
  for (const StackAnswer& answer : question.answers) answers.push_back(answer_json(answer));
  return {{"id", question.id},
          {"suite", question.suite},
          {"kind", kind_text(question.kind)},
          {"op", question.op},
          {"mesh", question.mesh},
          {"mesh_dims", question.mesh_dims},
          {"bytes", question.bytes},
          {"inputs", question.inputs},
          {"count", question.count},
          {"candidates", question.candidates},
          {"best", best_json(question.best)},
          {"answers", std::move(answers)}};
}

ordered_json invariant_json(const InvariantResult& invariant) {
  ordered_json worst = invariant.worst ? to_json(*invariant.worst) : ordered_json(nullptr);
  return {{"stack", invariant.stack},
          {"name", invariant.name},
          {"checked", invariant.checked},
          {"violated", invariant.violated},
          {"worst", std::move(worst)}};
}

// ---- reading

// Where a value is: "/questions" and 3 give "/questions/3".
std::string element_pointer(std::string_view array, std::size_t index) {
  return std::string(array) + "/" + std::to_string(index);
}

ReferenceStack read_reference(const json& value, std::string_view file) {
  StrictObject object(value, file, "/reference");
  ReferenceStack reference;
  reference.name = object.text("name");
  reference.label = object.text("label");
  object.finish();
  return reference;
}

std::optional<PriceBasis> read_rests_on(StrictObject& owner, std::string_view file) {
  if (!owner.has("rests_on")) return std::nullopt;
  return read_price_basis(owner.value("rests_on"), file, owner.pointer_to("rests_on"));
}

StackAnswer read_answer(const json& value, std::string_view file, const std::string& pointer) {
  StrictObject object(value, file, pointer);
  StackAnswer answer;
  answer.choice = object.text("choice");
  answer.path = object.texts("path");
  answer.price_us = object.number_or_null("price_us");
  answer.impossible = object.text_or_null("impossible");
  answer.reference_us = object.number_or_null("reference_us");
  answer.reference_impossible = object.text_or_null("reference_impossible");
  answer.ties = object.integer("ties", 0);
  answer.flips_with_order = object.flag("flips_with_order");
  answer.margin_us = object.number_or_null("margin_us");
  answer.kendall_tau = object.number_or_null("kendall_tau");
  if (object.has("cannot_run")) answer.cannot_run = object.text("cannot_run");
  answer.basis = read_rests_on(object, file);
  if (object.has("detail")) {
    answer.detail = read_answer_detail(object.value("detail"), file, object.pointer_to("detail"));
  }
  object.finish();
  return answer;
}

RecordQuestion read_question(const json& value, std::string_view file, std::size_t index) {
  const std::string pointer = element_pointer("/questions", index);
  StrictObject object(value, file, pointer);
  RecordQuestion question;
  question.id = object.text("id");
  question.suite = object.text("suite");
  const std::string kind = object.text("kind");
  if (kind != "select" && kind != "plan") {
    object.fail("kind", "found \"" + kind + "\"; valid: select, plan");
  }
  question.kind = kind == "select" ? QuestionKind::kSelect : QuestionKind::kPlan;
  question.op = object.text("op");
  question.mesh = object.text("mesh");
  question.mesh_dims = object.integer("mesh_dims", 0);
  question.bytes = object.number("bytes");
  question.inputs = object.texts("inputs");
  question.count = object.integer("count", 1);
  question.candidates = object.integer("candidates", 0);
  StrictObject best(object.object("best"), file, pointer + "/best");
  question.best.choice = best.text("choice");
  question.best.us = best.number_or_null("us");
  question.best.reason = best.text_or_null("reason");
  question.best.basis = read_rests_on(best, file);
  best.finish();
  const json& answers = object.array("answers");
  question.answers.reserve(answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    question.answers.push_back(
        read_answer(answers[i], file, element_pointer(pointer + "/answers", i)));
  }
  object.finish();
  return question;
}

InvariantResult read_invariant(const json& value, std::string_view file, std::size_t index) {
  StrictObject object(value, file, element_pointer("/invariants", index));
  InvariantResult invariant;
  invariant.stack = object.text("stack");
  invariant.name = object.text("name");
  invariant.checked = object.integer("checked", 0);
  invariant.violated = object.integer("violated", 0);
  if (!object.value("worst").is_null()) {
    StrictObject worst(object.object("worst"), file, object.pointer_to("worst"));
    InvariantWitness witness;
    witness.witness = worst.text("witness");
    witness.amount_us = worst.number("amount_us");
    witness.amount_percent = worst.number_or_null("amount_percent");
    worst.finish();
    invariant.worst = std::move(witness);
  }
  object.finish();
  return invariant;
}

PriceCurve read_curve(const json& value, std::string_view file, std::size_t index) {
  StrictObject object(value, file, element_pointer("/curves", index));
  PriceCurve curve;
  curve.stack = object.text("stack");
  curve.collective = object.text("collective");
  curve.mesh = object.text("mesh");
  curve.group = object.text("group");
  curve.bytes = object.numbers("bytes");
  curve.price_us = object.numbers_or_null("price_us");
  object.finish();
  return curve;
}

// ---- consistency

bool is_bad(const std::optional<double>& number) { return number && !std::isfinite(*number); }

std::optional<std::string> contradiction_in(const StackAnswer& answer) {
  if (is_bad(answer.price_us) || is_bad(answer.reference_us) || is_bad(answer.margin_us) ||
      is_bad(answer.kendall_tau)) {
    return "a number that is not finite; write null and a reason";
  }
  if (!answer.price_us && answer.impossible.empty()) {
    return "price_us is null, and impossible does not say why";
  }
  if (answer.price_us && !answer.impossible.empty()) {
    return "impossible has a reason, but there is a price_us";
  }
  if (answer.price_us && answer.choice.empty()) return "a price_us without a choice";
  if (!answer.reference_us && answer.reference_impossible.empty()) {
    return "reference_us is null, and reference_impossible does not say why";
  }
  if (answer.reference_us && !answer.reference_impossible.empty()) {
    return "reference_impossible has a reason, but there is a reference_us";
  }
  if (answer.basis && !answer.reference_us)
    return "rests_on tells of a price, but reference_us is null";
  if (answer.ties < 0) return "ties is negative";
  return std::nullopt;
}

std::optional<Contradiction> contradiction_in(const RecordQuestion& question, std::size_t stacks,
                                              const std::string& pointer) {
  if (question.id.empty()) return Contradiction{pointer + "/id", "the id is empty"};
  if (question.answers.size() != stacks) {
    return Contradiction{pointer + "/answers", "expected one answer for each of the " +
                                                   std::to_string(stacks) + " stacks, found " +
                                                   std::to_string(question.answers.size())};
  }
  if (!std::isfinite(question.bytes) || question.bytes < 0.0) {
    return Contradiction{pointer + "/bytes", "expected a finite size, not negative"};
  }
  if (question.count < 1) return Contradiction{pointer + "/count", "expected at least 1"};
  if (is_bad(question.best.us)) {
    return Contradiction{pointer + "/best/us", "not a finite number; write null and a reason"};
  }
  if (question.best.us.has_value() != question.best.reason.empty()) {
    return Contradiction{pointer + "/best", "expected either us or a reason for its absence"};
  }
  if (question.best.basis && !question.best.us) {
    return Contradiction{pointer + "/best/rests_on", "rests_on tells of a price, but us is null"};
  }
  for (std::size_t i = 0; i < question.answers.size(); ++i) {
    if (auto message = contradiction_in(question.answers[i])) {
      return Contradiction{element_pointer(pointer + "/answers", i), *message};
    }
  }
  return std::nullopt;
}

std::optional<Contradiction> contradiction_in(const InvariantResult& invariant,
                                              const std::string& pointer) {
  if (invariant.violated > invariant.checked || invariant.violated < 0) {
    return Contradiction{pointer + "/violated", "expected between 0 and checked"};
  }
  if (invariant.worst.has_value() != (invariant.violated > 0)) {
    return Contradiction{pointer + "/worst",
                         "expected a witness where, and only where, violated is not 0"};
  }
  if (invariant.worst &&
      (!std::isfinite(invariant.worst->amount_us) || is_bad(invariant.worst->amount_percent))) {
    return Contradiction{pointer + "/worst", "a number that is not finite"};
  }
  return std::nullopt;
}

std::optional<Contradiction> contradiction_in(const PriceCurve& curve, const std::string& pointer) {
  if (curve.bytes.size() != curve.price_us.size()) {
    return Contradiction{pointer + "/price_us", "expected as many prices as bytes, found " +
                                                    std::to_string(curve.price_us.size()) +
                                                    " and " + std::to_string(curve.bytes.size())};
  }
  const bool is_finite = std::all_of(curve.bytes.begin(), curve.bytes.end(),
                                     [](double b) { return std::isfinite(b); }) &&
                         std::none_of(curve.price_us.begin(), curve.price_us.end(), is_bad);
  if (!is_finite) return Contradiction{pointer, "a number that is not finite; write null"};
  return std::nullopt;
}

std::optional<Contradiction> contradiction_in(const ComparisonRecord& record) {
  if (record.stacks.size() < 2) {
    return Contradiction{"/stacks", "expected a baseline and at least one candidate"};
  }
  std::set<std::string_view> known(record.stacks.begin(), record.stacks.end());
  if (known.size() != record.stacks.size()) return Contradiction{"/stacks", "a name stands twice"};
  if (known.contains("")) return Contradiction{"/stacks", "a name is empty"};
  if (record.reference.name.empty()) return Contradiction{"/reference/name", "the name is empty"};
  known.insert(record.reference.name);

  if (auto found = contradiction_in(static_cast<const RunHeader&>(record))) return found;
  std::unordered_set<std::string_view> ids;
  for (std::size_t i = 0; i < record.questions.size(); ++i) {
    const RecordQuestion& question = record.questions[i];
    const std::string pointer = element_pointer("/questions", i);
    if (auto found = contradiction_in(question, record.stacks.size(), pointer)) return found;
    if (!ids.insert(question.id).second) {
      return Contradiction{pointer + "/id", "a second question has the id \"" + question.id + "\""};
    }
  }
  for (std::size_t i = 0; i < record.invariants.size(); ++i) {
    const std::string pointer = element_pointer("/invariants", i);
    if (auto found = contradiction_in(record.invariants[i], pointer)) return found;
    if (!known.contains(record.invariants[i].stack)) {
      return Contradiction{
          pointer + "/stack",
          "\"" + record.invariants[i].stack + "\" is neither among the stacks nor the reference"};
    }
  }
  for (std::size_t i = 0; i < record.curves.size(); ++i) {
    const std::string pointer = element_pointer("/curves", i);
    if (auto found = contradiction_in(record.curves[i], pointer)) return found;
    if (!known.contains(record.curves[i].stack)) {
      return Contradiction{
          pointer + "/stack",
          "\"" + record.curves[i].stack + "\" is neither among the stacks nor the reference"};
    }
  }
  return std::nullopt;
}

// Everything but the elements of "questions", which `questions` holds already.
ComparisonRecord read_record(const json& value, std::string_view file,
                             std::vector<RecordQuestion> questions) {
  StrictObject object(value, file, "");
  const std::string schema = object.text("schema");
  if (schema != kRecordSchema) {
    object.fail("schema", "found \"" + schema + "\"; valid: " + std::string(kRecordSchema));
  }
  ComparisonRecord record;
  // Records of before there were other kinds name none.
  if (object.has("kind") && object.text("kind") != kCompareKind) {
    object.fail("kind",
                "found \"" + object.text("kind") + "\"; expected " + std::string(kCompareKind));
  }
  static_cast<RunHeader&>(record) = read_run_header(object, file);
  record.stacks = object.texts("stacks");
  record.reference = read_reference(object.value("reference"), file);
  static_cast<void>(object.array("questions"));
  record.questions = std::move(questions);
  const json& invariants = object.array("invariants");
  for (std::size_t i = 0; i < invariants.size(); ++i) {
    record.invariants.push_back(read_invariant(invariants[i], file, i));
  }
  const json& curves = object.array("curves");
  for (std::size_t i = 0; i < curves.size(); ++i) {
    record.curves.push_back(read_curve(curves[i], file, i));
  }
  object.finish();
  if (const auto found = contradiction_in(record)) {
    throw ConfigError(file, found->pointer, found->message);
  }
  return record;
}

// Turns each element of "questions" into a value as soon as it is parsed and drops its tree, so
// that memory holds one question as JSON at a time.
class QuestionStream {
 public:
  explicit QuestionStream(std::string_view file) : file_(file) {}

  // The callback of nlohmann::json::parse: false drops the value. Depth 0 is the record, 1 its
  // keys, 2 the elements.
  bool keep(int depth, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    if (depth == 1 && event == Event::key) {
      top_key_ = parsed.get<std::string>();
      if (!seen_.insert(top_key_).second) {
        throw ConfigError(file_, "/" + top_key_, "the key stands twice");
      }
    }
    const bool ends_element =
        event == Event::object_end || event == Event::array_end || event == Event::value;
    if (depth != 2 || top_key_ != "questions" || !ends_element) return true;
    questions.push_back(read_question(parsed, file_, questions.size()));
    return false;
  }

  std::vector<RecordQuestion> questions;

 private:
  std::string_view file_;
  std::string top_key_;
  std::set<std::string> seen_;
};

}  // namespace

ordered_json to_json(const ReferenceStack& reference) {
  return {{"name", reference.name}, {"label", reference.label}};
}

ordered_json to_json(const PriceCurve& curve) {
  ordered_json prices = ordered_json::array();
  for (const std::optional<double>& price : curve.price_us) prices.push_back(number_or_null(price));
  return {{"stack", curve.stack}, {"collective", curve.collective},
          {"mesh", curve.mesh},   {"group", curve.group},
          {"bytes", curve.bytes}, {"price_us", std::move(prices)}};
}

ordered_json to_json(const InvariantWitness& witness) {
  return {{"witness", witness.witness},
          {"amount_us", witness.amount_us},
          {"amount_percent", number_or_null(witness.amount_percent)}};
}

void check_record(const ComparisonRecord& record) {
  const auto found = contradiction_in(record);
  SHARDLAB_CHECK(!found, "record:", found->pointer, ": ", found->message);
}

ordered_json to_json(const ComparisonRecord& record) {
  check_record(record);
  ordered_json value = ordered_json::object();
  value["schema"] = kRecordSchema;
  value["kind"] = kCompareKind;
  value["context"] = to_json(record.context);
  if (record.timing) value["timing"] = to_json(*record.timing);
  value["configuration"] = to_json(record.configuration);
  value["stacks"] = record.stacks;
  value["reference"] = to_json(record.reference);
  value["questions"] = ordered_json::array();
  for (const RecordQuestion& question : record.questions) {
    value["questions"].push_back(question_json(question));
  }
  value["invariants"] = ordered_json::array();
  for (const InvariantResult& invariant : record.invariants) {
    value["invariants"].push_back(invariant_json(invariant));
  }
  value["curves"] = ordered_json::array();
  for (const PriceCurve& curve : record.curves) value["curves"].push_back(to_json(curve));
  return value;
}

std::string record_text(const ComparisonRecord& record) {
  check_record(record);
  JsonObjectText text;
  text.value("schema", ordered_json(kRecordSchema));
  text.value("kind", ordered_json(kCompareKind));
  text.value("context", to_json(record.context));
  if (record.timing) text.value("timing", to_json(*record.timing));
  text.value("configuration", to_json(record.configuration));
  text.value("stacks", ordered_json(record.stacks));
  text.value("reference", to_json(record.reference));
  text.begin_array("questions");
  for (const RecordQuestion& question : record.questions) text.element(question_json(question));
  text.end_array();
  text.begin_array("invariants");
  for (const InvariantResult& invariant : record.invariants) {
    text.element(invariant_json(invariant));
  }
  text.end_array();
  text.begin_array("curves");
  for (const PriceCurve& curve : record.curves) text.element(to_json(curve));
  text.end_array();
  return text.finish();
}

ComparisonRecord from_json(const json& value, std::string_view file) {
  StrictObject object(value, file, "");
  std::vector<RecordQuestion> questions;
  const json& elements = object.array("questions");
  questions.reserve(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    questions.push_back(read_question(elements[i], file, i));
  }
  return read_record(value, file, std::move(questions));
}

RecordTree parse_record_tree(std::string_view text, std::string_view file) {
  QuestionStream stream(file);
  RecordTree tree;
  try {
    tree.value = json::parse(text, [&stream](int depth, json::parse_event_t event, json& parsed) {
      return stream.keep(depth, event, parsed);
    });
  } catch (const json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 3, column 7: ..."
    const std::string message = error.what();
    const std::size_t start = message.find("] ");
    throw ConfigError(file, "", start == std::string::npos ? message : message.substr(start + 2));
  }
  tree.questions = std::move(stream.questions);
  return tree;
}

ComparisonRecord from_tree(RecordTree tree, std::string_view file) {
  return read_record(tree.value, file, std::move(tree.questions));
}

ComparisonRecord parse_record(std::string_view text, std::string_view file) {
  return from_tree(parse_record_tree(text, file), file);
}

}  // namespace shardlab::reports

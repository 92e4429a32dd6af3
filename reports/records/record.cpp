#include "reports/records/record.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/fields_json.h"
#include "reports/records/json_text.h"

namespace shardlab::reports {
namespace {

using nlohmann::json;

// The JSON pointer of an element: "/questions" and 3 give "/questions/3".
std::string element_pointer(std::string_view array, std::size_t index) {
  return std::string(array) + "/" + std::to_string(index);
}

bool is_bad(const std::optional<double>& number) { return number && !std::isfinite(*number); }

std::optional<std::string> contradiction_in(const StackAnswer& answer) {
  if (is_bad(answer.price_us) || is_bad(answer.reference_us) || is_bad(answer.margin_us) ||
      is_bad(answer.kendall_tau) || is_bad(answer.reference_kernel_us)) {
    return "found a number that is not finite; write null and a reason";
  }
  if (!answer.price_us && answer.impossible.empty()) {
    return "price_us is null, and impossible does not say why";
  }
  if (answer.price_us && !answer.impossible.empty()) {
    return "impossible has a reason, but there is a price_us";
  }
  if (answer.price_us && answer.choice.empty()) return "price_us is given, but choice is empty";
  if (!answer.reference_us && answer.reference_impossible.empty()) {
    return "reference_us is null, and reference_impossible does not say why";
  }
  if (answer.reference_us && !answer.reference_impossible.empty()) {
    return "reference_impossible has a reason, but there is a reference_us";
  }
  if (answer.basis && !answer.reference_us)
    return "rests_on describes a price, but reference_us is null";
  if (answer.traffic) {
    if (!answer.reference_us) return "collectives are given, but reference_us is null";
    for (const auto& [kind, traffic] : *answer.traffic) {
      if (kind.empty()) return "a kind of collectives has no name";
      if (traffic.count < 1) return "the count of " + kind + " is below 1; leave the kind out";
      if (!std::isfinite(traffic.bytes) || traffic.bytes < 0.0) {
        return "the bytes of " + kind + " are not a finite size that is at least 0";
      }
    }
  }
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
    return Contradiction{pointer + "/bytes", "expected a finite size that is not negative"};
  }
  if (question.count < 1) return Contradiction{pointer + "/count", "expected at least 1"};
  if (is_bad(question.best.us)) {
    return Contradiction{pointer + "/best/us",
                         "found a number that is not finite; write null and a reason"};
  }
  if (question.best.us.has_value() != question.best.reason.empty()) {
    return Contradiction{pointer + "/best", "expected either us or a reason for its absence"};
  }
  if (question.best.basis && !question.best.us) {
    return Contradiction{pointer + "/best/rests_on", "rests_on describes a price, but us is null"};
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
    return Contradiction{pointer + "/violated", "expected a number from 0 to checked"};
  }
  if (invariant.worst.has_value() != (invariant.violated > 0)) {
    return Contradiction{pointer + "/worst",
                         "expected a witness if, and only if, violated is not 0"};
  }
  if (invariant.worst &&
      (!std::isfinite(invariant.worst->amount_us) || is_bad(invariant.worst->amount_percent))) {
    return Contradiction{pointer + "/worst", "found a number that is not finite"};
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
  if (!is_finite) return Contradiction{pointer, "found a number that is not finite; write null"};
  return std::nullopt;
}

std::optional<Contradiction> contradiction_in(const StepComparison& step,
                                              const std::vector<std::string>& stacks,
                                              const std::string& pointer) {
  if (std::find(stacks.begin() + 1, stacks.end(), step.candidate) == stacks.end()) {
    return Contradiction{pointer + "/candidate",
                         "\"" + step.candidate + "\" is not among the candidates"};
  }
  const auto are_amounts = [](const StepPair& pair) {
    const double candidate = pair.candidate.value_or(0.0);
    return std::isfinite(pair.baseline) && pair.baseline >= 0.0 && std::isfinite(candidate) &&
           candidate >= 0.0;
  };
  const bool runs = step.cannot_run.empty();
  if (step.step_us.candidate.has_value() != runs || step.peak_bytes.candidate.has_value() != runs) {
    return Contradiction{pointer + "/cannot_run",
                         "expected either the candidate's figures or a reason for their absence"};
  }
  if (!are_amounts(step.step_us)) {
    return Contradiction{pointer + "/step_us", "expected finite times that are not negative"};
  }
  if (!are_amounts(step.peak_bytes)) {
    return Contradiction{pointer + "/peak_bytes", "expected finite sizes that are not negative"};
  }
  for (std::size_t i = 0; i < step.flips.size(); ++i) {
    const StepFlip& flip = step.flips[i];
    const std::string place = element_pointer(pointer + "/flips", i);
    if (!std::isfinite(flip.delta_step_us) || !std::isfinite(flip.delta_peak_bytes)) {
      return Contradiction{place, "found a number that is not finite"};
    }
    if (flip.count < 1) return Contradiction{place + "/count", "expected at least 1"};
  }
  return std::nullopt;
}

std::optional<Contradiction> contradiction_in(const ComparisonRecord& record) {
  if (record.stacks.size() < 2) {
    return Contradiction{"/stacks", "expected a baseline and at least one candidate"};
  }
  std::set<std::string_view> known(record.stacks.begin(), record.stacks.end());
  if (known.size() != record.stacks.size()) return Contradiction{"/stacks", "a name occurs twice"};
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
  for (std::size_t i = 0; i < record.steps.size(); ++i) {
    const std::string pointer = element_pointer("/steps", i);
    if (auto found = contradiction_in(record.steps[i], record.stacks, pointer)) return found;
  }
  return std::nullopt;
}

// Turns each element of "questions" into a value as soon as it is parsed and drops its JSON, so
// that memory holds the JSON of only one question at a time.
class QuestionStream {
 public:
  explicit QuestionStream(std::string_view file) : file_(file) {}

  // The callback of nlohmann::json::parse; returning false drops the value. Depth 0 is the record,
  // depth 1 its keys, and depth 2 the elements of its arrays.
  bool keep(int depth, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    if (depth == 1 && event == Event::key) {
      top_key_ = parsed.get<std::string>();
      if (!seen_.insert(top_key_).second) {
        throw ConfigError(file_, "/" + top_key_, "the key occurs twice");
      }
    }
    const bool ends_element =
        event == Event::object_end || event == Event::array_end || event == Event::value;
    if (depth != 2 || top_key_ != "questions" || !ends_element) return true;
    questions.push_back(read_as<RecordQuestion>(
        parsed, {std::string(file_), element_pointer("/questions", questions.size())}));
    return false;
  }

  std::vector<RecordQuestion> questions;

 private:
  std::string_view file_;
  std::string top_key_;
  std::set<std::string> seen_;
};

// Writes one key of a record as text; each element of an array gets a line of its own.
template <class Value>
void write_key(JsonObjectText& text, std::string_view key, const Value& value) {
  text.value(key, json_of(value));
}
template <Described Element>
void write_key(JsonObjectText& text, std::string_view key, const std::vector<Element>& elements) {
  text.begin_array(key);
  for (const Element& element : elements) text.element(json_of(element));
  text.end_array();
}

}  // namespace

void check_record(const ComparisonRecord& record) {
  const auto found = contradiction_in(record);
  SHARDLAB_CHECK(!found, "record:", found->pointer, ": ", found->message);
}

nlohmann::ordered_json to_json(const ComparisonRecord& record) {
  check_record(record);
  return json_of(record);
}

std::string record_text(const ComparisonRecord& record) {
  check_record(record);
  JsonObjectText text;
  for_each_written(record,
                   [&](std::string_view key, const auto& value) { write_key(text, key, value); });
  return text.finish();
}

ComparisonRecord from_json(const json& value, std::string_view file) {
  return from_tree({value, {}}, file);
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
  auto record = read_as<ComparisonRecord>(tree.value, {std::string(file), ""});
  if (!tree.questions.empty()) record.questions = std::move(tree.questions);
  if (const auto found = contradiction_in(record)) {
    throw ConfigError(file, found->pointer, found->message);
  }
  return record;
}

ComparisonRecord parse_record(std::string_view text, std::string_view file) {
  return from_tree(parse_record_tree(text, file), file);
}

}  // namespace shardlab::reports

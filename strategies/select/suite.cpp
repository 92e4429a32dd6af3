#include "strategies/select/suite.h"

#include <algorithm>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/parse_at.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {
namespace {

Question read_question(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  Question question;
  question.id = reader.text("id");
  const std::string kind_name = reader.text("kind");
  const std::optional<Question::Kind> kind = from_name<Question::Kind>(kind_name);
  const std::string mesh = reader.text("mesh");
  question.mesh = parse_at(reader.place("mesh"), [&] { return DeviceMesh::parse(mesh); });
  const int ndim = question.mesh.ndim();
  question.count = reader.integer_or("count", 1, 1, std::int64_t{1} << 53);
  question.where = reader.text_or("where", "");
  if (!kind) {
    reader.place("kind").fail("found \"" + kind_name +
                              "\"; valid: " + valid_names<Question::Kind>());
  }
  question.kind = *kind;
  if (question.kind == Question::Kind::kPlan) {
    const std::string tensor = reader.text("tensor");
    question.tensor = parse_at(reader.place("tensor"), [&] { return TensorMeta::parse(tensor); });
    const std::string from = reader.text("from");
    const std::string to = reader.text("to");
    question.from =
        parse_at(reader.place("from"), [&] { return parse_layout(from, ndim, question.tensor); });
    question.to =
        parse_at(reader.place("to"), [&] { return parse_layout(to, ndim, question.tensor); });
  } else {
    question.call.op = reader.text("op");
    const nlohmann::json& inputs = reader.array("inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const JsonPlace input_place = reader.place("inputs").at(i);
      const std::string text = json_text(inputs[i], input_place);
      question.call.inputs.push_back(
          parse_at(input_place, [&] { return OpCall::parse_input(text, ndim); }));
    }
    if (const nlohmann::json* args = reader.find("args")) {
      question.call.args = json_array(*args, reader.place("args"));
    }
    // The same op always gets the same spelling, whichever one the file uses.
    question.call.op = parse_at(reader.place("op"), [&] {
      for (const RuleSet set : {RuleSet(kNewestRelease), RuleSet(kReferenceRelease), kShardlab}) {
        try {
          return std::string(find_op_rule(question.call.op, set).op);
        } catch (const InputError&) {
          if (set == kShardlab) throw;
        }
      }
      return question.call.op;
    });
  }
  reader.finish();
  return question;
}

}  // namespace

Bytes Question::bytes() const {
  if (kind == Kind::kPlan) return tensor.bytes();
  Bytes most = 0;
  for (const TensorSpec* spec : call.tensors()) most = std::max(most, spec->meta.bytes());
  return most;
}

std::vector<std::string> Question::inputs() const {
  if (kind == Kind::kPlan) return {tensor.text() + " " + from.text() + " to " + to.text()};
  std::vector<std::string> texts;
  for (const TensorArg& arg : call.inputs) {
    texts.push_back(arg.text());
  }
  for (const nlohmann::json& arg : call.args) texts.push_back(arg.dump());
  return texts;
}

nlohmann::ordered_json Question::to_json() const {
  nlohmann::ordered_json json = {{"id", id}, {"kind", name_of(kind)}};
  if (kind == Kind::kPlan) {
    json["mesh"] = mesh.text();
    json["tensor"] = tensor.text();
    json["from"] = from.text();
    json["to"] = to.text();
  } else {
    json["op"] = call.op;
    json["mesh"] = mesh.text();
    json["inputs"] = nlohmann::ordered_json::array();
    for (const TensorArg& arg : call.inputs) json["inputs"].push_back(arg.text());
    json["args"] = call.args;
  }
  json["count"] = count;
  if (!where.empty()) json["where"] = where;
  return json;
}

nlohmann::ordered_json Suite::to_json() const {
  nlohmann::ordered_json json = {{"schema", "shardlab/suite/1"}, {"name", name}};
  if (!title.empty()) json["title"] = title;
  if (!source.empty()) json["source"] = source;
  json["questions"] = nlohmann::ordered_json::array();
  for (const Question& question : questions) json["questions"].push_back(question.to_json());
  return json;
}

Suite Suite::from_json(const nlohmann::json& json, const JsonPlace& place) {
  ObjectReader reader(json, place);
  reader.expect_schema("shardlab/suite/1");
  Suite suite;
  suite.name = reader.text("name");
  suite.title = reader.text_or("title", "");
  suite.source = reader.text_or("source", "");
  // Ops of the recorded program that no rule covers yet, with their counts. This key is only for
  // people who read the file.
  if (const nlohmann::json* skipped = reader.find("skipped")) {
    ObjectReader(*skipped, reader.place("skipped"));
  }
  if (const nlohmann::json* checked = reader.find("checked")) {
    ObjectReader checked_reader(*checked, reader.place("checked"));
    static_cast<void>(checked_reader.text("torch"));
    static_cast<void>(checked_reader.integer("questions", 0, std::int64_t{1} << 53));
    static_cast<void>(checked_reader.text("digest"));
    checked_reader.finish();
  }
  const nlohmann::json* generate = reader.find("generate");
  const nlohmann::json* questions = reader.find("questions");
  if ((generate == nullptr) == (questions == nullptr)) {
    place.fail(std::string("found ") + (generate == nullptr ? "neither" : "both") +
               " \"questions\" " + (generate == nullptr ? "nor" : "and") +
               " \"generate\"; valid: one of them");
  }
  if (generate != nullptr) {
    suite.questions = generate_questions(*generate, reader.place("generate"));
  } else {
    static_cast<void>(json_array(*questions, reader.place("questions")));
    std::set<std::string> ids;
    for (std::size_t i = 0; i < questions->size(); ++i) {
      const JsonPlace question_place = reader.place("questions").at(i);
      suite.questions.push_back(read_question((*questions)[i], question_place));
      if (!ids.insert(suite.questions.back().id).second) {
        question_place.at("id").fail("found \"" + suite.questions.back().id + "\" twice");
      }
    }
  }
  reader.finish();
  return suite;
}

}  // namespace shardlab

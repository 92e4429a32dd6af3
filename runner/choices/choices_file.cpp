#include "runner/choices/choices_file.h"

namespace shardlab {

std::optional<Contradiction> Fields<ChoiceQuestion>::contradiction(const ChoiceQuestion& question) {
  const bool about_op = question.op.has_value();
  const bool about_plan = question.tensor && question.from && question.to;
  const bool has_part_of_plan = question.tensor || question.from || question.to;
  if (about_op == has_part_of_plan || (!about_op && !about_plan)) {
    return Contradiction{"",
                         "found neither a question about an op nor one about a redistribution, "
                         "or parts of both; valid: op and inputs, or tensor, from and to"};
  }
  return std::nullopt;
}

ChoiceList read_choices(const nlohmann::json& json, const JsonPlace& place) {
  return read_as<ChoiceList>(json, place);
}

std::string choices_text(const ChoiceList& file) {
  std::string text = "{";
  for_each_written(file, [&](std::string_view key, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    text += (text.size() > 1 ? ",\n" : "\n") + ('"' + std::string(key)) + "\": ";
    if constexpr (std::is_same_v<Value, std::vector<Choice>>) {
      text += "[";
      for (std::size_t i = 0; i < value.size(); ++i) {
        text += (i == 0 ? "\n" : ",\n") + json_of(value[i]).dump();
      }
      text += "\n]";
    } else {
      text += json_of(value).dump();
    }
  });
  return text + "\n}\n";
}

std::string choices_schema_text() {
  SchemaDefinitions definitions = nlohmann::ordered_json::object();
  const nlohmann::ordered_json file = schema_of<ChoiceList>(definitions);
  nlohmann::ordered_json schema = {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"title",
       "shardlab/choices/1: which layouts each question got, by which steps, at what price"},
      {"description", "generated from the structs of runner/choices/choices_file.h: do not edit"}};
  schema.update(file);
  schema["definitions"] = definitions;
  return schema.dump(2) + "\n";
}

}  // namespace shardlab

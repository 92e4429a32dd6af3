#include "strategies/select/stack.h"

#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/json_enum.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

template <class Value>
struct NameRow {
  std::string_view name;
  Value value;
};

template <class Value, std::size_t kCount>
Value read_word(ObjectReader& reader, std::string_view key,
                const std::array<NameRow<Value>, kCount>& words, Value fallback) {
  const nlohmann::json* json = reader.find(key);
  if (json == nullptr) return fallback;
  const std::string text = json_text(*json, reader.place(key));
  std::vector<std::string_view> valid;
  for (const auto& row : words) {
    if (row.name == text) return row.value;
    valid.push_back(row.name);
  }
  reader.place(key).fail("found \"" + text + "\"" + did_you_mean(text, valid) +
                         "; valid: " + join(valid));
}

constexpr std::array<NameRow<RuleSet>, 4> kRuleSets = {{{"dtensor-2.13", kDTensor213},
                                                        {"dtensor-legacy", kDTensorLegacy},
                                                        {"shardlab", kShardlab},
                                                        {"autoparallel", kAutoParallel}}};

// "v3", or {"name": "v3-rp", "replicate_to_partial_us": 0.01}.
TransitionRules read_transition_rules(const nlohmann::json& json, const JsonPlace& place) {
  std::string name;
  double replicate_to_partial_us = -1.0;
  JsonPlace name_place = place;
  if (json.is_string()) {
    name = json.get<std::string>();
  } else {
    ObjectReader reader(json, place);
    name = reader.text("name");
    name_place = reader.place("name");
    replicate_to_partial_us =
        reader.number_or("replicate_to_partial_us", -1.0, {.min = 0.0, .max = 1e9});
    reader.finish();
  }
  std::vector<std::string_view> valid;
  for (const TransitionRules& row : all_transition_rules()) {
    valid.push_back(row.name);
    if (row.name != name) continue;
    TransitionRules rules = row;
    if (replicate_to_partial_us >= 0) {
      if (rules.replicated_source_is_free) {
        place.at("replicate_to_partial_us")
            .fail("version \"" + name + "\" has no price for R->P; valid in v3-rp and v-compute");
      }
      rules.replicate_to_partial = Micros(replicate_to_partial_us);
    }
    return rules;
  }
  name_place.fail("unknown transition version \"" + name + "\"" + did_you_mean(name, valid) +
                  "; valid: " + join(valid));
}

nlohmann::json json_of(const TransitionRules& rules) {
  nlohmann::json json = {{"name", rules.name}};
  if (!rules.replicated_source_is_free) {
    json["replicate_to_partial_us"] = rules.replicate_to_partial.value();
  }
  return json;
}

}  // namespace

Stack Stack::from_json(const nlohmann::json& json, const JsonPlace& place,
                       const LoadBase& load_base) {
  if (json.is_object() && json.contains("base")) {
    const std::string base = json_text(json["base"], place.at("base"));
    if (!load_base) place.at("base").fail("a base is not valid here");
    nlohmann::json merged = load_base(base);
    if (!merged.is_object() || merged.contains("base")) {
      place.at("base").fail("found \"" + base + "\", which is no stack with all its keys");
    }
    for (const auto& [key, value] : json.items()) {
      if (key != "base") merged[key] = value;
    }
    if (!json.contains("name")) merged["name"] = base + "+";
    return from_json(merged, place);
  }
  ObjectReader reader(json, place);
  reader.expect_schema("shardlab/stack/1");
  Stack stack;
  stack.name = reader.text("name");
  stack.title = reader.text_or("title", "");
  stack.source = reader.text_or("source", "");
  stack.rules = read_word(reader, "rules", kRuleSets, kDTensor213);
  stack.redistribution.rules =
      read_transition_rules(reader.value("transitions"), reader.place("transitions"));
  stack.redistribution.planner =
      find_enum<PlannerKind>(reader, "planner").value_or(PlannerKind::kGreedy);
  stack.redistribution.merge = find_enum<MergeMode>(reader, "merge").value_or(MergeMode::kExecute);
  stack.redistribution.merge_checks_all_gather = reader.boolean_or("merge_checks_all_gather", true);
  stack.collective_model =
      read_model_choice(reader.value("collective_model"), reader.place("collective_model"));
  if (stack.collective_model.entry->make_collective == nullptr) {
    reader.place("collective_model")
        .fail("\"" + std::string(stack.collective_model.entry->name) +
              "\" prices no collectives; valid: " + join(model_names(true)));
  }
  if (stack.collective_model.entry->reads_rows && stack.collective_model.rows.empty()) {
    reader.place("collective_model")
        .fail("\"" + std::string(stack.collective_model.entry->name) +
              "\" needs rows; valid: {\"name\": ..., \"rows\": [...]}");
  }
  const nlohmann::json none = "none";
  const nlohmann::json* compute = reader.find("compute_model");
  stack.compute_model =
      read_model_choice(compute == nullptr ? none : *compute, reader.place("compute_model"));
  if (stack.compute_model.entry->make_compute == nullptr) {
    reader.place("compute_model")
        .fail("\"" + std::string(stack.compute_model.entry->name) +
              "\" prices no kernels; valid: " + join(model_names(false)));
  }
  const nlohmann::json* straggler = reader.find("straggler");
  stack.straggler =
      Straggler::from_json(straggler == nullptr ? none : *straggler, reader.place("straggler"));
  try {
    stack.order = CandidateOrder::parse(reader.text_or("order", "listed"));
  } catch (const TextError& error) {
    reader.place("order").fail(error.what());
  }
  stack.policy = find_enum<Policy>(reader, "policy").value_or(Policy::kKeepInput);
  stack.search = find_enum<SearchKind>(reader, "search").value_or(SearchKind::kFull);
  stack.transition_us = reader.number_or("transition_us", 0.0, {.min = 0.0, .max = 1e9});
  reader.finish();
  return stack;
}

nlohmann::json Stack::to_json() const {
  return {{"schema", "shardlab/stack/1"},
          {"name", name},
          {"title", title},
          {"source", source},
          {"rules", to_string(rules)},
          {"transitions", json_of(redistribution.rules)},
          {"planner", name_of(redistribution.planner)},
          {"merge", name_of(redistribution.merge)},
          {"merge_checks_all_gather", redistribution.merge_checks_all_gather},
          {"collective_model", collective_model.to_json()},
          {"compute_model", compute_model.to_json()},
          {"straggler", straggler.to_json()},
          {"order", order.text()},
          {"policy", name_of(policy)},
          {"search", name_of(search)},
          {"transition_us", transition_us}};
}

}  // namespace shardlab

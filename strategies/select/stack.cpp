#include "strategies/select/stack.h"

#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/json_enum.h"
#include "costmodel/base/text.h"
#include "sim/all_to_all_penalty.h"
#include "sim/tensor_spec.h"

namespace shardlab {
namespace {

// Reads "v3", {"name": "v3-rp", "replicate_to_partial_us": 0.01}, or {"name": "v3",
// "all_to_all_penalty_us": 0.5}.
std::shared_ptr<const EdgeSemantics> read_edge_semantics(const nlohmann::json& json,
                                                         const JsonPlace& place) {
  std::string name;
  std::optional<Micros> replicate_to_partial;
  std::optional<Micros> all_to_all_penalty;
  JsonPlace name_place = place;
  if (json.is_string()) {
    name = json.get<std::string>();
  } else {
    ObjectReader reader(json, place);
    name = reader.text("name");
    name_place = reader.place("name");
    const auto micros_at = [&](std::string_view key) -> std::optional<Micros> {
      if (reader.find(key) == nullptr) return std::nullopt;
      return Micros(reader.number(key, {.min = 0.0, .max = 1e9}));
    };
    replicate_to_partial = micros_at("replicate_to_partial_us");
    all_to_all_penalty = micros_at("all_to_all_penalty_us");
    reader.finish();
  }
  if (const EdgeSemanticsRow* row = find_edge_semantics(name)) {
    if (replicate_to_partial && !row->replicate_to_partial) {
      place.at("replicate_to_partial_us")
          .fail("version \"" + name + "\" has no price for R->P; valid in v3-rp and v-compute");
    }
    auto semantics = replicate_to_partial ? row->make(*replicate_to_partial) : row->make();
    return all_to_all_penalty ? with_all_to_all_penalty(semantics, *all_to_all_penalty) : semantics;
  }
  std::vector<std::string_view> valid;
  for (const EdgeSemanticsRow& row : all_edge_semantics()) valid.push_back(row.name);
  name_place.fail("unknown transition version \"" + name + "\"" + did_you_mean(name, valid) +
                  "; valid: " + join(valid));
}

nlohmann::json json_of(const EdgeSemantics& semantics) {
  nlohmann::json json = {{"name", semantics.name()}};
  if (const std::optional<Micros> price = semantics.replicate_to_partial()) {
    json["replicate_to_partial_us"] = price->value();
  }
  if (const std::optional<Micros> penalty = all_to_all_penalty_given(semantics)) {
    json["all_to_all_penalty_us"] = penalty->value();
  }
  return json;
}

}  // namespace

Shape kernel_shape(const Shape& shape, Placements placements, const DeviceMesh& mesh,
                   StridedKernels strided) {
  if (strided == StridedKernels::kWhole) {
    for (Placement& p : placements) {
      if (p.is_strided()) p = Placement::replicate();
    }
  }
  return largest_local_shape(shape, placements, mesh);
}

namespace {

// What a key of a base becomes. A model that keeps its name keeps what is not said anew, and so
// does its `params`; everything else is replaced.
nlohmann::json changed_value(const nlohmann::json& base, const nlohmann::json& value) {
  const auto names = [](const nlohmann::json& json) {
    return json.is_object() && json.contains("name");
  };
  if (!names(base) || !names(value) || base["name"] != value["name"]) return value;
  nlohmann::json merged = base;
  for (const auto& [key, each] : value.items()) {
    const bool adds = key == "params" && each.is_object() && merged.contains(key);
    if (adds && merged[key].is_object()) {
      merged[key].update(each);
    } else {
      merged[key] = each;
    }
  }
  return merged;
}

}  // namespace

nlohmann::json upon_base(const nlohmann::json& json, const JsonPlace& place,
                         const Stack::LoadBase& load_base) {
  if (!json.is_object() || !json.contains("base")) return json;
  const std::string base = json_text(json["base"], place.at("base"));
  if (!load_base) place.at("base").fail("a base is not valid here");
  nlohmann::json merged = load_base(base);
  if (!merged.is_object() || merged.contains("base")) {
    place.at("base").fail("found \"" + base +
                          "\", which is not a complete stack; valid: a stack without a base");
  }
  // What the base says of itself is no longer true of a stack that changes it.
  std::vector<std::string> changed;
  for (const auto& [key, value] : json.items()) {
    if (key == "base") continue;
    const bool is_name = key == "schema" || key == "name" || key == "title" || key == "source";
    const nlohmann::json result = changed_value(merged[key], value);
    if (!is_name && merged[key] != result) changed.push_back(key);
    merged[key] = result;
  }
  if (changed.empty()) return merged;
  if (!json.contains("title")) merged["title"] = base + " with other " + join(changed);
  if (json.contains("source")) return merged;
  // Where its prices come from is still true if it changes none of the models.
  const bool has_other_prices = json.contains("collective_model") || json.contains("compute_model");
  const std::string source =
      !has_other_prices && merged.contains("source") && merged["source"].is_string()
          ? merged["source"].get<std::string>() + ", "
          : std::string();
  merged["source"] = source + "changed from " + base;
  return merged;
}

Stack Stack::from_json(const nlohmann::json& json, const JsonPlace& place,
                       const LoadBase& load_base) {
  if (json.is_object() && json.contains("base")) {
    nlohmann::json merged = upon_base(json, place, load_base);
    if (!json.contains("name")) merged["name"] = json["base"].get<std::string>() + "+";
    return from_json(merged, place);
  }
  ObjectReader reader(json, place);
  reader.expect_schema("shardlab/stack/1");
  Stack stack;
  stack.name = reader.text("name");
  stack.title = reader.text_or("title", "");
  stack.source = reader.text_or("source", "");
  stack.rules = find_enum<RuleSet>(reader, "rules").value_or(RuleSet(Release::k2_13));
  stack.redistribution.semantics =
      read_edge_semantics(reader.value("transitions"), reader.place("transitions"));
  stack.redistribution.planner =
      find_enum<PlannerKind>(reader, "planner").value_or(PlannerKind::kGreedy);
  stack.redistribution.merge = find_enum<MergeMode>(reader, "merge").value_or(MergeMode::kExecute);
  stack.redistribution.merge_rule =
      find_enum<MergeRule>(reader, "merge_rule").value_or(MergeRule::kRuns);
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
  stack.strided_kernels =
      find_enum<StridedKernels>(reader, "strided_kernels").value_or(StridedKernels::kLocal);
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
  stack.nesting_guard = reader.boolean_or("nesting_guard", true);
  stack.transition_us = reader.number_or("transition_us", 0.0, {.min = 0.0, .max = 1e9});
  if (const nlohmann::json* terms = reader.find("step_terms")) {
    stack.step_terms = json_array(*terms, reader.place("step_terms"));
  }
  reader.finish();
  return stack;
}

nlohmann::json Stack::to_json() const {
  nlohmann::json json = {{"schema", "shardlab/stack/1"},
                         {"name", name},
                         {"title", title},
                         {"source", source},
                         {"rules", rules.text()},
                         {"transitions", json_of(*redistribution.semantics)},
                         {"planner", name_of(redistribution.planner)},
                         {"merge", name_of(redistribution.merge)},
                         {"merge_rule", name_of(redistribution.merge_rule)},
                         {"merge_checks_all_gather", redistribution.merge_checks_all_gather},
                         {"collective_model", collective_model.to_json()},
                         {"compute_model", compute_model.to_json()},
                         {"strided_kernels", name_of(strided_kernels)},
                         {"straggler", straggler.to_json()},
                         {"order", order.text()},
                         {"policy", name_of(policy)},
                         {"search", name_of(search)},
                         {"nesting_guard", nesting_guard},
                         {"transition_us", transition_us}};
  if (!step_terms.empty()) json["step_terms"] = step_terms;
  if (!cost_function.empty()) json["cost_function"] = cost_function;
  return json;
}

}  // namespace shardlab

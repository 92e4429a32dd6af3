#include "strategies/stack.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/error.h"
#include "costmodel/text.h"

namespace shardlab {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

template <class Value, std::size_t kCount>
std::string_view word_of(Value value, const std::array<NameRow<Value>, kCount>& words) {
  for (const auto& row : words) {
    if (row.value == value) return row.name;
  }
  return "";
}

constexpr std::array<NameRow<PlannerKind>, 2> kPlanners = {
    {{"greedy", PlannerKind::kGreedy}, {"graph", PlannerKind::kGraph}}};
constexpr std::array<NameRow<MergeMode>, 3> kMerges = {
    {{"off", MergeMode::kOff}, {"execute", MergeMode::kExecute}, {"price", MergeMode::kPrice}}};
constexpr std::array<NameRow<SearchKind>, 3> kSearches = {{{"full", SearchKind::kFull},
                                                           {"dijkstra", SearchKind::kDijkstra},
                                                           {"exact", SearchKind::kExact}}};
constexpr std::array<NameRow<Policy>, 2> kPolicies = {
    {{"first-listed", Policy::kFirstListed}, {"keep-input", Policy::kKeepInput}}};
constexpr std::array<NameRow<RuleSet>, 3> kRuleSets = {{{"dtensor-2.13", kDTensor213},
                                                        {"dtensor-legacy", kDTensorLegacy},
                                                        {"shardlab", kShardlab}}};

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

double elements(const Shape& shape) {
  double product = 1.0;
  for (const std::int64_t extent : shape) product *= static_cast<double>(extent);
  return product;
}

// The largest local shape of any rank: every chunk rounded up (coordinate 0 holds the largest chunks).
Shape largest_local_shape(const Shape& shape, const Placements& placements,
                          const DeviceMesh& mesh) {
  const std::array<std::int64_t, kMaxMeshDims> first{};
  return local_shape(shape, Layout(placements), mesh,
                     std::span(first.data(), static_cast<std::size_t>(mesh.ndim())));
}

}  // namespace

std::string_view to_string(SearchKind search) { return word_of(search, kSearches); }

std::optional<SearchKind> search_from_name(std::string_view name) {
  for (const auto& row : kSearches) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

Stack Stack::from_json(const nlohmann::json& json, const JsonPlace& place,
                       const LoadBase& load_base) {
  if (json.is_object() && json.contains("base")) {
    const std::string base = json_text(json["base"], place.at("base"));
    if (!load_base) place.at("base").fail("a base is not valid here");
    nlohmann::json merged = load_base(base);
    for (const auto& [key, value] : json.items()) {
      if (key != "base") merged[key] = value;
    }
    if (!json.contains("name")) merged["name"] = base + "+";
    return from_json(merged, place, load_base);
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
  stack.redistribution.planner = read_word(reader, "planner", kPlanners, PlannerKind::kGreedy);
  stack.redistribution.merge = read_word(reader, "merge", kMerges, MergeMode::kExecute);
  stack.redistribution.merge_checks_all_gather =
      reader.boolean_or("merge_checks_all_gather", true);
  stack.collective_model =
      read_model_choice(reader.value("collective_model"), reader.place("collective_model"));
  if (stack.collective_model.entry->make_collective == nullptr) {
    reader.place("collective_model")
        .fail("\"" + std::string(stack.collective_model.entry->name) + "\" prices no collectives");
  }
  const nlohmann::json none = "none";
  const nlohmann::json* compute = reader.find("compute_model");
  stack.compute_model =
      read_model_choice(compute == nullptr ? none : *compute, reader.place("compute_model"));
  if (stack.compute_model.entry->make_compute == nullptr) {
    reader.place("compute_model")
        .fail("\"" + std::string(stack.compute_model.entry->name) + "\" prices no kernels");
  }
  const nlohmann::json* straggler = reader.find("straggler");
  stack.straggler =
      Straggler::from_json(straggler == nullptr ? none : *straggler, reader.place("straggler"));
  try {
    stack.order = CandidateOrder::parse(reader.text_or("order", "listed"));
  } catch (const TextError& error) {
    reader.place("order").fail(error.what());
  }
  stack.policy = read_word(reader, "policy", kPolicies, Policy::kKeepInput);
  stack.search = read_word(reader, "search", kSearches, SearchKind::kFull);
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
          {"planner", word_of(redistribution.planner, kPlanners)},
          {"merge", word_of(redistribution.merge, kMerges)},
          {"merge_checks_all_gather", redistribution.merge_checks_all_gather},
          {"collective_model", collective_model.to_json()},
          {"compute_model", compute_model.to_json()},
          {"straggler", straggler.to_json()},
          {"order", order.text()},
          {"policy", to_string(policy)},
          {"search", to_string(search)},
          {"transition_us", transition_us}};
}

StackEvaluator::StackEvaluator(const Stack& stack, const Topology& topology)
    : stack_(stack),
      topology_(topology),
      collectives_(stack_.straggler.decorate(
          make_collective_model(stack_.collective_model, topology_))),
      kernels_(make_compute_model(stack_.compute_model, topology_)) {}

Redistributor& StackEvaluator::on(const DeviceMesh& mesh) {
  // Flattened meshes belong to the key too: text() alone does not show them.
  const std::string key = mesh.text();
  auto& slot = redistributors_[key];
  if (!slot || !(slot->mesh() == mesh) || !slot->mesh().same_registry(mesh)) {
    slot = std::make_unique<Redistributor>(mesh, topology_, stack_.redistribution, *collectives_,
                                           *kernels_);
  }
  return *slot;
}

double StackEvaluator::compute_us(const OpRule& rule, const OpCall& call, const DeviceMesh& mesh,
                                  std::span<const Placements> inputs,
                                  std::span<const Placements> outputs) const {
  const auto tensors = call.tensors();
  std::vector<Shape> shapes;
  KernelQuery query{.kind = rule.kernel, .dtype = tensors[0]->meta.dtype};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    shapes.push_back(largest_local_shape(tensors[i]->meta.shape, inputs[i], mesh));
    query.bytes += elements(shapes.back()) * itemsize(tensors[i]->meta.dtype);
  }
  const std::vector<TensorMeta> out = rule.outputs(call);
  for (std::size_t o = 0; o < out.size(); ++o) {
    query.bytes +=
        elements(largest_local_shape(out[o].shape, outputs[o], mesh)) * itemsize(out[o].dtype);
  }
  if (rule.flops != nullptr) query.flops = rule.flops(shapes, call);
  return kernels_->price(query).total.value();
}

Pricing StackEvaluator::price(const Expansion& expansion, const OpRule* rule, const OpCall& call,
                              const DeviceMesh& mesh) {
  const auto tensors = call.tensors();
  Redistributor& redistributor = on(mesh);
  Pricing pricing;
  pricing.by_code.resize(expansion.inputs());
  std::vector<Layout> layouts;
  std::vector<double> prices;
  for (std::size_t i = 0; i < expansion.inputs(); ++i) {
    const std::vector<std::uint32_t> codes = expansion.used_codes(i);
    layouts.clear();
    for (const std::uint32_t code : codes) layouts.emplace_back(expansion.input_layout(i, code));
    prices.assign(codes.size(), 0.0);
    redistributor.costs_us(tensors[i]->meta, tensors[i]->layout, layouts, prices);
    pricing.by_code[i].assign(expansion.codes(i), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t c = 0; c < codes.size(); ++c) {
      const bool moves = layouts[c].placements != tensors[i]->layout.placements;
      pricing.by_code[i][codes[c]] = prices[c] + (moves ? stack_.transition_us : 0.0);
    }
  }
  const bool kernels = rule != nullptr && stack_.compute_model.entry->name != "none";
  pricing.totals.resize(expansion.size());
  if (kernels) pricing.compute_us.resize(expansion.size());
  std::vector<Placements> inputs(expansion.inputs());
  std::vector<Placements> outputs(expansion.outputs());
  for (std::size_t c = 0; c < expansion.size(); ++c) {
    double total = 0.0;
    for (std::size_t i = 0; i < expansion.inputs(); ++i) {
      total += pricing.by_code[i][expansion.code(c, i)];
    }
    if (kernels && total < kInfinity) {
      for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = expansion.input(c, i);
      for (std::size_t o = 0; o < outputs.size(); ++o) outputs[o] = expansion.output(c, o);
      pricing.compute_us[c] = compute_us(*rule, call, mesh, inputs, outputs);
      total += pricing.compute_us[c];
    }
    pricing.totals[c] = total;
  }
  return pricing;
}

Candidate StackEvaluator::candidate(const Expansion& expansion, const Pricing& pricing,
                                    std::size_t index) const {
  Candidate candidate;
  for (std::size_t i = 0; i < expansion.inputs(); ++i) {
    candidate.inputs.push_back(expansion.input(index, i));
    candidate.redistribute_us.push_back(pricing.by_code[i][expansion.code(index, i)]);
  }
  for (std::size_t o = 0; o < expansion.outputs(); ++o) {
    candidate.outputs.push_back(expansion.output(index, o));
  }
  if (!pricing.compute_us.empty()) candidate.compute_us = pricing.compute_us[index];
  candidate.total_us = pricing.totals[index];
  return candidate;
}

// PyTorch selects the elements of a tensor list without looking at what their inputs are now.
Policy StackEvaluator::policy_for(const OpCall& call) const {
  const bool foreach = call.op.find("_foreach_") != std::string::npos;
  return foreach ? Policy::kFirstListed : stack_.policy;
}

Decision StackEvaluator::decide(const Expansion& expansion, const Pricing& pricing,
                                const OpCall& call) const {
  const std::size_t size = expansion.size();
  SHARDLAB_CHECK(size > 0, "no candidate for ", call.op);
  std::vector<std::uint8_t> keeps(size);
  for (std::size_t c = 0; c < size; ++c) keeps[c] = expansion.keeps_inputs(c) ? 1 : 0;
  std::size_t selected = 0;
  const Policy policy = policy_for(call);
  if (stack_.order.kind == CandidateOrder::Kind::kListed) {
    selected = shardlab::select(policy, {pricing.totals, keeps});
  } else {
    const std::vector<std::size_t> order = stack_.order.permutation(size);
    std::vector<double> totals(size);
    std::vector<std::uint8_t> ordered(size);
    for (std::size_t i = 0; i < size; ++i) {
      totals[i] = pricing.totals[order[i]];
      ordered[i] = keeps[order[i]];
    }
    selected = order[shardlab::select(policy, {totals, ordered})];
  }
  Decision decision;
  decision.choice = candidate(expansion, pricing, selected);
  decision.candidates = size;
  decision.ties = ties_at_minimum(pricing.totals).size();
  decision.margin_us = margin_us(pricing.totals);
  decision.flips_with_order = shardlab::flips_with_order(policy, {pricing.totals, keeps});
  return decision;
}

Selection StackEvaluator::select_from(const Expansion& expansion, const OpRule* rule,
                                      const OpCall& call, const DeviceMesh& mesh,
                                      const SelectOptions& options) {
  if (!expansion.in_place_error().empty()) throw InputError(expansion.in_place_error());
  if (expansion.size() == 0) {
    throw InputError(call.op + ": no sharding candidate is left for " + call.text());
  }
  const Pricing pricing = price(expansion, rule, call, mesh);
  const std::vector<std::size_t> order =
      options.order.value_or(stack_.order).permutation(expansion.size());
  Selection selection;
  std::vector<double> totals;
  std::vector<std::uint8_t> keeps;
  for (const std::size_t i : order) {
    selection.candidates.push_back(candidate(expansion, pricing, i));
    totals.push_back(pricing.totals[i]);
    keeps.push_back(expansion.keeps_inputs(i) ? 1 : 0);
  }
  const PricedCandidates seen{totals, keeps};
  const Policy policy = policy_for(call);
  selection.selected = shardlab::select(policy, seen);
  selection.choice = selection.candidates[selection.selected];
  selection.ties = ties_at_minimum(totals);
  selection.margin_us = margin_us(totals);
  selection.flips_with_order = shardlab::flips_with_order(policy, seen);
  return selection;
}

Selection StackEvaluator::select(const OpCall& call, const DeviceMesh& mesh,
                                 const SelectOptions& options) {
  const OpRule& rule = find_op_rule(call.op, stack_.rules);
  std::string note;
  if (options.search.value_or(stack_.search) == SearchKind::kDijkstra) {
    const SearchOutcome outcome = search_rows(rule, call, mesh, on(mesh).pricer(),
                                              {.nesting_guard = options.nesting_guard});
    if (outcome.result) {
      Selection selection;
      selection.choice = {.inputs = outcome.result->inputs,
                          .outputs = outcome.result->outputs,
                          .redistribute_us = outcome.result->input_us,
                          .compute_us = 0.0,
                          .total_us = outcome.result->total_us};
      selection.candidates = {selection.choice};
      selection.ties = {0};
      return selection;
    }
    note = outcome.fallback;
  }
  Selection selection = select_from(expand(rule, call, mesh), &rule, call, mesh, options);
  selection.search_note = note;
  return selection;
}

}  // namespace shardlab

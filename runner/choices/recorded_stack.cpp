#include "runner/choices/recorded_stack.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/parse_at.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "runner/choices/choices_file.h"
#include "runner/choices/question_text.h"
#include "runner/config/read_json.h"
#include "sim/placement_text.h"
#include "sim/redistribute.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/known_rule.h"
#include "strategies/rules/rule_source.h"
#include "strategies/select/decision_source.h"

namespace shardlab {
namespace {

std::vector<Placements> parse_layouts(const std::vector<std::string>& texts, int mesh_ndim,
                                      const JsonPlace& place) {
  std::vector<Placements> layouts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    layouts.push_back(
        parse_at(place.at(i), [&] { return parse_candidate_placements(texts[i], mesh_ndim); }));
  }
  return layouts;
}

class RecordedChoices final : public RuleSource, public DecisionSource {
 public:
  RecordedChoices(const ChoiceList& file, std::string name)
      : name_(std::move(name)),
        devices_per_host_(file.devices_per_host),
        domain_devices_(file.domain_devices) {
    const JsonPlace choices{name_, "/choices"};
    for (std::size_t i = 0; i < file.choices.size(); ++i) add(file.choices[i], choices.at(i));
    for (auto& [op, rule] : rules_) {
      if (const OpRule* known = known_rule(op, kNewestRelease)) rule = *known;
      rule.op = op;
      rule.partial_rows = {};
      rule.rows = nullptr;
      rule.filter = nullptr;
      rule.excuse = nullptr;
      rule.follow = {*this, [](RuleSource& source, const OpCall& call, const DeviceMesh& mesh) {
                       return static_cast<RecordedChoices&>(source).choice(call, mesh).candidates;
                     }};
    }
  }

  // RuleSource: the only candidate of a call is the one that the file records.
  [[nodiscard]] std::string text() const override { return "the choices of " + name_; }
  [[nodiscard]] const OpRule& rule(std::string_view op) override {
    if (const auto found = rules_.find(op); found != rules_.end()) return found->second;
    throw ConfigError(name_, "", "holds no choice for the op " + std::string(op));
  }
  [[nodiscard]] std::vector<std::string_view> ops() override {
    std::vector<std::string_view> names;
    for (const auto& [op, rule] : rules_) names.push_back(op);
    return names;
  }
  void prepare(std::span<const OpCall* const>) override {}

  // DecisionSource: prices and plans are those that the file records.
  [[nodiscard]] bool decides(std::string_view) const override { return true; }
  [[nodiscard]] bool lists_candidates() const override { return false; }
  [[nodiscard]] GivenDecision decide(const OpCall& call, const DeviceMesh& mesh,
                                     const Topology& topology) override {
    expect_hosts(topology);
    return choice(call, mesh);
  }
  [[nodiscard]] bool plans() const override { return true; }
  [[nodiscard]] std::optional<GivenPlan> plan(const DeviceMesh& mesh, const Topology& topology,
                                              const TensorMeta& meta, const Layout& from,
                                              const Layout& to) override {
    expect_hosts(topology);
    const auto found = plans_.find(plan_key(mesh, meta, from, to));
    return found == plans_.end() ? std::nullopt : std::optional(found->second);
  }
  void expect_plan(const DeviceMesh& mesh, const TensorMeta& meta, const Layout& from,
                   const Layout& to) const override {
    if (plans_.contains(plan_key(mesh, meta, from, to))) return;
    throw ConfigError(name_, "",
                      "holds no plan for " + meta.text() + " " + from.text() + " to " + to.text() +
                          " on " + mesh.text());
  }

 private:
  static std::string plan_key(const DeviceMesh& mesh, const TensorMeta& meta, const Layout& from,
                              const Layout& to) {
    return mesh.text() + " " + meta.text() + " " + from.text() + " to " + to.text();
  }

  // Prices depend on which ranks share a host, and which ones NVLink joins.
  void expect_hosts(const Topology& topology) const {
    expect_devices("/devices_per_host", devices_per_host_, topology.devices_per_host());
    if (domain_devices_) {
      expect_devices("/domain_devices", *domain_devices_, topology.domain_devices());
    }
  }

  void expect_devices(const std::string& key, std::int64_t found, std::int64_t valid) const {
    if (found == valid) return;
    throw ConfigError(name_, key,
                      "found " + std::to_string(found) + "; valid: " + std::to_string(valid) +
                          ", as the topology has");
  }

  [[nodiscard]] const GivenDecision& choice(const OpCall& call, const DeviceMesh& mesh) const {
    const auto found = decisions_.find(question_key(call, mesh));
    if (found != decisions_.end()) return found->second;
    throw ConfigError(name_, "", "holds no choice for " + call.text() + " on " + mesh.text());
  }

  void add(const Choice& choice, const JsonPlace& place) {
    if (choice.total_us.value_or(0.0) < 0.0) {
      place.at("total_us")
          .fail("found " + format_double(*choice.total_us) +
                "; valid: 0 or more, or null for a price without end");
    }
    const ChoiceQuestion& question = choice.question;
    const JsonPlace asked = place.at("question");
    const DeviceMesh mesh =
        parse_at(asked.at("mesh"), [&] { return DeviceMesh::parse(question.mesh); });
    if (question.op) {
      add_op(choice, mesh, place);
      return;
    }
    const TensorMeta meta =
        parse_at(asked.at("tensor"), [&] { return TensorMeta::parse(*question.tensor); });
    const Layout from =
        parse_at(asked.at("from"), [&] { return parse_layout(*question.from, mesh.ndim(), meta); });
    const Layout to =
        parse_at(asked.at("to"), [&] { return parse_layout(*question.to, mesh.ndim(), meta); });
    expect_inputs_from_0_to(1, choice, place);
    std::vector<StepRequest> steps = steps_of(choice, 0, mesh, place);
    // A redistribution that can't be done has no price.
    if (choice.total_us) expect_to_lead(steps, from, to, "the tensor", place);
    plans_[plan_key(mesh, meta, from, to)] = {.steps = std::move(steps),
                                              .price_us = choice.total_us.value_or(kInfinity)};
  }

  void add_op(const Choice& choice, const DeviceMesh& mesh, const JsonPlace& place) {
    const ChoiceQuestion& question = choice.question;
    OpCall call{.op = *question.op, .inputs = {}, .args = question.args.values};
    for (std::size_t i = 0; i < question.inputs.size(); ++i) {
      call.inputs.push_back(parse_at(place.at("question").at("inputs").at(i), [&] {
        return OpCall::parse_input(question.inputs[i], mesh.ndim());
      }));
    }
    GivenDecision decision;
    FollowCandidate& chosen = decision.candidates.emplace_back();
    chosen.inputs = parse_layouts(choice.inputs, mesh.ndim(), place.at("inputs"));
    chosen.outputs = parse_layouts(choice.outputs, mesh.ndim(), place.at("outputs"));
    const auto tensors = call.tensors();
    if (tensors.size() != chosen.inputs.size()) {
      place.at("inputs").fail("found " + std::to_string(chosen.inputs.size()) +
                              " layouts; valid: " + std::to_string(tensors.size()) +
                              ", one for each tensor");
    }
    // The file prices the choice as a whole.
    std::vector<double>& prices = decision.redistribute_us.emplace_back(tensors.size(), 0.0);
    if (!prices.empty()) prices.front() = choice.total_us.value_or(kInfinity);
    decision.chosen = 0;
    if (choice.candidates) decision.weighed = static_cast<std::size_t>(*choice.candidates);
    expect_inputs_from_0_to(tensors.size(), choice, place);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Layout to = asked_layout(call, chosen.inputs[i]);
      std::vector<StepRequest> steps = steps_of(choice, i, mesh, place);
      if (steps.empty()) continue;  // the file does not say how, so the stack plans it
      if (choice.total_us) {
        expect_to_lead(steps, tensors[i]->layout, to, "input " + std::to_string(i), place);
      }
      if (to.placements == tensors[i]->layout.placements) continue;
      const std::string key = plan_key(mesh, tensors[i]->meta, tensors[i]->layout, to);
      const auto known = plans_.find(key);
      if (known != plans_.end() && !(known->second.steps == steps)) {
        place.at("steps").fail("found other steps than an earlier choice has for " + key);
      }
      plans_[key] = {.steps = std::move(steps), .price_us = {}};
    }
    rules_.try_emplace(call.op);
    if (!decisions_.emplace(question_key(call, mesh), std::move(decision)).second) {
      place.at("question").fail("found " + call.text() + " on " + mesh.text() + " twice");
    }
  }

  static void expect_inputs_from_0_to(std::size_t count, const Choice& choice,
                                      const JsonPlace& place) {
    for (std::size_t s = 0; s < choice.steps.size(); ++s) {
      const std::int64_t input = choice.steps[s].input;
      if (input >= 0 && input < static_cast<std::int64_t>(count)) continue;
      place.at("steps").at(s).at("input").fail("found " + std::to_string(input) +
                                               "; valid: " + (count > 1 ? "0 to " : "") +
                                               std::to_string(count - 1));
    }
  }

  // Steps that do not lead from one layout to the other would be priced as if they did. Strided
  // shards are passed over: planners read some of them as shards in another order, and name those
  // in steps.
  static void expect_to_lead(const std::vector<StepRequest>& steps, const Layout& from,
                             const Layout& to, const std::string& what, const JsonPlace& place) {
    const auto is_strided = [](const Placement& p) { return p.is_strided(); };
    if (std::ranges::any_of(from.placements, is_strided) ||
        std::ranges::any_of(to.placements, is_strided)) {
      return;
    }
    Layout layout = from;
    for (const StepRequest& step : steps) {
      const Placement& before = layout[step.mesh_dim];
      if (before != step.from) {
        place.at("steps").fail("found a step of " + what + " from " + step.from.text() +
                               " on mesh dim " + std::to_string(step.mesh_dim) +
                               "; valid: a step from " + before.text() + ", since it is in " +
                               layout.text() + " by then");
      }
      layout = layout_after(layout, step.mesh_dim, step.to);
    }
    if (layout.placements == to.placements) return;
    place.at("steps").fail("found steps that leave " + what + " in " + layout.text() +
                           "; valid: steps to " + to.text());
  }

  [[nodiscard]] static std::vector<StepRequest> steps_of(const Choice& choice, std::size_t input,
                                                         const DeviceMesh& mesh,
                                                         const JsonPlace& place) {
    std::vector<StepRequest> steps;
    for (std::size_t s = 0; s < choice.steps.size(); ++s) {
      const ChoiceStep& step = choice.steps[s];
      if (step.input != static_cast<std::int64_t>(input)) continue;
      const JsonPlace at = place.at("steps").at(s);
      if (step.mesh_dim < 0 || step.mesh_dim >= mesh.ndim()) {
        at.at("mesh_dim")
            .fail("found " + std::to_string(step.mesh_dim) + "; valid: 0 to " +
                  std::to_string(mesh.ndim() - 1));
      }
      steps.push_back({.mesh_dim = static_cast<int>(step.mesh_dim),
                       .from = parse_at(at.at("from"), [&] { return Placement::parse(step.from); }),
                       .to = parse_at(at.at("to"), [&] { return Placement::parse(step.to); })});
    }
    return steps;
  }

  std::string name_;
  std::int64_t devices_per_host_;
  std::optional<std::int64_t> domain_devices_;
  std::map<std::string, OpRule, std::less<>> rules_;  // by op
  std::map<std::string, GivenDecision> decisions_;    // by question
  std::map<std::string, GivenPlan> plans_;
};

// One PyTorch's own object where the file has one; a list of several says nothing of this stack.
nlohmann::json provenance_of(const ChoiceList& file, const std::string& name, std::size_t ops) {
  nlohmann::json own = {
      {"version", nullptr},
      {"python", nullptr},
      {"overlay", nullptr},
      {"patches", nlohmann::json::array()},
      {"changed",
       {{"prices", nlohmann::json::array()},
        {"others", nlohmann::json::array()},
        {"dispatch", nlohmann::json::array()}}},
      {"verified", {{"asked", 0}, {"equal", 0}, {"different", nlohmann::json::array()}}}};
  if (file.provenance && file.provenance->contains("torch")) {
    const nlohmann::json& torch = file.provenance->at("torch");
    if (torch.is_object()) own.update(torch);
  }
  own["stack"] = name;
  own["levels"] = {{"rows", 0}, {"candidates", 0}, {"decisions", 0}, {"recorded", ops}};
  return own;
}

}  // namespace

std::optional<RecordedStack> recorded_stack(const std::string& name, const ConfigStore& store) {
  std::error_code error;
  if (!name.ends_with(".json") || !std::filesystem::is_regular_file(name, error)) {
    return std::nullopt;
  }
  const nlohmann::json json = read_json_file(name);
  if (!json.is_object() || json.value("schema", nlohmann::json()) != kChoicesSchema) {
    return std::nullopt;
  }
  const ChoiceList file = read_choices(json, {name, ""});
  Stack stack = store.stack(std::string(kNewestDTensor));
  const auto choices = std::make_shared<RecordedChoices>(file, name);
  stack.name = name;
  stack.title = "the recorded choices of " + file.stack;
  stack.source = file.source;
  stack.rules = Rules(choices, kNewestRelease);
  stack.decisions = choices;
  return RecordedStack{std::move(stack), provenance_of(file, name, choices->ops().size())};
}

}  // namespace shardlab

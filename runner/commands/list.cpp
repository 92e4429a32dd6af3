// shardlab list, shardlab describe: the registries.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/tuner_csv.h"
#include "costmodel/registry.h"
#include "runner/base/terminal.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/evaluation/experiment.h"
#include "runner/evaluation/measurement_files.h"
#include "runner/evaluation/validation.h"
#include "strategies/cases/case.h"
#include "strategies/rules/rule_table.h"

namespace shardlab {
namespace {

struct Item {
  std::string name;
  std::string summary;
};

std::string title_of(const nlohmann::json& json) {
  for (const char* key : {"title", "name"}) {
    const auto it = json.find(key);
    if (it != json.end() && it->is_string()) return it->get<std::string>();
  }
  return "";
}

std::vector<Item> config_items(const ConfigStore& store, ConfigKind kind) {
  std::vector<Item> items;
  for (const std::string& name : store.names(kind)) {
    items.push_back({name, title_of(read_json_file(store.find(kind, name)))});
  }
  return items;
}

std::vector<Item> model_items() {
  std::vector<Item> items;
  for (const ModelEntry* entry : all_cost_models()) {
    items.push_back({std::string(entry->name), std::string(entry->summary)});
  }
  return items;
}

std::vector<Item> op_items() {
  std::map<std::string_view, std::string> sets_by_op;
  for (const auto& [set, name] : EnumNames<RuleSet>::kNames) {
    for (const OpRule& rule : rule_table(set).rules()) {
      std::string& sets = sets_by_op[rule.op];
      sets += (sets.empty() ? "" : ", ") + std::string(name);
    }
  }
  std::vector<Item> items;
  for (const auto& [op, sets] : sets_by_op) items.push_back({std::string(op), sets});
  return items;
}

std::vector<Item> measurement_items(const ConfigStore& store) {
  std::vector<Item> items;
  for (const std::string& name : store.names(ConfigKind::kMeasurement)) {
    const MeasurementSet set = read_measurement(store, name, {});
    items.push_back({name, set.gpu + ", " + scale_of(set) + ", " + std::to_string(set.rows.size()) +
                               " rows, " + std::string(to_string(set.health))});
  }
  return items;
}

constexpr std::array<std::string_view, 10> kPlurals = {
    "stacks",      "models",   "topologies", "ops",         "suites",
    "regressions", "programs", "recipes",    "experiments", "measurements"};
constexpr std::array<std::string_view, 10> kSingulars = {
    "stack",      "model",   "topology", "op",         "suite",
    "regression", "program", "recipe",   "experiment", "measurement"};

std::vector<Item> items_of(std::string_view what, const ConfigStore& store) {
  if (what == "stacks") return config_items(store, ConfigKind::kStack);
  if (what == "models") return model_items();
  if (what == "topologies") return config_items(store, ConfigKind::kTopology);
  if (what == "ops") return op_items();
  if (what == "suites") return config_items(store, ConfigKind::kSuite);
  if (what == "regressions") return config_items(store, ConfigKind::kRegression);
  if (what == "programs") return config_items(store, ConfigKind::kProgram);
  if (what == "recipes") return config_items(store, ConfigKind::kRecipe);
  if (what == "experiments") return config_items(store, ConfigKind::kExperiment);
  return measurement_items(store);
}

void run_list(const std::string& what, Session& session) {
  session.expect_no_sets("list");
  const std::vector<Item> items = items_of(what, session.store());
  if (session.json()) {
    nlohmann::json names = nlohmann::json::array();
    for (const Item& item : items) names.push_back(item.name);
    session.print(nlohmann::json{{what, names}});
    return;
  }
  if (items.empty()) {
    session.print("no " + what + " are shipped yet\n");
    return;
  }
  std::size_t width = 0;
  for (const Item& item : items) width = std::max(width, item.name.size());
  std::string text;
  for (const Item& item : items) {
    text += item.name + std::string(width - item.name.size() + 2, ' ') + item.summary + "\n";
  }
  session.print(text);
}

// -- describe
// ----------------------------------------------------------------------------------------------------------

nlohmann::json model_json(const ModelEntry& entry) {
  nlohmann::json params = nlohmann::json::array();
  for (const ParamSpec& spec : entry.params) {
    params.push_back({{"name", spec.name},
                      {"default", spec.default_value ? nlohmann::json(*spec.default_value)
                                                     : nlohmann::json("topology")},
                      {"min", spec.min},
                      {"max", spec.max},
                      {"help", spec.help}});
    if (!spec.status.empty()) {
      params.back()["source"] = spec.source;
      params.back()["status"] = spec.status;
    }
  }
  nlohmann::json exemptions = nlohmann::json::array();
  for (const ContractExemption& exemption : entry.exemptions) {
    exemptions.push_back({{"contract", exemption.contract}, {"reason", exemption.reason}});
  }
  nlohmann::json prices = nlohmann::json::array();
  if (entry.make_collective != nullptr) prices.push_back("collectives");
  if (entry.make_compute != nullptr) prices.push_back("kernels");
  return {{"name", entry.name},       {"prices", prices},        {"summary", entry.summary},
          {"formula", entry.formula}, {"source", entry.source},  {"valid_range", entry.valid_range},
          {"params", params},         {"exemptions", exemptions}};
}

// One model as Markdown; costmodel/README.md is made of these.
std::string model_text(const ModelEntry& entry) {
  const nlohmann::json json = model_json(entry);
  const auto text = [&](const char* key) { return json.at(key).get<std::string>(); };
  std::string out = "## " + text("name") + "\n\n" + text("summary") + ". Prices ";
  for (std::size_t i = 0; i < json["prices"].size(); ++i) {
    out += (i == 0 ? "" : " and ") + json["prices"][i].get<std::string>();
  }
  out += ".\n\n- formula: `" + text("formula") + "`\n- source: " + text("source") +
         "\n- valid for: " + text("valid_range") + "\n";
  for (const nlohmann::json& exemption : json["exemptions"]) {
    out += "- breaks the contract `" + exemption["contract"].get<std::string>() +
           "`: " + exemption["reason"].get<std::string>() + "\n";
  }
  if (!json["params"].empty()) {
    out += "\n| parameter | default | range | meaning |\n| --- | --- | --- | --- |\n";
    for (const ParamSpec& spec : entry.params) {
      out += "| `" + std::string(spec.name) + "` | " +
             (spec.default_value ? format_double(*spec.default_value) : "topology") + " | " +
             format_double(spec.min) + " to " + format_double(spec.max) + " | " +
             std::string(spec.help) +
             (spec.status.empty() ? "" : " (" + std::string(spec.status) + ")") + " |\n";
    }
  }
  return out;
}

std::string all_models_text() {
  std::string out =
      "# Cost models\n\n"
      "Generated by `scripts/generate_costmodel_readme.sh` from the models' own tables; do not "
      "edit. One file a model in\n"
      "`models/`; `shardlab describe model NAME` prints one.\n";
  for (const ModelEntry* entry : all_cost_models()) out += "\n" + model_text(*entry);
  return out;
}

nlohmann::json op_json(const std::string& name) {
  nlohmann::json rules = nlohmann::json::array();
  for (const auto& [set, set_name] : EnumNames<RuleSet>::kNames) {
    for (const OpRule& rule : rule_table(set).rules()) {
      if (rule.op != name) continue;
      rules.push_back(
          {{"rule_set", set_name},
           {"form", rule.rows != nullptr ? "rows on one mesh dim" : "follows its inputs' layouts"},
           {"allow_uneven", rule.allow_uneven},
           {"in_place", rule.is_in_place()},
           {"equation", rule.equation}});
    }
  }
  return {{"name", name}, {"rules", rules}};
}

void describe_config(ConfigKind kind, const std::string& name, Session& session) {
  const ConfigStore store = session.store();
  if (kind == ConfigKind::kStack) {
    session.print(store.stack(name).to_json());
  } else if (kind == ConfigKind::kTopology) {
    session.print(store.topology(name).to_json());
  } else {
    const std::filesystem::path path = store.find(kind, name);
    const nlohmann::json json = read_json_file(path);
    // Read in full, so that what is printed is valid.
    if (kind == ConfigKind::kSuite) static_cast<void>(Suite::from_json(json, {path.string(), ""}));
    if (kind == ConfigKind::kRegression) static_cast<void>(Case::parse(json, {path.string(), ""}));
    if (kind == ConfigKind::kProgram) {
      static_cast<void>(Program::from_json(json, {path.string(), ""}));
    }
    if (kind == ConfigKind::kRecipe)
      static_cast<void>(Recipe::from_json(json, {path.string(), ""}));
    session.print(json);
  }
}

// A tuner's file, or what a measured run says that NCCL took, as such a file.
void describe_tuner(const std::string& name, Session& session) {
  if (name.empty()) {
    throw InputError(
        "describe tuner: a file is required: a tuner's CSV, or a measurement that says what NCCL "
        "chose");
  }
  const ConfigStore store = session.store();
  const std::filesystem::path path = store.find(ConfigKind::kMeasurement, name);
  const std::string text = read_text_file(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  std::vector<TunerRule> rules;
  if (first != std::string::npos && text[first] == '{') {
    rules = tuner_rules_of(parse_measurement(text, {}, path.string()));
    if (rules.empty()) {
      throw InputError(name + ": no row says which algorithm and protocol NCCL took");
    }
  } else {
    rules = read_tuner_csv(text, path.string());
  }
  if (!session.json()) {
    session.print(tuner_csv_text(rules));
    return;
  }
  nlohmann::json list = nlohmann::json::array();
  for (const TunerRule& rule : rules) {
    list.push_back({{"collective", to_string(rule.collective)},
                    {"min_bytes", rule.min_bytes},
                    {"max_bytes", rule.max_bytes},
                    {"algorithm", to_string(rule.algorithm)},
                    {"protocol", to_string(rule.protocol)},
                    {"channels", rule.channels},
                    {"nodes", rule.nodes},
                    {"ranks", rule.ranks},
                    {"pipe_ops", rule.pipe_ops},
                    {"registered", rule.registered}});
  }
  session.print(nlohmann::json{{"rules", list}});
}

// As a document; an array of them where a trace has groups of several shapes.
void describe_measurement(const std::string& name, Session& session) {
  const std::vector<std::string> files = {name};
  const std::vector<MeasurementSet> sets = read_measurements(session.store(), files, {});
  std::string text;
  for (const MeasurementSet& set : sets) {
    if (!session.quiet) {
      for (const std::string& remark : left_out_of(set)) {
        std::cerr << "shardlab: " << printable(remark) << "\n";
      }
    }
    std::string one = measurement_text(set);
    while (one.ends_with('\n')) one.pop_back();
    text += (text.empty() ? "" : ",\n") + one;
  }
  session.print((sets.size() == 1 ? text : "[" + text + "]") + "\n");
}

void run_describe(const std::string& what, const std::string& name, Session& session) {
  if (what == "models" || what == "model") {
    if (name.empty()) {
      if (session.json()) {
        nlohmann::json models = nlohmann::json::array();
        for (const ModelEntry* entry : all_cost_models()) models.push_back(model_json(*entry));
        session.print(nlohmann::json{{"models", models}});
      } else {
        session.print(all_models_text());
      }
      return;
    }
    const ModelEntry* entry = find_cost_model(name);
    if (entry == nullptr) {
      std::vector<std::string_view> valid;
      for (const ModelEntry* each : all_cost_models()) valid.push_back(each->name);
      throw InputError("unknown model \"" + name + "\"" + did_you_mean(name, valid) +
                       "; valid: " + join(valid));
    }
    if (session.json()) {
      session.print(model_json(*entry));
    } else {
      session.print(model_text(*entry));
    }
    return;
  }
  if (what == "tuner") return describe_tuner(name, session);
  if (name.empty()) {
    const auto kind = std::find(kSingulars.begin(), kSingulars.end(), what) - kSingulars.begin();
    throw InputError("describe " + what + ": a name is required; valid: those of `shardlab list " +
                     std::string(kPlurals[to_index(kind)]) + "`");
  }
  if (what == "op") {
    const OpRule* rule = rule_table(kShardlab).find(name);
    for (const auto& [set, set_name] : EnumNames<RuleSet>::kNames) {
      if (rule == nullptr) rule = rule_table(set).find(name);
    }
    if (rule == nullptr) rule = &find_op_rule(name, kAutoParallel);  // throws
    session.print(op_json(std::string(rule->op)));
    return;
  }
  if (what == "stack") return describe_config(ConfigKind::kStack, name, session);
  if (what == "topology") return describe_config(ConfigKind::kTopology, name, session);
  if (what == "suite") return describe_config(ConfigKind::kSuite, name, session);
  if (what == "regression") return describe_config(ConfigKind::kRegression, name, session);
  if (what == "program") return describe_config(ConfigKind::kProgram, name, session);
  if (what == "recipe") return describe_config(ConfigKind::kRecipe, name, session);
  if (what == "experiment") {
    const ConfigStore store = session.experiment_store();
    static_cast<void>(Experiment::read(store, name));  // in full, so that what is printed is valid
    session.print(store.experiment_json(store.find(ConfigKind::kExperiment, name)));
    return;
  }
  describe_measurement(name, session);
}

}  // namespace

void add_list_command(const Command& root, Session& session) {
  auto what = std::make_shared<std::string>();
  const Command command = root.subcommand("list", "print a registry\n  shardlab list stacks");
  command.option("what", *what, "which registry")
      .required()
      .check(one_of(std::vector<std::string>(kPlurals.begin(), kPlurals.end())));
  add_common_options(command, session);
  command.runs([what, &session] { run_list(*what, session); });
}

void add_describe_command(const Command& root, Session& session) {
  auto what = std::make_shared<std::string>();
  auto name = std::make_shared<std::string>();
  const Command command = root.subcommand(
      "describe", "print one entry of a registry\n  shardlab describe model alpha_beta");
  std::vector<std::string> kinds(kSingulars.begin(), kSingulars.end());
  kinds.emplace_back("models");
  kinds.emplace_back("tuner");
  command.option("what", *what, "kind of entry").required().check(one_of(kinds));
  command.option("name", *name, "its name (models: all); of a measurement or a tuner also a file");
  add_common_options(command, session);
  command.runs([what, name, &session] { run_describe(*what, *name, session); });
}

}  // namespace shardlab

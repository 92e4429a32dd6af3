// shardlab list and shardlab describe: show what the registries hold.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/tuner_csv.h"
#include "costmodel/registry.h"
#include "runner/base/read_file.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/config/placements.h"
#include "runner/evaluation/experiment.h"
#include "runner/evaluation/measurement_files.h"
#include "runner/evaluation/validation.h"
#include "strategies/cases/case.h"
#include "strategies/proof/op_sample.h"
#include "strategies/rules/rule_table.h"
#include "strategies/select/suite.h"

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

std::vector<Item> placement_items() {
  std::vector<Item> items;
  for (const PlacementEntry* entry : registered_entries()) {
    items.push_back(
        {std::string(entry->name), std::string(entry->form) + ": " + std::string(entry->summary)});
  }
  return items;
}

// -- describe -------------------------------------------------------------------------------------

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

// One model as Markdown. costmodel/README.md is made of these sections.
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
      "edit. Each model is one file in\n`models/`; `shardlab describe model NAME` prints one of "
      "these sections.\n";
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
           {"allow_uneven", rule.allows_uneven()},
           {"in_place", rule.is_in_place()},
           {"equation", rule.equation}});
    }
  }
  nlohmann::json samples = nlohmann::json::array();
  for (const SampleCall& sample : sample_calls_of(name, 1)) {
    nlohmann::json inputs = nlohmann::json::array();
    for (const TensorArg& arg : sample.call.inputs) inputs.push_back(arg.text());
    samples.push_back({{"inputs", std::move(inputs)}, {"args", sample.call.args}});
  }
  return {{"name", name}, {"rules", rules}, {"samples", std::move(samples)}};
}

void describe_stack(const std::string& name, Session& session) {
  const Stack stack = session.store().stack(name);
  nlohmann::json json = stack.to_json();
  if (session.stack_source != nullptr) {
    nlohmann::json details = session.stack_source->details(stack);
    if (!details.is_null()) json["torch"] = std::move(details);
  }
  session.print(json);
}

void describe_topology(const std::string& name, Session& session) {
  session.print(session.store().topology(name).to_json());
}

// Prints a file unchanged, once `Read` has checked that it is valid.
template <ConfigKind kKind, auto Read>
void describe_file(const std::string& name, Session& session) {
  const std::filesystem::path path = session.store().find(kKind, name);
  const nlohmann::json json = read_json_file(path);
  static_cast<void>(Read(json, JsonPlace{path.string(), ""}));
  session.print(json);
}

void describe_experiment(const std::string& name, Session& session) {
  const ConfigStore store = session.experiment_store();
  static_cast<void>(
      Experiment::read(store, name));  // read in full, so that what is printed is valid
  session.print(store.experiment_json(store.find(ConfigKind::kExperiment, name)));
}

// A suite with one question on each line, as the shipped files have them.
std::string suite_text(const Suite& suite) {
  nlohmann::ordered_json head = suite.to_json();
  head.erase("questions");
  std::string text = head.dump();
  text.back() = ',';
  text += " \"questions\": [";
  for (std::size_t i = 0; i < suite.questions.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + suite.questions[i].to_json().dump();
  }
  return text + "\n]}\n";
}

// Prints the questions of a suite, also of a generated one. As JSON they are a suite themselves.
void describe_questions(const std::string& name, Session& session) {
  const ConfigStore store = session.store();
  const std::filesystem::path path = store.find(ConfigKind::kSuite, name);
  const Suite suite = Suite::from_json(read_json_file(path), JsonPlace{path.string(), ""});
  if (session.json()) {
    session.print(suite_text(suite));
    return;
  }
  std::string text;
  for (const Question& question : suite.questions) {
    text += question.id + " on " + question.mesh.text() + ": " + join(question.inputs(), ", ") +
            (question.count > 1 ? " (" + std::to_string(question.count) + " times)" : "") + "\n";
  }
  session.print(text);
}

// Prints a tuner's file, or writes NCCL's choices in a measured run as such a file.
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

// Prints one document, or an array of documents if a trace has groups of several shapes.
void describe_measurement_with(const SourceHints& hints, const std::string& name,
                               Session& session) {
  const std::vector<std::string> files = {name};
  const std::vector<MeasurementSet> sets = read_measurements(session.store(), files, hints);
  std::string text;
  for (const MeasurementSet& set : sets) {
    if (!session.quiet) print_warnings(left_out_of(set));
    std::string one = measurement_text(set);
    while (one.ends_with('\n')) one.pop_back();
    text += (text.empty() ? "" : ",\n") + one;
  }
  session.print((sets.size() == 1 ? text : "[" + text + "]") + "\n");
}

void describe_measurement(const std::string& name, Session& session) {
  describe_measurement_with({}, name, session);
}

void describe_all_models(Session& session) {
  if (!session.json()) {
    session.print(all_models_text());
    return;
  }
  nlohmann::json models = nlohmann::json::array();
  for (const ModelEntry* entry : all_cost_models()) models.push_back(model_json(*entry));
  session.print(nlohmann::json{{"models", models}});
}

// Describes one model, or all of them if no name is given.
void describe_model(const std::string& name, Session& session) {
  if (name.empty()) return describe_all_models(session);
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
}

// What a registered placement is, and which changes one step makes of it.
void describe_placement(const std::string& name, Session& session) {
  const PlacementEntry& entry = placement_entry(name, "describe placement");
  nlohmann::json steps = {{{"from", "R"}, {"to", entry.form}, {"collective", "local"}},
                          {{"from", entry.form}, {"to", "R"}, {"collective", "all_gather"}}};
  const auto add = [&](bool allowed, std::string_view from, std::string_view to,
                       std::string_view collective) {
    if (allowed) steps.push_back({{"from", from}, {"to", to}, {"collective", collective}});
  };
  add(entry.changes.from_partial, "P(op)", entry.form, "reduce_scatter");
  add(entry.changes.from_shard, "S(d)", entry.form, "all_to_all");
  add(entry.changes.to_shard, entry.form, "S(d)", "all_to_all");
  add(entry.changes.among_own, entry.form, entry.form, "all_to_all");
  session.print(nlohmann::json{{"name", entry.name},
                               {"form", entry.form},
                               {"example", entry.example},
                               {"summary", entry.summary},
                               {"source", entry.source},
                               {"steps", std::move(steps)},
                               {"passes_pointwise_ops", entry.passes_pointwise}});
}

void describe_op(const std::string& name, Session& session) {
  for (const auto& [set, set_name] : EnumNames<RuleSet>::kNames) {
    expect_one_overload(name, rule_table(set).named(name));
  }
  const OpRule* rule = rule_table(kShardlab).find(name);
  for (const auto& [set, set_name] : EnumNames<RuleSet>::kNames) {
    if (rule == nullptr) rule = rule_table(set).find(name);
  }
  if (rule == nullptr)
    rule = &find_op_rule(name, kAutoParallel);  // throws InputError, which lists the valid names
  session.print(op_json(std::string(rule->op)));
}

// -- The registries -------------------------------------------------------------------------------

struct Registry {
  std::string_view one;   // its name for `describe`
  std::string_view many;  // its name for `list`
  std::vector<Item> (*items)(const ConfigStore& store);
  void (*describe)(const std::string& name, Session& session);
};

template <ConfigKind kKind>
std::vector<Item> files(const ConfigStore& store) {
  return config_items(store, kKind);
}

constexpr Registry kRegistries[] = {
    {"stack", "stacks", files<ConfigKind::kStack>, describe_stack},
    {"model", "models", [](const ConfigStore&) { return model_items(); }, describe_model},
    {"topology", "topologies", files<ConfigKind::kTopology>, describe_topology},
    {"op", "ops", [](const ConfigStore&) { return op_items(); }, describe_op},
    {"placement", "placements", [](const ConfigStore&) { return placement_items(); },
     describe_placement},
    {"suite", "suites", files<ConfigKind::kSuite>,
     describe_file<ConfigKind::kSuite, Suite::from_json>},
    {"regression", "regressions", files<ConfigKind::kRegression>,
     describe_file<ConfigKind::kRegression, Case::parse>},
    {"program", "programs", files<ConfigKind::kProgram>,
     describe_file<ConfigKind::kProgram, Program::from_json>},
    {"recipe", "recipes", files<ConfigKind::kRecipe>,
     describe_file<ConfigKind::kRecipe, Recipe::from_json>},
    {"experiment", "experiments", files<ConfigKind::kExperiment>, describe_experiment},
    {"measurement", "measurements", measurement_items, describe_measurement},
};

const Registry& registry_of(std::string_view word, std::string_view Registry::*name) {
  const auto* const found = std::find_if(std::begin(kRegistries), std::end(kRegistries),
                                         [&](const Registry& each) { return each.*name == word; });
  SHARDLAB_CHECK(found != std::end(kRegistries), "a registry that the option's check let pass");
  return *found;
}

std::vector<std::string> registry_names(std::string_view Registry::*name) {
  std::vector<std::string> names;
  for (const Registry& each : kRegistries) names.emplace_back(each.*name);
  return names;
}

void run_list(const std::string& what, Session& session) {
  const std::vector<Item> items = registry_of(what, &Registry::many).items(session.store());
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
  TextTable table(session.style());
  for (const Item& item : items) table.add({item.name, item.summary});
  session.print(table.text(""));
}

struct DescribeArguments {
  std::string what;
  std::string name;
  bool questions = false;
  SourceHints hints;
};

void run_describe(const DescribeArguments& arguments, Session& session) {
  const auto& [what, name, questions, hints] = arguments;
  if (questions && (what != "suite" || name.empty())) {
    throw InputError("--questions: found for " + what + "; valid: describe suite NAME --questions");
  }
  if (questions) return describe_questions(name, session);
  if ((hints.hosts || hints.gpus_per_host) && (what != "measurement" || name.empty())) {
    throw InputError(std::string(hints.hosts ? "--hosts" : "--gpus-per-host") + ": found for " +
                     what + "; valid: describe measurement FILE --hosts 2 --gpus-per-host 8");
  }
  if (hints.hosts || hints.gpus_per_host) return describe_measurement_with(hints, name, session);
  if (what == "models") return describe_model(name, session);
  if (what == "tuner") return describe_tuner(name, session);
  const Registry& registry = registry_of(what, &Registry::one);
  if (name.empty() && what != "model") {
    throw InputError("describe " + what +
                     ": a name is required; valid: the names that `shardlab list " +
                     std::string(registry.many) + "` prints");
  }
  registry.describe(name, session);
}

}  // namespace

void add_list_command(const Command& root, Session& session) {
  auto what = std::make_shared<std::string>();
  const Command command = root.subcommand("list", "print a registry\n  shardlab list stacks");
  command.option("what", *what, "which registry")
      .required()
      .check(one_of(registry_names(&Registry::many)));
  add_common_options(command, session, {});
  command.runs([what, &session] { run_list(*what, session); });
}

void add_describe_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<DescribeArguments>();
  const Command command = root.subcommand(
      "describe", "print one entry of a registry\n  shardlab describe model alpha_beta");
  std::vector<std::string> kinds = registry_names(&Registry::one);
  kinds.emplace_back("models");
  kinds.emplace_back("tuner");
  command.option("what", arguments->what, "kind of entry").required().check(one_of(kinds));
  command.option(
      "name", arguments->name,
      "the name of the entry (a measurement or a tuner can also be a file; models needs no name)");
  add_common_options(command, session, {.sets = true});
  command.flag("--questions", arguments->questions,
               "print the questions of a suite, also of a generated one; as JSON they are a suite");
  command
      .option("--hosts", arguments->hints.hosts,
              "number of hosts, for a measurement that does not say it")
      .check(integer_from(1, 1 << 30));
  command
      .option("--gpus-per-host", arguments->hints.gpus_per_host,
              "number of GPUs that take part on a host, for a measurement that does not say it")
      .check(integer_from(1, 1 << 30));
  command.runs([arguments, &session] { run_describe(*arguments, session); });
}

}  // namespace shardlab

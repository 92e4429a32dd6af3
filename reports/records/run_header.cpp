#include "reports/records/run_header.h"

#include <cmath>
#include <utility>

namespace shardlab::reports {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

RunContext read_context(const json& value, std::string_view file) {
  StrictObject object(value, file, "/context");
  RunContext context;
  context.shardlab_version = object.text("shardlab_version");
  context.commit = object.text("commit");
  context.compiler = object.text("compiler");
  context.build_type = object.text("build_type");
  context.command_line = object.texts("command_line");
  context.seed = object.unsigned_integer("seed");
  object.finish();
  return context;
}

RunTiming read_timing(const json& value, std::string_view file) {
  StrictObject object(value, file, "/timing");
  RunTiming timing;
  if (object.has("started_utc")) timing.started_utc = object.text("started_utc");
  for (const auto& item : value.items()) {
    if (item.key().ends_with("_ms")) timing.ms[item.key()] = object.number(item.key());
  }
  object.finish();
  return timing;
}

RunConfiguration read_configuration(const json& value, std::string_view file) {
  StrictObject object(value, file, "/configuration");
  RunConfiguration configuration;
  configuration.topology = object.object("topology");
  for (const json& stack : object.array("stacks")) configuration.stacks.push_back(stack);
  const json& suites = object.array("suites");
  for (std::size_t i = 0; i < suites.size(); ++i) {
    StrictObject suite(suites[i], file, "/configuration/suites/" + std::to_string(i));
    const std::string name = suite.text("name");
    const std::int64_t questions = suite.integer("questions", 0);
    configuration.suites.push_back({name, questions, suite.text("source")});
    suite.finish();
  }
  if (object.has("program")) {
    StrictObject program(object.object("program"), file, "/configuration/program");
    const std::string name = program.text("name");
    const std::int64_t nodes = program.integer("nodes", 0);
    configuration.program = {name, nodes, program.text("source")};
    program.finish();
  }
  configuration.overrides = object.texts("overrides");
  object.finish();
  return configuration;
}

}  // namespace

ordered_json to_json(const RunContext& context) {
  return {{"shardlab_version", context.shardlab_version},
          {"commit", context.commit},
          {"compiler", context.compiler},
          {"build_type", context.build_type},
          {"command_line", context.command_line},
          {"seed", context.seed}};
}

ordered_json to_json(const RunTiming& timing) {
  ordered_json value = ordered_json::object();
  if (timing.started_utc) value["started_utc"] = *timing.started_utc;
  for (const auto& [name, ms] : timing.ms) value[name] = ms;
  return value;
}

ordered_json to_json(const RunConfiguration& configuration) {
  ordered_json suites = ordered_json::array();
  for (const SuiteSource& suite : configuration.suites) {
    suites.push_back(
        {{"name", suite.name}, {"questions", suite.questions}, {"source", suite.source}});
  }
  ordered_json stacks = ordered_json::array();
  for (const json& stack : configuration.stacks) stacks.push_back(ordered_json(stack));
  ordered_json value = ordered_json::object();
  value["topology"] = ordered_json(configuration.topology);
  value["stacks"] = std::move(stacks);
  value["suites"] = std::move(suites);
  if (configuration.program) {
    value["program"] = {{"name", configuration.program->name},
                        {"nodes", configuration.program->nodes},
                        {"source", configuration.program->source}};
  }
  value["overrides"] = configuration.overrides;
  return value;
}

RunHeader read_run_header(StrictObject& record, std::string_view file) {
  RunHeader header;
  header.context = read_context(record.value("context"), file);
  if (record.has("timing")) header.timing = read_timing(record.value("timing"), file);
  header.configuration = read_configuration(record.value("configuration"), file);
  return header;
}

std::optional<Contradiction> contradiction_in(const RunHeader& header) {
  for (std::size_t i = 0; i < header.configuration.stacks.size(); ++i) {
    const json& stack = header.configuration.stacks[i];
    if (!stack.is_object() || !stack.contains("name") || !stack["name"].is_string()) {
      return Contradiction{"/configuration/stacks/" + std::to_string(i),
                           "expected an object with a name"};
    }
  }
  if (header.timing) {
    for (const auto& [name, ms] : header.timing->ms) {
      if (!name.ends_with("_ms") || !std::isfinite(ms)) {
        return Contradiction{"/timing/" + name, "expected a key ending in _ms and a finite number"};
      }
    }
  }
  return std::nullopt;
}

}  // namespace shardlab::reports

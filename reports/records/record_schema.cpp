#include "reports/records/record_schema.h"

#include <array>
#include <string_view>
#include <utility>

#include "costmodel/base/fields_json.h"
#include "reports/records/plan_record.h"
#include "reports/records/record.h"
#include "reports/records/simulation_record.h"
#include "reports/records/solution_record.h"
#include "reports/records/step_record.h"
#include "reports/records/ties_record.h"
#include "reports/records/validation_record.h"

namespace shardlab::reports {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostColumns = 120;

std::string indent(std::size_t depth) { return std::string(2 * depth, ' '); }

// Prints a value on one line if it fits after the `taken` columns of that line, and otherwise one
// element per line.
std::string pretty(const ordered_json& value, std::size_t depth, std::size_t taken) {
  std::string line = value.dump(-1, ' ');
  if (!value.is_structured() || value.empty()) return line;
  std::string spaced(1, value.is_object() ? '{' : '[');
  std::string lines = spaced + "\n";
  std::size_t left = value.size();
  for (const auto& [key, each] : value.items()) {
    const std::string name = value.is_object() ? ordered_json(key).dump() + ": " : "";
    const std::string comma = --left > 0 ? "," : "";
    spaced += name + pretty(each, 0, 0) + comma + (left > 0 ? " " : "");
    lines += indent(depth + 1) + name +
             pretty(each, depth + 1, 2 * (depth + 1) + name.size() + comma.size()) + comma + "\n";
  }
  const char close = value.is_object() ? '}' : ']';
  spaced += close;
  const bool fits = spaced.find('\n') == std::string::npos && spaced.size() + taken <= kMostColumns;
  return fits ? spaced : lines + indent(depth) + close;
}

// Adds the schema of one command's record, whose JSON is under "result".
template <class Result>
void add_kind(ordered_json& schema, std::string_view kind, SchemaDefinitions& definitions) {
  ordered_json record = schema_of<ResultRecord>(definitions);
  record["properties"]["kind"] = {{"const", kind}};
  record["properties"]["result"] = schema_of<Result>(definitions);
  const std::string name = std::string(kind) + "_record";
  definitions[name] = std::move(record);
  schema["properties"]["kind"]["enum"].push_back(kind);
  schema["allOf"].push_back(
      {{"if", {{"required", {"kind"}}, {"properties", {{"kind", {{"const", kind}}}}}}},
       {"then", {{"$ref", "#/definitions/" + name}}}});
}

}  // namespace

std::string record_schema_text() {
  SchemaDefinitions definitions = ordered_json::object();
  ordered_json schema = {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"title",
       "shardlab/record/1: what a run leaves so that `report` can write its report again (see "
       "reports/run_record.h)"},
      {"description", "generated from the structs of reports/records: do not edit"},
      {"type", "object"},
      {"required", {"schema"}},
      {"properties",
       {{"schema", {{"const", kRecordSchema}}},
        {"kind",
         {{"enum", {kCompareKind}}, {"description", "the command that ran; absent: compare"}}}}},
      {"additionalProperties", false},
      {"allOf",
       {{{"if", {{"properties", {{"kind", {{"const", kCompareKind}}}}}}},
         {"then", schema_of<ComparisonRecord>(definitions)}}}}};
  add_kind<TiesRecord>(schema, kTiesKind, definitions);
  add_kind<ValidationRecord>(schema, kValidateKind, definitions);
  add_kind<SolutionRecord>(schema, kSolveKind, definitions);
  add_kind<SimulationRecord>(schema, kSimulateKind, definitions);
  add_kind<StepRecord>(schema, kStepKind, definitions);
  add_kind<PlanRecord>(schema, kPlanKind, definitions);
  // At the top level the schema allows the keys of all kinds. The condition of each kind then
  // limits them to its own.
  for (const auto& [name, definition] : definitions.items()) {
    if (!name.ends_with("_record")) continue;
    for (const auto& [key, unused] : definition["properties"].items()) {
      if (!schema["properties"].contains(key)) schema["properties"][key] = true;
    }
  }
  definitions["named"] = {
      {"type", "object"}, {"required", {"name"}}, {"properties", {{"name", {{"type", "string"}}}}}};
  schema["definitions"] = std::move(definitions);
  return pretty(schema, 0, 0) + "\n";
}

}  // namespace shardlab::reports

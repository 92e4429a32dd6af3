#include "reports/run_record.h"

#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/fields_json.h"
#include "reports/records/json_text.h"
#include "reports/section.h"
#include "reports/writers/html.h"
#include "reports/writers/inline_text.h"
#include "reports/writers/json.h"
#include "reports/writers/markdown.h"

namespace shardlab::reports {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kKinds = "compare, ties, validate, solve, simulate, step, plan";

// Writes each key of the result; arrays are long, and each of their elements has a line of its own.
void write_result(const json& result, JsonObjectText& text) {
  for (const auto& item : result.items()) {
    if (!item.value().is_array()) {
      text.value(item.key(), item.value());
      continue;
    }
    text.begin_array(item.key());
    for (const json& element : item.value()) text.element(ordered_json(element));
    text.end_array();
  }
}

std::string result_record_text(const ResultRecord& record) {
  JsonObjectText text;
  for_each_written(
      record, [&](std::string_view key, const auto& value) { text.value(key, json_of(value)); });
  return text.finish();
}

std::string result_report_json(const ResultRecord& record, const RenderedReport& report) {
  JsonObjectText text;
  text.value("schema", ordered_json(kReportSchema));
  text.value("kind", ordered_json(record.kind));
  text.value("summary", ordered_json(plain_text(report.sentence)));
  write_result(record.result, text);
  text.value("context", json_of(record.context));
  text.value("configuration", json_of(record.configuration));
  if (record.provenance) text.value("provenance", json_of(*record.provenance));
  if (record.timing) text.value("timing", json_of(*record.timing));
  return text.finish();
}

}  // namespace

RunRecord make_run_record(std::string_view kind, ResultRecord record, std::string_view file) {
  record.kind = kind;
  if (kind == kTiesKind) return read_ties_record(std::move(record), file);
  if (kind == kValidateKind) return read_validation_record(std::move(record), file);
  if (kind == kSimulateKind) return read_simulation_record(std::move(record), file);
  if (kind == kStepKind) return read_step_record(std::move(record), file);
  if (kind == kPlanKind) return read_plan_record(std::move(record), file);
  if (kind == kSolveKind) return read_solution_record(std::move(record), file);
  throw ConfigError(file, "/kind",
                    "found \"" + std::string(kind) + "\"; valid: " + std::string(kKinds));
}

RunRecord parse_run_record(std::string_view text, std::string_view file) {
  RecordTree tree = parse_record_tree(text, file);
  if (!tree.value.is_object() || !tree.value.contains("kind") ||
      tree.value["kind"] == json(kCompareKind)) {
    return from_tree(std::move(tree), file);
  }
  auto record = read_as<ResultRecord>(tree.value, {std::string(file), ""});
  if (const auto found = contradiction_in(static_cast<const RunHeader&>(record))) {
    throw ConfigError(file, found->pointer, found->message);
  }
  const std::string kind = record.kind;
  return make_run_record(kind, std::move(record), file);
}

std::string run_record_text(const RunRecord& record) {
  if (const auto* comparison = std::get_if<ComparisonRecord>(&record)) {
    return record_text(*comparison);
  }
  return std::visit(
      [](const auto& one) -> std::string {
        if constexpr (std::is_base_of_v<ResultRecord, std::decay_t<decltype(one)>>) {
          return result_record_text(one);
        } else {
          return {};
        }
      },
      record);
}

ReportFiles write_report(const RunRecord& record, const ComparisonOptions& options) {
  if (const auto* comparison = std::get_if<ComparisonRecord>(&record)) {
    return write_report(*comparison, options);
  }
  return std::visit(
      [](const auto& one) -> ReportFiles {
        if constexpr (std::is_base_of_v<ResultRecord, std::decay_t<decltype(one)>>) {
          const RenderedReport report = render_report(one);
          return {write_html(report), write_markdown(report), result_report_json(one, report)};
        } else {
          return {};
        }
      },
      record);
}

std::string summary_markdown(const RunRecord& record, const ComparisonOptions& options) {
  if (const auto* comparison = std::get_if<ComparisonRecord>(&record)) {
    return summary_markdown(*comparison, options);
  }
  return std::visit(
      [](const auto& one) -> std::string {
        if constexpr (std::is_base_of_v<ResultRecord, std::decay_t<decltype(one)>>) {
          return write_markdown_summary(render_report(one));
        } else {
          return {};
        }
      },
      record);
}

}  // namespace shardlab::reports

// The sources of the figures of a run: its topology, its stacks and the rows measured for them, and
// its suites or its program.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/live_stacks.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace provenance_section {

using namespace reports;

// Whether a stack's figures come from measured times: fitted to them by `calibrate`, or timed by
// `measure` itself.
bool is_measured(const std::string& source) {
  return source.starts_with("fitted:") || source.starts_with("record:");
}

std::int64_t measured_rows(const nlohmann::json& stack) {
  std::int64_t rows = 0;
  for (const char* model : {"collective_model", "compute_model"}) {
    if (!stack.contains(model) || !stack[model].is_object()) continue;
    const nlohmann::json& own = stack[model];
    if (own.contains("rows") && own["rows"].is_array()) {
      rows += static_cast<std::int64_t>(own["rows"].size());
    }
  }
  return rows;
}

SectionContent render(const RunHeader& header) {
  const RunConfiguration& configuration = header.configuration;
  Table table;
  table.caption = "Sources";
  table.columns = {{"of", ColumnKind::kText},
                   {"name", ColumnKind::kName},
                   {"measured or fitted rows", ColumnKind::kCount},
                   {"source", ColumnKind::kText}};
  const auto add = [&](const char* what, const std::string& name, Cell rows,
                       const std::string& source) {
    table.rows.push_back(
        {Cell(what), Cell(name), std::move(rows), Cell(source.empty() ? "none is named" : source)});
  };
  if (configuration.topology.contains("name")) {
    add("topology", text_of(configuration.topology, "name"), Cell(),
        text_of(configuration.topology, "source"));
  }
  std::vector<std::string> fitted;
  for (const nlohmann::json& stack : configuration.stacks) {
    const std::string name = text_of(stack, "name");
    const std::int64_t rows = measured_rows(stack);
    const std::string source = text_of(stack, "source");
    if (rows > 0 || is_measured(source)) fitted.push_back(code(name));
    add("stack", name, rows > 0 ? Cell(rows) : Cell(), source);
  }
  for (const nlohmann::json& live : live_stacks(header)) {
    add("live stack", text_of(live, "stack"), Cell(), live_stack_text(live));
  }
  for (const SuiteSource& suite : configuration.suites) {
    add("suite", suite.name, Cell(), suite.source);
  }
  if (configuration.program) {
    add("program", configuration.program->name, Cell(), configuration.program->source);
  }
  SectionContent content;
  if (!table.rows.empty()) content.blocks.emplace_back(std::move(table));
  const std::string formulas =
      is_measured(text_of(configuration.topology, "source"))
          ? "from formulas and the figures of the topology, which were measured."
          : "from formulas and the figures of the topology.";
  content.answer = fitted.empty()
                       ? "No price of this run rests on a measured row: all follow " + formulas
                       : "The prices of " + listed(fitted) +
                             " are fitted to measured rows, and carried over to groups and sizes "
                             "that were not measured; all others follow " +
                             formulas;
  for (const std::string& note : live_stack_notes(header)) content.answer += " " + note + ".";
  return content;
}

}  // namespace provenance_section

REPORT_SECTION(provenance){
    .id = "provenance",
    .title = "Where the figures are from",
    .question = "Which figures were measured, and who says so?",
    .order = 85,
    .render = provenance_section::render,
};

}  // namespace shardlab

// The sources of the figures of a run: its topology, its stacks and the rows measured for them, and
// its suites or its program.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace provenance_section {

using namespace reports;

std::string text_of(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return {};
  return object[key].get<std::string>();
}

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

std::string joined(const nlohmann::json& texts) {
  std::string out;
  for (const nlohmann::json& text : texts) {
    out += (out.empty() ? "" : ", ") + text.get<std::string>();
  }
  return out;
}

// What a live PyTorch was asked for, and how a sample of the answers was checked.
std::string text_of_live(const nlohmann::json& live) {
  std::string text = text_of(live, "version").empty() ? "Python " + text_of(live, "python_version")
                                                      : "PyTorch " + text_of(live, "version");
  const nlohmann::json& changed = live.at("changed");
  for (const char* kind : {"prices", "others"}) {
    if (!changed.at(kind).empty()) text += "; its own " + joined(changed.at(kind));
  }
  if (!live.contains("levels")) return text;
  const nlohmann::json& levels = live.at("levels");
  text += "; asked for rows of " + levels.at("rows").dump() + " ops, candidates of " +
          levels.at("candidates").dump() + ", whole decisions of " + levels.at("decisions").dump();
  const nlohmann::json& verified = live.at("verified");
  if (verified.at("asked") != 0) {
    text += "; " + verified.at("equal").dump() + " of " + verified.at("asked").dump() +
            " whole decisions asked as a check are equal";
  }
  return text;
}

// The stacks that Python code answers: one object, or a list of them.
std::vector<nlohmann::json> live_stacks(const RunHeader& header) {
  if (!header.provenance || !header.provenance->contains("torch")) return {};
  const nlohmann::json& torch = header.provenance->at("torch");
  if (torch.is_array()) return torch.get<std::vector<nlohmann::json>>();
  return {torch};
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
    add("live stack", text_of(live, "stack"), Cell(), text_of_live(live));
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
                             " rest on measured rows; all others follow " + formulas;
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

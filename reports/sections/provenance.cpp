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

// A member of an object of the provenance, which a record keeps as it finds it; null if there is
// none.
const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}

std::int64_t count_of(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = member(object, key);
  return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

std::string joined(const nlohmann::json& texts) {
  std::string out;
  if (!texts.is_array()) return out;
  for (const nlohmann::json& text : texts) {
    if (text.is_string()) out += (out.empty() ? "" : ", ") + text.get<std::string>();
  }
  return out;
}

// What a live PyTorch was asked for, and how a sample of the answers was checked.
std::string text_of_live(const nlohmann::json& live) {
  std::string text = "another program";
  if (!text_of(live, "version").empty()) {
    text = "PyTorch " + text_of(live, "version");
  } else if (!text_of(live, "python_version").empty()) {
    text = "Python " + text_of(live, "python_version");
  }
  for (const char* kind : {"prices", "others"}) {
    const std::string changed = joined(member(member(live, "changed"), kind));
    if (!changed.empty()) text += "; its own " + changed;
  }
  if (const nlohmann::json& ignored = member(live, "ignored_registrations"); !ignored.empty()) {
    const std::size_t count = ignored.size();
    text += "; PyTorch ignores what is registered for " + std::to_string(count) +
            (count == 1 ? " op" : " ops");
  }
  const nlohmann::json& levels = member(live, "levels");
  if (!levels.is_object()) return text;
  if (const std::int64_t recorded = count_of(levels, "recorded"); recorded > 0) {
    return text + "; recorded choices of " + std::to_string(recorded) + " ops";
  }
  text += "; asked for rows of " + std::to_string(count_of(levels, "rows")) +
          " ops, candidates of " + std::to_string(count_of(levels, "candidates")) +
          ", whole decisions of " + std::to_string(count_of(levels, "decisions"));
  const nlohmann::json& verified = member(live, "verified");
  if (const std::int64_t asked = count_of(verified, "asked"); asked > 0) {
    text += "; " + std::to_string(count_of(verified, "equal")) + " of " + std::to_string(asked) +
            " whole decisions asked as a check are equal";
  }
  return text;
}

// The stacks that Python code or a file of choices answers: one object, or a list of them.
std::vector<nlohmann::json> live_stacks(const RunHeader& header) {
  if (!header.provenance) return {};
  const nlohmann::json& torch = member(*header.provenance, "torch");
  if (torch.is_array()) return torch.get<std::vector<nlohmann::json>>();
  if (torch.is_object()) return {torch};
  return {};
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
                             " are fitted to measured rows, and carried over to groups and sizes "
                             "that were not measured; all others follow " +
                             formulas;
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

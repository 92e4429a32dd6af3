// What ran: versions, command, effective configuration, and the settings in which the stacks
// differ.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace configuration_section {

using namespace reports;

using Leaves = std::map<std::string, std::string>;

// Maps the path of every leaf of a stack, as --set writes it, to its value:
// "collective_model.params.latency_us" to "3.0". Empty objects and arrays have no leaves.
void collect_leaves(const nlohmann::json& value, const std::string& path, Leaves& leaves) {
  if (value.is_structured()) {
    for (const auto& item : value.items()) {
      collect_leaves(item.value(), path.empty() ? item.key() : path + "." + item.key(), leaves);
    }
    return;
  }
  leaves[path] = value.is_string()
                     ? value.get<std::string>()
                     : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Leaves leaves_of(const nlohmann::json& stack) {
  Leaves leaves;
  collect_leaves(stack, "", leaves);
  leaves.erase("name");
  return leaves;
}

// Orders the keys: first those that identify a stack, then those that `is_first` picks, then the
// rest.
template <class IsFirst>
std::vector<std::string> in_reading_order(const std::set<std::string>& paths,
                                          const IsFirst& is_first) {
  const auto place = [&](const std::string& path) {
    if (path == "title") return 0;
    if (path == "source") return 1;
    return is_first(path) ? 2 : 3;
  };
  std::vector<std::string> ordered(paths.begin(), paths.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const std::string& left, const std::string& right) {
                     return place(left) < place(right);
                   });
  return ordered;
}

// A column for each stack, and only the rows in which at least two stacks differ. If there are more
// stacks than columns in a table, there are several tables, and each begins with the first stack.
std::vector<Table> difference_tables(const std::vector<nlohmann::json>& stacks) {
  std::vector<Leaves> all;
  std::set<std::string> paths;
  for (const nlohmann::json& stack : stacks) {
    all.push_back(leaves_of(stack));
    for (const auto& [path, value] : all.back()) paths.insert(path);
  }
  const auto at = [&](std::size_t stack, const std::string& path) {
    const auto found = all[stack].find(path);
    return found == all[stack].end() ? std::string() : found->second;
  };
  std::vector<Table> tables;
  const std::size_t others_per_table = kMaxColumns - 2;
  for (std::size_t first = 1; first < stacks.size(); first += others_per_table) {
    std::vector<std::size_t> shown = {0};
    for (std::size_t i = first; i < std::min(first + others_per_table, stacks.size()); ++i) {
      shown.push_back(i);
    }
    Table table;
    table.caption = "What the stacks differ in";
    table.columns = {{"setting", ColumnKind::kName}};
    for (const std::size_t stack : shown) {
      table.columns.push_back({stacks[stack]["name"].get<std::string>(), ColumnKind::kCode});
    }
    // What the first candidate changes comes before what a reference with measured rows has.
    const auto is_changed = [&](const std::string& path) { return at(1, path) != at(0, path); };
    for (const std::string& path : in_reading_order(paths, is_changed)) {
      const bool differs = std::any_of(shown.begin(), shown.end(), [&](std::size_t stack) {
        return at(stack, path) != at(0, path);
      });
      if (!differs) continue;
      Row row = {Cell(path)};
      for (const std::size_t stack : shown) {
        const std::string text = at(stack, path);
        row.push_back(text.empty() ? Cell() : Cell(text));
      }
      table.rows.push_back(std::move(row));
    }
    if (!table.rows.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

std::string command_line(const RunContext& context) {
  std::string text;
  for (const std::string& word : context.command_line) {
    const bool is_plain =
        !word.empty() && word.find_first_of(" \t\n\"'\\$`()<>|&;*?") == std::string::npos;
    std::string quoted = word;
    if (!is_plain) {
      quoted = "'";
      for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      quoted += "'";
    }
    text += (text.empty() ? "" : " ") + quoted;
  }
  return text;
}

Table versions_table(const RunHeader& record) {
  const RunContext& context = record.context;
  Table table;
  table.caption = "Versions";
  table.columns = {{"what", ColumnKind::kText}, {"value", ColumnKind::kText}};
  table.rows = {{Cell("shardlab"), Cell(context.shardlab_version)},
                {Cell("commit"), Cell(context.commit)},
                {Cell("compiler"), Cell(context.compiler)},
                {Cell("build type"), Cell(context.build_type)},
                {Cell("seed"), Cell(std::to_string(context.seed))}};
  if (record.configuration.topology.contains("name") &&
      record.configuration.topology["name"].is_string()) {
    table.rows.push_back(
        {Cell("topology"), Cell(code(record.configuration.topology["name"].get<std::string>()))});
  }
  for (const std::string& setting : record.configuration.overrides) {
    table.rows.push_back({Cell("override"), Cell(code(setting))});
  }
  if (record.timing) {
    if (record.timing->started_utc) {
      table.rows.push_back({Cell("started, UTC"), Cell(*record.timing->started_utc)});
    }
    for (const auto& [name, ms] : record.timing->ms) {
      table.rows.push_back(
          {Cell(name.substr(0, name.size() - 3) + " time, ms"), Cell(fixed(ms, 1))});
    }
  }
  return table;
}

Table suites_table(const RunHeader& record) {
  Table table;
  table.caption = "Suites";
  table.columns = {{"suite", ColumnKind::kCode},
                   {"questions", ColumnKind::kCount},
                   {"source", ColumnKind::kText}};
  for (const SuiteSource& suite : record.configuration.suites) {
    table.rows.push_back({Cell(suite.name), Cell(suite.questions), Cell(suite.source)});
  }
  return table;
}

Table program_table(const ProgramSource& program) {
  Table table;
  table.caption = "Program";
  table.columns = {
      {"program", ColumnKind::kCode}, {"nodes", ColumnKind::kCount}, {"source", ColumnKind::kText}};
  table.rows = {{Cell(program.name), Cell(program.nodes), Cell(program.source)}};
  return table;
}

std::string pretty(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

SectionContent render(const RunHeader& record) {
  const RunConfiguration& configuration = record.configuration;
  SectionContent content;
  for (Table& table : difference_tables(configuration.stacks)) {
    content.blocks.emplace_back(std::move(table));
  }
  content.blocks.emplace_back(versions_table(record));
  if (!configuration.suites.empty()) content.blocks.emplace_back(suites_table(record));
  if (configuration.program) content.blocks.emplace_back(program_table(*configuration.program));
  content.blocks.emplace_back(Listing{"Command line", command_line(record.context)});
  for (const nlohmann::json& stack : configuration.stacks) {
    content.blocks.emplace_back(
        Listing{"Stack " + stack["name"].get<std::string>(), pretty(stack)});
  }
  content.blocks.emplace_back(Listing{"Topology", pretty(configuration.topology)});
  content.answer = "shardlab " + record.context.shardlab_version + " at commit " +
                   code(record.context.commit) + ", seed " + std::to_string(record.context.seed) +
                   ": the same command writes the same bytes, clock readings aside.";
  return content;
}

}  // namespace configuration_section

REPORT_SECTION(configuration){
    .id = "configuration",
    .title = "Configuration and versions",
    .question = "What exactly ran, and on what?",
    .order = 90,
    .render = configuration_section::render,
};

}  // namespace shardlab

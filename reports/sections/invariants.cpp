// The laws that every price should obey, and where a stack breaks them.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace invariants_section {

using namespace reports;

struct Meaning {
  std::string_view name;
  std::string_view text;
};

constexpr Meaning kMeanings[] = {
    {"monotone", "a price does not fall when bytes grow"},
    {"monotone_bandwidth", "a price does not rise when bandwidth doubles"},
    {"reduce_scatter_le_all_reduce",
     "a reduce_scatter costs no more than the all_reduce it is half of"},
    {"triangle", "going directly costs no more than going by way of a third layout"},
    {"zero_same_layout", "staying in a layout is free"},
};

// "`triangle`: going directly ...; `zero_same_layout`: ...", for the invariants that the record
// has.
std::string meanings(const ComparisonRecord& record) {
  std::string text;
  for (const Meaning& meaning : kMeanings) {
    for (const InvariantResult& invariant : record.invariants) {
      if (invariant.name != meaning.name) continue;
      text += (text.empty() ? "" : "; ") + code(meaning.name) + ": " + std::string(meaning.text);
      break;
    }
  }
  return text;
}

Table invariants_table(const ComparisonRecord& record) {
  Table table;
  table.caption = "Invariants and the worst witness of each";
  table.columns = {{"stack", ColumnKind::kName},
                   {"invariant", ColumnKind::kName},
                   {"verdict", ColumnKind::kVerdict},
                   {"checked", ColumnKind::kCount},
                   {"violated", ColumnKind::kCount},
                   {"worst by, us", ColumnKind::kNumber, 2},
                   {"worst by, %", ColumnKind::kNumber, 1},
                   {"worst witness", ColumnKind::kText}};
  for (const InvariantResult& invariant : record.invariants) {
    Row row = {Cell(invariant.stack), Cell(invariant.name),
               Cell(invariant.violated > 0 ? "broken" : "holds"), Cell(invariant.checked),
               Cell(invariant.violated)};
    if (invariant.worst) {
      row.emplace_back(invariant.worst->amount_us);
      row.emplace_back(invariant.worst->amount_percent);
      row.emplace_back(invariant.worst->witness);
    } else {
      row.resize(table.columns.size());
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string answer(const ComparisonRecord& record) {
  std::vector<std::string> parts;
  std::vector<std::string> names = record.stacks;
  for (const InvariantResult& invariant : record.invariants) {
    // The reference may be checked although it is not among the compared stacks.
    if (std::find(names.begin(), names.end(), invariant.stack) == names.end())
      names.push_back(invariant.stack);
  }
  bool is_any_broken = false;
  for (const std::string& name : names) {
    std::int64_t checked = 0;
    std::vector<std::string> broken;
    for (const InvariantResult& invariant : record.invariants) {
      if (invariant.stack != name) continue;
      ++checked;
      if (invariant.violated > 0) broken.push_back(code(invariant.name));
    }
    if (checked == 0) continue;
    is_any_broken = is_any_broken || !broken.empty();
    parts.push_back(code(name) + (broken.empty() ? " breaks none" : " breaks " + listed(broken)));
  }
  if (parts.empty()) return "Nothing was checked.";
  if (!is_any_broken) return "None: every invariant held wherever it was checked.";
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text + ".";
}

SectionContent render(const ComparisonRecord& record, const Comparison&) {
  SectionContent content;
  if (!record.invariants.empty()) {
    const std::string text = meanings(record);
    if (!text.empty()) content.blocks.emplace_back(Paragraph{text + "."});
    content.blocks.emplace_back(invariants_table(record));
  }
  content.answer = answer(record);
  return content;
}

}  // namespace invariants_section

REPORT_SECTION(invariants){
    .id = "invariants",
    .title = "Invariants",
    .question = "Which laws of prices does each stack break, and where worst?",
    .order = 60,
    .render = invariants_section::render,
};

}  // namespace shardlab

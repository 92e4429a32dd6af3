// The redistributions of a solved program's plan. Equal ones share a row.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace moves_section {

using namespace reports;

struct Group {
  std::string tensor, from, to, phase;
  std::int64_t moves = 0;
  double us = 0.0;
  std::string dearest = {};  // the node that pays most
  double dearest_us = 0.0;
};

// Groups equal redistributions; the group that costs most comes first.
std::vector<Group> groups_of(const SolutionRecord& record) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t> places;
  std::vector<Group> groups;
  for (const SolvedNode& node : record.assignment) {
    for (const SolvedMove& move : node.moves) {
      if (move.us <= 0.0) continue;
      const auto [it, is_new] =
          places.try_emplace({move.tensor, move.from, move.to, node.phase}, groups.size());
      if (is_new) groups.push_back({move.tensor, move.from, move.to, node.phase});
      Group& group = groups[it->second];
      ++group.moves;
      group.us += move.us;
      if (move.us > group.dearest_us) {
        group.dearest = node.node;
        group.dearest_us = move.us;
      }
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.us > b.us; });
  return groups;
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  const std::vector<Group> groups = groups_of(record);
  if (groups.empty()) {
    // Older records hold only the costs of moves, not the moves themselves.
    const bool is_still =
        std::none_of(record.assignment.begin(), record.assignment.end(),
                     [](const SolvedNode& node) { return node.moves_us() > 0.0; });
    if (is_still && !record.assignment.empty()) content.answer = "Nothing moves.";
    return content;
  }
  double all_us = 0.0;
  std::int64_t moves = 0;
  for (const Group& group : groups) {
    all_us += group.us;
    moves += group.moves;
  }
  Table table;
  table.caption = "Redistributions, equal ones together";
  table.columns = {{"tensor", ColumnKind::kCode},
                   {"from", ColumnKind::kCode},
                   {"to", ColumnKind::kCode},
                   {"pass", ColumnKind::kText},
                   {"moves", ColumnKind::kCount},
                   {"us", ColumnKind::kNumber, 3},
                   {"of all, %", ColumnKind::kNumber, 1},
                   {"dearest for", ColumnKind::kCode}};
  for (const Group& group : groups) {
    table.rows.push_back({Cell(group.tensor), Cell(group.from), Cell(group.to), Cell(group.phase),
                          Cell(group.moves), Cell(group.us), Cell(100.0 * group.us / all_us),
                          Cell(group.dearest)});
  }
  content.blocks.emplace_back(std::move(table));
  const Group& most = groups.front();
  content.answer = counted(moves, "redistribution costs ", "redistributions cost ") +
                   duration_text(all_us) + "; the largest part, " + percent(most.us / all_us) +
                   ", is " + code(most.tensor) + " from " + code(most.from) + " to " +
                   code(most.to) + " in the " + most.phase + " pass.";
  return content;
}

}  // namespace moves_section

REPORT_SECTION(moves){
    .id = "moves",
    .title = "What moves",
    .question = "Which redistributions does the plan pay for?",
    .order = 16,
    .render = moves_section::render,
};

}  // namespace shardlab

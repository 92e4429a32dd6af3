// The plan of a walk that chooses node by node without looking ahead, compared with the best plan.
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace greedy_section {

using namespace reports;

Table costs_table(const SolutionRecord& record, const GreedyPlan& greedy) {
  Table table;
  table.caption = "The best plan and the walk";
  table.columns = {{"plan", ColumnKind::kText},
                   {"total, us", ColumnKind::kNumber, 3},
                   {"kernels, us", ColumnKind::kNumber, 3},
                   {"communication, us", ColumnKind::kNumber, 3},
                   {"transitions, us", ColumnKind::kNumber, 3}};
  const auto add = [&](const char* name, const std::optional<double>& total,
                       const std::optional<SolutionBreakdown>& parts) {
    const SolutionBreakdown us = parts.value_or(SolutionBreakdown{});
    table.rows.push_back({Cell(name), Cell(total), Cell(us.compute_us), Cell(us.communication_us),
                          Cell(us.transition_us)});
  };
  add("best", record.objective_us, record.breakdown);
  add("greedy", greedy.objective_us, greedy.breakdown);
  return table;
}

Table regret_table(const GreedyPlan& greedy) {
  Table table;
  table.caption = "The choices that the walk regrets most";
  table.columns = {{"node", ColumnKind::kCode},
                   {"op", ColumnKind::kCode},
                   {"took", ColumnKind::kCode},
                   {"better", ColumnKind::kCode},
                   {"better is dearer at the node by, us", ColumnKind::kNumber, 3},
                   {"and cheaper later by, us", ColumnKind::kNumber, 3},
                   {"regret, us", ColumnKind::kNumber, 3}};
  for (const RegrettedChoice& choice : greedy.choices) {
    Row row;
    if (choice.choice) {
      const RegrettedNode& one = *choice.choice;
      row = {Cell(choice.node),   Cell(one.op),         Cell(one.chosen),      Cell(one.instead),
             one.dearer_there_us, one.cheaper_later_us, Cell(choice.regret_us)};
    } else {
      row = {Cell(choice.node + " to " + choice.to_node),
             Cell(),
             Cell(),
             Cell(),
             Cell(),
             Cell(),
             Cell(choice.regret_us)};
    }
    table.rows.push_back(std::move(row));
  }
  if (greedy.other_regret_us) {
    table.rows.push_back({Cell("all others"), Cell(), Cell(), Cell(), Cell(), Cell(),
                          Cell(*greedy.other_regret_us)});
  }
  return table;
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  if (!record.answers.greedy) return content;
  const GreedyPlan& greedy = *record.answers.greedy;
  if (!greedy.objective_us) {
    content.answer = "The walk is stuck at " + code(greedy.stuck_at) +
                     ", where the constraints leave nothing to take.";
    return content;
  }
  content.blocks.emplace_back(Paragraph{
      "At each node the walk takes what is cheapest there, as DTensor does at run time. It starts "
      "from the layouts that the best plan gives to parameters and inputs."});
  content.blocks.emplace_back(costs_table(record, greedy));
  if (!greedy.choices.empty()) content.blocks.emplace_back(regret_table(greedy));
  content.answer = "Without looking ahead the program takes " + duration_text(*greedy.objective_us);
  if (greedy.gap_percent) {
    content.answer += ", " + fixed(*greedy.gap_percent, 2) + " % above the best plan";
  }
  content.answer += ".";
  return content;
}

}  // namespace greedy_section

REPORT_SECTION(greedy){
    .id = "greedy",
    .title = "Without looking ahead",
    .question = "What does choosing node by node lose?",
    .order = 28,
    .render = greedy_section::render,
};

}  // namespace shardlab

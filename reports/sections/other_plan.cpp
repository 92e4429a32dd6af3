// Another plan compared with the best one: what it costs, and where it differs.
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace other_plan_section {

using namespace reports;

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  if (!record.answers.diff) return content;
  const OtherPlan& plan = *record.answers.diff;
  if (!plan.nodes.empty()) {
    Table table;
    table.caption = "Nodes that differ";
    table.columns = {
        {"node", ColumnKind::kCode}, {"here", ColumnKind::kCode}, {"there", ColumnKind::kCode}};
    for (const LayoutChange& change : plan.nodes) {
      table.rows.push_back({Cell(change.what), Cell(change.from), Cell(change.to)});
    }
    content.blocks.emplace_back(std::move(table));
  }
  content.answer = "The plan of " + code(plan.file) + " differs in " +
                   counted(static_cast<std::int64_t>(plan.nodes.size()), "node", "nodes");
  if (!plan.objective_us) {
    content.answer += " and breaks a constraint.";
    return content;
  }
  content.answer += " and takes " + duration_text(*plan.objective_us) + ", " +
                    fixed(plan.gap_us.value_or(0.0), 3) + " us";
  if (plan.gap_percent) content.answer += " (" + fixed(*plan.gap_percent, 2) + " %)";
  content.answer += " above the best.";
  return content;
}

}  // namespace other_plan_section

REPORT_SECTION(other_plan){
    .id = "other_plan",
    .title = "Another plan",
    .question = "How much worse is the other plan, and where does it differ?",
    .order = 25,
    .render = other_plan_section::render,
};

}  // namespace shardlab

// The best few plans.
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace further_plans_section {

using namespace reports;

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  const std::vector<FurtherPlan>& plans = record.answers.best;
  if (plans.size() < 2) return content;
  Table table;
  table.caption = "The best plans";
  table.columns = {{"rank", ColumnKind::kCount},
                   {"objective, us", ColumnKind::kNumber, 3},
                   {"above the best, us", ColumnKind::kNumber, 3},
                   {"what differs from the best", ColumnKind::kText}};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    table.rows.push_back({Cell(static_cast<std::int64_t>(i) + 1), Cell(plans[i].objective_us),
                          Cell(plans[i].objective_us - plans.front().objective_us),
                          plans[i].changes.empty() ? Cell() : Cell(plans[i].changes)});
  }
  content.blocks.emplace_back(std::move(table));
  content.answer = "The plan of rank " + grouped(static_cast<std::int64_t>(plans.size())) + " is " +
                   fixed(plans.back().objective_us - plans.front().objective_us, 3) +
                   " us above the best.";
  return content;
}

}  // namespace further_plans_section

REPORT_SECTION(further_plans){
    .id = "further_plans",
    .title = "The next best plans",
    .question = "Which other plans come close?",
    .order = 26,
    .render = further_plans_section::render,
};

}  // namespace shardlab

// The steps of a planned redistribution with the parts of their prices.
#include <algorithm>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace planned_steps_section {

using namespace reports;

Table steps_table(const PlanRecord& plan) {
  Table table;
  table.caption = "Steps, in the order in which they run.";
  table.columns = {{"step", ColumnKind::kCount},
                   {"collective", ColumnKind::kText},
                   {"change", ColumnKind::kCode},
                   {"buffer", ColumnKind::kBytes},
                   {"moved", ColumnKind::kBytes},
                   {"us", ColumnKind::kNumber, 3},
                   {"latency, us", ColumnKind::kNumber, 3},
                   {"transfer, us", ColumnKind::kNumber, 3}};
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const PlannedStep& step = plan.steps[i];
    const PlannedMove& move = plan.drawing.moves[i];
    Row row;
    row.emplace_back(static_cast<std::int64_t>(i + 1));
    row.emplace_back(step.collective, "along " + move.along);
    row.emplace_back(step.from + " -> " + step.to);
    row.emplace_back(step.full_bytes);
    row.push_back(move.bytes_moved ? Cell(*move.bytes_moved) : Cell());
    row.emplace_back(step.price_us);
    row.emplace_back(step.parts.latency_us);
    row.emplace_back(step.parts.transfer_us);
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table weighed_table(const PlanRecord& plan) {
  Table table;
  table.caption = "Ways to run the collectives that the model weighed, the cheapest first.";
  table.columns = {{"step", ColumnKind::kCount},
                   {"algorithm", ColumnKind::kText},
                   {"protocol", ColumnKind::kText},
                   {"us", ColumnKind::kNumber, 3}};
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (const PlannedAlternative& way : plan.steps[i].alternatives) {
      table.rows.push_back({Cell(static_cast<std::int64_t>(i + 1)), Cell(way.algorithm),
                            Cell(way.protocol), Cell(way.price_us)});
    }
  }
  return table;
}

SectionContent render(const PlanRecord& plan) {
  SectionContent content;
  if (plan.steps.empty() || plan.has_no_plan()) return content;
  content.blocks.emplace_back(Paragraph{
      "The buffer is the larger one of the two that a rank has in the collective; moved is "
      "what all devices send in sum."});
  Table table = steps_table(plan);
  table.leads = true;
  content.blocks.emplace_back(std::move(table));
  if (plan.basis && !plan.basis->not_measured.empty()) {
    content.blocks.emplace_back(
        Paragraph{"Prices are carried over from measured groups or sizes, because these were not "
                  "measured: " +
                  listed(plan.basis->not_measured) + "."});
  }
  Table weighed = weighed_table(plan);
  if (!weighed.rows.empty()) content.blocks.emplace_back(std::move(weighed));
  const auto dearest = std::max_element(
      plan.steps.begin(), plan.steps.end(), [](const PlannedStep& a, const PlannedStep& b) {
        return a.price_us.value_or(0.0) < b.price_us.value_or(0.0);
      });
  double sum = 0.0;
  for (const PlannedStep& step : plan.steps) sum += step.price_us.value_or(0.0);
  const double most = dearest->price_us.value_or(0.0);
  content.answer =
      sum > 0.0 ? "Step " + std::to_string(dearest - plan.steps.begin() + 1) + ", " +
                      code(dearest->collective + " " + dearest->from + " -> " + dearest->to) +
                      ", takes " + (plan.steps.size() > 1 ? "most: " : "") + duration_text(most) +
                      (plan.steps.size() > 1 ? ", " + percent(most / sum) + " of the time." : ".")
                : "No step takes time.";
  return content;
}

}  // namespace planned_steps_section

REPORT_SECTION(planned_steps){
    .id = "planned_steps",
    .title = "Steps",
    .question = "What does each step cost?",
    .order = 7,
    .render = planned_steps_section::render,
};

}  // namespace shardlab

// What the best plan costs when a device may keep less and less of the parameters.
#include <string>

#include "reports/change_text.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace budget_curve_section {

using namespace reports;

Chart chart_of(const BudgetCurveAnswer& bytes) {
  Chart chart;
  chart.id = "budget-curve";
  chart.title = "Objective against bytes that a device keeps";
  chart.kind = ChartKind::kSteps;
  chart.x_title = "bytes kept";
  chart.y_title = "objective, us";
  chart.is_tabulated = true;
  Series series{"best plan", {}};
  for (auto point = bytes.points.rbegin(); point != bytes.points.rend(); ++point) {
    chart.x.push_back(point->kept_bytes);
    series.values.emplace_back(point->objective_us);
  }
  chart.series.push_back(std::move(series));
  return chart;
}

Table table_of(const BudgetCurveAnswer& curve, std::string caption, const Column& kept) {
  Table table;
  table.caption = std::move(caption);
  table.columns = {kept,
                   {"bytes kept", ColumnKind::kCount},
                   {"objective, us", ColumnKind::kNumber, 3},
                   {"found by", ColumnKind::kText},
                   {"what changes", ColumnKind::kText}};
  const bool is_bytes = kept.kind == ColumnKind::kCount;
  if (is_bytes) table.columns.erase(table.columns.begin());
  for (const BudgetPoint& point : curve.points) {
    Row row;
    if (!is_bytes) row.emplace_back(point.kept);
    row.insert(row.end(), {Cell(point.kept_bytes), Cell(point.objective_us),
                           Cell(point.found_by, point.is_next_known ? "" : "more may lie below"),
                           point.changes.empty() ? Cell() : Cell(change_text(point.changes))});
    table.rows.push_back(std::move(row));
  }
  return table;
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  if (!record.answers.budget_curves) return content;
  const BudgetCurveAnswer& bytes = record.answers.budget_curves->bytes;
  const BudgetCurveAnswer& fractions = record.answers.budget_curves->fractions;
  content.blocks.emplace_back(Paragraph{
      "What a device keeps are parameters, their gradients and Adam's state. Points of the hull "
      "are optima if a kept byte has a certain price; the points between them are found by search. "
      "A point's plan is the best for all budgets from its own bytes up to those of the row "
      "above."});
  if (bytes.given_up || fractions.given_up) {
    content.blocks.emplace_back(
        Paragraph{"Searches between corners of the hull took too long: other optima may lie "
                  "between points."});
  }
  if (bytes.points.size() > 1) content.blocks.emplace_back(Charts{{chart_of(bytes)}});
  content.blocks.emplace_back(
      table_of(bytes, "By bytes of a device", {"bytes kept", ColumnKind::kCount}));
  content.blocks.emplace_back(table_of(
      fractions,
      "By kept fractions, summed over " + counted(fractions.parameters, "parameter", "parameters"),
      {"fractions kept", ColumnKind::kNumber, 6}));
  if (bytes.points.empty()) {
    content.answer = "There is no point.";
    return content;
  }
  const BudgetPoint& most = bytes.points.front();
  const BudgetPoint& least = bytes.points.back();
  content.answer = "From " + bytes_text(most.kept_bytes) + " kept down to " +
                   bytes_text(least.kept_bytes) + " the best plan grows from " +
                   duration_text(most.objective_us) + " to " + duration_text(least.objective_us) +
                   ".";
  return content;
}

}  // namespace budget_curve_section

REPORT_SECTION(budget_curve){
    .id = "budget_curve",
    .title = "Cost against memory",
    .question = "What does it cost to keep less on each device?",
    .order = 32,
    .render = budget_curve_section::render,
};

}  // namespace shardlab

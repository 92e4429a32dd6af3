// How the plans of other stacks and planners differ from the one that was asked for.
#include <cmath>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace planned_against_section {

using namespace reports;

std::string steps_text(const std::vector<ComparedStep>& steps) {
  std::string text;
  for (const ComparedStep& step : steps) {
    text += (text.empty() ? "" : "\n") + step.collective + " " + step.from + " -> " + step.to;
  }
  return text.empty() ? "no steps" : text;
}

std::vector<ComparedStep> own_steps(const PlanRecord& plan) {
  std::vector<ComparedStep> steps;
  for (const PlannedStep& step : plan.steps) {
    steps.push_back({step.collective, step.from, step.to, step.price_us});
  }
  return steps;
}

Cell bytes_cell(const std::optional<std::int64_t>& bytes) { return bytes ? Cell(*bytes) : Cell(); }

// "takes 323.7 us more (+102.6 %): 2 collectives instead of 3, which move 352 MB instead of 117 MB"
std::string difference(const PlanRecord& plan, const ComparedPlan& other) {
  if (other.has_no_plan()) return "is impossible: " + other.impossible;
  if (!other.here_us || !plan.executed_us) return "cannot be compared: a price is missing";
  if (other.path == plan.path) return "is the same plan";
  const double delta = *other.here_us - *plan.executed_us;
  std::string text = "takes as long";
  if (delta != 0.0) {
    text = "takes " + duration_text(std::abs(delta)) + (delta > 0.0 ? " more" : " less");
    if (*plan.executed_us > 0.0) {
      text += " (" + change_percent(100.0 * delta / *plan.executed_us) + ")";
    }
  }
  text += other.collectives == plan.collectives()
              ? " with as many collectives"
              : " with " + counted(other.collectives, "collective", "collectives") +
                    " instead of " + grouped(plan.collectives());
  const auto own = plan.bytes_moved();
  if (own && other.bytes_moved) {
    const std::string bytes = bytes_text(static_cast<double>(*other.bytes_moved));
    text += *own == *other.bytes_moved
                ? ", which move as much"
                : ", which move " + bytes + " instead of " + bytes_text(static_cast<double>(*own));
  }
  if (!other.unexecutable.empty()) text += "; it cannot run: " + other.unexecutable;
  return text;
}

SectionContent render(const PlanRecord& plan) {
  SectionContent content;
  if (plan.against.empty()) return content;
  content.blocks.emplace_back(Paragraph{"All plans take the same tensor to the same layout. " +
                                        code(plan.stack) +
                                        " prices the steps of each of them, so the times can be "
                                        "compared; the last column has what the "
                                        "other stack itself says."});
  Table table;
  table.caption = "Plans, each priced by " + code(plan.stack) + ".";
  table.columns = {
      {"plan of", ColumnKind::kName},      {"steps", ColumnKind::kCode},
      {"collectives", ColumnKind::kCount}, {"moved", ColumnKind::kBytes},
      {"us", ColumnKind::kNumber, 3},      {"its own price, us", ColumnKind::kNumber, 3}};
  table.rows.push_back({Cell(plan.stack), Cell(steps_text(own_steps(plan))),
                        Cell(plan.collectives()), bytes_cell(plan.bytes_moved()),
                        Cell(plan.executed_us), Cell(plan.price_us)});
  for (const ComparedPlan& other : plan.against) {
    table.rows.push_back({Cell(other.name), Cell(steps_text(other.steps)), Cell(other.collectives),
                          bytes_cell(other.bytes_moved), Cell(other.here_us),
                          Cell(other.price_us)});
    content.answer += (content.answer.empty() ? "" : " ") + std::string("The plan of ") +
                      code(other.name) + " " + difference(plan, other) + ".";
  }
  content.blocks.emplace_back(std::move(table));
  return content;
}

}  // namespace planned_against_section

REPORT_SECTION(planned_against){
    .id = "planned_against",
    .title = "Other plans",
    .question = "How do the plans of other stacks and planners differ?",
    .order = 8,
    .render = planned_against_section::render,
};

}  // namespace shardlab

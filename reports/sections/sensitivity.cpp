// How far each parameter of the stack may change before another plan is better.
#include <cmath>
#include <string>

#include "reports/change_text.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace sensitivity_section {

using namespace reports;

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  if (record.answers.sensitivity.empty()) return content;
  Table table;
  table.caption = "Where the plan changes";
  table.columns = {{"parameter", ColumnKind::kName},
                   {"side", ColumnKind::kText},
                   {"times its value", ColumnKind::kNumber, 4},
                   {"objective there, us", ColumnKind::kNumber, 3},
                   {"nodes that change", ColumnKind::kCount},
                   {"which", ColumnKind::kText}};
  const PlanFlipPoint* nearest = nullptr;
  std::string nearest_parameter;
  const auto add = [&](const ParameterRange& range, const char* side,
                       const std::optional<PlanFlipPoint>& flip) {
    if (!flip) {
      table.rows.push_back({Cell(range.parameter), Cell(side), Cell(), Cell(), Cell(),
                            Cell("no other plan within a factor of 16")});
      return;
    }
    table.rows.push_back(
        {Cell(range.parameter), Cell(side), Cell(flip->factor), Cell(flip->objective_us),
         Cell(static_cast<std::int64_t>(flip->nodes.size())), Cell(change_text(flip->nodes))});
    const auto distance = [](const PlanFlipPoint& point) {
      return std::abs(std::log(point.factor));
    };
    if (nearest == nullptr || distance(*flip) < distance(*nearest)) {
      nearest = &*flip;
      nearest_parameter = range.parameter;
    }
  };
  for (const ParameterRange& range : record.answers.sensitivity) {
    add(range, "below", range.below);
    add(range, "above", range.above);
  }
  content.blocks.emplace_back(std::move(table));
  content.answer =
      nearest == nullptr
          ? std::string("No parameter changes the plan within a factor of 16.")
          : "The plan changes first where " + code(nearest_parameter) + " is " +
                fixed(nearest->factor, 4) + " times its value: it then differs in " +
                counted(static_cast<std::int64_t>(nearest->nodes.size()), "node", "nodes") + ".";
  return content;
}

}  // namespace sensitivity_section

REPORT_SECTION(sensitivity){
    .id = "sensitivity",
    .title = "How firm the plan is",
    .question = "Which parameter changes the plan first?",
    .order = 29,
    .render = sensitivity_section::render,
};

}  // namespace shardlab

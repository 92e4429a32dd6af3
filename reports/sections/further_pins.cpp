// What each of several pins costs when they are added one after the other.
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace further_pins_section {

using namespace reports;

// "7: `x`, `y`, `z` and 4 more".
std::string changed_text(const std::vector<std::string>& nodes) {
  constexpr std::size_t kFew = 3;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < nodes.size() && i < kFew; ++i) parts.push_back(code(nodes[i]));
  if (nodes.size() > kFew) {
    parts.push_back(grouped(static_cast<std::int64_t>(nodes.size() - kFew)) + " more");
  }
  return grouped(static_cast<std::int64_t>(nodes.size())) +
         (parts.empty() ? "" : ": " + listed(parts));
}

std::string answer(const std::vector<FurtherPin>& pins) {
  double dearer_us = 0.0;
  for (const FurtherPin& pin : pins) {
    if (!pin.is_tried || !pin.objective_us) {
      return code(pin.pin) + " can't be heeded: it contradicts " + listed(pin.conflict) + ".";
    }
    dearer_us += pin.dearer_us.value_or(0.0);
  }
  return counted(static_cast<std::int64_t>(pins.size()), "further pin costs", "further pins cost") +
         " " + fixed(dearer_us, 3) + " us.";
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  const std::vector<FurtherPin>& pins = record.answers.then;
  if (pins.empty()) return content;
  Table table;
  table.caption = "Pins, one after the other";
  table.columns = {{"then", ColumnKind::kCode},
                   {"objective, us", ColumnKind::kNumber, 3},
                   {"dearer by, us", ColumnKind::kNumber, 3},
                   {"other strategies", ColumnKind::kText},
                   {"proof", ColumnKind::kText}};
  for (const FurtherPin& pin : pins) {
    std::string proof = pin.optimal ? "optimal" : "not proved";
    if (!pin.objective_us) proof = pin.is_tried ? "can't be" : "not tried";
    table.rows.push_back({Cell(pin.pin), Cell(pin.objective_us), Cell(pin.dearer_us),
                          pin.objective_us ? Cell(changed_text(pin.changed)) : Cell(),
                          Cell(std::move(proof))});
  }
  content.blocks.emplace_back(std::move(table));
  content.answer = answer(pins);
  return content;
}

}  // namespace further_pins_section

REPORT_SECTION(further_pins){
    .id = "further_pins",
    .title = "Further pins",
    .question = "What does it cost to pin more?",
    .order = 27,
    .render = further_pins_section::render,
};

}  // namespace shardlab

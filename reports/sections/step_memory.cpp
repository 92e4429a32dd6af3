// What the memory of a predicted step holds at its peak.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "reports/number_text.h"
#include "reports/section.h"

namespace shardlab {
namespace step_memory_section {

using namespace reports;

SectionContent render(const StepRecord& record) {
  SectionContent content;
  const PredictedMemory& memory = record.memory;
  const std::array<std::pair<std::string, double>, 6> parts = {{
      {"parameters", memory.parts.parameters},
      {"gradients", memory.parts.gradients},
      {"optimizer", memory.parts.optimizer},
      {"activations", memory.parts.activations},
      {"gathered weights", memory.parts.gathered},
      {"temporary", memory.parts.temporary},
  }};
  Table table;
  table.caption = "Memory of one device at the peak";
  table.columns = {{"part", ColumnKind::kText},
                   {"bytes", ColumnKind::kBytes},
                   {"of the peak, %", ColumnKind::kNumber, 1}};
  for (const auto& [name, bytes] : parts) {
    table.rows.push_back(
        {Cell(name), Cell(bytes),
         memory.peak_bytes > 0.0 ? Cell(100.0 * bytes / memory.peak_bytes) : Cell()});
  }
  content.blocks.emplace_back(std::move(table));
  const auto largest = std::max_element(
      parts.begin(), parts.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  content.answer = "The step needs " + bytes_text(memory.peak_bytes) + " of " +
                   bytes_text(memory.device_bytes) + (memory.fits ? "" : ", so it does not fit") +
                   ", with recomputation " + record.recompute + "; the largest part is " +
                   largest->first + " (" + bytes_text(largest->second) + ").";
  return content;
}

}  // namespace step_memory_section

REPORT_SECTION(step_memory){
    .id = "step_memory",
    .title = "Memory",
    .question = "Does the step fit, and what takes the memory?",
    .order = 34,
    .render = step_memory_section::render,
};

}  // namespace shardlab

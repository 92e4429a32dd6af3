// What the change does to the training steps of programs, and which decisions do it.
#include <algorithm>
#include <string>

#include "reports/flattened_table.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace steps_section {

using namespace reports;

// A page shows this many flips of a step; report.json has all of them.
constexpr std::size_t kMostFlips = 20;

Table steps_table(const ComparisonRecord& record) {
  Table table;
  table.caption = "Training steps";
  table.columns = {{"program", ColumnKind::kName},
                   {"candidate", ColumnKind::kName},
                   {"step of the baseline, us", ColumnKind::kNumber, 1},
                   {"step of the candidate, us", ColumnKind::kNumber, 1},
                   {"change, %", ColumnKind::kSigned, 2},
                   {"peak of the baseline", ColumnKind::kBytes},
                   {"peak of the candidate", ColumnKind::kBytes},
                   {"decisions that flip", ColumnKind::kCount}};
  for (const StepComparison& step : record.steps) {
    const double before = step.step_us.baseline;
    table.rows.push_back({Cell(step.program, "on " + step.mesh),
                          Cell(step.candidate, step.cannot_run.empty() ? "" : "cannot run"),
                          Cell(before), Cell(step.step_us.candidate),
                          before > 0.0 && step.step_us.candidate
                              ? Cell(100.0 * (*step.step_us.candidate - before) / before)
                              : Cell(),
                          Cell(step.peak_bytes.baseline), Cell(step.peak_bytes.candidate),
                          Cell(static_cast<std::int64_t>(step.flips.size()))});
  }
  return table;
}

Table flips_table(const StepComparison& step) {
  Table table;
  table.caption =
      "Decisions of " + step.program + " on " + step.mesh + " that flip under " + step.candidate;
  table.columns = {{"step, us", ColumnKind::kSigned, 2},
                   {"peak, MB", ColumnKind::kSigned, 2},
                   {"op", ColumnKind::kName},
                   {"nodes", ColumnKind::kCount},
                   {"inputs", ColumnKind::kCode},
                   {"baseline", ColumnKind::kCode},
                   {"candidate", ColumnKind::kCode}};
  for (std::size_t i = 0; i < std::min(step.flips.size(), kMostFlips); ++i) {
    const StepFlip& flip = step.flips[i];
    std::string inputs;
    for (const std::string& input : flip.inputs) inputs += (inputs.empty() ? "" : ", ") + input;
    table.rows.push_back({Cell(flip.delta_step_us), Cell(flip.delta_peak_bytes / 1e6),
                          Cell(flip.op, flip.node), Cell(flip.count), Cell(inputs),
                          Cell(flip.baseline), Cell(flip.candidate)});
  }
  return table;
}

SectionContent render(const ComparisonRecord& record, const Comparison&) {
  SectionContent content;
  if (record.steps.empty()) return content;
  content.blocks.emplace_back(
      Paragraph{"Each op of a program takes what the stack chooses for it, in the layouts in which "
                "its inputs arrive, as eager DTensor does. The step that follows is simulated on "
                "one rank, whose communication overlaps with kernels; the reference " +
                code(record.reference.name) + " prices kernels and moves."});
  content.blocks.emplace_back(steps_table(record));
  bool has_flips = false;
  for (const StepComparison& step : record.steps) has_flips = has_flips || !step.flips.empty();
  if (has_flips) {
    content.blocks.emplace_back(Paragraph{
        "Below, each flip is taken alone, wherever the program asks the same question, and the "
        "baseline decides everything else. Flips that follow from another flip are not listed, and "
        "the changes need not add up to that of the whole step."});
  }
  for (const StepComparison& step : record.steps) {
    if (!step.flips.empty()) content.blocks.emplace_back(flips_table(step));
  }
  for (const StepComparison& step : record.steps) {
    for (const FlattenedMeshes& advice : step.flattened_meshes) {
      content.blocks.emplace_back(Paragraph{step.program + ": " + flattened_sentence(advice)});
      if (!advice.worth.empty()) content.blocks.emplace_back(flattened_table(advice));
    }
  }
  content.answer = steps_sentence(record);
  return content;
}

}  // namespace steps_section

REPORT_SECTION(steps){
    .id = "steps",
    .title = "Training steps",
    .question = "What does the change cost in a training step?",
    .order = 18,
    .render = steps_section::render,
};

}  // namespace shardlab

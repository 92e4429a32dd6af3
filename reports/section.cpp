#include "reports/section.h"

#include <algorithm>

#include "reports/summary.h"

namespace shardlab::reports {

namespace {

// Renders the sections whose render takes these arguments, and those that take the header of any
// record. A section that has nothing to say is left out.
template <class Function, class... Records>
std::vector<RenderedSection> sections_of(const RunHeader& header, const Records&... records) {
  std::vector<RenderedSection> sections;
  for (const ReportSection* section : all_report_sections()) {
    if (const auto* own = std::get_if<Function>(&section->render)) {
      sections.push_back({section, (*own)(records...)});
    }
    if (const auto* common = std::get_if<SectionContent (*)(const RunHeader&)>(&section->render)) {
      sections.push_back({section, (*common)(header)});
    }
  }
  std::erase_if(sections, [](const RenderedSection& section) {
    return section.content.blocks.empty() && section.content.answer.empty();
  });
  std::sort(sections.begin(), sections.end(),
            [](const RenderedSection& left, const RenderedSection& right) {
              return left.section->order < right.section->order;
            });
  return sections;
}

}  // namespace

RenderedReport render_report(const ComparisonRecord& record, const Comparison& comparison) {
  using Function = SectionContent (*)(const ComparisonRecord&, const Comparison&);
  return {"comparison of stacks", report_title(record), summary_sentence(record, comparison),
          sections_of<Function>(record, record, comparison)};
}

RenderedReport render_report(const TiesRecord& record) {
  return {"audit of ties", "Ties of " + code(record.stack), ties_sentence(record),
          sections_of<SectionContent (*)(const TiesRecord&)>(record, record)};
}

RenderedReport render_report(const ValidationRecord& record) {
  return {"predicted against measured", code(record.stack) + " against measurements",
          validation_sentence(record),
          sections_of<SectionContent (*)(const ValidationRecord&)>(record, record)};
}

RenderedReport render_report(const SolutionRecord& record) {
  return {"plan of a program", code(record.program) + " on " + code(record.mesh),
          solution_sentence(record),
          sections_of<SectionContent (*)(const SolutionRecord&)>(record, record)};
}

RenderedReport render_report(const SimulationRecord& record) {
  return {"simulated run", code(record.what) + " on " + code(record.mesh),
          simulation_sentence(record),
          sections_of<SectionContent (*)(const SimulationRecord&)>(record, record)};
}

RenderedReport render_report(const StepRecord& record) {
  return {"predicted training step", code(record.model) + " on " + code(record.mesh),
          step_sentence(record),
          sections_of<SectionContent (*)(const StepRecord&)>(record, record)};
}

RenderedReport render_report(const PlanRecord& record) {
  return {"plan of a redistribution",
          code(record.from) + " to " + code(record.to) + " on " + code(record.mesh),
          plan_sentence(record),
          sections_of<SectionContent (*)(const PlanRecord&)>(record, record)};
}

}  // namespace shardlab::reports

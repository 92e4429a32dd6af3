// A report section: one file in reports/sections/, found by its name.
//
//   REPORT_SECTION(ties){         // in reports/sections/ties.cpp, inside namespace shardlab
//       .id = "ties",
//       .title = "Ties and order dependence",
//       .question = "Which choices do the prices not decide?",
//       .order = 50,
//       .render = ties_section::render,
//   };
//
// The table of all sections is generated from the folder by cmake/registry.cmake; render_report
// sorts it by `order`, which is the section's place in the report. A section opens with its
// question and ends with its answer; a section without blocks and answer is left out.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reports/comparison.h"
#include "reports/document.h"
#include "reports/records/plan_record.h"
#include "reports/records/record.h"
#include "reports/records/simulation_record.h"
#include "reports/records/solution_record.h"
#include "reports/records/step_record.h"
#include "reports/records/ties_record.h"
#include "reports/records/validation_record.h"

namespace shardlab {

namespace reports {

// The record that a section takes says which reports it stands in; one that takes RunHeader stands
// in all of them.
using Render =
    std::variant<SectionContent (*)(const ComparisonRecord&, const Comparison&),
                 SectionContent (*)(const TiesRecord&), SectionContent (*)(const ValidationRecord&),
                 SectionContent (*)(const SolutionRecord&),
                 SectionContent (*)(const SimulationRecord&), SectionContent (*)(const StepRecord&),
                 SectionContent (*)(const PlanRecord&), SectionContent (*)(const RunHeader&)>;

}  // namespace reports

struct ReportSection {
  std::string_view id;  // the file's name; the anchor of the section
  std::string_view title;
  std::string_view question;
  int order;  // unique, rising through the report
  reports::Render render;
};

// All sections, by the names of their files.
[[nodiscard]] std::span<const ReportSection* const> all_report_sections();

namespace reports {

// A section with what it says of one record.
struct RenderedSection {
  const ReportSection* section = nullptr;
  SectionContent content;
};

// Everything a writer needs: no writer looks into a record.
struct RenderedReport {
  std::string kind;      // "comparison of stacks"
  std::string title;     // "`dtensor-v3` to `dtensor-v4`"
  std::string sentence;  // the answer, which is read first
  std::vector<RenderedSection> sections;
};

[[nodiscard]] RenderedReport render_report(const ComparisonRecord& record,
                                           const Comparison& comparison);
[[nodiscard]] RenderedReport render_report(const TiesRecord& record);
[[nodiscard]] RenderedReport render_report(const ValidationRecord& record);
[[nodiscard]] RenderedReport render_report(const SolutionRecord& record);
[[nodiscard]] RenderedReport render_report(const SimulationRecord& record);
[[nodiscard]] RenderedReport render_report(const StepRecord& record);
[[nodiscard]] RenderedReport render_report(const PlanRecord& record);

}  // namespace reports
}  // namespace shardlab

#define REPORT_SECTION(name)                        \
  extern const ReportSection report_section_##name; \
  constinit const ReportSection report_section_##name

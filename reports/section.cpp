#include "reports/section.h"

#include <algorithm>

#include "reports/summary.h"

namespace shardlab::reports {

RenderedReport render_report(const ComparisonRecord& record, const Comparison& comparison) {
  RenderedReport report;
  report.title = report_title(record);
  report.sentence = summary_sentence(record, comparison);
  for (const ReportSection* section : all_report_sections()) {
    report.sections.push_back({section, section->render(record, comparison)});
  }
  std::sort(report.sections.begin(), report.sections.end(),
            [](const RenderedSection& left, const RenderedSection& right) {
              return left.section->order < right.section->order;
            });
  return report;
}

}  // namespace shardlab::reports

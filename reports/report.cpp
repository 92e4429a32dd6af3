#include "reports/report.h"

#include "reports/comparison.h"
#include "reports/section.h"
#include "reports/summary.h"
#include "reports/writers/html.h"
#include "reports/writers/inline_text.h"
#include "reports/writers/json.h"
#include "reports/writers/markdown.h"

namespace shardlab::reports {

ReportFiles write_report(const ComparisonRecord& record) {
  const Comparison comparison = compare(record);
  const RenderedReport report = render_report(record, comparison);
  return {write_html(report), write_markdown(report), write_json(record, comparison)};
}

std::string report_json(const ComparisonRecord& record) {
  return write_json(record, compare(record));
}

std::string summary_text(const ComparisonRecord& record) {
  return plain_text(summary_sentence(record, compare(record)));
}

std::string summary_markdown(const ComparisonRecord& record) {
  return write_markdown_summary(render_report(record, compare(record)));
}

}  // namespace shardlab::reports

#include "reports/report.h"

#include "reports/section.h"
#include "reports/writers/html.h"
#include "reports/writers/json.h"
#include "reports/writers/markdown.h"

namespace shardlab::reports {

ReportFiles write_report(const ComparisonRecord& record, const ComparisonOptions& options) {
  const Comparison comparison = compare(record, options);
  const RenderedReport report = render_report(record, comparison);
  return {write_html(report), write_markdown(report), write_json(record, comparison)};
}

std::string report_json(const ComparisonRecord& record) {
  return write_json(record, compare(record));
}

ComparisonText summary_text(const ComparisonRecord& record, const ComparisonOptions& options) {
  return comparison_text(record, compare(record, options));
}

std::string summary_markdown(const ComparisonRecord& record, const ComparisonOptions& options) {
  return write_markdown_summary(render_report(record, compare(record, options)));
}

}  // namespace shardlab::reports

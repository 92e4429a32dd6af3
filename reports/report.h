// Writes the report of a comparison for its readers.
//
//   const ReportFiles files = write_report(record);   // report.html, report.md, report.json
//
// The same record gives the same bytes on every machine. Writing them to disk is left to the
// caller.
// Throws ContractError for a record that contradicts itself (check_record). Cost: 20,000
// questions on 2 stacks take about half a second. Tested by tests/unit/reports/report_test.cpp.
#pragma once

#include <string>

#include "reports/comparison.h"
#include "reports/records/record.h"
#include "reports/time_text.h"

namespace shardlab::reports {

struct ReportFiles {
  std::string html;      // one file, no network, below 5 MB
  std::string markdown;  // below 60 KB
  std::string json;      // everything
};

[[nodiscard]] ReportFiles write_report(const ComparisonRecord& record,
                                       const ComparisonOptions& options = {});

// The JSON alone: what `compare --format json` prints.
[[nodiscard]] std::string report_json(const ComparisonRecord& record);

// The sentence, the time and the collectives of each suite, a row per stack and the first flips in
// less than 4 KB of Markdown, for a comment on a pull request.
[[nodiscard]] std::string summary_markdown(const ComparisonRecord& record,
                                           const ComparisonOptions& options = {});

// What `compare` prints: the sentence, the suites and the largest flips.
[[nodiscard]] ComparisonText summary_text(const ComparisonRecord& record,
                                          const ComparisonOptions& options = {});

}  // namespace shardlab::reports

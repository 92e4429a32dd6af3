// Reads a record of any kind and writes its report. Start reading this folder here.
//
//   const RunRecord record = parse_run_record(text, "record.json");
//   const ReportFiles files = write_report(record);      // report.html, report.md, report.json
//
// A comparison has a record of its own (reports/records/record.h). The records of the other
// commands hold the JSON that the command printed under "result", which is checked key by key when
// it is read. A new kind needs a record in a file like reports/records/ties_record.h, an
// alternative below, and sections that take it.
// Tested by tests/unit/reports/run_record_test.cpp.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "reports/records/plan_record.h"
#include "reports/records/record.h"
#include "reports/records/simulation_record.h"
#include "reports/records/solution_record.h"
#include "reports/records/step_record.h"
#include "reports/records/ties_record.h"
#include "reports/records/validation_record.h"
#include "reports/report.h"

namespace shardlab::reports {

using RunRecord = std::variant<ComparisonRecord, TiesRecord, ValidationRecord, SolutionRecord,
                               SimulationRecord, StepRecord, PlanRecord>;

// Throws ConfigError, naming `file` and the JSON pointer or the line, for text that is no record or
// a damaged one.
[[nodiscard]] RunRecord parse_run_record(std::string_view text, std::string_view file);

// Makes the record of what a command printed. Throws ConfigError as the readers do.
[[nodiscard]] RunRecord make_run_record(std::string_view kind, ResultRecord record,
                                        std::string_view file);

[[nodiscard]] std::string run_record_text(const RunRecord& record);

// The options are those of a comparison; the reports of the other records have none.
[[nodiscard]] ReportFiles write_report(const RunRecord& record,
                                       const ComparisonOptions& options = {});
[[nodiscard]] std::string summary_markdown(const RunRecord& record,
                                           const ComparisonOptions& options = {});

}  // namespace shardlab::reports

// Shared by the commands that write reports: --out and --summary, the header of a record, and the
// files report.html, report.md, report.json and record.json. From record.json, `report` can write
// the others again.
//
//   add_report_options(command, session);
//   ...
//   prepare_out(session);                        // before the work: a folder that can't be made
//   write_run(session, {.kind = reports::kTiesKind, .header = header_of(session), .result = json});
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "reports/run_record.h"
#include "runner/session/session.h"

namespace shardlab {

// Adds --out DIR and --summary.
void add_report_options(const Command& command, Session& session);

// Adds --min-share PERCENT, which hides small flips from the pages and texts of a comparison.
void add_min_share_option(const Command& command, reports::ComparisonOptions& options);

// Whether the options ask for a record.
[[nodiscard]] bool writes_report(const Session& session);

// Creates the folder of --out, if there is one. Throws EnvironmentError if that fails, and
// InputError for --summary, whose output is Markdown, together with --format json.
void prepare_out(const Session& session);

// A header with versions, command line, seed and overrides; the caller adds topology, stacks and
// suites.
[[nodiscard]] reports::RunHeader header_of(const Session& session);

// Writes the files into the folder of --out, if there is one, and prints the summary if --summary
// asks for it.
void write_run(const Session& session, const reports::RunRecord& record,
               const reports::ComparisonOptions& options = {});

struct RunResult {
  std::string_view kind;
  reports::RunHeader header;
  // What --format json prints, without timing.
  nlohmann::json result;
  std::optional<double> wall_ms = {};  // left out with --no-timing
};
void write_run(const Session& session, RunResult run);

// "report: DIR/report.html", the last line of a command's text.
[[nodiscard]] std::string report_line(const Session& session);

}  // namespace shardlab

#include "runner/session/run_reports.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <utility>

#include "costmodel/base/parallel.h"
#include "costmodel/base/printable.h"
#include "runner/base/version.h"
#include "runner/base/write_file.h"
#include "runner/session/command.h"

namespace shardlab {
namespace {

// The command line without the options that do not change the answer, so that a record has the same
// bytes for any number of threads and wherever it is written.
std::vector<std::string> what_was_asked(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 5> kWithValue = {"--jobs", "--out", "--format",
                                                          "--min-share", "--max-input"};
  constexpr std::array<std::string_view, 3> kAlone = {"--quiet", "--no-timing", "--summary"};
  std::vector<std::string> asked;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const std::string_view name = word.substr(0, word.find('='));
    if (std::find(kWithValue.begin(), kWithValue.end(), name) != kWithValue.end()) {
      if (name == word) ++i;
    } else if (std::find(kAlone.begin(), kAlone.end(), name) == kAlone.end()) {
      asked.emplace_back(word);
    }
  }
  return asked;
}

}  // namespace

void add_report_options(const Command& command, Session& session) {
  command
      .option("--out", session.out,
              "folder for report.html, report.md, report.json and record.json")
      .check(not_empty());
  command.flag("--summary", session.summary,
               "print a summary in Markdown, below 4 KB, for a pull request's comment");
}

void add_min_share_option(const Command& command, reports::ComparisonOptions& options) {
  command
      .option("--min-share", options.min_share_percent,
              "hide the flips that save or lose less than this share of their suite's time, in "
              "percent; report.json holds every flip")
      .check(number_from(0.0, 100.0))
      .show_default();
}

bool writes_report(const Session& session) { return !session.out.empty() || session.summary; }

void prepare_out(const Session& session) {
  if (session.summary && session.json()) {
    throw InputError("--summary: its result is Markdown; valid: without --format json");
  }
  if (session.out.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(session.out, error);
  if (error) throw EnvironmentError(session.out + ": can't be made: " + error.message());
}

reports::RunHeader header_of(const Session& session) {
  reports::RunHeader header;
  header.context = {.shardlab_version = std::string(version()),
                    .commit = std::string(git_commit()),
                    .compiler = std::string(compiler()),
                    .build_type = std::string(build_type()),
                    .command_line = what_was_asked(session.command_line),
                    .seed = session.seed};
  header.configuration.overrides = session.sets;
  return header;
}

void write_run(const Session& session, const reports::RunRecord& record,
               const reports::ComparisonOptions& options) {
  if (!session.out.empty()) {
    const std::filesystem::path folder = session.out;
    reports::ReportFiles files;
    std::string record_text;
    // A large run's record takes as long to write as its report, so each gets a thread.
    parallel_for(
        2, session.threads(), [] { return std::make_unique<char>(); },
        [&](char&, std::size_t i) {
          if (i == 0) {
            record_text = reports::run_record_text(record);
          } else {
            files = reports::write_report(record, options);
          }
        });
    write_files({{folder / "report.html", files.html},
                 {folder / "report.md", files.markdown},
                 {folder / "report.json", files.json},
                 {folder / "record.json", record_text}});
  }
  if (session.summary) session.print(reports::summary_markdown(record, options));
}

void write_run(const Session& session, RunResult run) {
  if (!writes_report(session)) return;
  reports::ResultRecord record;
  static_cast<reports::RunHeader&>(record) = std::move(run.header);
  if (run.wall_ms && !session.no_timing) {
    record.timing = reports::RunTiming{.started_utc = {}, .ms = {{"wall_ms", *run.wall_ms}}};
  }
  record.provenance = session.provenance();
  record.result = std::move(run.result);
  write_run(session, reports::make_run_record(run.kind, std::move(record), "record.json"));
}

std::string report_line(const Session& session) {
  if (session.out.empty()) return {};
  const std::filesystem::path page = std::filesystem::path(session.out) / "report.html";
  return "report: " + printable(page.string()) + "\n";
}

}  // namespace shardlab

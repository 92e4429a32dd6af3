// shardlab report: writes a report again from the record of a run.
#include <filesystem>
#include <map>

#include "runner/base/read_file.h"
#include "runner/commands/commands.h"
#include "runner/config/read_json.h"
#include "runner/session/run_reports.h"

namespace shardlab {
namespace {

struct ReportArguments {
  std::vector<std::string> records;
  reports::ComparisonOptions shown;
};

// The folder of each record's report. A single record's report goes into the folder of --out
// itself. Several records get one folder each inside it, named after the record's file, or after
// the file's folder if the file is called record.json. No name leads out of that folder.
std::vector<std::string> folders_of(const std::vector<std::string>& records,
                                    const std::string& out) {
  if (records.size() == 1) return {out};
  std::vector<std::string> folders;
  std::map<std::string, std::string> owner;
  for (const std::string& record : records) {
    const std::filesystem::path path = std::filesystem::absolute(record).lexically_normal();
    std::filesystem::path name =
        path.filename() == "record.json" ? path.parent_path().filename() : path.stem();
    // "...json" without its ending is the folder above, and a record in the root has no folder's
    // name.
    if (name.empty() || name == "." || name == "..") name = path.filename();
    const auto [known, is_new] = owner.try_emplace(name.string(), record);
    if (!is_new) {
      throw InputError("report: " + known->second + " and " + record + " would both go to " +
                       (std::filesystem::path(out) / name).string() +
                       "; valid: records of different names, or one at a time");
    }
    folders.push_back((std::filesystem::path(out) / name).string());
  }
  return folders;
}

reports::RunRecord read_record(const std::string& file) {
  const std::string text = read_text_file(file);
  try {
    return reports::parse_run_record(text, file);
  } catch (const ConfigError&) {
    (void)parse_json(text, file);  // this reader says more about broken JSON
    throw;
  }
}

void run_report(const ReportArguments& arguments, Session& session) {
  if (!writes_report(session) && !session.json()) {
    throw InputError(
        "report: found nothing to write; valid: with --out, --summary or --format json");
  }
  if (session.json() && arguments.records.size() > 1) {
    throw InputError("report: --format json prints one document; valid: one record");
  }
  std::vector<std::string> folders(arguments.records.size());
  if (!session.out.empty()) folders = folders_of(arguments.records, session.out);
  // All records are read before any report is written, so that a damaged record does not leave half
  // of the reports behind.
  std::vector<reports::RunRecord> records;
  for (const std::string& file : arguments.records) {
    records.push_back(read_record(file));
    if (arguments.shown.min_share_percent > 0.0 &&
        !std::holds_alternative<reports::ComparisonRecord>(records.back())) {
      throw InputError("report: --min-share hides flips, and " + file +
                       " is no record of a comparison; valid: without --min-share");
    }
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    session.out = folders[i];
    prepare_out(session);
    write_run(session, records[i], arguments.shown);
    if (session.json()) {
      session.print(reports::write_report(records[i]).json);
    } else if (!session.summary) {
      session.print(report_line(session));
    }
  }
}

}  // namespace

void add_report_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<ReportArguments>();
  const Command command = root.subcommand("report",
                                          "write a report again, from the records that runs left\n"
                                          "  shardlab report run/record.json --out report/");
  command
      .option("records", arguments->records,
              "files record.json that compare, ties, validate, solve, simulate or step wrote")
      .required();
  add_min_share_option(command, arguments->shown);
  add_report_options(command, session);
  add_common_options(command, session, {});
  command.runs([arguments, &session] { run_report(*arguments, session); });
}

}  // namespace shardlab

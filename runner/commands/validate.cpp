// shardlab validate: predicted against measured times.
#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "costmodel/text.h"
#include "runner/commands/commands.h"
#include "runner/measurement_files.h"
#include "runner/run_reports.h"
#include "runner/scoreboard.h"
#include "runner/simulation.h"
#include "runner/terminal.h"
#include "runner/validation.h"

namespace shardlab {
namespace {

struct ValidateArguments {
  std::vector<std::string> files;
  std::string stack = "dtensor-2.13";
  std::string topology;
  std::optional<std::int64_t> hosts;
  std::optional<std::int64_t> gpus_per_host;
  bool rows = false;
  bool scoreboard = false;
  std::optional<double> max_median_ape_percent;
};

struct Validation {
  std::vector<MeasurementSet> sets;
  std::vector<RowPrediction> rows;
  std::vector<std::string> warnings;
};

using Groups = std::map<std::string, std::vector<RowPrediction>>;

SourceHints hints_of(const ValidateArguments& arguments) {
  SourceHints hints;
  hints.hosts = arguments.hosts;
  hints.gpus_per_host = arguments.gpus_per_host;
  return hints;
}

Validation validate(const ValidateArguments& arguments, const Session& session) {
  const ConfigStore store = session.store();
  const Stack stack = store.stack(arguments.stack);
  Validation out;
  if (arguments.files.empty()) {
    out.sets = healthy_measurements(store);
    out.warnings.push_back("no FILE: all " + std::to_string(out.sets.size()) +
                           " shipped measurement sets that are healthy");
  } else {
    out.sets = read_measurements(store, arguments.files, hints_of(arguments));
  }
  for (const MeasurementSet& set : out.sets) {
    const std::vector<std::string> remarks = remarks_on(set);
    out.warnings.insert(out.warnings.end(), remarks.begin(), remarks.end());
  }
  std::set<std::string> said;
  out.rows = predict(
      stack,
      [&](const MeasurementSet& set) {
        TopologyChoice choice = topology_for(store, arguments.topology, set);
        if (!choice.warning.empty() && said.insert(choice.warning).second) {
          out.warnings.push_back(choice.warning);
        }
        return std::move(choice.topology);
      },
      out.sets);
  return out;
}

nlohmann::json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

nlohmann::json summary_json(const ErrorSummary& summary) {
  return {{"points", summary.points},
          {"unpriced", summary.unpriced},
          {"median_ape_percent", number_or_null(summary.median_ape_percent)},
          {"p90_ape_percent", number_or_null(summary.p90_ape_percent)},
          {"mean_ape_percent", number_or_null(summary.mean_ape_percent)},
          {"bias_percent", number_or_null(summary.bias_percent)}};
}

nlohmann::json groups_json(const Groups& groups) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, rows] : groups) out[name] = summary_json(summarize(rows));
  return out;
}

nlohmann::json row_json(const RowPrediction& row, const Validation& result) {
  nlohmann::json out = {{"file", result.sets[row.set].name},
                        {"collective", to_string(row.collective)},
                        {"bytes", row.bytes},
                        {"measured_us", row.measured_us},
                        {"predicted_us", finite_or_null(row.predicted_us)}};
  if (row.is_priced()) {
    out["error_percent"] = row.error_percent();
  } else {
    out["impossible"] = row.impossible;
  }
  return out;
}

template <class Name>
Groups grouped(const Validation& result, const Name& name_of) {
  Groups groups;
  for (const RowPrediction& row : result.rows) {
    groups[std::string(name_of(row))].push_back(row);
  }
  return groups;
}

// The rows that are furthest off, the furthest first.
std::vector<RowPrediction> worst_of(const Validation& result) {
  constexpr std::size_t kWorst = 10;
  std::vector<RowPrediction> rows;
  for (const RowPrediction& row : result.rows) {
    if (row.is_priced()) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const RowPrediction& a, const RowPrediction& b) {
    return std::abs(a.error_percent()) > std::abs(b.error_percent());
  });
  if (rows.size() > kWorst) rows.resize(kWorst);
  return rows;
}

struct Cuts {
  Groups collective;
  Groups file;
  Groups size_band;
  Groups gpu;
  Groups scale;
};

Cuts cuts_of(const Validation& result) {
  const auto set_of = [&](const RowPrediction& row) -> const MeasurementSet& {
    return result.sets[row.set];
  };
  return {grouped(result, [](const RowPrediction& row) { return to_string(row.collective); }),
          grouped(result, [&](const RowPrediction& row) { return set_of(row).name; }),
          grouped(result, [](const RowPrediction& row) { return size_band(row.bytes); }),
          grouped(result, [&](const RowPrediction& row) { return set_of(row).gpu; }),
          grouped(result, [&](const RowPrediction& row) { return scale_of(set_of(row)); })};
}

nlohmann::json validation_json(const Validation& result, const ValidateArguments& arguments,
                               bool with_rows) {
  const Cuts cuts = cuts_of(result);
  nlohmann::json out = summary_json(summarize(result.rows));
  out["stack"] = arguments.stack;
  out["sets"] = result.sets.size();
  out["by"] = {{"collective", groups_json(cuts.collective)},
               {"file", groups_json(cuts.file)},
               {"size_band", groups_json(cuts.size_band)},
               {"gpu", groups_json(cuts.gpu)},
               {"scale", groups_json(cuts.scale)}};
  out["warnings"] = result.warnings;
  out["worst"] = nlohmann::json::array();
  for (const RowPrediction& row : worst_of(result)) out["worst"].push_back(row_json(row, result));
  if (with_rows) {
    out["rows"] = nlohmann::json::array();
    for (const RowPrediction& row : result.rows) out["rows"].push_back(row_json(row, result));
  }
  return out;
}

std::string percent_text(const std::optional<double>& value) {
  return value ? format_fixed(*value, 1) : "none";
}

void add_groups(TextTable& table, const std::string& what, const Groups& groups) {
  for (const auto& [name, rows] : groups) {
    const ErrorSummary summary = summarize(rows);
    table.add({what + " " + printable(name), std::to_string(summary.points),
               percent_text(summary.median_ape_percent), percent_text(summary.p90_ape_percent),
               percent_text(summary.mean_ape_percent), percent_text(summary.bias_percent)});
  }
}

std::string validation_text(const Validation& result, const ValidateArguments& arguments) {
  const ErrorSummary all = summarize(result.rows);
  std::string text = std::to_string(all.points) + " points of " +
                     std::to_string(result.sets.size()) + " measurement sets under " +
                     arguments.stack + ", errors of the out-of-place time in percent\n";
  if (all.unpriced > 0) {
    text += "  " + std::to_string(all.unpriced) + " rows can't be priced\n";
  }
  const Cuts cuts = cuts_of(result);
  TextTable table({"", "points", "median", "p90", "mean", "bias"});
  add_groups(table, "all", {{"", result.rows}});
  for (const std::string_view band : kSizeBands) {
    const auto it = cuts.size_band.find(std::string(band));
    if (it != cuts.size_band.end()) add_groups(table, "size", {*it});
  }
  add_groups(table, "collective", cuts.collective);
  add_groups(table, "gpu", cuts.gpu);
  add_groups(table, "scale", cuts.scale);
  add_groups(table, "file", cuts.file);
  text += table.text();
  TextTable worst({"furthest off", "collective", "size", "measured us", "predicted us"});
  const auto add_row = [&](TextTable& into, const RowPrediction& row) {
    into.add({printable(result.sets[row.set].name), std::string(to_string(row.collective)),
              format_bytes(row.bytes), format_fixed(row.measured_us, 2),
              row.is_priced() ? format_fixed(row.predicted_us, 2) : row.impossible});
  };
  for (const RowPrediction& row : worst_of(result)) add_row(worst, row);
  text += worst.text();
  if (arguments.rows) {
    TextTable rows({"file", "collective", "size", "measured us", "predicted us"});
    for (const RowPrediction& row : result.rows) add_row(rows, row);
    text += rows.text();
  }
  return text;
}

void print_scoreboard(const ValidateArguments& arguments, const Session& session) {
  const ConfigStore store = session.store();
  const std::vector<MeasurementSet> sets =
      arguments.files.empty() ? healthy_measurements(store)
                              : read_measurements(store, arguments.files, hints_of(arguments));
  session.print(scoreboard_text(make_scoreboard(store, sets, session.threads())));
}

// Where the measured times are from.
nlohmann::json sets_json(const Validation& result) {
  nlohmann::json sets = nlohmann::json::array();
  for (const MeasurementSet& set : result.sets) {
    sets.push_back({{"name", set.name},
                    {"gpu", set.gpu},
                    {"scale", scale_of(set)},
                    {"date", text_or_null(set.date)},
                    {"nccl_version", text_or_null(set.nccl_version)},
                    {"health", to_string(set.health)},
                    {"source", set.source}});
  }
  return sets;
}

void write_validation(const Validation& result, const ValidateArguments& arguments,
                      const StopWatch& watch, const Session& session) {
  if (!writes_report(session)) return;
  reports::RunHeader header = header_of(session);
  header.configuration.stacks = {session.store().stack(arguments.stack).to_json()};
  nlohmann::json document = validation_json(result, arguments, true);
  document["measurement_sets"] = sets_json(result);
  // Two files may share a name.
  for (std::size_t i = 0; i < result.rows.size(); ++i)
    document["rows"][i]["set"] = result.rows[i].set;
  write_run(session, {.kind = reports::kValidateKind,
                      .header = std::move(header),
                      .result = std::move(document),
                      .wall_ms = watch.ms()});
}

void run_validate(const ValidateArguments& arguments, Session& session) {
  if (arguments.scoreboard) {
    if (writes_report(session)) {
      throw InputError("--scoreboard: prints one document; valid: without --out and --summary");
    }
    print_scoreboard(arguments, session);
    return;
  }
  const StopWatch watch;
  prepare_out(session);
  const Validation result = validate(arguments, session);
  write_validation(result, arguments, watch, session);
  if (!session.quiet && !session.json()) {
    for (const std::string& warning : result.warnings) {
      std::cerr << "shardlab: " << printable(warning) << "\n";
    }
  }
  if (session.json()) {
    session.print(validation_json(result, arguments, arguments.rows));
  } else if (!session.summary) {
    session.print(validation_text(result, arguments) + report_line(session));
  }
  if (arguments.max_median_ape_percent) {
    const std::optional<double> median = summarize(result.rows).median_ape_percent;
    if (!median || *median > *arguments.max_median_ape_percent) session.exit_code = kGateSaidNo;
  }
}

}  // namespace

void add_validate_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ValidateArguments>();
  CLI::App* command = app.add_subcommand(
      "validate",
      "predicted against measured times\n  shardlab validate h100_1x8_all_reduce_dgxc --stack "
      "alpha-beta");
  command->add_option("files", arguments->files,
                      "nccl-tests text or JSON, shardlab's JSON, or a shipped set; none: all "
                      "shipped sets that are healthy");
  command->add_option("--stack", arguments->stack, "shipped name or path")->capture_default_str();
  command->add_option("--topology", arguments->topology,
                      "shipped name or path; default: by each set's GPU. Devices a host are the "
                      "set's");
  command->add_option("--hosts", arguments->hosts, "hosts, where a file does not say")
      ->check(integer_from(1, 1 << 30));
  command
      ->add_option("--gpus-per-host", arguments->gpus_per_host,
                   "GPUs of a host, where a file does not say")
      ->check(integer_from(1, 1 << 30));
  command->add_flag("--rows", arguments->rows, "every row as well");
  command->add_flag("--scoreboard", arguments->scoreboard,
                    "all stacks side by side on held-out sizes, logs and scales, as Markdown");
  command
      ->add_option("--max-median-ape-percent", arguments->max_median_ape_percent,
                   "exit 1 when the median absolute percentage error is above")
      ->check(number_from(0.0, 1e9));
  add_report_options(*command, session);
  add_common_options(*command, session);
  command->callback([arguments, &session] { run_validate(*arguments, session); });
}

}  // namespace shardlab

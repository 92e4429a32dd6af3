// shardlab validate: compares predicted with measured times.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/fields_json.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/nccl_log.h"
#include "runner/base/optional_values.h"
#include "runner/base/read_file.h"
#include "runner/base/stop_watch.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/evaluation/fitted_sets.h"
#include "runner/evaluation/measurement_files.h"
#include "runner/evaluation/nccl_table.h"
#include "runner/evaluation/observations.h"
#include "runner/evaluation/scoreboard.h"
#include "runner/evaluation/validation.h"
#include "runner/session/run_reports.h"
#include "runner/steps/step_scoreboard.h"
#include "runner/steps/steps_answers.h"

namespace shardlab {
namespace {

struct ValidateArguments {
  std::vector<std::string> files;
  std::string stack;
  std::string topology;
  std::optional<std::int64_t> hosts;
  std::optional<std::int64_t> gpus_per_host;
  bool rows = false;
  bool scoreboard = false;
  bool nccl_table = false;
  std::string steps;
  std::optional<double> max_median_ape_percent;
  std::vector<CommandOption> of_one_stack;  // options about one stack, which --scoreboard refuses
};

struct Validation {
  std::vector<MeasurementSet> sets;
  std::vector<RowPrediction> rows;
  std::vector<KernelPrediction> kernels;
  std::vector<std::string> warnings;
  std::map<std::string, std::size_t> topologies;  // how many sets are priced on each
};

using RowsByGroup = std::map<std::string, std::vector<RowPrediction>>;

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
    out.warnings.push_back("no FILE is given, so all " + std::to_string(out.sets.size()) +
                           " healthy measurement sets that are shipped are used");
  } else {
    out.sets = read_measurements(store, arguments.files, hints_of(arguments));
  }
  for (const MeasurementSet& set : out.sets) {
    const std::vector<std::string> remarks = remarks_on(set);
    out.warnings.insert(out.warnings.end(), remarks.begin(), remarks.end());
  }
  if (const std::string warning = fitted_warning(stack, out.sets, store); !warning.empty()) {
    out.warnings.push_back(warning);
  }
  std::set<std::string> said;
  const auto topology_of = [&](const MeasurementSet& set) {
    TopologyChoice choice = topology_for(store, arguments.topology, set);
    if (!choice.warning.empty() && said.insert(choice.warning).second) {
      out.warnings.push_back(choice.warning);
    }
    return std::move(choice.topology);
  };
  for (const MeasurementSet& set : out.sets) {
    const Topology topology = topology_of(set);
    ++out.topologies[topology.name()];
    for (std::string& doubt : doubts_of_links(set, topology)) {
      out.warnings.push_back(std::move(doubt));
    }
  }
  out.rows = predict(stack, topology_of, out.sets);
  out.kernels = predict_kernels(stack, topology_of, out.sets);
  return out;
}

nlohmann::json summary_json(const ErrorSummary& summary) {
  return {{"points", summary.points},
          {"unpriced", summary.unpriced},
          {"median_ape_percent", or_null(summary.median_ape_percent)},
          {"p90_ape_percent", or_null(summary.p90_ape_percent)},
          {"mean_ape_percent", or_null(summary.mean_ape_percent)},
          {"bias_percent", or_null(summary.bias_percent)}};
}

nlohmann::json groups_json(const RowsByGroup& groups) {
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
RowsByGroup grouped(const Validation& result, const Name& name_of) {
  RowsByGroup groups;
  for (const RowPrediction& row : result.rows) {
    groups[std::string(name_of(row))].push_back(row);
  }
  return groups;
}

// The rows with the largest errors, the largest first.
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

bool is_unhealthy(const MeasurementSet& set) { return set.health == Health::kUnhealthy; }

// The rows of the sets that show what their hardware can do. Nothing if all of the sets do, or
// none.
std::optional<std::vector<RowPrediction>> healthy_rows(const Validation& result) {
  const auto unhealthy = std::count_if(result.sets.begin(), result.sets.end(), is_unhealthy);
  if (unhealthy == 0 || unhealthy == std::ssize(result.sets)) return std::nullopt;
  std::vector<RowPrediction> rows;
  for (const RowPrediction& row : result.rows) {
    if (!is_unhealthy(result.sets[row.set])) rows.push_back(row);
  }
  return rows;
}

struct Cuts {
  RowsByGroup collective;
  RowsByGroup file;
  RowsByGroup size_band;
  RowsByGroup gpu;
  RowsByGroup scale;
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

// What a report's record does not hold, since it holds the health of each set.
void add_health(const Validation& result, nlohmann::json& out) {
  out["unhealthy_sets"] = nlohmann::json::array();
  for (const MeasurementSet& set : result.sets) {
    if (is_unhealthy(set)) out["unhealthy_sets"].push_back(set.name);
  }
  out["topologies"] = result.topologies;
  if (const auto healthy = healthy_rows(result)) out["healthy"] = summary_json(summarize(*healthy));
  const auto add = [&](const std::string& name, std::span<const RowPrediction> rows) {
    const std::optional<Coverage> coverage = coverage_of(rows);
    if (!coverage) return;
    out["intervals"][name] = {{"points", coverage->points},
                              {"within_percent", coverage->within_percent},
                              {"half_width_percent", coverage->half_width_percent}};
  };
  add("all", result.rows);
  for (const auto& [band, rows] : cuts_of(result).size_band) add(band, rows);
}

// "  95 % intervals: 91.6 % of 32 points lie within; half of them are no wider than +24 %"; ""
// without any.
std::string coverage_text(const Validation& result, const TextStyle& style) {
  const std::optional<Coverage> coverage = coverage_of(result.rows);
  if (!coverage) return "";
  return "  95 % intervals: " + style.rounded(coverage->within_percent, 1) + " % of " +
         std::to_string(coverage->points) +
         " points lie within, and half of the upper bounds are no more than " +
         style.rounded(coverage->half_width_percent, 0) + " % above their price\n";
}

// "  topologies: b300 (1 set), h100 (2 sets)".
std::string topologies_text(const Validation& result) {
  std::string text;
  for (const auto& [name, sets] : result.topologies) {
    text += (text.empty() ? "  topologies: " : ", ") + printable(name) + " (" +
            std::to_string(sets) + (sets == 1 ? " set)" : " sets)");
  }
  return text + "\n";
}

nlohmann::json kernels_json(const Validation& result) {
  nlohmann::json out = nlohmann::json::object();
  for (const KernelErrors& each : kernel_errors(result.kernels)) {
    nlohmann::json& group = out[each.kernel];
    group = summary_json(each.errors);
    group["measured_us"] = each.measured_us;
    group["total_percent"] = or_null(each.total_percent);
  }
  return out;
}

const MeasuredKernel& row_of(const KernelPrediction& kernel, const Validation& result) {
  return result.sets[kernel.set].kernels[kernel.row];
}

nlohmann::json kernel_json(const KernelPrediction& kernel, const Validation& result) {
  const MeasuredKernel& row = row_of(kernel, result);
  nlohmann::json out = {{"file", result.sets[kernel.set].name},
                        {"kernel", row.kernel},
                        {"dtype", row.dtype},
                        {"shape", kernel_shape_text(row)},
                        {"bytes", row.bytes},
                        {"calls", kernel.calls},
                        {"measured_us", kernel.measured_us},
                        {"predicted_us", or_null(kernel.predicted_us)}};
  if (kernel.predicted_us) out["error_percent"] = kernel.error_percent();
  return out;
}

// The kernels whose prices are off by the most time, all calls together, the most first.
std::vector<KernelPrediction> worst_kernels(const Validation& result) {
  constexpr std::size_t kWorst = 10;
  std::vector<KernelPrediction> kernels;
  for (const KernelPrediction& kernel : result.kernels) {
    if (kernel.predicted_us) kernels.push_back(kernel);
  }
  std::stable_sort(
      kernels.begin(), kernels.end(),
      [](const KernelPrediction& a, const KernelPrediction& b) { return a.us_off() > b.us_off(); });
  if (kernels.size() > kWorst) kernels.resize(kWorst);
  return kernels;
}

void add_kernels(const Validation& result, bool with_rows, nlohmann::json& out) {
  if (result.kernels.empty()) return;
  const auto list = [&](std::span<const KernelPrediction> kernels) {
    nlohmann::json rows = nlohmann::json::array();
    for (const KernelPrediction& kernel : kernels) rows.push_back(kernel_json(kernel, result));
    return rows;
  };
  out["worst_kernels"] = list(worst_kernels(result));
  if (with_rows) out["kernels"] = list(result.kernels);
}

// The cells of a group: how many points it has, and their errors in percent.
std::vector<std::string> error_cells(const ErrorSummary& errors, const TextStyle& style) {
  std::vector<std::string> cells = {std::to_string(errors.points)};
  for (const std::optional<double>& percent : {errors.median_ape_percent, errors.p90_ape_percent,
                                               errors.mean_ape_percent, errors.bias_percent}) {
    cells.push_back(style.rounded(percent, 1, "none"));
  }
  return cells;
}

void add_groups(TextTable& table, const std::string& what, const RowsByGroup& groups,
                const TextStyle& style) {
  for (const auto& [name, rows] : groups) {
    std::vector<std::string> cells = error_cells(summarize(rows), style);
    cells.insert(cells.begin(), what + " " + printable(name));
    table.add(std::move(cells));
  }
}

// How kernel_shape_text writes shapes.
constexpr const char* kShapesNote =
    "  The shape of a gemm is m x n x k; \"rows of 2\" after it says that its rows in memory are a "
    "multiple of 2 elements and not of 16 bytes. The shape of attention is "
    "batch x heads x queries x head dim on heads x keys, that of a reshuffle "
    "rows x columns x contiguous piece, and that of other kernels rows x columns.\n";

std::string kernel_rows_text(std::span<const KernelPrediction> kernels, const Validation& result,
                             const TextStyle& style) {
  TextTable table(style, {"file", "kernel", "shape", "bytes", "calls", "measured us",
                          "predicted us", "off us, all calls"});
  for (const KernelPrediction& kernel : kernels) {
    const MeasuredKernel& row = row_of(kernel, result);
    const double sign = kernel.predicted_us && *kernel.predicted_us < row.time_us ? -1.0 : 1.0;
    table.add({printable(result.sets[kernel.set].name), printable(row.kernel + " " + row.dtype),
               kernel_shape_text(row), format_bytes(row.bytes), style.figure(kernel.calls),
               style.figure(kernel.measured_us),
               kernel.predicted_us ? style.figure(*kernel.predicted_us) : "none",
               kernel.predicted_us ? style.figure(sign * kernel.us_off()) : "none"});
  }
  return table.text();
}

std::string kernels_text(const Validation& result, const ValidateArguments& arguments,
                         const TextStyle& style) {
  if (result.kernels.empty()) return "";
  const std::vector<KernelErrors> groups = kernel_errors(result.kernels);
  std::size_t points = 0;
  for (const KernelErrors& each : groups) points += each.errors.points;
  std::string text = std::to_string(points) +
                     " shapes of kernels, priced by the compute model of " + arguments.stack +
                     "; errors in percent\n";
  if (points == 0)
    text += "  it prices none of them; valid: another stack, such as --stack steps\n";
  TextTable table(style, {"", "shapes", "not priced", "median", "p90", "mean", "bias",
                          "calls x median, ms", "error of that sum"});
  for (const KernelErrors& each : groups) {
    std::vector<std::string> cells = error_cells(each.errors, style);
    cells.insert(cells.begin(), "kernel " + printable(each.kernel));
    cells.insert(cells.begin() + 2, std::to_string(each.errors.unpriced));
    cells.push_back(style.figure(each.measured_us * 1e-3));
    cells.push_back(style.rounded(each.total_percent, 1, "none"));
    table.add(std::move(cells));
  }
  text += table.text();
  if (points > 0) {
    text += "  those whose prices are off by the most time, all calls together:\n" +
            kernel_rows_text(worst_kernels(result), result, style);
  }
  if (arguments.rows) text += "  all of them:\n" + kernel_rows_text(result.kernels, result, style);
  return points > 0 || arguments.rows ? text + kShapesNote : text;
}

std::string validation_text(const Validation& result, const ValidateArguments& arguments,
                            const TextStyle& style) {
  std::string kernels = kernels_text(result, arguments, style);
  if (result.rows.empty() && !kernels.empty()) return kernels + topologies_text(result);
  const ErrorSummary all = summarize(result.rows);
  std::string text = std::to_string(all.points) + " points of " +
                     std::to_string(result.sets.size()) + " measurement sets under " +
                     arguments.stack + ", errors of the out-of-place time in percent\n";
  if (all.unpriced > 0) {
    text += "  " + std::to_string(all.unpriced) + " rows can't be priced\n";
  }
  const auto unhealthy = std::count_if(result.sets.begin(), result.sets.end(), is_unhealthy);
  if (unhealthy > 0) {
    text += "  " + std::to_string(unhealthy) + " of the " + std::to_string(result.sets.size()) +
            " sets " + (unhealthy == 1 ? "is" : "are") + " unhealthy, so that " +
            (unhealthy == 1 ? "its" : "their") +
            " times do not show what the hardware can do; the row \"all\" counts " +
            (unhealthy == 1 ? "it" : "them") + "\n";
  }
  const Cuts cuts = cuts_of(result);
  TextTable table(style, {"", "points", "median", "p90", "mean", "bias"});
  add_groups(table, "all", {{"", result.rows}}, style);
  if (const auto healthy = healthy_rows(result)) {
    add_groups(table, "healthy", {{"sets alone", *healthy}}, style);
  }
  for (const std::string_view band : kSizeBands) {
    const auto it = cuts.size_band.find(std::string(band));
    if (it != cuts.size_band.end()) add_groups(table, "size", {*it}, style);
  }
  add_groups(table, "collective", cuts.collective, style);
  add_groups(table, "gpu", cuts.gpu, style);
  add_groups(table, "scale", cuts.scale, style);
  add_groups(table, "file", cuts.file, style);
  text += table.text() + topologies_text(result) + coverage_text(result, style);
  TextTable worst(style, {"furthest off", "collective", "size", "measured us", "predicted us"});
  const auto add_row = [&](TextTable& into, const RowPrediction& row) {
    into.add({printable(result.sets[row.set].name), std::string(to_string(row.collective)),
              format_bytes(row.bytes), style.figure(row.measured_us),
              row.is_priced() ? style.figure(row.predicted_us) : row.impossible});
  };
  for (const RowPrediction& row : worst_of(result)) add_row(worst, row);
  text += worst.text();
  if (arguments.rows) {
    TextTable rows(style, {"file", "collective", "size", "measured us", "predicted us"});
    for (const RowPrediction& row : result.rows) add_row(rows, row);
    text += rows.text();
  }
  return text + kernels;
}

void print_scoreboard(const ValidateArguments& arguments, const Session& session) {
  for (const CommandOption& option : arguments.of_one_stack) {
    if (!option.is_given()) continue;
    throw InputError("--scoreboard: " + option.name() +
                     " is for one stack, but a scoreboard shows all of them; valid: without it");
  }
  if (session.json()) {
    throw InputError("--scoreboard: its result is Markdown; valid: without --format json");
  }
  if (writes_report(session)) {
    throw InputError(
        "--scoreboard: its result is one document on stdout; valid: without --out and --summary");
  }
  const ConfigStore store = session.store();
  const std::vector<MeasurementSet> sets =
      arguments.files.empty() ? healthy_measurements(store)
                              : read_measurements(store, arguments.files, hints_of(arguments));
  session.print(scoreboard_text(make_scoreboard(store, sets, session.threads(), session.quiet)));
}

// -- NCCL's own table

struct CheckedTable {
  std::string file;
  std::string nccl_version;
  NcclTableCheck check;
};

// Takes ranks and hosts from the log, or from the options if the log lacks them.
NcclTable placed_table(NcclTable table, const std::string& file,
                       const ValidateArguments& arguments) {
  if (arguments.hosts) table.hosts = *arguments.hosts;
  if (arguments.hosts && arguments.gpus_per_host) {
    table.ranks = *arguments.hosts * *arguments.gpus_per_host;
  }
  if (table.hosts == 0 || table.ranks == 0) {
    throw InputError(file +
                     ": the log does not say how many ranks and hosts there were (NCCL writes it "
                     "under NCCL_DEBUG_SUBSYS=INIT); valid: with --hosts and --gpus-per-host");
  }
  if (table.ranks < 2 || table.ranks < table.hosts) {
    throw InputError(file + ": found " + std::to_string(table.ranks) + " ranks on " +
                     std::to_string(table.hosts) +
                     " hosts; valid: at least 2 ranks, and at least 1 on each host");
  }
  return table;
}

std::vector<CheckedTable> check_tables(const ValidateArguments& arguments, const Session& session) {
  if (arguments.files.empty()) {
    throw InputError(
        "--nccl-table: no FILE is given; valid: a log that NCCL wrote under NCCL_DEBUG=INFO and "
        "NCCL_DEBUG_SUBSYS=INIT,TUNING");
  }
  if (arguments.topology.empty()) {
    throw InputError("--nccl-table: a log does not name its hardware; valid: with --topology");
  }
  const ConfigStore store = session.store();
  const Stack stack = store.stack(arguments.stack);
  std::vector<CheckedTable> out;
  for (const std::string& file : arguments.files) {
    const std::string text = read_text_file(file);
    const std::vector<NcclTable> tables = read_nccl_tables(text);
    if (tables.empty()) {
      throw InputError(file +
                       ": found no table of NCCL's; valid: a log that NCCL wrote under "
                       "NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,TUNING");
    }
    for (const NcclTable& table : tables) {
      const NcclTable placed = placed_table(table, file, arguments);
      const Topology topology =
          store.topology(arguments.topology, (placed.ranks + placed.hosts - 1) / placed.hosts);
      out.push_back({.file = file,
                     .nccl_version = nccl_version_in_log(text),
                     .check = check_nccl_table(stack, topology, placed)});
    }
  }
  return out;
}

nlohmann::json tables_json(const std::vector<CheckedTable>& tables) {
  nlohmann::json out = nlohmann::json::array();
  for (const CheckedTable& table : tables) {
    nlohmann::json cells = nlohmann::json::array();
    for (const NcclCellCheck& check : table.check.cells) {
      cells.push_back({{"collective", to_string(check.cell.collective)},
                       {"algorithm", to_string(check.cell.algorithm)},
                       {"protocol", to_string(check.cell.protocol)},
                       {"nccl_latency_us", check.cell.latency_us},
                       {"nccl_gb_per_s", check.cell.gb_per_s},
                       {"latency_us", or_null(check.latency_us)},
                       {"gb_per_s", or_null(check.gb_per_s)}});
    }
    out.push_back({{"file", table.file},
                   {"nccl_version", text_or_null(table.nccl_version)},
                   {"ranks", table.check.ranks},
                   {"hosts", table.check.hosts},
                   {"compared", table.check.compared},
                   {"same_latencies", table.check.same_latencies},
                   {"same_bandwidths", table.check.same_bandwidths},
                   {"cells", cells}});
  }
  return {{"tables", out}};
}

// Latencies and bandwidths have the digits that NCCL's log has, since they are compared with those.
std::string tables_text(const std::vector<CheckedTable>& tables, const std::string& stack,
                        const TextStyle& style) {
  std::string text;
  for (const CheckedTable& table : tables) {
    const NcclTableCheck& check = table.check;
    text += printable(table.file) + ": NCCL " +
            (table.nccl_version.empty() ? "of an unknown version" : table.nccl_version) + ", " +
            std::to_string(check.ranks) + " ranks on " + std::to_string(check.hosts) +
            (check.hosts == 1 ? " host" : " hosts") + ": of the " + std::to_string(check.compared) +
            " entries compared, " + stack + " gives " + std::to_string(check.same_latencies) +
            " latencies and " + std::to_string(check.same_bandwidths) +
            " bandwidths exactly as NCCL printed them\n";
    TextTable lines(style, {"collective", "algorithm", "protocol", "NCCL us", stack + " us",
                            "NCCL GB/s", stack + " GB/s", ""});
    for (const NcclCellCheck& each : check.cells) {
      const bool is_same = each.same_latency() && each.same_bandwidth();
      lines.add({std::string(to_string(each.cell.collective)),
                 std::string(to_string(each.cell.algorithm)),
                 std::string(to_string(each.cell.protocol)), format_fixed(each.cell.latency_us, 1),
                 fixed_or(each.latency_us, 1, "none"), format_fixed(each.cell.gb_per_s, 1),
                 fixed_or(each.gb_per_s, 1, "none"),
                 is_same           ? ""
                 : each.latency_us ? "differs"
                                   : "not weighed"});
    }
    text += lines.text();
  }
  return text;
}

void print_tables(const ValidateArguments& arguments, const Session& session) {
  if (writes_report(session) || arguments.scoreboard || arguments.max_median_ape_percent ||
      arguments.rows) {
    throw InputError(
        "--nccl-table: its result is one document on stdout; valid: without --out, --summary, "
        "--rows, --scoreboard "
        "and --max-median-ape-percent");
  }
  const std::vector<CheckedTable> tables = check_tables(arguments, session);
  if (session.json()) {
    session.print(tables_json(tables));
  } else {
    session.print(tables_text(tables, arguments.stack, session.style()));
  }
}

// Describes the source of the measured times of each set.
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
  // Each row carries the index of its set, because two files may have the same name.
  for (std::size_t i = 0; i < result.rows.size(); ++i)
    document["rows"][i]["set"] = result.rows[i].set;
  write_run(session, {.kind = reports::kValidateKind,
                      .header = std::move(header),
                      .result = std::move(document),
                      .wall_ms = watch.ms()});
}

// -- Published steps

void print_steps(const ValidateArguments& arguments, Session& session) {
  if (!arguments.files.empty() || arguments.nccl_table || arguments.rows || arguments.hosts ||
      arguments.gpus_per_host || !arguments.topology.empty() || writes_report(session)) {
    throw InputError(
        "--steps: its result is one document on stdout, and its rows name their hardware; valid: "
        "with --stack, --scoreboard, --max-median-ape-percent, --format and --set alone");
  }
  const LoadedSteps loaded = load_steps(
      arguments.steps, arguments.stack.empty() ? std::string(kStepStack) : arguments.stack,
      session.store());
  if (!session.json()) print_warnings(loaded.warnings);
  if (arguments.scoreboard) {
    if (session.json() || arguments.max_median_ape_percent) {
      throw InputError(
          "--scoreboard: its result is Markdown; valid: without --format json and "
          "--max-median-ape-percent");
    }
    session.print(
        step_scoreboard_text(make_step_scoreboard(loaded.steps, session.threads(), session.quiet)));
    return;
  }
  const std::vector<StepResult> results = predict_all(loaded.steps, loaded.terms);
  const nlohmann::json document = steps_json(loaded, results);
  if (session.json()) {
    session.print(document);
  } else {
    session.print(steps_text(loaded, results, session.style()));
  }
  if (arguments.max_median_ape_percent) {
    const nlohmann::json& median = document["median_ape_percent"];
    if (median.is_null() || median.get<double>() > *arguments.max_median_ape_percent) {
      session.exit_code = kGateSaidNo;
    }
  }
}

// The median error of the collectives, or that of the kernels if there are no collectives.
std::optional<double> median_of(const Validation& result) {
  if (!result.rows.empty() || result.kernels.empty()) {
    return summarize(result.rows).median_ape_percent;
  }
  std::vector<double> errors;
  for (const KernelPrediction& kernel : result.kernels) {
    if (kernel.predicted_us) errors.push_back(kernel.error_percent());
  }
  return summarize_errors(errors).median_ape_percent;
}

void run_validate(const ValidateArguments& arguments, Session& session) {
  if (session.store().changes_devices_per_host()) {
    throw InputError(
        "--set devices_per_host: the hosts of the ranks are those of the measurements; valid: "
        "without it, or --hosts and --gpus-per-host for files that do not say them");
  }
  if (arguments.nccl_table) return print_tables(arguments, session);
  if (arguments.scoreboard) return print_scoreboard(arguments, session);
  const StopWatch watch;
  prepare_out(session);
  const Validation result = validate(arguments, session);
  if (writes_report(session) && result.rows.empty() && !result.kernels.empty()) {
    throw InputError(
        "--out, --summary: a report shows collectives, and these files hold kernels alone; valid: "
        "without it, or --format json");
  }
  write_validation(result, arguments, watch, session);
  if (!session.json()) print_warnings(result.warnings);
  if (session.json()) {
    nlohmann::json document = validation_json(result, arguments, arguments.rows);
    document["by"]["kernel"] = kernels_json(result);
    add_kernels(result, arguments.rows, document);
    add_health(result, document);
    session.print(document);
  } else if (!session.summary) {
    session.print(validation_text(result, arguments, session.style()) + report_line(session));
  }
  if (arguments.max_median_ape_percent) {
    const std::optional<double> median = median_of(result);
    if (!median || *median > *arguments.max_median_ape_percent) session.exit_code = kGateSaidNo;
  }
}

}  // namespace

void add_validate_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<ValidateArguments>();
  const Command command = root.subcommand(
      "validate",
      "compare predicted with measured times\n  shardlab validate h100_1x8_all_reduce_dgxc --stack "
      "alpha-beta");
  command.option(
      "files", arguments->files,
      "nccl-tests text or JSON, traces of PyTorch's profiler or Chakra, shardlab's JSON, or a "
      "shipped set; default: all shipped sets that are healthy");
  const auto of_one_stack = [&](const CommandOption& option) {
    arguments->of_one_stack.push_back(option);
    return option;
  };
  of_one_stack(command.option("--stack", arguments->stack,
                              "shipped name or path; default: dtensor, or steps with --steps"));
  of_one_stack(command.option("--topology", arguments->topology,
                              "shipped name or path; default: the one that fits each set's GPU. "
                              "The number of devices in a host comes from the set"));
  command.option("--hosts", arguments->hosts, "number of hosts, for files that do not say it")
      .check(integer_from(1, 1 << 30));
  command
      .option("--gpus-per-host", arguments->gpus_per_host,
              "number of GPUs in a host, for files that do not say it")
      .check(integer_from(1, 1 << 30));
  of_one_stack(command.option(
      "--steps", arguments->steps,
      "compare with published training steps: a CSV file, or published, which is shipped"));
  of_one_stack(command.flag("--rows", arguments->rows, "print every row as well"));
  command.flag("--nccl-table", arguments->nccl_table,
               "read FILEs as NCCL's logs (NCCL_DEBUG_SUBSYS=INIT,TUNING), and compare the table "
               "of latencies and bandwidths that NCCL printed with that of --stack nccl");
  command.flag(
      "--scoreboard", arguments->scoreboard,
      "compare all stacks side by side on sizes, logs and scales that were held out, or, with "
      "--steps, models of steps on groups and sources that were held out, as Markdown");
  of_one_stack(
      command.option("--max-median-ape-percent", arguments->max_median_ape_percent,
                     "exit 1 when the median absolute percentage error of the collectives, or of "
                     "the kernels if there are no collectives, is above this number"))
      .check(number_from(0.0, 1e9));
  add_report_options(command, session);
  add_common_options(command, session, {.jobs = true, .sets = true, .digits = true});
  command.runs([arguments, &session] {
    if (!arguments->steps.empty()) return print_steps(*arguments, session);
    if (arguments->stack.empty()) arguments->stack = kNewestDTensor;
    arguments->stack = released_stack(arguments->stack);
    run_validate(*arguments, session);
  });
}

}  // namespace shardlab

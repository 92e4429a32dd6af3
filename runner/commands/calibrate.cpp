// shardlab calibrate: fits a stack to measured times.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/text.h"
#include "costmodel/calibrate/calibration.h"
#include "costmodel/calibrate/contradictions.h"
#include "costmodel/calibrate/kernel_calibration.h"
#include "costmodel/calibrate/population_calibration.h"
#include "costmodel/gpu_model.h"
#include "costmodel/measurements/tuner_csv.h"
#include "runner/base/optional_values.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/base/write_file.h"
#include "runner/commands/commands.h"
#include "runner/config/configs.h"
#include "runner/evaluation/fitted_sets.h"
#include "runner/evaluation/measured_groups.h"
#include "runner/evaluation/measurement_files.h"
#include "runner/evaluation/observations.h"
#include "runner/evaluation/population.h"
#include "runner/evaluation/validation.h"
#include "runner/session/unstoppable_work.h"
#include "runner/steps/steps_answers.h"

namespace shardlab {
namespace {

struct CalibrateArguments {
  std::vector<std::string> files;
  std::string model;
  std::string gpu;
  std::string topology;
  std::string out;
  std::string tuner_csv;
  std::string mesh;
  bool hold_out = false;
  std::string steps;
  std::string stack{kStepStack};
  std::optional<std::int64_t> hosts;
  std::optional<std::int64_t> gpus_per_host;
  std::vector<CommandOption> of_files;  // options about the FILEs of measured times
  std::vector<CommandOption> of_steps;  // options about published steps
};

struct RefusedPlace {
  std::string row;  // "run:14"
  std::string reason;
};

struct Result {
  std::vector<MeasurementSet> sets;
  Observations observations;
  Calibration fit;
  std::optional<Topology> topology;
  std::optional<DeviceMesh> mesh;  // --mesh, with its groups and the topology that it lies on
  std::optional<Topology> mesh_topology;
  std::vector<MeshGroup> groups;
  std::vector<RefusedPlace>
      refused;  // first the rows that the reader refused, then those that the fit refused
  std::vector<std::string> warnings;
  std::optional<ErrorSummary> held_out;
  std::string tuner_csv;
};

// A row that may be held out: its group, and what a prediction of it depends on within the group,
// the size first.
struct Holdable {
  std::string group;
  double bytes = 0.0;
  std::string shape = {};
};

// Which rows the first fit must not see: in each group, with its points by rising size, those of
// the second and third of every four points. Both halves then have small and large sizes, and no
// point is both fitted and held out, also where a log measures each size several times. The order
// of the rows does not matter.
std::vector<bool> held_out_rows(const std::vector<Holdable>& rows) {
  using Point = std::pair<double, std::string>;
  std::map<std::string, std::map<Point, bool>> points_of;
  for (const Holdable& row : rows) points_of[row.group][{row.bytes, row.shape}] = false;
  for (auto& [group, points] : points_of) {
    std::size_t place = 0;
    for (auto& [point, is_held] : points) {
      is_held = place % 4 == 1 || place % 4 == 2;
      ++place;
    }
  }
  std::vector<bool> held;
  for (const Holdable& row : rows) held.push_back(points_of[row.group][{row.bytes, row.shape}]);
  return held;
}

// The rows that the first fit sees, and those that it must not see.
template <class Row>
std::pair<std::vector<Row>, std::vector<Row>> halves(const std::vector<Row>& rows,
                                                     const std::vector<bool>& held) {
  std::pair<std::vector<Row>, std::vector<Row>> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    (held[i] ? out.second : out.first).push_back(rows[i]);
  }
  return out;
}

void fit_kernels(const CalibrateArguments& arguments, const Topology& topology, Result& result) {
  std::vector<MeasuredKernel> rows;
  std::vector<std::string> labels;
  std::vector<Holdable> holdable;
  for (const MeasurementSet& set : result.sets) {
    for (std::size_t i = 0; i < set.kernels.size(); ++i) {
      const MeasuredKernel& row = set.kernels[i];
      rows.push_back(row);
      labels.push_back(set.name + ": kernel " + std::to_string(i + 1) + ", " + row.kernel);
      holdable.push_back({row.kernel + row.dtype, row.bytes, kernel_shape_text(row)});
    }
  }
  result.observations.labels = std::move(labels);
  result.fit = calibrate_kernels(rows, topology);
  if (!arguments.hold_out) return;
  auto [seen, unseen] = halves(rows, held_out_rows(holdable));
  // The fit refuses attention, so that its errors on attention say nothing about it.
  std::erase_if(unseen, [](const MeasuredKernel& row) { return row.attention.has_value(); });
  const auto model = make_compute_model(calibrate_kernels(seen, topology).choice(), topology);
  result.held_out = summarize_errors(kernel_errors_percent(*model, unseen));
}

// The population is the prior of clusters whose GPU it has; other systems get curves of their own.
std::string default_model(const std::vector<MeasurementSet>& sets) {
  return std::all_of(sets.begin(), sets.end(), is_in_population) ? "population" : "piecewise";
}

// The shipped logs, without the sets that are fitted and whole copies of them.
PopulationFit population_without(const ConfigStore& store,
                                 const std::vector<MeasurementSet>& fitted) {
  std::vector<MeasurementSet> others;
  for (MeasurementSet& set : healthy_measurements(store)) {
    const bool is_fitted =
        std::any_of(fitted.begin(), fitted.end(),
                    [&](const MeasurementSet& other) { return is_same_run(other, set); });
    if (!is_fitted) others.push_back(std::move(set));
  }
  const std::vector<PopulationLog> logs = population_logs(store, others);
  if (logs.empty()) {
    throw InputError(
        "calibrate: no healthy log of another cluster is shipped, so that there is no population; "
        "valid: --model piecewise");
  }
  return PopulationFit(logs);
}

// Fits a model to some of the rows of the sets. Assumes a population for the model of that name.
Calibration fit_model(const ModelEntry& model, const std::optional<PopulationFit>& population,
                      const std::vector<MeasurementSet>& sets, const Topology& topology,
                      std::span<const Observation> rows) {
  if (!population) return calibrate(model, rows, topology);
  return calibrate_population(*population, {gpu_model(sets.front().gpu), topology}, rows);
}

// The errors of a fitted model on rows that it has not seen.
ErrorSummary errors_on(const Calibration& fit, const Topology& topology,
                       std::span<const Observation> unseen) {
  const auto fitted = make_collective_model(fit.choice(), topology);
  std::vector<double> errors;
  for (const Observation& row : unseen) {
    const double predicted = fitted->price(row.query).total.value();
    errors.push_back(100.0 * (predicted - row.time_us) / row.time_us);
  }
  return summarize_errors(errors);
}

// Throws ConfigError, which names the first row, if each row has others that contradict it.
void check_rows_agree(const Observations& observations) {
  const std::vector<RefusedObservation> refused = contradictions(observations.rows);
  if (refused.empty() || refused.size() < observations.rows.size()) return;
  const RefusedObservation& first = *std::min_element(
      refused.begin(), refused.end(),
      [](const RefusedObservation& a, const RefusedObservation& b) { return a.row < b.row; });
  throw ConfigError(observations.labels[first.row], "",
                    "found " + first.reason +
                        ", and no row is without such a contradiction; valid: the rows of one "
                        "setting in a file, such as one of several tables");
}

void fit_collectives(const CalibrateArguments& arguments, const ModelEntry& model,
                     const ConfigStore& store, const Topology& topology, Result& result) {
  result.observations = observations_of(result.sets, topology);
  const std::vector<Observation>& rows = result.observations.rows;
  if (rows.empty()) {
    throw InputError(
        "calibrate: found no rows of collectives; valid: files that have some, or --model "
        "roofline, which is fitted to kernels");
  }
  check_rows_agree(result.observations);
  std::optional<PopulationFit> population;
  if (model.fits_population) population = population_without(store, result.sets);
  if (arguments.hold_out) {
    std::vector<Holdable> holdable;
    for (const Observation& row : rows) {
      holdable.push_back({std::string(to_string(row.query.kind)) + " " +
                              group_text(row.query.group.ranks, row.query.group.hosts),
                          row.query.full_bytes});
    }
    const auto [seen, unseen] = halves(rows, held_out_rows(holdable));
    result.held_out =
        errors_on(fit_model(model, population, result.sets, topology, seen), topology, unseen);
  }
  result.fit = fit_model(model, population, result.sets, topology, rows);
  if (arguments.tuner_csv.empty()) return;
  const auto fitted = make_collective_model(result.fit.choice(), topology);
  std::vector<TunerRule> rules;
  std::vector<GroupSpan> spans;
  for (const MeasurementSet& set : result.sets) {
    const GroupSpan span = span_on(set, topology);
    if (std::find(spans.begin(), spans.end(), span) != spans.end()) continue;
    spans.push_back(span);
    const std::vector<TunerRule> more = tuner_rules(*fitted, span);
    rules.insert(rules.end(), more.begin(), more.end());
  }
  if (rules.empty()) {
    throw InputError("--tuner-csv: " + std::string(model.name) +
                     " does not choose among NCCL's algorithms; valid: --model nccl");
  }
  result.tuner_csv = tuner_csv_text(rules);
}

// What to warn of where the rows are far from the fitted model; "" where they are near.
std::string scatter_warning(const Calibration& fit) {
  constexpr double kUsualPercent = 5.0;
  if (fit.noise_percent < kUsualPercent && fit.median_ape_percent < kUsualPercent) return "";
  const double percent = std::max(fit.noise_percent, fit.median_ape_percent);
  return "the rows scatter by " + format_fixed(percent, 0) +
         " % about the fitted model, where those of most logs scatter by 1 %: the log may mix "
         "runs of different settings, or other jobs may have shared the network";
}

// What the rows that the fit used cover.
MeasuredRanges fitted_ranges(const Result& result) {
  std::vector<bool> is_refused(result.observations.rows.size());
  for (const RefusedObservation& refused : result.fit.refused) is_refused[refused.row] = true;
  std::vector<MeasuredRange> ranges;
  for (std::size_t i = 0; i < result.observations.rows.size(); ++i) {
    if (is_refused[i]) continue;
    const CollectiveQuery& query = result.observations.rows[i].query;
    ranges.push_back(
        {query.kind, query.group.ranks, query.group.hosts, query.full_bytes, query.full_bytes});
  }
  return MeasuredRanges(ranges);
}

// The mesh of --mesh. Throws InputError.
std::optional<DeviceMesh> mesh_of(const CalibrateArguments& arguments, const ModelEntry& model) {
  if (arguments.mesh.empty()) return std::nullopt;
  if (model.fits_kernels) {
    throw InputError("--mesh: " + std::string(model.name) +
                     " is fitted to kernels, which have no groups; valid: without it, or another "
                     "--model");
  }
  return parse_option("--mesh", [&] { return DeviceMesh::parse(arguments.mesh); });
}

// Throws InputError for sets of different GPUs, which no one stack fits.
void expect_one_gpu(std::span<const MeasurementSet> sets) {
  const MeasurementSet* first = nullptr;
  for (const MeasurementSet& set : sets) {
    if (plain_gpu(set.gpu).empty()) continue;
    if (first == nullptr) first = &set;
    if (plain_gpu(set.gpu) == plain_gpu(first->gpu)) continue;
    throw InputError("calibrate: " + first->name + " is of " + first->gpu + ", and " + set.name +
                     " of " + set.gpu + "; valid: files of one GPU");
  }
}

Result calibrate_files(const CalibrateArguments& arguments, const Session& session) {
  const ConfigStore of_mesh = session.topology_store();
  const ConfigStore store = of_mesh.with_devices_per_host_as_written();
  if (of_mesh.changes_devices_per_host() && arguments.mesh.empty()) {
    throw InputError(
        "--set devices_per_host: the hosts of the ranks are those of the measurements; valid: with "
        "--mesh, whose hosts it sets, or --hosts and --gpus-per-host for files that do not say "
        "them");
  }
  SourceHints hints;
  hints.hosts = arguments.hosts;
  hints.gpus_per_host = arguments.gpus_per_host;
  Result result;
  result.sets = read_measurements(store, arguments.files, hints);
  const std::string name = arguments.model.empty() ? default_model(result.sets) : arguments.model;
  const ModelEntry* model = find_cost_model(name);
  if (model == nullptr) {
    const std::vector<std::string_view> names = fitted_model_names();
    throw InputError("calibrate: unknown model \"" + name + "\"" + did_you_mean(name, names) +
                     "; valid: " + join(names));
  }
  result.mesh = mesh_of(arguments, *model);
  expect_one_gpu(result.sets);
  for (const MeasurementSet& set : result.sets) {
    const std::vector<std::string> warnings = warnings_on(set);
    result.warnings.insert(result.warnings.end(), warnings.begin(), warnings.end());
    if (set.gpus_per_process > 1) {
      result.warnings.push_back(
          set.name + ": one process drove " + std::to_string(set.gpus_per_process) +
          " GPUs, which makes small messages slower than in PyTorch, where each GPU has a process" +
          (model->fits_population ? "; prices are for one GPU a process"
                                  : "; the model does not tell the two apart"));
    }
    for (const RefusedRow& row : set.refused) {
      result.refused.push_back({place_of(set, row), row.reason});
    }
  }
  const TopologyChoice choice = topology_for(store, arguments.topology, result.sets.front());
  if (!arguments.topology.empty()) {
    for (const MeasurementSet& set : result.sets) {
      const std::int64_t devices = store.topology(arguments.topology).devices_per_host();
      if (set.hosts > 1 && set.gpus_per_host > devices) {
        result.warnings.push_back(set.name + ": found " + std::to_string(set.gpus_per_host) +
                                  " GPUs in a host, but the topology " + arguments.topology +
                                  " has " + std::to_string(devices) +
                                  "; the number in the measurement is used");
      }
    }
  }
  std::set<std::string> said;
  for (const MeasurementSet& set : result.sets) {
    const TopologyChoice of_set = topology_for(store, arguments.topology, set);
    if (!of_set.warning.empty() && said.insert(of_set.warning).second) {
      result.warnings.push_back(of_set.warning);
    }
    for (std::string& doubt : doubts_of_links(set, of_set.topology)) {
      result.warnings.push_back(std::move(doubt));
    }
  }
  result.topology = choice.topology;
  if (model->fits_kernels) {
    if (!arguments.tuner_csv.empty()) {
      throw InputError("--tuner-csv: " + std::string(model->name) +
                       " does not choose among NCCL's algorithms; valid: --model nccl");
    }
    fit_kernels(arguments, choice.topology, result);
  } else {
    fit_collectives(arguments, *model, store, choice.topology, result);
  }
  if (model->fits_population) {
    if (std::string warning = scatter_warning(result.fit); !warning.empty()) {
      result.warnings.push_back(std::move(warning));
    }
  }
  for (const RefusedObservation& refused : result.fit.refused) {
    result.refused.push_back({result.observations.labels[refused.row], refused.reason});
  }
  if (result.mesh) {
    result.mesh_topology = topology_for(of_mesh, arguments.topology, result.sets.front()).topology;
    result.groups = mesh_groups(*result.mesh, *result.mesh_topology, fitted_ranges(result));
  }
  return result;
}

nlohmann::json next_json(const NextSize& next) {
  return {{"collective", to_string(next.query.kind)},
          {"ranks", next.query.group.ranks},
          {"hosts", next.query.group.hosts},
          {"bytes", next.query.full_bytes},
          {"variance_left_percent", next.variance_left_percent}};
}

nlohmann::json result_json(const Result& result) {
  const Calibration& fit = result.fit;
  nlohmann::json out = {{"model", fit.model->name},
                        {"topology", result.topology->name()},
                        {"rows_used", fit.rows_used},
                        {"residuals",
                         {{"median_ape_percent", fit.median_ape_percent},
                          {"p90_ape_percent", fit.p90_ape_percent},
                          {"noise_percent", fit.noise_percent}}},
                        {"more_rows", fit.more_rows},
                        {"warnings", result.warnings}};
  if (result.held_out) {
    out["held_out"] = {{"points", result.held_out->points},
                       {"median_ape_percent", or_null(result.held_out->median_ape_percent)},
                       {"p90_ape_percent", or_null(result.held_out->p90_ape_percent)},
                       {"bias_percent", or_null(result.held_out->bias_percent)}};
  }
  out["parameters"] = nlohmann::json::array();
  for (const FittedParameter& p : fit.parameters) {
    out["parameters"].push_back(
        {{"name", p.name}, {"value", p.value}, {"low_95", p.low_95}, {"high_95", p.high_95}});
    if (p.bytes) out["parameters"].back()["bytes"] = *p.bytes;
  }
  out["not_identified"] = nlohmann::json::array();
  for (const KeptParameter& p : fit.not_identified) {
    out["not_identified"].push_back({{"name", p.name}, {"prior", p.prior}, {"reason", p.reason}});
  }
  out["rows_refused"] = nlohmann::json::array();
  for (const RefusedPlace& refused : result.refused) {
    out["rows_refused"].push_back({{"row", refused.row}, {"reason", refused.reason}});
  }
  out["next_sizes"] = nlohmann::json::array();
  for (const NextSize& next : fit.next_sizes) out["next_sizes"].push_back(next_json(next));
  if (result.mesh) {
    out["mesh"] = result.mesh->text();
    out["devices_per_host"] = result.mesh_topology->devices_per_host();
    out["mesh_groups"] = mesh_groups_json(result.groups);
  }
  return out;
}

// Parameters of curves are named after their groups: "all_reduce.80x10.smallest_us".
std::string names_text(const Calibration& fit, const Observations& observations) {
  const bool has_curves = fit.model->fits_curves || fit.model->fits_population;
  if (!has_curves || fit.parameters.empty()) return "";
  const std::string& name = fit.parameters.front().name;
  for (const Observation& row : observations.rows) {
    const auto& [ranks, hosts] = std::pair(row.query.group.ranks, row.query.group.hosts);
    const std::string curve = std::string(to_string(row.query.kind)) + "." + std::to_string(ranks) +
                              "x" + std::to_string(hosts);
    if (!name.starts_with(curve + ".")) continue;
    return "  names are COLLECTIVE.RANKSxHOSTS: " + curve + " is the curve of " +
           std::string(to_string(row.query.kind)) + " among " + group_text(ranks, hosts) + "\n";
  }
  return "";
}

// The rows that the fit left out, for a headline: ", without 20 rows that contradict
// others of their file at 10 sizes from 2 MiB to 1 GiB"; "" if it is fitted to all.
std::string left_out_text(const Result& result) {
  const Calibration& fit = result.fit;
  if (fit.refused.empty() || fit.model->fits_kernels) return "";
  std::set<Bytes> sizes;
  for (const RefusedObservation& refused : fit.refused) {
    sizes.insert(result.observations.rows[refused.row].query.full_bytes);
  }
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> names;
  for (const Bytes size : sizes) names.push_back(format_bytes(size));
  const std::string where = names.size() <= kNamed ? join(names)
                                                   : std::to_string(names.size()) + " sizes from " +
                                                         names.front() + " to " + names.back();
  const std::size_t count = fit.refused.size();
  return ", without " + std::to_string(count) +
         (count == 1 ? " row that contradicts" : " rows that contradict") +
         " others of their file at " + where;
}

// The fitted parameters, with the size that each of them is of where they are those of curves.
std::string parameters_text(const Calibration& fit, const TextStyle& style) {
  const bool has_sizes = std::ranges::any_of(
      fit.parameters, [](const FittedParameter& p) { return p.bytes.has_value(); });
  std::vector<std::string> header = {"parameter", "value", "95 % from", "to"};
  if (has_sizes) header.insert(header.begin() + 1, "size");
  TextTable table(style, std::move(header));
  for (const FittedParameter& p : fit.parameters) {
    std::vector<std::string> row = {p.name, style.figure(p.value), style.figure(p.low_95),
                                    style.figure(p.high_95)};
    if (has_sizes) row.insert(row.begin() + 1, p.bytes ? format_bytes(*p.bytes) : "");
    table.add(std::move(row));
  }
  return table.text();
}

std::string result_text(const Result& result, const TextStyle& style) {
  const Calibration& fit = result.fit;
  std::string text =
      std::string(fit.model->name) + " fitted to " + std::to_string(fit.rows_used) + " rows of " +
      std::to_string(result.sets.size()) + " sets" + left_out_text(result) +
      "; the errors on these rows are " + style.rounded(fit.median_ape_percent, 1) +
      " % in the median, " + style.rounded(fit.p90_ape_percent, 1) + " % in the 90th percentile" +
      (fit.model->fits_curves || fit.model->fits_population
           ? " (a curve goes through its own rows, so judge it with `validate` on other rows)"
           : "") +
      "\n";
  if (result.held_out && result.held_out->points == 0) {
    text += "  no row could be held out, since no group has two sizes or shapes\n";
  } else if (result.held_out) {
    text += "  " + std::to_string(result.held_out->points) +
            " of them were held out of a first fit, whose errors on them are " +
            style.rounded(result.held_out->median_ape_percent.value_or(0.0), 1) +
            " % in the median, " +
            style.rounded(result.held_out->p90_ape_percent.value_or(0.0), 1) +
            " % in the 90th percentile; the stack is fitted to all rows\n";
  }
  text += "  topology: " + printable(result.topology->name()) + " with " +
          std::to_string(result.topology->devices_per_host()) + " devices in a host\n";
  text += parameters_text(fit, style) + names_text(fit, result.observations);
  for (const KeptParameter& p : fit.not_identified) {
    text += "  kept: " + p.name + " " + style.figure(p.prior) + ": " + p.reason + "\n";
  }
  for (const RefusedPlace& refused : result.refused) {
    text += "  refused: " + printable(refused.row) + ": " + printable(refused.reason) + "\n";
  }
  if (fit.more_rows > 0) {
    text += "  " + std::to_string(fit.more_rows) +
            (fit.sizes_of_curves > 0
                 ? " more rows are needed, one at each size whose prediction is not within 5 % (" +
                       std::to_string(fit.sizes_of_curves) +
                       " sizes from 1 KiB to 1 GiB were checked); these help most:\n"
                 : " more rows would bring every interval within 5 %; these sizes help most:\n");
    for (const NextSize& next : fit.next_sizes) {
      text += "    " + std::string(to_string(next.query.kind)) + " of " +
              format_bytes(next.query.full_bytes) + " among " +
              group_text(next.query.group.ranks, next.query.group.hosts) + " would leave " +
              style.rounded(next.variance_left_percent, 1) + " % of the variance\n";
    }
  }
  if (result.mesh) {
    text += mesh_groups_text(result.groups, *result.mesh, *result.mesh_topology, style);
  }
  return text;
}

// The GPU that a stack is fitted to: the one of the logs, which expect_one_gpu() holds to be one,
// or if they name none that of --topology; none if neither says it.
std::vector<std::string> gpus_of(const Result& result, const CalibrateArguments& arguments) {
  for (const MeasurementSet& set : result.sets) {
    if (std::string gpu = plain_gpu(set.gpu); !gpu.empty()) return {std::move(gpu)};
  }
  if (arguments.topology.empty()) return {};
  return {plain_gpu(result.topology->gpu())};
}

nlohmann::json stack_json(const Result& result, const std::string& name,
                          std::vector<std::string> fitted_gpus) {
  ModelChoice choice = result.fit.choice();
  choice.fitted_gpus = std::move(fitted_gpus);
  return {
      {"schema", "shardlab/stack/1"},
      {"base", "alpha-beta"},
      {"name", name},
      {"title", std::string(result.fit.model->name) + " fitted to measurements"},
      {"source", fitted_source(result.sets)},
      {result.fit.model->fits_kernels ? "compute_model" : "collective_model", choice.to_json()}};
}

// The stack's file. The rows of a population are long lists of numbers, so each has one line.
std::string stack_text(nlohmann::json stack) {
  constexpr std::string_view kMark = "rows of the population";
  const auto model = stack.find("collective_model");
  if (model == stack.end() || (*model)["name"] != "population") return stack.dump(2) + "\n";
  std::string lines;
  for (const nlohmann::json& row : (*model)["rows"]) {
    lines += (lines.empty() ? "\n      " : ",\n      ") + row.dump();
  }
  (*model)["rows"] = kMark;
  std::string text = stack.dump(2) + "\n";
  const std::string quoted = "\"" + std::string(kMark) + "\"";
  text.replace(text.find(quoted), quoted.size(), "[" + lines + "\n    ]");
  return text;
}

// Why an option that decides what is fitted, such as --gpu, stands beside few others.
struct Misplaced {
  std::string beside;
  std::string reason;
  std::string valid;

  // Throws InputError if one of these options is on the command line.
  void refuse(const std::vector<CommandOption>& options) const {
    for (const CommandOption& option : options) {
      if (!option.is_given()) continue;
      const std::string name = option.name();
      throw InputError(beside + ": found " + (name.starts_with("-") ? name : "a FILE") + ", but " +
                       reason + "; valid: " + valid);
    }
  }
};

// Fits the model `population` to the shipped logs alone, for a GPU.
void fit_gpu(const CalibrateArguments& arguments, const Session& session) {
  const Misplaced misplaced{"--gpu", "the shipped logs are fitted",
                            "with --out and --format alone"};
  misplaced.refuse(arguments.of_files);
  misplaced.refuse(arguments.of_steps);
  const ConfigStore& store = session.store();
  const Topology topology = store.topology(arguments.gpu);
  const std::string gpu = gpu_model(topology.gpu());
  const std::vector<MeasurementSet> sets = healthy_measurements(store);
  const std::vector<PopulationLog> logs = population_logs(store, sets);
  if (logs.empty()) throw InputError("--gpu: no healthy log is shipped that could be fitted");
  const PopulationFit population(logs);
  Result result;
  result.topology = topology;
  result.fit = calibrate_for_any_cluster(population, {gpu, topology});
  result.fit.rows_used = population.rows();
  std::set<std::string> sources;
  for (const MeasurementSet& set : sets) {
    if (is_in_population(set)) result.sets.push_back(set);
  }
  for (const PopulationLog& log : logs) sources.insert(log.source);
  if (!arguments.out.empty()) {
    const std::string name = std::filesystem::path(arguments.out).stem().string();
    nlohmann::json stack = stack_json(result, name, {plain_gpu(topology.gpu())});
    stack["source"] = shipped_source(result.sets);
    stack["title"] = "Collectives of " + gpu + ", as the shipped logs of all clusters predict them";
    write_output("--out", arguments.out, stack_text(std::move(stack)));
  }
  if (session.json()) {
    session.print({{"model", "population"},
                   {"topology", topology.name()},
                   {"rows_used", result.fit.rows_used},
                   {"sets", result.sets.size()},
                   {"sources", sources.size()},
                   {"curves", result.fit.rows.size()}});
    return;
  }
  session.print("population of " + gpu + " fitted to " + std::to_string(result.fit.rows_used) +
                " rows of " + std::to_string(result.sets.size()) + " shipped sets from " +
                std::to_string(sources.size()) + " sources; " +
                std::to_string(result.fit.rows.size()) + " curves\n");
}

// Fits the terms of a stack to published steps.
void fit_steps(const CalibrateArguments& arguments, Session& session) {
  Misplaced{"--steps", "the rows name their hardware, and are all fitted",
            "with --stack, --out and --format alone"}
      .refuse(arguments.of_files);
  const LoadedSteps loaded = load_steps(arguments.steps, arguments.stack, session.store());
  if (loaded.steps.steps.empty()) {
    throw InputError(arguments.steps + ": no row can be expressed, so there is nothing to fit");
  }
  if (!session.json()) print_warnings(loaded.warnings);
  StepCalibration fit;
  std::vector<StepResult> results;
  run_unstoppable(
      session,
      {.what = "fitting terms to " + std::to_string(loaded.steps.steps.size()) + " published steps",
       .interruption = {}},
      [&] {
        fit = calibrate_steps(loaded.steps, session.threads());
        results = predict_all(loaded.steps, fit.terms);
      });
  if (!arguments.out.empty()) {
    const std::string name = std::filesystem::path(arguments.out).stem().string();
    write_output("--out", arguments.out, fitted_step_stack(loaded, fit, name).dump(2) + "\n");
  }
  if (session.json()) {
    session.print(step_calibration_json(loaded, fit, results));
  } else {
    session.print(step_calibration_text(loaded, fit, results, session.style()));
  }
}

void run_calibrate(const CalibrateArguments& arguments, Session& session) {
  if (!arguments.gpu.empty()) return fit_gpu(arguments, session);
  if (!arguments.steps.empty()) return fit_steps(arguments, session);
  if (arguments.files.empty()) {
    throw InputError(
        "calibrate: no FILE is given; valid: FILEs of measured times, --gpu or --steps");
  }
  const Result result = calibrate_files(arguments, session);
  if (!session.json()) print_warnings(result.warnings);
  if (!arguments.out.empty()) {
    const std::string name = std::filesystem::path(arguments.out).stem().string();
    write_output("--out", arguments.out,
                 stack_text(stack_json(result, name, gpus_of(result, arguments))));
  }
  if (!arguments.tuner_csv.empty())
    write_output("--tuner-csv", arguments.tuner_csv, result.tuner_csv);
  if (session.json()) {
    session.print(result_json(result));
  } else {
    session.print(result_text(result, session.style()));
  }
}

}  // namespace

void add_calibrate_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<CalibrateArguments>();
  const Command command = root.subcommand(
      "calibrate",
      "fit a stack to measured times\n  shardlab calibrate h100_1x8_all_reduce_dgxc --out "
      "calibrated-h100.json");
  const auto of_files = [&](const CommandOption& option) {
    arguments->of_files.push_back(option);
    return option;
  };
  const auto of_steps = [&](const CommandOption& option) {
    arguments->of_steps.push_back(option);
    return option;
  };
  of_files(command.option(
      "files", arguments->files,
      "nccl-tests text or JSON, traces of PyTorch's profiler or Chakra, shardlab's JSON, or a "
      "shipped set"));
  of_steps(command.option("--steps", arguments->steps,
                          "fit a stack's terms to published training steps instead: a CSV file, or "
                          "published, which is shipped"));
  of_steps(command.option("--stack", arguments->stack,
                          "with --steps, the stack whose prices stand: shipped name or path"))
      .show_default();
  command.option("--gpu", arguments->gpu,
                 "fit the shipped logs of all clusters for the GPU of this topology instead: "
                 "shipped name or path");
  of_files(
      command.option("--model", arguments->model,
                     join(fitted_model_names()) +
                         "; default: population, whose prior is the shipped logs, or piecewise for "
                         "GPUs that they do not have"));
  of_files(
      command.option("--topology", arguments->topology,
                     "shipped name or path; default: the one that fits the first set's GPU. Ranks, "
                     "hosts and devices per host come from the measurement"));
  command.option("--out", arguments->out, "where the fitted stack goes");
  of_files(command.option(
      "--mesh", arguments->mesh,
      "your mesh, such as dp=8,tp=8: also list its groups, and which of them the rows "
      "measured. Hosts are those of the topology (--set devices_per_host=4)"));
  of_files(command.flag(
      "--hold-out", arguments->hold_out,
      "also fit half of the points, and print the errors of that fit on the other half; the stack "
      "is fitted to all"));
  of_files(command.option(
      "--tuner-csv", arguments->tuner_csv,
      "where the algorithms and protocols that the fitted model chooses go, in the form that "
      "NCCL's example of a tuner plugin reads (needs --model nccl); describe tuner reads it too"));
  of_files(
      command.option("--hosts", arguments->hosts, "number of hosts, for files that do not say it"))
      .check(integer_from(1, 1 << 30));
  of_files(command.option("--gpus-per-host", arguments->gpus_per_host,
                          "number of GPUs in a host, for files that do not say it"))
      .check(integer_from(1, 1 << 30));
  add_common_options(command, session, {.jobs = true, .sets = true, .digits = true});
  command.runs([arguments, &session] { run_calibrate(*arguments, session); });
}

}  // namespace shardlab

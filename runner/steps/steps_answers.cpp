#include "runner/steps/steps_answers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "costmodel/base/json_reader.h"
#include "costmodel/base/text.h"
#include "runner/base/optional_values.h"
#include "runner/base/read_file.h"
#include "runner/base/terminal.h"
#include "runner/base/text_table.h"
#include "runner/config/read_json.h"
#include "runner/evaluation/validation.h"
#include "runner/steps/row_warnings.h"

namespace shardlab {
namespace {

std::vector<double> errors_of(const std::vector<const StepResult*>& results) {
  std::vector<double> errors;
  for (const StepResult* result : results) errors.push_back(result->error_percent());
  return errors;
}

std::vector<const StepResult*> pointers_to(const std::vector<StepResult>& results) {
  std::vector<const StepResult*> pointers;
  for (const StepResult& result : results) pointers.push_back(&result);
  return pointers;
}

using ResultsByGroup = std::map<std::string, std::vector<const StepResult*>>;

// The kinds of parallelism that a run has: "fsdp", "dp tp pp", ...
std::string parallelism_of(const TrainingRun& run) {
  const Spread& spread = run.spread;
  std::string text;
  const auto add = [&](std::int64_t ranks, std::string_view name) {
    if (ranks > 1) text += (text.empty() ? "" : " ") + std::string(name);
  };
  add(spread.dp, "dp");
  add(spread.fsdp, "fsdp");
  add(spread.tp, "tp");
  add(spread.pp, "pp");
  add(spread.cp, "cp");
  add(spread.ep, "ep");
  return text.empty() ? "one GPU" : text;
}

struct Cut {
  std::string name;
  ResultsByGroup groups;
};

std::vector<Cut> cuts_of(const std::vector<StepResult>& results) {
  std::vector<Cut> cuts = {{"source", {}}, {"gpu", {}}, {"parallelism", {}}, {"precision", {}}};
  for (const StepResult& result : results) {
    const PublishedRun& published = result.step->published;
    const std::string source = result.step->row.source;
    cuts[0].groups[source.empty() ? "unknown" : source].push_back(&result);
    cuts[1].groups[result.step->row.gpu].push_back(&result);
    cuts[2].groups[parallelism_of(published.run)].push_back(&result);
    cuts[3].groups[std::string(name_of(published.run.precision))].push_back(&result);
  }
  return cuts;
}

std::vector<double> memory_errors(const std::vector<StepResult>& results) {
  std::vector<double> errors;
  for (const StepResult& result : results) {
    if (!result.step->row.memory_gib) continue;
    errors.push_back(
        100.0 *
        (result.prediction.memory.peak_bytes / kBytesPerGiB / *result.step->row.memory_gib - 1.0));
  }
  return errors;
}

double device_gib(const StepResult& result) { return result.step->topology->device().memory_gib; }

// The runs that are said to need more memory than their GPU has. All of them ran.
std::int64_t said_not_to_fit(const std::vector<StepResult>& results) {
  return std::ranges::count_if(results, [](const StepResult& result) {
    return result.prediction.memory.peak_bytes / kBytesPerGiB > device_gib(result);
  });
}

// Whether two rows are of one setting but for how many GPUs share it.
bool differ_in_gpus_alone(const StepRow& a, const StepRow& b) {
  const auto setting = [](const StepRow& row) {
    return std::tie(row.source, row.framework, row.software, row.model, row.gpu, row.inter_host,
                    row.sharding, row.precision, row.compile, row.act_ckpt, row.async_tp, row.task,
                    row.kernels, row.no_sync, row.reduce_dtype, row.gpus_per_host, row.tp, row.pp,
                    row.vp, row.cp, row.ep, row.seq, row.micro_batch, row.grad_accum);
  };
  return a.gpus != b.gpus && setting(a) == setting(b);
}

// How far the predicted ratio of two rows is from the published one, in percent of it, for all
// pairs of rows that differ in the number of GPUs alone.
std::vector<double> ratio_errors(const std::vector<StepResult>& results) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t k = i + 1; k < results.size(); ++k) {
      if (!differ_in_gpus_alone(results[i].step->row, results[k].step->row)) continue;
      const double predicted =
          results[k].prediction.tokens_per_s_per_gpu / results[i].prediction.tokens_per_s_per_gpu;
      const double published = results[k].published() / results[i].published();
      errors.push_back(100.0 * (predicted / published - 1.0));
    }
  }
  return errors;
}

nlohmann::json errors_json(const std::vector<double>& errors, const char* counted) {
  const ErrorSummary summary = summarize_errors(errors);
  return {{counted, errors.size()},
          {"median_ape_percent", or_null(summary.median_ape_percent)},
          {"p90_ape_percent", or_null(summary.p90_ape_percent)},
          {"bias_percent", or_null(summary.bias_percent)}};
}

nlohmann::json summary_json(const std::vector<const StepResult*>& results) {
  return errors_json(errors_of(results), "rows");
}

std::string percent(const std::optional<double>& value, const TextStyle& style) {
  return style.rounded(value, 1, "none");
}

void add_line(TextTable& table, const std::string& name, const std::vector<double>& errors,
              const TextStyle& style) {
  if (errors.empty()) return;
  const ErrorSummary summary = summarize_errors(errors);
  table.add({name, std::to_string(errors.size()), percent(summary.median_ape_percent, style),
             percent(summary.p90_ape_percent, style), percent(summary.bias_percent, style)});
}

std::string when_text(const RunTraits& when) {
  std::string text;
  for (const auto& [trait, value] : when) {
    text += (text.empty() ? "" : ", ") + trait + "=" + value;
  }
  return text.empty() ? "all" : text;
}

}  // namespace

StepTerms step_terms_of(const Stack& stack) {
  return StepTerms::from_json(stack.step_terms, {"stack " + stack.name, "/step_terms"});
}

void expect_step_prices(const Stack& stack, const std::string& name) {
  if (stack.compute_model.entry->name != "none") return;
  throw InputError("--stack: " + name +
                   " prices no kernels, so it predicts no steps; valid: a stack with a compute "
                   "model, such as steps");
}

LoadedSteps load_steps(const std::string& file, const std::string& stack,
                       const ConfigStore& store) {
  std::filesystem::path path = file;
  const std::filesystem::path shipped = configs_root() / "steptimes" / (file + ".csv");
  if (!std::filesystem::exists(path) && std::filesystem::exists(shipped)) path = shipped;
  LoadedSteps loaded;
  loaded.file = file;
  std::vector<std::string> ignored;
  const std::vector<StepRow> rows = read_step_rows(read_text_file(path), file, &ignored);
  loaded.stack = store.stack(stack);
  loaded.terms = step_terms_of(loaded.stack);
  expect_step_prices(loaded.stack, stack);
  const StepTopologies topology_of = [&](const PublishedRun& run) {
    return topology_on(store, run.topology, run.devices_per_host, run.network);
  };
  loaded.steps = express_steps(
      rows, {loaded.stack.collective_model, loaded.stack.compute_model, loaded.stack.straggler},
      topology_of, read_recipe_book(configs_root()));
  // The texts of the shipped rows are known (configs/steptimes/README.md).
  if (path != shipped) loaded.warnings = row_warnings(loaded.steps.steps);
  if (!ignored.empty()) {
    loaded.warnings.push_back("no figure depends on " +
                              std::string(ignored.size() == 1 ? "the column " : "the columns ") +
                              join(std::span<const std::string>(ignored)) +
                              "; valid: the columns of configs/steptimes/README.md");
  }
  return loaded;
}

nlohmann::json steps_json(const LoadedSteps& loaded, const std::vector<StepResult>& results) {
  nlohmann::json out = summary_json(pointers_to(results));
  out["stack"] = loaded.stack.name;
  out["warnings"] = loaded.warnings;
  out["rows"] = loaded.steps.steps.size() + loaded.steps.not_expressed.size();
  out["expressed"] = results.size();
  out["not_expressed"] = nlohmann::json::array();
  for (const NotExpressed& each : loaded.steps.not_expressed) {
    out["not_expressed"].push_back({{"id", each.id}, {"reason", each.reason}});
  }
  out["by"] = nlohmann::json::object();
  for (const Cut& cut : cuts_of(results)) {
    nlohmann::json groups = nlohmann::json::object();
    for (const auto& [name, group] : cut.groups) groups[name] = summary_json(group);
    out["by"][cut.name] = std::move(groups);
  }
  out["memory"] = errors_json(memory_errors(results), "rows");
  out["memory"]["said_not_to_fit"] = said_not_to_fit(results);
  out["ratios_over_gpus"] = errors_json(ratio_errors(results), "pairs");
  out["predictions"] = nlohmann::json::array();
  for (const StepResult& result : results) {
    out["predictions"].push_back(
        {{"id", result.step->row.id},
         {"tokens_per_s_per_gpu", result.prediction.tokens_per_s_per_gpu},
         {"published", result.published()},
         {"error_percent", result.error_percent()},
         {"step_ms", result.prediction.step_us * 1e-3},
         {"recompute", result.prediction.recompute.text()},
         {"memory_gib", result.prediction.memory.peak_bytes / kBytesPerGiB},
         {"device_memory_gib", device_gib(result)},
         {"published_memory_gib", or_null(result.step->row.memory_gib)}});
  }
  return out;
}

std::string steps_text(const LoadedSteps& loaded, const std::vector<StepResult>& results,
                       const TextStyle& style) {
  const std::size_t all = loaded.steps.steps.size() + loaded.steps.not_expressed.size();
  std::string text = std::to_string(results.size()) + " of " + std::to_string(all) +
                     " published steps under " + loaded.stack.name +
                     ", errors of tokens per second per GPU in percent\n";
  TextTable table(style, {"", "rows", "median", "p90", "bias"});
  add_line(table, "all", errors_of(pointers_to(results)), style);
  for (const Cut& cut : cuts_of(results)) {
    for (const auto& [name, group] : cut.groups) {
      add_line(table, cut.name + " " + name, errors_of(group), style);
    }
  }
  add_line(table, "peak memory", memory_errors(results), style);
  add_line(table, "ratio of two numbers of GPUs", ratio_errors(results), style);
  text += table.text();
  if (const std::int64_t misjudged = said_not_to_fit(results); misjudged > 0) {
    text += "  said to need more memory than their GPU has, although they ran: " +
            std::to_string(misjudged) + " of " + std::to_string(results.size()) + "\n";
  }
  std::vector<const StepResult*> worst = pointers_to(results);
  std::stable_sort(worst.begin(), worst.end(), [](const StepResult* a, const StepResult* b) {
    return std::abs(a->error_percent()) > std::abs(b->error_percent());
  });
  constexpr std::size_t kWorst = 10;
  worst.resize(std::min(worst.size(), kWorst));
  TextTable furthest(style, {"furthest off", "model", "GPUs", "published", "predicted", "percent"});
  for (const StepResult* each : worst) {
    furthest.add({each->step->row.id, each->step->row.model,
                  std::to_string(each->step->row.gpus) + " " + each->step->row.gpu,
                  style.rounded(each->published(), 0),
                  style.rounded(each->prediction.tokens_per_s_per_gpu, 0),
                  style.rounded(each->error_percent(), 1)});
  }
  if (!worst.empty()) text += furthest.text();
  for (const NotExpressed& each : loaded.steps.not_expressed) {
    text += "  not expressed: " + printable(each.id) + ": " + printable(each.reason) + "\n";
  }
  return text;
}

nlohmann::json step_calibration_json(const LoadedSteps& loaded, const StepCalibration& fit,
                                     const std::vector<StepResult>& results) {
  const ErrorSummary summary = summarize_errors(errors_of(pointers_to(results)));
  nlohmann::json out = {{"model", "steps"},
                        {"warnings", loaded.warnings},
                        {"rows_used", fit.rows},
                        {"residuals",
                         {{"median_ape_percent", or_null(summary.median_ape_percent)},
                          {"p90_ape_percent", or_null(summary.p90_ape_percent)},
                          {"noise_percent", 100.0 * fit.scale}}}};
  out["parameters"] = nlohmann::json::array();
  for (const StepTerm& term : fit.terms.terms) {
    out["parameters"].push_back({{"name", term.name},
                                 {"when", term.when},
                                 {"value", term.value},
                                 {"low_95", or_null(term.low)},
                                 {"high_95", or_null(term.high)}});
  }
  out["rows_refused"] = nlohmann::json::array();
  for (const NotExpressed& each : loaded.steps.not_expressed) {
    out["rows_refused"].push_back({{"row", each.id}, {"reason", each.reason}});
  }
  return out;
}

std::string step_calibration_text(const LoadedSteps& loaded, const StepCalibration& fit,
                                  const std::vector<StepResult>& results, const TextStyle& style) {
  const ErrorSummary summary = summarize_errors(errors_of(pointers_to(results)));
  std::string text = std::to_string(fit.terms.terms.size()) + " terms fitted to " +
                     std::to_string(fit.rows) + " published steps; the errors on these rows are " +
                     percent(summary.median_ape_percent, style) + " % in the median, " +
                     percent(summary.p90_ape_percent, style) + " % in the 90th percentile\n";
  TextTable table(style, {"factor", "for", "value", "95 % from", "to"});
  for (const StepTerm& term : fit.terms.terms) {
    table.add({term.name, when_text(term.when), style.figure(term.value),
               style.figure(term.low, ""), style.figure(term.high, "")});
  }
  text += table.text();
  for (const NotExpressed& each : loaded.steps.not_expressed) {
    text += "  refused: " + printable(each.id) + ": " + printable(each.reason) + "\n";
  }
  return text;
}

nlohmann::json fitted_step_stack(const LoadedSteps& loaded, const StepCalibration& fit,
                                 const std::string& name) {
  nlohmann::json json = loaded.stack.to_json();
  json["name"] = name;
  json["title"] = "training steps, with terms fitted to published runs";
  json["source"] = "fitted: " + std::to_string(fit.rows) + " rows of " + loaded.file +
                   "; prices: as " + loaded.stack.name;
  json["step_terms"] = fit.terms.to_json();
  return json;
}

}  // namespace shardlab

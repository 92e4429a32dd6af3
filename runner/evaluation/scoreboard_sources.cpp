#include "runner/evaluation/scoreboard_sources.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "costmodel/base/parallel.h"
#include "costmodel/base/text.h"
#include "costmodel/calibrate/population_calibration.h"
#include "costmodel/calibrate/student_t.h"
#include "reports/statistics.h"
#include "runner/evaluation/observations.h"
#include "runner/evaluation/scoreboard.h"

namespace shardlab {
namespace {

constexpr std::size_t kFewRows[] = {1, 2, 3, 6};
constexpr std::size_t kLeastRowsOfLong = 12;

std::size_t band_number(Bytes bytes) {
  const auto* const it = std::find(std::begin(kSizeBands), std::end(kSizeBands), size_band(bytes));
  return static_cast<std::size_t>(it - std::begin(kSizeBands));
}

// A predicted row and its error.
struct Predicted {
  Bytes bytes;
  double log_error;                     // ln of predicted over measured
  std::optional<double> log_deviation;  // standard deviation that the prediction states
};

SourceRow summarize(std::string name, std::span<const Predicted> rows) {
  SourceRow out{.name = std::move(name), .bands = {}};
  for (std::size_t b = 0; b < out.bands.size(); ++b) {
    std::vector<double> errors;
    std::vector<double> widths;
    std::size_t within = 0;
    for (const Predicted& row : rows) {
      if (band_number(row.bytes) != b) continue;
      errors.push_back(100 * std::expm1(row.log_error));
      if (!row.log_deviation) continue;
      const double width = kNormal95 * *row.log_deviation;
      widths.push_back(100 * width);
      if (std::abs(row.log_error) <= width) ++within;
    }
    out.bands[b].errors = summarize_errors(errors);
    if (widths.empty()) continue;
    out.bands[b].coverage_percent =
        100 * static_cast<double>(within) / static_cast<double>(widths.size());
    out.bands[b].half_width_percent = reports::median(widths);
  }
  return out;
}

// One log, with what is needed to predict it.
struct Log {
  const MeasurementSet* set;
  std::string source;
  std::string gpu;
  Topology topology;
  std::vector<Observation> rows;  // by rising size, none of no bytes
};

std::vector<Log> logs_of(const ConfigStore& store, std::span<const MeasurementSet> sets) {
  std::vector<Log> logs;
  for (const MeasurementSet& set : sets) {
    if (!is_in_population(set)) continue;
    Log log{&set, source_of(set), gpu_model(set.gpu), topology_for(store, "", set).topology, {}};
    for (const Observation& row : observations_of({&set, 1}, log.topology).rows) {
      if (row.query.full_bytes > 0.0) log.rows.push_back(row);
    }
    std::stable_sort(log.rows.begin(), log.rows.end(),
                     [](const Observation& a, const Observation& b) {
                       return a.query.full_bytes < b.query.full_bytes;
                     });
    logs.push_back(std::move(log));
  }
  return logs;
}

// The errors of a model on a log. Rows that it cannot price are left out.
std::vector<Predicted> errors_of(const CostModel& model, const Log& log) {
  std::vector<Predicted> out;
  for (const Observation& row : log.rows) {
    const Price price = model.price(row.query);
    if (!price.is_possible()) continue;
    out.push_back(
        {row.query.full_bytes, std::log(price.total.value() / row.time_us), std::nullopt});
  }
  return out;
}

// The errors of what `calibrate` fits to the known rows of a log, on others of its rows.
std::vector<Predicted> errors_of(const PopulationPosterior& posterior,
                                 std::span<const Observation> known,
                                 std::span<const Observation> rows) {
  if (rows.empty()) return {};
  const ModelChoice choice = population_choice(posterior, known, rows);
  const PopulationCurve curve =
      PopulationCurve::from_json(choice.rows.front(), {"the fitted curve", ""});
  const Topology& topology = posterior.system().topology;
  const auto model = make_collective_model(choice, topology);
  std::vector<Predicted> out;
  for (const Observation& row : rows) {
    const CollectiveQuery& query = row.query;
    const PhysicalCurve physical =
        physical_curve(physical_group(query.kind, query.group, topology));
    const double us = model->price(query).total.value();
    out.push_back({query.full_bytes, std::log(us / row.time_us),
                   curve.log_error(physical.bend(query.full_bytes))});
  }
  return out;
}

void append(std::vector<Predicted>& all, std::vector<Predicted> more) {
  all.insert(all.end(), more.begin(), more.end());
}

// The topology of the shipped stack that prices a GPU. GPUs that have no stack of their own are
// taken for the most similar one that has: GH200 for an H100.
std::string topology_name(const Log& log) {
  constexpr std::pair<std::string_view, std::string_view> kStackOf[] = {
      {"", "h100"}, {"a100-40", "a100"}, {"b300", "b200"}, {"gb300", "gb200"}};
  const std::string_view name = topology_of_gpu(log.set->gpu);
  for (const auto& [topology, of_stack] : kStackOf) {
    if (name == topology) return std::string(of_stack);
  }
  return std::string(name);
}

using ByStack = std::map<std::string, std::vector<Predicted>>;

GpuScores scores_of(const std::string& gpu, std::span<const Log> logs,
                    const std::vector<ByStack>& predicted, const std::vector<std::string>& stacks) {
  GpuScores scores{.gpu = gpu, .sets = 0, .sources = 0, .stacks = {}};
  std::set<std::string> sources;
  for (const std::string& stack : stacks) {
    std::vector<Predicted> all;
    for (std::size_t i = 0; i < logs.size(); ++i) {
      if (gpu != "all" && topology_name(logs[i]) != gpu) continue;
      sources.insert(logs[i].source);
      append(all, predicted[i].at(stack));
      if (&stack == &stacks.front()) ++scores.sets;
    }
    scores.stacks.push_back(summarize(stack, all));
  }
  scores.sources = sources.size();
  return scores;
}

// The errors of all stacks on each log.
std::vector<ByStack> stack_errors(const ConfigStore& store, std::span<const Log> logs,
                                  PopulationPriors& priors, int threads) {
  // One stack for each source that is left out and each GPU of its logs.
  std::map<std::pair<std::string, std::string>, ModelChoice> general;
  for (const Log& log : logs) general[{log.source, log.gpu}] = {};
  std::vector<std::pair<const PopulationFit*, PopulationSystem>> tasks;
  std::vector<std::vector<Collective>> kinds;  // that the logs of each task ask for
  for (const auto& entry : general) {
    const auto& [source, gpu] = entry.first;
    std::set<Collective> asked;
    const Log* first = nullptr;
    for (const Log& log : logs) {
      if (log.source != source || log.gpu != gpu) continue;
      if (first == nullptr) first = &log;
      for (const Observation& row : log.rows) asked.insert(row.query.kind);
    }
    kinds.emplace_back(asked.begin(), asked.end());
    tasks.push_back({&priors.without(source), {gpu, store.topology(topology_name(*first))}});
  }
  std::vector<ModelChoice> choices(tasks.size());
  parallel_for(
      tasks.size(), threads, [] { return std::make_unique<int>(0); },
      [&](int&, std::size_t i) {
        choices[i] = calibrate_for_any_cluster(*tasks[i].first, tasks[i].second,
                                               {.kinds = kinds[i], .errors = false})
                         .choice();
      });
  std::size_t next = 0;
  for (auto& [key, choice] : general) choice = std::move(choices[next++]);

  std::vector<ByStack> out;
  for (const Log& log : logs) {
    ByStack& by_stack = out.emplace_back();
    for (const std::string_view name : kScoredStacks) {
      const Stack stack = store.stack(std::string(name));
      by_stack[stack.name] =
          errors_of(*make_collective_model(stack.collective_model, log.topology), log);
    }
    by_stack[std::string(kCalibratedStack)] =
        errors_of(*make_collective_model(general.at({log.source, log.gpu}), log.topology), log);
  }
  return out;
}

// The rows that are not among the chosen ones.
std::vector<Observation> others_of(const std::vector<Observation>& rows,
                                   std::span<const std::size_t> chosen) {
  std::vector<Observation> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) out.push_back(rows[i]);
  }
  return out;
}

std::vector<Predicted> predicted_from(const PopulationFit& fit, const Log& log,
                                      std::span<const std::size_t> chosen) {
  std::vector<Observation> known;
  for (const std::size_t i : chosen) known.push_back(log.rows[i]);
  return errors_of(PopulationPosterior(fit, {log.gpu, log.topology}, known), known,
                   others_of(log.rows, chosen));
}

// The indices of the rows that the advice names, one after the other.
std::vector<std::size_t> advised_rows(const PopulationFit& fit, const Log& log, std::size_t count) {
  std::vector<CollectiveQuery> candidates;
  for (const Observation& row : log.rows) candidates.push_back(row.query);
  const PopulationPosterior prior(fit, {log.gpu, log.topology}, {});
  std::vector<std::size_t> chosen;
  for (const NextSize& next : choose_next_sizes(prior, candidates, count)) {
    const auto it = std::find_if(
        candidates.begin(), candidates.end(),
        [&](const CollectiveQuery& query) { return query.full_bytes == next.query.full_bytes; });
    chosen.push_back(static_cast<std::size_t>(it - candidates.begin()));
  }
  return chosen;
}

bool is_one_curve(const Log& log) {
  return std::all_of(log.rows.begin(), log.rows.end(), [&](const Observation& row) {
    return row.query.kind == log.rows.front().query.kind;
  });
}

std::string cell(const std::optional<double>& value) {
  return value ? format_fixed(*value, 1) : "-";
}

std::string table_head(std::string_view first, bool intervals) {
  std::string text = "| " + std::string(first) + " |";
  std::string rule = "| --- |";
  for (const std::string_view band : kSizeBands) {
    text += " " + std::string(band) + " median | p90 |";
    rule += " ---: | ---: |";
    if (intervals) {
      text += " within | +- |";
      rule += " ---: | ---: |";
    } else {
      text += " rows |";
      rule += " ---: |";
    }
  }
  return text + "\n" + rule + "\n";
}

std::string table_row(const std::string& name, const SourceRow& row, bool intervals) {
  std::string text = "| " + name + " |";
  for (const BandScore& band : row.bands) {
    text += " " + cell(band.errors.median_ape_percent) + " | " + cell(band.errors.p90_ape_percent) +
            " |";
    if (intervals) {
      text += " " + cell(band.coverage_percent) + " | " + cell(band.half_width_percent) + " |";
    } else {
      text += " " + std::to_string(band.errors.points) + " |";
    }
  }
  return text + "\n";
}

}  // namespace

std::vector<std::size_t> evenly_spaced(std::size_t n, std::size_t count) {
  std::vector<std::size_t> out;
  if (count == 1 && n > 1) return {n / 2};
  for (std::size_t i = 0; i < std::min(n, count); ++i) {
    const double x = n <= count ? static_cast<double>(i)
                                : static_cast<double>((n - 1) * i) / static_cast<double>(count - 1);
    out.push_back(static_cast<std::size_t>(std::nearbyint(x)));
  }
  return out;
}

SourceScores score_sources(const ConfigStore& store, std::span<const MeasurementSet> sets,
                           PopulationPriors& priors, int threads) {
  SourceScores scores;
  const std::vector<Log> logs = logs_of(store, sets);
  const std::vector<ByStack> predicted = stack_errors(store, logs, priors, threads);
  std::vector<std::string> stacks(std::begin(kScoredStacks), std::end(kScoredStacks));
  stacks.emplace_back(kCalibratedStack);
  std::vector<std::string> gpus = {"all"};
  for (const Log& log : logs) {
    const std::string name = topology_name(log);
    if (std::find(gpus.begin(), gpus.end(), name) == gpus.end()) gpus.push_back(name);
  }
  for (const std::string& gpu : gpus) {
    scores.gpus.push_back(scores_of(gpu, logs, predicted, stacks));
  }

  std::vector<const Log*> long_logs;
  for (const Log& log : logs) {
    if (log.rows.size() >= kLeastRowsOfLong && is_one_curve(log)) long_logs.push_back(&log);
  }
  scores.few_rows_sets = long_logs.size();
  std::vector<const PopulationFit*> fits;
  for (const Log* log : long_logs) fits.push_back(&priors.without(log->source));
  for (const std::size_t count : kFewRows) {
    std::vector<std::vector<Predicted>> even(long_logs.size());
    std::vector<std::vector<Predicted>> advised(long_logs.size());
    parallel_for(
        long_logs.size(), threads, [] { return std::make_unique<int>(0); },
        [&](int&, std::size_t i) {
          const Log& log = *long_logs[i];
          even[i] = predicted_from(*fits[i], log, evenly_spaced(log.rows.size(), count));
          advised[i] = predicted_from(*fits[i], log, advised_rows(*fits[i], log, count));
        });
    FewRowsScores row{.rows = count, .even = {}, .advised = {}};
    std::vector<Predicted> all_even;
    std::vector<Predicted> all_advised;
    for (std::size_t i = 0; i < long_logs.size(); ++i) {
      append(all_even, even[i]);
      append(all_advised, advised[i]);
    }
    row.even = summarize("even", all_even);
    row.advised = summarize("advised", all_advised);
    scores.few_rows.push_back(std::move(row));
  }
  return scores;
}

std::string sources_text(const SourceScores& scores) {
  std::string text =
      "\n## left-out source, no rows of the cluster\n\n"
      "All logs of one source are left out together, and `calibrated` is what `calibrate --gpu` "
      "makes of the others: the shipped\n"
      "stack of the GPU, as somebody meets it whose cluster is not among the logs. All stacks are "
      "asked on the network that the\n"
      "source states. `h100` holds GH200, `b200` B300, and `gb200` GB300 too.\n";
  for (const GpuScores& gpu : scores.gpus) {
    text += "\n" + gpu.gpu + ", " + std::to_string(gpu.sets) + " sets of " +
            std::to_string(gpu.sources) + (gpu.sources == 1 ? " source:" : " sources:") + "\n\n" +
            table_head("stack", false);
    for (const SourceRow& row : gpu.stacks) text += table_row(row.name, row, false);
  }
  text +=
      "\n## left-out source, few rows of the log\n\n"
      "Some rows of a log are known, and its others are predicted, over the " +
      std::to_string(scores.few_rows_sets) +
      " sets of at least 12 rows of one collective.\n"
      "The rows lie evenly over the sizes, or where `calibrate` advises to measure. `within` is "
      "the share of rows in their 95 %\n"
      "interval, and `+-` its median half width, both in percent.\n\n" +
      table_head("rows", true);
  for (const FewRowsScores& few : scores.few_rows) {
    const std::string rows = std::to_string(few.rows);
    text += table_row(rows + " evenly spaced", few.even, true);
    text += table_row(rows + " as advised", few.advised, true);
  }
  return text;
}

}  // namespace shardlab

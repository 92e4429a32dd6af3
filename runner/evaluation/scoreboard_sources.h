// How well logs are predicted whose source was left out: by the stacks, and from a few of their own
// rows.
//
//   PopulationPriors priors(store, sets);
//   const SourceScores scores = score_sources(store, sets, priors, threads);
//   sources_text(scores)             // a section of reports/scoreboard.md
//
// All logs of one source (source_of in population.h) are left out together. For each model of GPU,
// `calibrated` is what `calibrate --gpu` makes of the logs of all other sources; a stack is scored
// on the network that the log's source states, as all stacks are. The few rows are conditioned on
// as `calibrate` does; they lie evenly over the sizes, or where the variance of what is predicted
// for the log's sizes falls fastest (choose_next_sizes). Coverage is the share of the rows that are
// within their 95 % interval, whose half width is that of ln t, in percent.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runner/evaluation/population.h"
#include "runner/evaluation/validation.h"

namespace shardlab {

// The scores of one row of a table.
struct BandScore {
  ErrorSummary errors;
  std::optional<double> coverage_percent;
  std::optional<double> half_width_percent;  // median
};

struct SourceRow {
  std::string name;
  std::array<BandScore, std::size(kSizeBands)> bands;
};

struct GpuScores {
  std::string gpu;  // the topology's name, or "all"
  std::size_t sets = 0;
  std::size_t sources = 0;
  std::vector<SourceRow> stacks;
};

struct FewRowsScores {
  std::size_t rows = 0;
  SourceRow even;
  SourceRow advised;
};

struct SourceScores {
  std::vector<GpuScores> gpus;
  std::size_t few_rows_sets = 0;
  std::vector<FewRowsScores> few_rows;
};

[[nodiscard]] SourceScores score_sources(const ConfigStore& store,
                                         std::span<const MeasurementSet> sets,
                                         PopulationPriors& priors, int threads);
[[nodiscard]] std::string sources_text(const SourceScores& scores);

// The indices of `count` of n rows, evenly spaced, first and last included; the middle one if
// `count` is 1, and all if there are fewer.
[[nodiscard]] std::vector<std::size_t> evenly_spaced(std::size_t n, std::size_t count);

}  // namespace shardlab

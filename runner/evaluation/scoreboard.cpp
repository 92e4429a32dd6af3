#include "runner/evaluation/scoreboard.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/calibrate/calibration.h"
#include "costmodel/measurements/health.h"
#include "runner/base/terminal.h"
#include "runner/config/configs.h"
#include "runner/evaluation/observations.h"

namespace shardlab {
namespace {

constexpr std::size_t kLeastRows = 12;
constexpr std::size_t kFitted = 6;
constexpr std::int64_t kSmallHosts = 4;
constexpr std::int64_t kLargeHosts = 8;
constexpr std::string_view kInterpolated = "interpolation";

std::size_t band_index(Bytes bytes) {
  const auto* const it = std::find(std::begin(kSizeBands), std::end(kSizeBands), size_band(bytes));
  return static_cast<std::size_t>(it - std::begin(kSizeBands));
}

// The errors of stacks by band of sizes, in the order in which the stacks were first added.
class Errors {
 public:
  void add(std::string_view stack, Bytes bytes, double predicted, double measured) {
    auto it = std::find_if(stacks_.begin(), stacks_.end(),
                           [&](const Stacked& s) { return s.stack == stack; });
    if (it == stacks_.end()) it = stacks_.insert(it, {std::string(stack), {}});
    it->bands[band_index(bytes)].push_back(100 * (predicted / measured - 1));
  }

  [[nodiscard]] std::vector<ScoreRow> rows() const {
    std::vector<ScoreRow> out;
    for (const Stacked& stacked : stacks_) {
      ScoreRow& row = out.emplace_back();
      row.stack = stacked.stack;
      for (std::size_t b = 0; b < row.bands.size(); ++b) {
        row.bands[b] = summarize_errors(stacked.bands[b]);
      }
    }
    return out;
  }

 private:
  struct Stacked {
    std::string stack;
    std::array<std::vector<double>, std::size(kSizeBands)> bands;
  };
  std::vector<Stacked> stacks_;
};

bool is_one_collective(const MeasurementSet& set) {
  return std::all_of(set.rows.begin(), set.rows.end(), [&](const MeasuredRow& row) {
    return row.collective == set.rows.front().collective;
  });
}

MeasurementSet part_of(const MeasurementSet& set, std::span<const std::size_t> rows) {
  MeasurementSet part = set;
  part.rows.clear();
  for (const std::size_t r : rows) part.rows.push_back(set.rows[r]);
  return part;
}

double interpolate(std::span<const MeasuredRow> rows, Bytes bytes) {
  const auto upper = std::find_if(rows.begin(), rows.end(),
                                  [&](const MeasuredRow& row) { return row.bytes >= bytes; });
  if (upper == rows.begin()) return rows.front().time_us;
  if (upper == rows.end()) return rows.back().time_us;
  const MeasuredRow& a = *(upper - 1);
  const double part = std::log(bytes / a.bytes) / std::log(upper->bytes / a.bytes);
  return std::exp(std::log(a.time_us) + part * std::log(upper->time_us / a.time_us));
}

class Board {
 public:
  Board(const ConfigStore& store, std::span<const MeasurementSet> sets, PopulationPriors* priors,
        Progress& progress)
      : store_(store), sets_(sets), priors_(priors), progress_(progress) {
    for (const std::string_view name : kScoredStacks)
      stacks_.push_back(store.stack(std::string(name)));
  }

  [[nodiscard]] ProtocolScores sizes() const {
    ProtocolScores scores{.name = "held-out sizes of a known log", .sets = 0, .rows = {}};
    Errors errors;
    for (const MeasurementSet& set : sets_) {
      progress_.advance();
      if (set.rows.size() < kLeastRows || !is_one_collective(set)) continue;
      const std::vector<std::size_t> known = evenly_spaced(set.rows.size(), kFitted);
      std::vector<std::size_t> rest;
      for (std::size_t r = 0; r < set.rows.size(); ++r) {
        if (std::find(known.begin(), known.end(), r) == known.end()) rest.push_back(r);
      }
      const MeasurementSet train = part_of(set, known);
      const MeasurementSet test = part_of(set, rest);
      const Topology topology = topology_for(store_, "", set).topology;
      if (!score(std::span(&train, 1), test, topology, errors)) continue;
      const bool starts_above_zero = train.rows.front().bytes > 0;
      for (const MeasuredRow& row : test.rows) {
        if (!starts_above_zero) break;
        errors.add(kInterpolated, row.bytes, interpolate(train.rows, row.bytes), row.time_us);
      }
      ++scores.sets;
    }
    scores.rows = errors.rows();
    return scores;
  }

  [[nodiscard]] ProtocolScores log() const {
    ProtocolScores scores{
        .name = "held-out log of a known family and scale", .sets = 0, .rows = {}};
    Errors errors;
    for (const MeasurementSet& set : sets_) {
      progress_.advance();
      std::vector<MeasurementSet> train;
      bool same_scale = false;
      for (const MeasurementSet& other : sets_) {
        if (other.name == set.name || measurement_family(other) != measurement_family(set))
          continue;
        same_scale =
            same_scale || (other.hosts == set.hosts && other.gpus_per_host == set.gpus_per_host);
        train.push_back(other);
      }
      if (!same_scale) continue;
      if (score(train, set, topology_for(store_, "", set).topology, errors)) ++scores.sets;
    }
    scores.rows = errors.rows();
    return scores;
  }

  [[nodiscard]] ProtocolScores scale() const {
    ProtocolScores scores{
        .name = "held-out scale: from up to 4 hosts to 8 and more", .sets = 0, .rows = {}};
    Errors errors;
    for (const MeasurementSet& set : sets_) {
      progress_.advance();
      if (set.hosts < kLargeHosts) continue;
      std::vector<MeasurementSet> train;
      for (const MeasurementSet& other : sets_) {
        if (other.hosts > 1 && other.hosts <= kSmallHosts &&
            measurement_family(other) == measurement_family(set)) {
          train.push_back(other);
        }
      }
      if (train.empty()) continue;
      if (score(train, set, topology_for(store_, "", set).topology, errors)) ++scores.sets;
    }
    scores.rows = errors.rows();
    return scores;
  }

 private:
  // Adds the errors of every stack on `test`. Returns false if no curve can be fitted to `train`.
  [[nodiscard]] bool score(std::span<const MeasurementSet> train, const MeasurementSet& test,
                           const Topology& topology, Errors& errors) const {
    Calibration fit;
    try {
      fit =
          calibrate(*find_cost_model("piecewise"), observations_of(train, topology).rows, topology);
    } catch (const InputError&) {
      return false;
    }
    const auto add = [&](std::string_view stack, const CostModel& model) {
      for (const RowPrediction& row : predict_set(model, span_on(test, topology), test)) {
        if (row.is_priced()) errors.add(stack, row.bytes, row.predicted_us, row.measured_us);
      }
    };
    for (const Stack& stack : stacks_) {
      add(stack.name, *make_collective_model(stack.collective_model, topology));
    }
    add_calibrated(train, test, topology, *make_collective_model(fit.choice(), topology), errors);
    add(kPiecewiseStack, *make_collective_model(fit.choice(), topology));
    return true;
  }

  // Adds the errors of what `calibrate` fits by default: the population, or `piecewise` for GPUs
  // that it does not have.
  void add_calibrated(std::span<const MeasurementSet> train, const MeasurementSet& test,
                      const Topology& topology, const CostModel& piecewise, Errors& errors) const {
    const auto add = [&](const CostModel& model) {
      for (const RowPrediction& row : predict_set(model, span_on(test, topology), test)) {
        if (!row.is_priced()) continue;
        errors.add(kCalibratedStack, row.bytes, row.predicted_us, row.measured_us);
      }
    };
    if (priors_ == nullptr || !is_in_population(test)) return add(piecewise);
    const std::vector<Observation> known = observations_of(train, topology).rows;
    const PopulationPosterior posterior(priors_->without(source_of(test)),
                                        {gpu_model(test.gpu), topology}, known);
    const ModelChoice choice =
        population_choice(posterior, known, observations_of({&test, 1}, topology).rows);
    add(*make_collective_model(choice, topology));
  }

  const ConfigStore& store_;
  std::span<const MeasurementSet> sets_;
  PopulationPriors* priors_;  // null if the sets are no population
  Progress& progress_;
  std::vector<Stack> stacks_;
};

// Whether the sets are from at least two sources of the population, so that one can be left out.
bool is_population(std::span<const MeasurementSet> sets) {
  std::set<std::string> sources;
  for (const MeasurementSet& set : sets) {
    if (is_in_population(set) && !set.rows.empty()) sources.insert(source_of(set));
  }
  return sources.size() > 1;
}

std::string percent_or_dash(const std::optional<double>& value) {
  return value ? format_fixed(*value, 1) : "-";
}

}  // namespace

MeasurementSet sparse_rows(const MeasurementSet& set) {
  return part_of(set, evenly_spaced(set.rows.size(), kFitted));
}

Scoreboard make_scoreboard(const ConfigStore& store, std::span<const MeasurementSet> sets,
                           int threads, bool quiet) {
  Scoreboard board;
  board.sets = sets.size();
  Errors noise;
  for (const MeasurementSet& set : sets) {
    if (set.rows.size() < kLeastRows) continue;
    for (const MeasuredRow& row : set.rows) {
      if (row.in_place_time_us) noise.add("", row.bytes, *row.in_place_time_us, row.time_us);
    }
  }
  if (!noise.rows().empty()) board.noise = noise.rows().front().bands;
  std::optional<PopulationPriors> priors;
  if (is_population(sets)) priors.emplace(store, sets);
  PopulationPriors* const known = priors ? &*priors : nullptr;
  {
    Progress progress("logs", 3 * sets.size(), quiet);
    const Board protocols(store, sets, known, progress);
    board.protocols = {protocols.sizes(), protocols.log(), protocols.scale()};
  }
  if (known != nullptr) board.sources = score_sources(store, sets, *known, threads);
  board.decisions = score_decisions(store, sets, known, threads);
  return board;
}

std::string scoreboard_text(const Scoreboard& board) {
  std::string text =
      "# Scoreboard: cost models against public NCCL runs\n\n"
      "Generated by `scripts/generate_scoreboard.sh` (`shardlab validate --scoreboard`); do not "
      "edit.\n"
      "The tables show how far predictions are off the measured out-of-place time: the absolute "
      "error in percent, as median and\n"
      "90th percentile over the rows of the " +
      std::to_string(board.sets) +
      " sets given (unless files are named, those of `configs/measurements` that are healthy).\n"
      "`runner/evaluation/scoreboard.h` explains the protocols. `calibrated` is what `calibrate` "
      "fits to what the protocol lets it\n"
      "see: the model `population`, whose prior has not seen any other log of the set's source, or "
      "`piecewise` for GPUs that\n"
      "the population lacks. `piecewise` is that model on all sets. Some figures were fitted to "
      "all sets beforehand: the shape\n"
      "of a bend (`costmodel/curve.h`), the ratios between latencies of different collectives and "
      "groups\n"
      "(`costmodel/curve_relation.h`), and how alike clusters are "
      "(`costmodel/calibrate/population_kernel.h`). `interpolation` draws straight lines in (ln "
      "bytes, ln time) "
      "through the same 6 rows.\n"
      "\n"
      "The noise floor is the median difference between in-place and out-of-place times: ";
  for (std::size_t b = 0; b < board.noise.size(); ++b) {
    text += (b == 0 ? "" : ", ") + percent_or_dash(board.noise[b].median_ape_percent) + " % (" +
            std::string(kSizeBands[b]) + ")";
  }
  text += ".\n";
  for (const ProtocolScores& protocol : board.protocols) {
    text += "\n## " + protocol.name + "\n\nErrors over " + std::to_string(protocol.sets) +
            " sets:\n\n| stack |";
    for (const std::string_view band : kSizeBands) {
      text += " " + std::string(band) + " median | p90 | rows |";
    }
    text += "\n| --- |";
    for (std::size_t b = 0; b < std::size(kSizeBands); ++b) text += " ---: | ---: | ---: |";
    text += "\n";
    for (const ScoreRow& row : protocol.rows) {
      text += "| " + row.stack + " |";
      for (const ErrorSummary& band : row.bands) {
        text += " " + percent_or_dash(band.median_ape_percent) + " | " +
                percent_or_dash(band.p90_ape_percent) + " | " + std::to_string(band.points) + " |";
      }
      text += "\n";
    }
  }
  if (!board.sources.gpus.empty()) text += sources_text(board.sources);
  return text + decisions_text(board.decisions);
}

}  // namespace shardlab

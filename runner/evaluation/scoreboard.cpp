#include "runner/evaluation/scoreboard.h"

#include <algorithm>
#include <cmath>
#include <map>

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

// kFitted indices of n rows, evenly spaced; all indices if there are fewer rows.
std::vector<std::size_t> fitted_rows(std::size_t n) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < std::min(n, kFitted); ++i) {
    const double x =
        n <= kFitted ? static_cast<double>(i) : static_cast<double>((n - 1) * i) / (kFitted - 1);
    out.push_back(static_cast<std::size_t>(std::nearbyint(x)));
  }
  return out;
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
  Board(const ConfigStore& store, std::span<const MeasurementSet> sets, Progress& progress)
      : store_(store), sets_(sets), progress_(progress) {
    for (const std::string_view name : kScoredStacks)
      stacks_.push_back(store.stack(std::string(name)));
  }

  [[nodiscard]] ProtocolScores sizes() const {
    ProtocolScores scores{.name = "held-out sizes of a known log", .sets = 0, .rows = {}};
    Errors errors;
    for (const MeasurementSet& set : sets_) {
      progress_.advance();
      if (set.rows.size() < kLeastRows || !is_one_collective(set)) continue;
      const std::vector<std::size_t> known = fitted_rows(set.rows.size());
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
    add(kCalibratedStack, *make_collective_model(fit.choice(), topology));
    return true;
  }

  const ConfigStore& store_;
  std::span<const MeasurementSet> sets_;
  Progress& progress_;
  std::vector<Stack> stacks_;
};

std::string percent_or_dash(const std::optional<double>& value) {
  return value ? format_fixed(*value, 1) : "-";
}

}  // namespace

MeasurementSet sparse_rows(const MeasurementSet& set) {
  return part_of(set, fitted_rows(set.rows.size()));
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
  {
    Progress progress("logs", 3 * sets.size(), quiet);
    const Board protocols(store, sets, progress);
    board.protocols = {protocols.sizes(), protocols.log(), protocols.scale()};
  }
  board.decisions = score_decisions(store, sets, threads);
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
      "`runner/evaluation/scoreboard.h` explains the protocols. `calibrated` is the model "
      "`piecewise`, fitted by `calibrate` to\n"
      "what the protocol lets it see. Two things in it were fitted to all sets beforehand: the "
      "shape of a bend\n"
      "(`costmodel/curve.h`) and the ratios between latencies of different collectives and groups\n"
      "(`costmodel/curve_relation.h`). `interpolation` draws straight lines in (ln bytes, ln time) "
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
  return text + decisions_text(board.decisions);
}

}  // namespace shardlab

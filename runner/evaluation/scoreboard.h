// The scoreboard compares stacks on runs that they were not fitted to.
//
//   const Scoreboard board = make_scoreboard(store, sets, threads);
//   scoreboard_text(board)       // reports/scoreboard.md
//
// It has three protocols, each over the healthy sets:
//   sizes   held-out sizes of a known log: every set that has at least 12 rows of one collective
//           takes part. The curve is fitted to 6 of its rows, evenly spaced in index, first and
//           last included, and all others are predicted;
//   log     a held-out log of a known family and scale: the stack is fitted to all other sets of
//           the family, at least one of which has the log's scale, whatever its collectives;
//   scale   a held-out scale: the stack is fitted to a family's sets on 2 to 4 hosts, and the
//           family's sets on 8 hosts and more are predicted.
// In all of them, the prior of `calibrated` has not seen any log of the set's source, except those
// that the protocol fits. scoreboard_sources.h has a fourth: sources that are left out. Errors are
// pooled over rows, in the bands of validation.h. scoreboard_decisions.h computes what the stacks'
// choices cost.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runner/config/configs.h"
#include "runner/evaluation/scoreboard_decisions.h"
#include "runner/evaluation/scoreboard_sources.h"
#include "runner/evaluation/validation.h"

namespace shardlab {

struct ScoreRow {
  std::string stack;
  std::array<ErrorSummary, std::size(kSizeBands)> bands;
};

struct ProtocolScores {
  std::string name;
  std::size_t sets = 0;  // number of sets that were predicted
  std::vector<ScoreRow> rows;
};

inline constexpr std::string_view kScoredStacks[] = {"dtensor-v3", "alpha-beta", "nccl", "ap-nccl"};
inline constexpr std::string_view kCalibratedStack = "calibrated";
inline constexpr std::string_view kPiecewiseStack = "piecewise";
inline constexpr std::string_view kGeneralStack = "calibrated, no rows";

// Six of the set's rows, evenly spaced in index, first and last included; all rows if there are
// fewer than six.
[[nodiscard]] MeasurementSet sparse_rows(const MeasurementSet& set);

struct Scoreboard {
  std::size_t sets = 0;
  std::array<ErrorSummary, std::size(kSizeBands)>
      noise;  // differences between in-place and out-of-place times
  std::vector<ProtocolScores> protocols;
  SourceScores sources;  // empty if the sets are not from at least two sources of the population
  std::vector<SystemScores> decisions;
};

[[nodiscard]] Scoreboard make_scoreboard(const ConfigStore& store,
                                         std::span<const MeasurementSet> sets, int threads,
                                         bool quiet = true);
[[nodiscard]] std::string scoreboard_text(const Scoreboard& board);

}  // namespace shardlab

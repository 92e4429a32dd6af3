// What stacks' choices cost on hardware that was measured: regret over the shipped suites.
//
//   for (const SystemScores& system : score_decisions(store, sets, jobs)) ...
//
// For each family of hardware (measurement_family), all its rows together make a table of measured
// times. A question counts when every group of its mesh was measured, when the table prices the
// choice of every stack, when one of these choices moves data, and when there are at least two
// different times among them and the reference's candidates; otherwise there is nothing to choose.
// The table answers from half the smallest to twice the largest measured size; a smaller message
// takes the time of the smallest measured one, if that has up to 16 KiB. Kernels were not measured,
// so the roofline prices them on the family's topology. All stacks choose among the same
// candidates, those of the reference's rules: what counts here is the price. A stack's regret is
// the measured time of its choice over that of the best choice, minus 1.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/measurements/measurement_set.h"
#include "runner/config/configs.h"

namespace shardlab {

struct StackDecisions {
  std::string stack;
  std::vector<double> regret_percent;  // one per question
};

struct SystemScores {
  std::string system;       // name of the family of hardware
  std::string groups;       // "8x1 16x2": the groups that questions asked for, ranks x hosts
  std::string collectives;  // "AG AR A2A": those measured in one of these groups
  std::vector<std::string> questions;
  std::vector<StackDecisions> stacks;
};

// Families with at least one question that counts, in the order of the sets.
[[nodiscard]] std::vector<SystemScores> score_decisions(const ConfigStore& store,
                                                        std::span<const MeasurementSet> sets,
                                                        int threads);
// The decisions as a section of Markdown.
[[nodiscard]] std::string decisions_text(std::span<const SystemScores> systems);

}  // namespace shardlab

// What stacks' choices cost on measured hardware: their regret over the shipped suites.
//
//   for (const SystemScores& system : score_decisions(store, sets, &priors, threads)) ...
//
// For each family of hardware (measurement_family), all its rows together make a table of measured
// times. A question counts if every group of its mesh was measured, if the table prices the choice
// of every stack, if at least one of these choices moves data, and if the choices and the
// reference's candidates have at least two different times; otherwise there is nothing to choose.
// The table answers for sizes from half the smallest to twice the largest measured one; below that,
// a message takes the time of the smallest measured one if that one has up to 16 KiB. Kernels were
// not measured, so the roofline prices them on the family's topology. All stacks choose among the
// same candidates, those of the reference's rules, so that only their prices differ. A stack's
// regret is the measured time of its choice over that of the best choice, minus 1.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/measurements/measurement_set.h"
#include "runner/config/configs.h"
#include "runner/evaluation/population.h"

namespace shardlab {

struct StackDecisions {
  std::string stack;
  std::vector<double> regret_percent;  // one per question
};

struct SystemScores {
  std::string system;  // name of the family of hardware
  std::string groups;  // "8x1 16x2": the groups that the questions need, as ranks x hosts
  bool is_in_population = false;  // whether a shipped stack prices the family's GPU
  std::string collectives;        // "AG AR A2A": the collectives that were measured in these groups
  std::vector<std::string> questions;
  std::vector<StackDecisions> stacks;
};

// The families with at least one question that counts, in the order in which the sets name them.
// Without priors, no stack of the population is scored. With them, "calibrated, no rows" is the
// general stack of the family's GPU, which has seen no log of the family's sources.
[[nodiscard]] std::vector<SystemScores> score_decisions(const ConfigStore& store,
                                                        std::span<const MeasurementSet> sets,
                                                        const PopulationPriors* priors,
                                                        int threads);
// The section of the scoreboard about decisions, in Markdown.
[[nodiscard]] std::string decisions_text(std::span<const SystemScores> systems);

}  // namespace shardlab

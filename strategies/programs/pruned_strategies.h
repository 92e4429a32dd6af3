// Leaves out the strategies that no best plan of a program has, before any pair of strategies is
// priced: on a mesh of three or four dims, pairs take far more time and memory than all else.
//
//   ProgramStrategies all = enumerate_strategies(program, mesh, ...);
//   const PruneResult pruned = prune_strategies(program, mesh, all, evaluator, options);
//   if (pruned.strategies) // an optimum over these is an optimum over `all`
//
// Sweeps of StrategyBounds give a bound on every assignment, and an excess for each strategy: an
// assignment with the strategy costs at least the bound plus its excess. Assignments that the
// sweeps decode are priced exactly; the best one costs UB. Then every strategy whose bound plus
// excess is above UB is left out.
//
// Why this is exact: the assignment at UB obeys all constraints and budgets and is priced exactly,
// so an optimum costs at most UB. An assignment with a strategy that is left out costs more than UB
// by at least a share kPruneSlack of it. So every optimum, and every assignment that costs at most
// UB, has only strategies that are left, in the order in which they were listed: the optimum, its
// ties, and which of the ties the solver takes are those of all strategies. The quality of the
// bounds only affects how many are left. While they are more than can be priced, strategies of the
// largest excess go too, but none that the best assignment or a decoded one has. Then floor_us,
// what an assignment with a strategy that is left out costs at least, may be below UB, and the
// caller has to take the lesser of it and of the bound over what is left. Where the bound equals
// UB, as it mostly does, UB is still proved to be the optimum; only which of several optima it is
// may differ. Near the end each sweep may take away a fixed share of what is missing, so that
// sweeps go on then, within a limit.
//
// Nodes of one class keep the same strategies: those that one of them may need. Under a budget on
// fractions of parameters, parameters keep all theirs, because the budget depends on the least
// fraction that each could have.
//
// What an assignment beyond floor_us costs cannot be told from the rest: margins, further plans,
// and other constraints than `options` need all strategies.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include "sim/mesh.h"
#include "strategies/programs/program.h"
#include "strategies/programs/program_strategies.h"
#include "strategies/programs/sharding_problem.h"
#include "strategies/select/evaluator.h"
#include "strategies/solvers/bound_search.h"

namespace shardlab {

struct PruneOptions {
  // Programs with fewer pairs than this are left as they are. Status: measured; a program of
  // LLaMA3-8B with one layer has 165,000 on 8x8 and 6.7 million on 2x2x2, where pruning pays.
  double least_pairs = 2e6;
  // The most costs that may be left, and how many are left where there would be more. Status:
  // measured; pricing takes about a microsecond for each.
  double most_left = 2e6;
  double least_left = 3e5;
  // How many layouts of values sweeps may go through where the bound hardly rises any more, but
  // closes in on the best assignment, so that it may prove it. Status: measured; Mamba-2's two
  // layers on 2x2x2 take 2.5e8 of them, in 20 s.
  double most_closing = 1e9;
  // Once time is up, the best assignment so far is taken, with few strategies beside its own.
  // Sweeps go on until there is an assignment.
  Patience patience = {};
  int jobs = 1;
};

struct PruneResult {
  // Empty if nothing was pruned: there are few pairs, the stack's prices have no such bounds, or no
  // assignment was found.
  std::optional<ProgramStrategies> strategies;
  double bound_us = 0.0;  // no assignment costs less
  // UB: what the best assignment that was found costs; infinite if none was.
  double upper_us = std::numeric_limits<double>::infinity();
  Assignment best;         // the best assignment, by positions in `strategies`
  double floor_us = 0.0;   // an assignment with a strategy that was left out costs at least this
  std::size_t before = 0;  // strategies of all nodes
  std::size_t after = 0;
  int sweeps = 0;
};

// What a strategy that is left out costs more than UB at least, as a share of UB. Status: assumed;
// wider than the solver's tolerance for equal costs, 1e-9 of the terms.
inline constexpr double kPruneSlack = 1e-7;

// Throws InputError for options that do not fit the program, as make_problem does.
[[nodiscard]] PruneResult prune_strategies(const Program& program, const DeviceMesh& mesh,
                                           const ProgramStrategies& strategies,
                                           StackEvaluator& evaluator,
                                           const ProblemOptions& problem = {},
                                           const PruneOptions& options = {});

}  // namespace shardlab

// How far must latency, bandwidth or the launch floor of kernels move before the optimal plan of a
// program changes?
//
//   PlanFlips flips(program, mesh, strategies, options, stack, topology);
//   for (const PlanRange& range : flips.of(plan)) range.parameter, range.below, range.above
//
// Scaling all latencies (or all transfer times) by f makes the price of a plan linear in f, as long
// as each redistribution keeps its path. The least price of all plans is the lower envelope of
// their lines. A plan that is optimal at two factors is also optimal between them. If another plan
// is cheaper at the far end, the program is solved again at the factor where the prices of the two
// plans meet, until no plan is cheaper there (Eisner and Severance 1976, as in
// strategies/select/price_flips.h). If the plan's own price bends within an interval, because a
// planner takes another path, the interval is halved, down to kFlipTolerance. Prices also bend at
// the factors at which a kernel leaves its launch floor, so the search goes from each such factor
// to the next that is at least kFlipTolerance away.
//
// Each step prices and solves the whole program, some 20 to 100 times in all.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "strategies/programs/sharding_problem.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/stack.h"
#include "strategies/solvers/network.h"

namespace shardlab {

// The search looks at factors from 1/16 to 16.
inline constexpr double kMostPlanFactor = 16.0;
// Where prices bend, a plan that is optimal only in a range of factors narrower than this share may
// be overlooked.
inline constexpr double kFlipTolerance = 0.02;

struct PlanFlip {
  double factor = 1.0;        // at this factor another plan is as cheap; beyond it, cheaper
  double objective_us = 0.0;  // what both plans cost at this factor
  Assignment instead;         // the other plan: the plan with some nodes changed
  std::vector<int> nodes;     // the nodes that change
};

struct PlanRange {
  std::string_view parameter;  // latency, bandwidth, or (where the stack has one) launch_floor
  std::optional<PlanFlip> below;
  std::optional<PlanFlip> above;
};

class PlanFlips {
 public:
  // Keeps references to the program, the mesh, the strategies and the options.
  PlanFlips(const Program& program, const DeviceMesh& mesh, const ProgramStrategies& strategies,
            const ProblemOptions& options, const Stack& stack, const Topology& topology);

  // Assumes that the plan is optimal under the stack itself.
  [[nodiscard]] std::vector<PlanRange> of(const Assignment& plan);

 private:
  class Search;

  const Program& program_;
  const DeviceMesh& mesh_;
  const ProgramStrategies& strategies_;
  const ProblemOptions& options_;
  StackEvaluator evaluator_;
};

}  // namespace shardlab

// Executes plans with real collectives, and compares the results with the fake process group bit
// for bit.
//
//   const VerifiedPlans result = verify_plans(run, evaluator, {.plans = 200, .seed = 7});
//
// Each rank holds only its own tensor. For every step it packs what the step's collective sends
// (padded as PyTorch pads), the backend moves and reduces the bytes, and it unpacks what came. The
// fake group runs the same plan; at the end all ranks' tensors are compared. Bits are equal, or,
// where floating point is summed in another order, every element is within the bound that
// sim/executor.h derives; anything else is a failure. Half of the questions have whole numbers,
// whose sums are exact in any order.
//
// A question is drawn from its number and the seed, so every process draws the same one. Layouts
// replicate, shard, shard strided, and have partials of the ops that the backend reduces, except
// norm partials.
#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/measurements/measurement_set.h"
#include "runner/measure/collective_run.h"
#include "sim/executor.h"
#include "strategies/select/evaluator.h"

namespace shardlab {

struct PlanRequest {
  std::int64_t plans = 0;
  std::uint64_t seed = 0;
};

// Throws EnvironmentError.
[[nodiscard]] VerifiedPlans verify_plans(const MeasuringRun& run, StackEvaluator& evaluator,
                                         const PlanRequest& request);

// A redistribution among this many ranks.
struct PlanQuestion {
  DeviceMesh mesh;
  TensorMeta meta;
  Layout from;
  Layout to;
  PlannerKind planner = PlannerKind::kGreedy;
  DataOptions data;
};
// Draws the same question for the same seed and number. Dtypes and ops are those that the backend
// reduces.
[[nodiscard]] PlanQuestion draw_question(const Backend& backend, std::uint64_t seed,
                                         std::uint64_t number);

}  // namespace shardlab

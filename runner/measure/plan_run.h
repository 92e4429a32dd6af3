// Runs plans with real collectives, and compares the results bit for bit with those of the fake
// process group.
//
//   const VerifiedPlans result = verify_plans(run, evaluator, {.plans = 200, .seed = 7});
//
// Each rank holds only its own tensor. For every step, the rank packs what the step's collective
// sends (padded as PyTorch pads), the backend moves and reduces the bytes, and the rank unpacks
// what it received. The fake group runs the same plan, and at the end the tensors of all ranks are
// compared. A plan passes if all bits are equal, or, where floating point is summed in another
// order, if every element is within the bound that sim/executor.h derives. Half of the questions
// have whole numbers, whose sums are exact in any order.
//
// A question is drawn from its number and the seed, so that every process draws the same one.
// Layouts have replicas, shards, strided shards, and partials of the ops that the backend reduces,
// except norm partials.
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

// Throws EnvironmentError if the backend fails.
[[nodiscard]] VerifiedPlans verify_plans(const MeasuringRun& run, StackEvaluator& evaluator,
                                         const PlanRequest& request);

// A redistribution to verify, on a mesh of all ranks.
struct PlanQuestion {
  DeviceMesh mesh;
  TensorMeta meta;
  Layout from;
  Layout to;
  PlannerKind planner = PlannerKind::kGreedy;
  DataOptions data;
};
// Draws a question, the same one for the same seed and number. It uses only dtypes and ops that the
// backend reduces.
[[nodiscard]] PlanQuestion draw_question(const Backend& backend, std::uint64_t seed,
                                         std::uint64_t number);

}  // namespace shardlab
